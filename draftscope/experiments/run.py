"""Running an experiment: checks before the first run, progress with an estimate, resuming, and stopping."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from draftscope.analysis.tables import counted, duration
from draftscope.engines.runtime.deadline import Deadline
from draftscope.engines.runtime.driver import open_session
from draftscope.engines.settings import ConfigError, format_value
from draftscope.experiments.definition import Experiment, PlannedRun
from draftscope.experiments.executors import EXECUTORS, Executor, RunOutcome, check_weights, weights_of
from draftscope.experiments.stores import ResultStore

REPORT_SECONDS: Final = 0.4
"""Interval of progress reports during a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of an experiment."""

    num_done: int
    """Completed runs, those included that the store contained before."""
    num_runs: int
    fraction: float
    """Share of the estimated work that is done, from 0 to 1."""
    seconds_left: float | None
    """None where it cannot be estimated yet."""
    finished: RunOutcome | None = None
    """The run that has just finished."""
    stop_reason: str = ""
    """Why the experiment stopped early; completed runs are in the store."""

    def __str__(self) -> str:
        left = "" if self.seconds_left is None else f"about {duration(self.seconds_left)}"
        runs = counted(self.num_runs, "run")
        if not self.fraction:
            return f"{runs} will take {left}." if left else f"{runs}."
        return f"{self.num_done} of {runs} done{f', {left} left' if left else ''}."


def run_experiment(
    experiment: Experiment,
    *,
    store: ResultStore,
    executor: Executor | Literal["serial", "batched", "processes"] = "serial",
    stop: Callable[[], bool] = lambda: False,
    max_seconds: float | None = None,
) -> Iterator[Progress]:
    """Run all runs that the store does not contain, and report progress.

    Args:
        experiment: What to run.
        store: Where results go: a `MemoryStore`, which keeps traces, or a `JsonlStore`, a file of rows.
        executor: How runs are scheduled: "serial", "batched", "processes", or an `Executor`.
        stop: Checked before every forward pass (with processes, after every run); True stops the experiment.
        max_seconds: Time limit. A serial experiment whose first passes show that it would exceed the limit is rejected
            before it starts.

    Yields:
        Progress: once before the first run (with the estimate), during long runs, and after each run.

    Raises:
        ConfigError: For an invalid setting, prompt or model, or an estimate above `max_seconds`.
        ModelError: If a model cannot be loaded.
        SweepError: If the store cannot be written, or holds results that cannot be mixed with these.
    """
    schedule = EXECUTORS[executor]() if isinstance(executor, str) else executor
    runs = experiment.runs()
    weights = check_runs(runs)
    store.check(runs, weights)
    todo = [run for run in runs if run not in store]
    estimate = schedule.estimate(todo) if todo else None
    if estimate is not None and max_seconds is not None:
        _check_limit(experiment, sum(estimate), max_seconds)
    clock = _Clock(estimate, todo=len(todo), done=len(runs) - len(todo))
    yield clock.progress()
    if not todo:
        return
    limit, reported = Deadline(max_seconds, stop), time.monotonic()
    store.open()
    try:
        for outcome in schedule.execute(todo, limit):
            if outcome is not None:
                check_weights(outcome.row.weights, weights)
                store.add(outcome)
                clock.count_run()
                yield clock.progress(outcome)
            elif time.monotonic() - reported > REPORT_SECONDS:
                yield clock.progress(running=True)
            else:
                continue
            reported = time.monotonic()
    finally:
        store.close(complete=not clock.num_left)
    if clock.num_left:
        yield clock.progress(stop_reason=limit.reason)


def check_runs(runs: Sequence[PlannedRun]) -> dict[str, str]:
    """Prepare every prompt with every arm and open a session, so that nothing is rejected halfway.

    Returns:
        A hash of the weights of every model that takes part, by model id.

    Raises:
        ConfigError: If a model rejects a setting or a prompt.
        ModelError: If a model cannot be loaded.
    """
    weights: dict[str, str] = {}
    opened = set[int]()
    for run in runs:
        try:
            job = run.request.job()
            _ = job.task if run.arm.runner else job.decoder()
            if run.arm_index not in opened:
                opened.add(run.arm_index)
                open_session([job])
                weights |= weights_of(job)
        except ValueError as error:
            prompt = f", prompt {format_value(run.request.prompt)}" if run.request.prompt else ""
            raise ConfigError(f"{error} ({run.arm.label}{prompt})") from error
    return weights


def _check_limit(experiment: Experiment, seconds: float, max_seconds: float) -> None:
    if seconds <= max_seconds:
        return
    groups, prompts = len(experiment.problems.prompts) * len(experiment.seeds), len(experiment.problems.prompts)
    size = f"{'prompts' if prompts > 1 else 'seeds'}: {groups}" if groups > 1 else f"runs: {len(experiment.arms)}"
    fit = int(max_seconds * groups / seconds)
    remedy = f"use at most {fit}" if fit else "choose a shorter text, a smaller model or fewer settings"
    raise ConfigError(
        f"{size} would take about {duration(seconds)} here, and the limit is {duration(max_seconds)}; {remedy}."
    )


class _Clock:
    """Progress by the estimated durations of the runs or, without an estimate, by their number."""

    def __init__(self, estimate: Sequence[float] | None, *, todo: int, done: int) -> None:
        self._is_estimated = estimate is not None
        self._seconds = [1.0] * todo if estimate is None else list(estimate)
        self._num_before, self._num_finished = done, 0
        self._start = self._run_start = time.monotonic()

    @property
    def num_left(self) -> int:
        """Runs that are not completed."""
        return len(self._seconds) - self._num_finished

    def count_run(self) -> None:
        """Count a completed run."""
        self._num_finished, self._run_start = self._num_finished + 1, time.monotonic()

    def progress(self, finished: RunOutcome | None = None, *, running: bool = False, stop_reason: str = "") -> Progress:
        """Return the progress now; `running` if a run is in progress, whose time so far counts."""
        now, done, total = time.monotonic(), sum(self._seconds[: self._num_finished]), sum(self._seconds)
        if running and self._is_estimated:  # an estimate may be too short
            done += min(now - self._run_start, 0.95 * self._seconds[self._num_finished])
        fraction = min(1.0, done / total) if total else 1.0
        left = total if self._is_estimated else None
        return Progress(
            num_done=self._num_before + self._num_finished,
            num_runs=self._num_before + len(self._seconds),
            fraction=fraction,
            seconds_left=(now - self._start) * (1 - fraction) / fraction if fraction else left,
            finished=finished,
            stop_reason=stop_reason,
        )
