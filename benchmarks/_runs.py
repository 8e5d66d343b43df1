"""What the benchmarks that decode share: prompts, jobs, and a stopwatch around the driver."""

import itertools
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engines.config import make_config
from engines.methods import METHODS
from engines.models.base import DiscreteAR, Session
from engines.models.catalog import MODELS
from engines.models.studio.prompts import BACKGROUNDS, GARMENTS, TINTS, Prompt
from engines.protocol import Forward
from engines.runtime.driver import Job, Lane, drive, open_session
from traces.schema import Step

NAMES = {"ar": "vanilla", "none": "SJD", "maximal": "MC-SJD", "gumbel": "GS-SJD", "gsd": "GSD"}
"""Decoders by the names the papers use: a method, or a coupling of SCD."""


def prompts(model_id: str, count: int) -> list[str]:
    """`count` prompts: every garment, tint and background meets every other, in an order that never changes."""
    if not MODELS[model_id].default_prompt:
        return [""] * count
    every = list(itertools.product(range(len(GARMENTS)), range(len(TINTS)), range(len(BACKGROUNDS))))
    random.Random(0).shuffle(every)
    return [str(Prompt(*indices)) for indices in itertools.islice(itertools.cycle(every), count)]


def job(decoder: str, model: DiscreteAR, prompt: str, sample: int, **settings: object) -> Job:
    """A job for a decoder of `NAMES`; settings that the method does not have are an error."""
    method = METHODS[decoder if decoder in METHODS else "scd"]
    own = settings if decoder in METHODS else {"coupling": decoder, **settings}
    return Job(method, model, prompt, make_config(method.config, own), seed=0, sample=sample)


class Stopwatch:
    """A session that adds up the time spent in forward passes."""

    def __init__(self, session: Session) -> None:
        self.session, self.seconds = session, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def logits(self, requests: Mapping[int, Forward]) -> torch.Tensor:
        """See `engines.models.base.Session.logits`."""
        start = time.perf_counter()
        logits = self.session.logits(requests)
        if logits.is_cuda:
            torch.cuda.synchronize(logits.device)
        self.seconds += time.perf_counter() - start
        return logits


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One decoding, timed by the wall clock from opening the session to the last token."""

    tokens: tuple[tuple[int, ...], ...]
    forwards: int
    """Passes in which at least one sequence took part."""
    seconds: float
    forward_seconds: float
    steps: tuple[tuple[Step, ...], ...] = ()


def decode(jobs: Sequence[Job], *, record: bool = False) -> Decoded:
    """Decode jobs in lockstep and time it."""
    config = jobs[0].config
    start = time.perf_counter()
    lanes = [Lane(one.decoder()) for one in jobs]
    session = open_session(jobs)
    assert isinstance(session, Session)
    watch = Stopwatch(session)
    forwards = sum(1 for _ in drive(lanes, watch, config, record=record))
    tokens = tuple(tuple(int(token) for token in lane.result[0]) for lane in lanes)
    return Decoded(
        tokens=tokens,
        forwards=forwards,
        seconds=time.perf_counter() - start,
        forward_seconds=watch.seconds,
        steps=tuple(tuple(lane.steps) for lane in lanes),
    )
