"""What the benchmarks that decode share: prompts, jobs, and a stopwatch around the driver."""

import itertools
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from engines.config import make_config
from engines.methods import METHODS
from engines.models.catalog import MODELS
from engines.models.studio.prompts import BACKGROUNDS, GARMENTS, TINTS, Prompt
from engines.protocol import Lap, Model, Session
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


def job(decoder: str, model: Model, prompt: str, sample: int, **settings: object) -> Job:
    """A job for a decoder of `NAMES`; settings that the method does not have are an error."""
    method = METHODS[decoder if decoder in METHODS else "scd"]
    own = settings if decoder in METHODS else {"coupling": decoder, **settings}
    return Job(method, model, prompt, make_config(method.config, own), seed=0, sample=sample)


class Stopwatch:
    """A session that adds up the time spent in forward passes."""

    def __init__(self, session: Session) -> None:
        self.session, self.seconds = session, 0.0

    def answer(self, requests: Mapping[int, Any], sampling: Any, lap: Lap) -> Mapping[int, Any]:
        """See `engines.protocol.Session.answer`."""
        since = time.perf_counter()

        def timed(stage: Literal["forward", "logits"], made: Tensor) -> None:
            nonlocal since
            lap(stage, made)
            now = time.perf_counter()
            self.seconds += now - since if stage == "forward" else 0.0
            since = now

        return self.session.answer(requests, sampling, timed)

    def cost(self, request: Any) -> tuple[int, int]:
        """See `engines.protocol.Session.cost`."""
        return self.session.cost(request)


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
