"""What the benchmarks that decode share: prompts, jobs, and a stopwatch around the driver."""

import itertools
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from engines.methods import METHODS
from engines.models.bundled.prompts import BACKGROUNDS, GARMENTS, TINTS, Prompt
from engines.models.catalog import MODELS
from engines.protocol import Answer, Lap, Model, Session
from engines.runtime.driver import Job, RunningSequence, drive, open_session
from engines.runtime.request import Request
from traces.measures import COUPLINGS
from traces.schema import Step

NAMES = {"ar": "vanilla", **COUPLINGS, "gsd": "GSD"}
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
    own = settings if decoder in METHODS else {"coupling": decoder, **settings}
    name = decoder if decoder in METHODS else "scd"
    return Request(name, model, prompt, settings=own, sample=sample).job()


def now() -> float:
    """Seconds: the processor's where one thread does all, which other work on the machine does not lengthen.

    With a GPU or several threads it is the wall clock's.
    """
    alone = torch.get_num_threads() == 1 and not torch.cuda.is_available()
    return time.process_time() if alone else time.perf_counter()


class Stopwatch:
    """A session that adds up the time spent in forward passes, and counts those in which only a drafter works."""

    def __init__(self, session: Session) -> None:
        self.session, self.seconds, self.drafts = session, 0.0, 0

    def answer(self, requests: Mapping[int, Any], sampling: Any, lap: Lap) -> Mapping[int, Answer]:
        """See `engines.protocol.Session.answer`."""
        self.drafts += all(request.role == "draft" for request in requests.values())
        since = now()

        def timed(stage: Literal["forward", "logits"], made: Tensor) -> None:
            nonlocal since
            lap(stage, made)
            then = now()
            self.seconds += then - since if stage == "forward" else 0.0
            since = then

        return self.session.answer(requests, sampling, timed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One decoding, timed by `now` from opening the session to the last token."""

    tokens: tuple[tuple[Any, ...], ...]
    forwards: int
    """Passes in which at least one sequence took part."""
    draft_forwards: int
    """Those of them that were of a drafter alone."""
    seconds: float
    forward_seconds: float
    steps: tuple[tuple[Step, ...], ...] = ()


def decode(jobs: Sequence[Job], *, record: bool = False) -> Decoded:
    """Decode jobs in lockstep and time it."""
    config = jobs[0].config
    start = now()
    sequences = [RunningSequence(one.decoder()) for one in jobs]
    session = open_session(jobs)
    watch = Stopwatch(session)
    forwards = sum(1 for _ in drive(sequences, watch, config, record=record))
    tokens = tuple(tuple(sequence.result[0].tolist()) for sequence in sequences)
    return Decoded(
        tokens=tokens,
        forwards=forwards,
        draft_forwards=watch.drafts,
        seconds=now() - start,
        forward_seconds=watch.seconds,
        steps=tuple(tuple(sequence.steps) for sequence in sequences),
    )
