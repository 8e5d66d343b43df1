"""The same run with many seeds, beside ordinary decoding of the same seeds. Knows nothing of the page."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from demo.decoding import Asked
from demo.limits import Deadline, current
from engines.config import ConfigError
from engines.runtime.driver import Job, Run
from traces.pairing import estimate, of_seeds, paired, seconds, target_forwards
from traces.replay import Replay
from traces.results import ResultRow, written
from traces.schema import Trace
from traces.stats import cost_by_mode, draft_forwards

FEWEST, MOST = 2, 32
"""Seeds."""
_TRIED_PASSES: Final = 12
_TRIED_SECONDS: Final = 1.5
_SAID_SECONDS: Final = 0.4
"""Between two words of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a repetition has come."""

    done: int
    """Runs that are whole."""
    total: int
    share: float
    """Of the work, from 0 to 1."""
    seconds_left: float
    traces: tuple[Trace, ...] = ()
    """Those of whole pairs, when something was added to them or nothing more comes."""
    ended: str = ""
    """Why nothing more comes, where that is not because all is done."""


def repeat(asked: Sequence[Asked], seeds: int, stopped: Callable[[], bool]) -> Iterator[Progress]:
    """Decode with seeds 0, 1, ... one run after the other, so that times are those of single runs.

    The first message comes before anything counts and says about how long it will take.

    Args:
        asked: The run, with its baseline before it where there is one; their seeds do not matter.
        seeds: How many.
        stopped: Whether to stop before the next pass; whole pairs are kept.

    Raises:
        ConfigError: for a number of seeds that is not allowed or would take too long.
        ValueError: for a prompt or setting that a model refuses.
        ModelError: when a model cannot be had.
    """
    if isinstance(seeds, bool) or not isinstance(seeds, int) or not FEWEST <= seeds <= MOST:
        raise ConfigError(f"seeds: {seeds!r} is not allowed; use a whole number from {FEWEST} to {MOST}.")
    jobs = [one.job() for one in asked]
    expected = [tried(job) for job in jobs]
    total, each = seeds * len(jobs), sum(expected)
    most = current().repeat_seconds
    if most is not None and seeds * each > most:
        raise ConfigError(_too_long(seeds, each, most))
    yield Progress(done=0, total=total, share=0.0, seconds_left=seeds * each)
    yield from _runs(jobs, seeds, expected, Deadline.within(most, stopped))


def _runs(jobs: Sequence[Job], seeds: int, expected: Sequence[float], stopped: Deadline) -> Iterator[Progress]:
    kept: list[Trace] = []
    begun = said = time.monotonic()
    total = seeds * len(jobs)

    def now(running: float = 0.0, ended: str = "", *, whole: bool = False) -> Progress:
        share = min(1.0, (done + running) / total)
        spent = time.monotonic() - begun
        left = spent * (1 / share - 1) if share > 0 else seeds * sum(expected)
        traces = tuple(kept) if whole or ended else ()
        return Progress(done=done, total=total, share=share, seconds_left=left, traces=traces, ended=ended)

    done = 0
    for seed in range(seeds):
        pair: dict[int, Trace] = {}
        order = range(len(jobs)) if seed % 2 == 0 else reversed(range(len(jobs)))  # neither always runs first
        for index in order:
            run = Run(replace(jobs[index], seed=seed))
            length = jobs[index].task.length
            for passes, _ in enumerate(run, 1):
                if stopped():
                    yield now(ended=stopped.said)
                    return
                if time.monotonic() - said > _SAID_SECONDS:
                    said = time.monotonic()
                    yield now(min(0.95, passes / length))
            pair[index] = run.trace()
            done += 1
        kept += [pair[index] for index in range(len(jobs))]
        yield now(whole=True)


def tried(job: Job) -> float:
    """About how many seconds a run takes, from its first passes; the very first one is slower and does not count."""
    run, replay = iter(Run(job)), Replay(job.task.length)
    first = next(run, None)
    if first is None:
        return 0.0
    replay.apply(first)
    begun, passes = time.monotonic(), 1
    for step in run:
        replay.apply(step)
        passes += 1
        if passes > _TRIED_PASSES or time.monotonic() - begun > _TRIED_SECONDS:
            break
    else:
        return time.monotonic() - begun
    finals = sum(replay.state().final)
    return (time.monotonic() - begun) / (passes - 1) * job.task.length * passes / max(finals, 1)


def _too_long(seeds: int, each: float, most: float) -> str:
    fit = int(most // each)
    remedy = f"use at most {fit}" if fit >= FEWEST else "choose a shorter text or a smaller model"
    return (
        f"seeds: {seeds} would take about {duration(seeds * each)} here, and a server gives {duration(most)}; {remedy}."
    )


def duration(amount: float) -> str:
    """Seconds in words."""
    if amount < 90:
        return f"{max(1, round(amount))} s"
    return f"{amount / 60:.0f} min" if amount >= 600 else f"{amount / 60:.1f} min"


def rows_of(traces: Sequence[Trace]) -> bytes:
    """The runs as rows of results, the format of `benchmarks.sweep`; nothing says whether an answer was right."""
    about = {"about": {"created": traces[0].created, "commit": traces[0].environment.commit}} if traces else {}
    head = [json.dumps(about).encode() + b"\n"] if about else []
    return b"".join(chain(head, map(written, map(_row, traces))))


def _row(trace: Trace) -> ResultRow:
    made = trace.summary
    known = [trace.method, trace.model.id, dict(trace.config), trace.prompt, trace.seed]
    return ResultRow(
        key=_hash(known),
        method=trace.method,
        label=trace.variant or trace.method,
        model=trace.model.id,
        weights={trace.model.id: _hash(dict(trace.model.weights))},
        config=dict(trace.config),
        seed=trace.seed,
        problem=0,
        correct=None,
        forwards=made.forwards,
        draft_forwards=draft_forwards(trace.steps),
        forwards_by_mode={mode: cost.forwards for mode, cost in cost_by_mode(trace.steps).items()},
        row_forwards=made.row_forwards,
        query_tokens=made.query_tokens,
        tokens=made.tokens,
        seconds=round(made.seconds, 6),
        device=trace.environment.device,
    )


def _hash(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:32]


def said(traces: Sequence[Trace], arms: int) -> list[tuple[str, str, str]]:
    """What the seeds came to: a name, mean with standard error, and what it is beside; paired where there are two."""
    groups = [traces[index::arms] for index in range(arms)]
    made = groups[-1]
    seeds = len(of_seeds(made))
    beside = [f"ordinary: {estimate([target_forwards(t) for t in groups[0]])}"] if arms > 1 else []
    found = [
        ("Target passes", str(estimate([target_forwards(t) for t in made])), ", ".join([*beside, f"{seeds} seeds"]))
    ]
    if arms > 1:
        for name, of in (("Fewer target passes", target_forwards), ("Faster", seconds)):
            ratios = [a / b for a, b in paired(groups[0], made, of).values() if b]
            if ratios:
                found.append((name, f"{estimate(ratios)} ×", "mean of ordinary over this run, seed by seed"))
    times = [value for t in made if (value := seconds(t)) is not None]
    if times:
        found.append(("Decoding time", f"{estimate(times)} s", "of single runs on this machine"))
    accepted = [t.summary.acceptance for t in made if t.summary.acceptance is not None]
    if accepted:
        found.append(("Acceptance", str(estimate(accepted)), "of judged drafts"))
    return found
