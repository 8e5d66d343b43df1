"""Several runs, one after the other, so that times are those of single runs. Knows nothing of the page."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from demo.jobs.live_run import LiveRuns
from demo.server.limits import Deadline, server_limits
from demo.server.log import log_rejected, redact_paths
from engines.models.errors import ModelError
from engines.runtime.driver import Run
from engines.runtime.run_request import RunRequest
from engines.settings import ConfigError, format_value
from traces.schema import Trace

_TELL_SECONDS: Final = 0.4
"""Between two messages of progress."""


class Progress(NamedTuple):
    """How far several runs have come."""

    done: int
    """Runs that are whole."""
    total: int
    share: float
    """Share of the estimated work, from 0 to 1."""
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


def decode_all(groups: Sequence[Sequence[RunRequest]], what: str, stopped: Callable[[], bool]) -> Iterator[Progress]:
    """Decode groups of runs; all groups have the same methods and settings, for other prompts or seeds.

    Args:
        groups: Runs by prompt or seed.
        what: What was requested, such as "seeds: 8", for error messages.
        stopped: Checked before every pass; returns True to stop. Completed runs have been reported.

    Yields:
        Progress, first with the estimated duration before anything counts.

    Raises:
        ValueError: For an invalid prompt or setting, and if the estimate exceeds the time limit; before decoding.
        ModelError: If a model cannot be loaded; before decoding.
    """
    runs = [run for group in groups for run in group]
    for run in runs:
        try:
            _ = run.job().task
        except ValueError as error:
            prompt = f" (the prompt {format_value(run.prompt)})" if run.prompt else ""
            raise ConfigError(f"{error}{prompt}") from error
    expected = {_setting(run): LiveRuns([run.job()]).estimate_seconds() for run in groups[0]}
    seconds = [expected[_setting(run)] for run in runs]
    most = server_limits().repeat_seconds
    if most is not None and sum(seconds) > most:
        fit = int(most * len(groups) / sum(seconds))
        remedy = f"use at most {fit}" if fit else "choose a shorter text, a smaller model or fewer settings"
        raise ConfigError(
            f"{what} would take about {duration(sum(seconds))} here, and the server gives {duration(most)}; {remedy}."
        )
    yield Progress(done=0, total=len(runs), share=0.0, seconds_left=sum(seconds))
    yield from _decode(runs, seconds, Deadline(most, stopped))


def _decode(runs: Sequence[RunRequest], seconds: Sequence[float], stopped: Deadline) -> Iterator[Progress]:
    """Decode runs with their estimated durations in seconds."""
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
    except (ValueError, ModelError) as error:  # completed runs are kept
        log_rejected("series", error)
        yield now(done, ended=redact_paths(str(error)))


def _setting(run: RunRequest) -> RunRequest:
    return replace(run, prompt="", seed=0)


def duration(amount: float) -> str:
    """Seconds in words."""
    if amount < 90:
        return f"{max(1, round(amount))} s"
    return f"{amount / 60:.0f} min" if amount >= 600 else f"{amount / 60:.1f} min"


def counted(number: int, what: str) -> str:
    """Return a count with its noun."""
    return f"{number} {what}{'' if number == 1 else 's'}"
