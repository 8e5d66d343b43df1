"""Several runs, one after the other, so that times are those of single runs. Knows nothing of the page."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from demo.runs.decoding import LiveRuns, first_turns
from demo.server.limits import Deadline, current
from engines.config import ConfigError, shown
from engines.runtime.driver import Run
from engines.runtime.request import Request
from traces.schema import Trace

_TELL_SECONDS: Final = 0.4
"""Between two messages of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far several runs have come."""

    done: int
    """Runs that are whole."""
    total: int
    share: float
    """Of the work, from 0 to 1."""
    seconds_left: float
    trace: Trace | None = None
    """The run before, in the message that it is whole."""
    ended: str = ""
    """Why nothing more comes, where that is not because all is done."""

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return bool(self.ended) or self.done == self.total

    def __str__(self) -> str:
        left = f"about {duration(self.seconds_left)}"
        if not self.share:
            return f"{self.total} runs will take {left}."
        return f"{self.done} of {self.total} runs are done, {left} left."


def decode_all(groups: Sequence[Sequence[Request]], field: str, stopped: Callable[[], bool]) -> Iterator[Progress]:
    """Decode groups of runs; the groups have the same methods and settings, for other prompts or seeds.

    The first message comes before anything counts and says about how long it will take.

    Args:
        groups: The runs.
        field: What the groups are called where there are too many.
        stopped: Whether to stop before the next pass; runs that are whole were told before.

    Raises:
        ConfigError: for runs that would take too long.
        ValueError: for a prompt or setting that a model refuses, before anything is decoded.
        ModelError: when a model cannot be had.
    """
    runs = [run for group in groups for run in group]
    for run in runs:
        _check(run)
    expected = {_setting(run): tried(run) for run in groups[0]}
    each, most = sum(expected.values()), current().repeat_seconds
    if most is not None and each * len(groups) > most:
        fit = int(most // each)
        remedy = f"use at most {fit}" if fit else "choose a shorter text, a smaller model or fewer settings"
        raise ConfigError(
            f"{field}: {len(groups)} would take about {duration(each * len(groups))} here, and the server gives "
            f"{duration(most)}; {remedy}."
        )
    yield Progress(done=0, total=len(runs), share=0.0, seconds_left=each * len(groups))
    yield from _decode(runs, expected, Deadline.within(most, stopped))


def _decode(runs: Sequence[Request], expected: dict[Request, float], stopped: Deadline) -> Iterator[Progress]:
    weights = [expected[_setting(run)] for run in runs]
    whole = sum(weights) or 1.0
    said = time.monotonic()

    def now(done: int, running: float = 0.0, trace: Trace | None = None, ended: str = "") -> Progress:
        current_run = min(running, 0.95 * weights[done]) if running else 0.0
        left = sum(expected[_setting(run)] for run in runs[done:]) - running
        return Progress(
            done=done,
            total=len(runs),
            share=min(1.0, (sum(weights[:done]) + current_run) / whole),
            seconds_left=max(left, 0.0),
            trace=trace,
            ended=ended,
        )

    for done, asked in enumerate(runs):
        run, begun = Run(asked.job()), time.monotonic()
        for _ in run:
            if stopped():
                yield now(done, ended=stopped.said)
                return
            if time.monotonic() - said > _TELL_SECONDS:
                said = time.monotonic()
                yield now(done, said - begun)
        expected[_setting(asked)] = time.monotonic() - begun  # from now on as measured
        yield now(done + 1, trace=run.trace())


def _setting(run: Request) -> Request:
    return replace(run, prompt="", seed=0)


def _check(run: Request) -> None:
    try:
        _ = run.job().task
    except ValueError as error:
        prompt = f" (the prompt {shown(run.prompt)})" if run.prompt else ""
        raise ConfigError(f"{error}{prompt}") from error


def tried(run: Request) -> float:
    """About how many seconds a run takes, from its first passes."""
    live = LiveRuns([run.job()])
    first_turns(live.turns())
    return live.runs[0].expected()


def duration(amount: float) -> str:
    """Seconds in words."""
    if amount < 90:
        return f"{max(1, round(amount))} s"
    return f"{amount / 60:.0f} min" if amount >= 600 else f"{amount / 60:.1f} min"
