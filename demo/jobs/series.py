"""Several runs, one after the other, so that times are those of single runs. Knows nothing of the page."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from demo.jobs.live_run import LiveRuns
from demo.server.limits import Deadline, current
from demo.server.log import for_visitors, refused
from engines.models.errors import ModelError
from engines.runtime.driver import Run
from engines.runtime.run_request import Request
from engines.settings import ConfigError, shown
from traces.schema import Trace

_TELL_SECONDS: Final = 0.4
"""Between two messages of progress."""


class Progress(NamedTuple):
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

    def __str__(self) -> str:
        left = f"about {duration(self.seconds_left)}"
        if not self.share:
            return f"{counted(self.total, 'run')} will take {left}."
        return f"{self.done} of {counted(self.total, 'run')} done, {left} left."


def decode_all(groups: Sequence[Sequence[Request]], what: str, stopped: Callable[[], bool]) -> Iterator[Progress]:
    """Decode groups of runs; the groups have the same methods and settings, for other prompts or seeds.

    The first message comes before anything counts and says about how long it will take. `what` is asked for, such as
    "seeds: 8". `stopped` is asked before every pass; runs that are whole were told before. Raises ValueError or
    ModelError, before anything is decoded, for a prompt or setting that a model refuses, a model that cannot be had,
    and runs that would take too long.
    """
    runs = [run for group in groups for run in group]
    for run in runs:
        try:
            _ = run.job().task
        except ValueError as error:
            prompt = f" (the prompt {shown(run.prompt)})" if run.prompt else ""
            raise ConfigError(f"{error}{prompt}") from error
    expected = {_setting(run): LiveRuns([run.job()]).tried() for run in groups[0]}
    seconds = [expected[_setting(run)] for run in runs]
    most = current().repeat_seconds
    if most is not None and sum(seconds) > most:
        fit = int(most * len(groups) / sum(seconds))
        remedy = f"use at most {fit}" if fit else "choose a shorter text, a smaller model or fewer settings"
        raise ConfigError(
            f"{what} would take about {duration(sum(seconds))} here, and the server gives {duration(most)}; {remedy}."
        )
    yield Progress(done=0, total=len(runs), share=0.0, seconds_left=sum(seconds))
    yield from _decode(runs, seconds, Deadline(most, stopped))


def _decode(runs: Sequence[Request], seconds: Sequence[float], stopped: Deadline) -> Iterator[Progress]:
    """Decode runs that are expected to take so many seconds each."""
    begun = told = time.monotonic()

    def now(done: int, running: float = 0.0, trace: Trace | None = None, ended: str = "") -> Progress:
        spent = sum(seconds[:done]) + (min(running, 0.95 * seconds[done]) if running else 0.0)
        share = min(1.0, spent / (sum(seconds) or 1.0))
        left = (time.monotonic() - begun) * (1 - share) / share if share else sum(seconds)
        return Progress(done=done, total=len(runs), share=share, seconds_left=left, trace=trace, ended=ended)

    done = 0
    try:
        for done, request in enumerate(runs):
            run, started = Run(request.job()), time.monotonic()
            for _ in run.passes():
                if stopped():
                    yield now(done, ended=stopped.reason)
                    return
                if time.monotonic() - told > _TELL_SECONDS:
                    told = time.monotonic()
                    yield now(done, told - started)
            yield now(done + 1, trace=run.trace())
    except (ValueError, ModelError) as error:  # what is whole is kept all the same
        refused("series", error)
        yield now(done, ended=for_visitors(str(error)))


def _setting(run: Request) -> Request:
    return replace(run, prompt="", seed=0)


def duration(amount: float) -> str:
    """Seconds in words."""
    if amount < 90:
        return f"{max(1, round(amount))} s"
    return f"{amount / 60:.0f} min" if amount >= 600 else f"{amount / 60:.1f} min"


def counted(number: int, what: str) -> str:
    """So many of something, in words."""
    return f"{number} {what}{'' if number == 1 else 's'}"
