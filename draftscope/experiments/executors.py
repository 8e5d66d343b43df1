"""Executors: how the runs of an experiment are scheduled.

An executor takes planned runs and yields their outcomes, in any order.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import groupby, islice
from statistics import median
from typing import Any, Final, Protocol

import torch

from draftscope.analysis.results import ResultRow, SweepError, digest, row_of
from draftscope.engines.runtime.deadline import PROBE_PASSES, PROBE_SECONDS
from draftscope.engines.runtime.driver import Job, decode, make_trace, open_session, run_of, run_passes
from draftscope.engines.runtime.environment import environment
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import ConfigError, check_count
from draftscope.experiments.definition import PlannedRun
from draftscope.traces.replay import replay_steps
from draftscope.traces.schema import Step, Trace

MAX_ANSWER_CHARACTERS: Final = 100
"""Characters of an answer in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """A completed run."""

    run: PlannedRun
    row: ResultRow
    tokens: Sequence[Any] = ()
    """Output tokens, up to the end of the sequence."""
    trace: Trace | None = None
    """None for runners and, without `keep_traces`, for runs that were decoded in another process."""

    def __repr__(self) -> str:
        """The outcome in one line."""
        row = self.row
        return f"<RunOutcome of {row.label!r}, problem {row.problem}: {row.tokens} tokens in {row.forwards} passes>"


class Executor(Protocol):
    """Schedules runs."""

    def estimate(self, runs: Sequence[PlannedRun]) -> Sequence[float] | None:
        """Return the estimated duration of each run in seconds; None, as here, if this executor cannot tell."""
        return None

    def execute(self, runs: Sequence[PlannedRun], stop: Callable[[], bool]) -> Iterator[RunOutcome | None]:
        """Run all.

        Args:
            runs: Runs in execution order.
            stop: Checked before every forward pass or, in other processes, after every run; True ends it early.

        Yields:
            Outcomes as runs finish, in any order, and None as often as suits, so that progress can be reported.
        """


class Serial(Executor):
    """One run after the other, so that times can be compared."""

    def estimate(self, runs: Sequence[PlannedRun]) -> Sequence[float] | None:
        """Time the first passes of every arm."""
        if any(run.repeats or run.arm.runner for run in runs):
            return None
        first = {run.arm_index: run for run in reversed(runs)}
        seconds = {arm: estimate_seconds(run.request.job()) for arm, run in first.items()}
        return [seconds[run.arm_index] for run in runs]

    def execute(self, runs: Sequence[PlannedRun], stop: Callable[[], bool]) -> Iterator[RunOutcome | None]:
        """Run all arms of a prompt and seed, then time them alternately if there are repeats."""
        for _, group in groupby(runs, key=lambda run: run.group):
            done = list[tuple[RunOutcome, Job]]()
            for run in group:
                job, outcome = run.request.job(), None
                for outcome in decode_runs([run], [job], stop):
                    if outcome is None or not run.repeats:
                        yield outcome
                if outcome is None:
                    return
                done.append((outcome, job))
            if done[0][0].run.repeats:
                yield from _time(done)


class Batched(Executor):
    """All runs of an arm in one batch, several sequences per forward pass; times cannot be compared."""

    def execute(self, runs: Sequence[PlannedRun], stop: Callable[[], bool]) -> Iterator[RunOutcome | None]:
        """Run one arm after the other."""
        for _, group in groupby(sorted(runs, key=lambda run: run.arm_index), key=lambda run: run.arm_index):
            batch = tuple(group)
            outcome = None
            for outcome in decode_runs(batch, [run.request.job() for run in batch], stop):
                yield outcome
            if outcome is None:
                return


@dataclass(frozen=True, slots=True)
class Processes(Executor):
    """Processes of one thread on this machine. Models must be named by id."""

    jobs: int = -1
    """Number of processes; -1 for one per core."""
    batch_size: int = 1
    """Problems that a process decodes in one batch; times are then shares of the batch."""

    def __post_init__(self) -> None:
        if find_spec("joblib") is None:
            raise ConfigError("joblib: is not installed; pip install joblib")
        check_count("jobs", abs(self.jobs))
        check_count("batch", self.batch_size)

    @property
    def about(self) -> Mapping[str, Any]:
        """Facts about the processes, for the line before the rows."""
        from joblib import effective_n_jobs

        return {"jobs": int(effective_n_jobs(self.jobs))}

    def execute(self, runs: Sequence[PlannedRun], stop: Callable[[], bool]) -> Iterator[RunOutcome | None]:
        """Yield outcomes in the order in which they come."""
        from joblib import Parallel, delayed

        tasks = [delayed(decode_chunk)(chunk) for chunk in chunked(runs, self.batch_size)]
        parallel = Parallel(self.jobs, "loky", return_as="generator_unordered", batch_size=1, inner_max_num_threads=1)
        for outcomes in parallel(tasks):
            yield from outcomes
            if stop():
                return


EXECUTORS: Final[Mapping[str, Callable[[], Executor]]] = {
    "serial": Serial,
    "batched": Batched,
    "processes": Processes,
}


def estimate_seconds(job: Job) -> float:
    """Return about how many seconds a run takes, from its first passes."""
    sequence = run_of(job)
    passes = run_passes([sequence], open_session([job]), job.config, likely=job.recorded)
    seconds, start = 0.0, time.monotonic()
    for _ in islice(passes, PROBE_PASSES):
        seconds = time.monotonic() - start
        if seconds > PROBE_SECONDS:
            break
    final = replay_steps(sequence.steps, job.task.length).final
    return seconds * len(final) / max(1, sum(final))


def chunked(runs: Sequence[PlannedRun], size: int) -> list[list[PlannedRun]]:
    """Return the runs of each arm and seed in chunks of `size` prompts."""
    chunks: dict[tuple[int, int, int], list[PlannedRun]] = {}
    for run in runs:
        chunks.setdefault((run.order[0] // size, *run.order[1:]), []).append(run)
    return list(chunks.values())


def decode_chunk(runs: Sequence[PlannedRun], keep_traces: bool = False) -> list[RunOutcome]:
    """Decode runs of one arm in one batch, in this process of one thread.

    Args:
        runs: Runs of one arm.
        keep_traces: Whether the outcomes have their traces.
    """
    torch.set_num_threads(1)
    _warm_up(runs[0].request)
    jobs = [run.request.job() for run in runs]
    return list(filter(None, decode_runs(runs, jobs, lambda: False, keep_traces=keep_traces)))


def decode_runs(
    runs: Sequence[PlannedRun], jobs: Sequence[Job], stop: Callable[[], bool], *, keep_traces: bool = True
) -> Iterator[RunOutcome | None]:
    """Decode runs of one arm in one batch.

    Args:
        runs: Runs of one arm.
        jobs: Job of each run.
        stop: Called after each pass; true ends the batch.
        keep_traces: Whether the outcomes have their traces.

    Yields:
        None after each pass, and at the end the outcome of each run; nothing more when stopped.
    """
    if runner := runs[0].arm.runner:
        for run, job in zip(runs, jobs, strict=True):
            tokens, fields = runner.record(job)
            row = _row(run, job, (), tokens, {"tokens": len(tokens), "seconds": 0.0, **fields})
            yield RunOutcome(run=run, row=row, tokens=tokens)
        return
    sequences = [run_of(job) for job in jobs]
    for _ in run_passes(sequences, open_session(jobs), jobs[0].config, likely=jobs[0].recorded):
        if stop():
            return
        yield None
    for run, job, sequence in zip(runs, jobs, sequences, strict=True):
        tokens, ends = sequence.result[0].tolist(), job.task.eos_token_ids
        count = next((i + 1 for i, token in enumerate(tokens) if token in ends), len(tokens))
        seconds = sum(step.call.milliseconds.total / step.call.batch for step in sequence.steps) / 1000
        counts = {"tokens": count, "seconds": round(seconds, 6), "batch": len(runs)}
        row = _row(run, job, sequence.steps, tokens, counts)
        trace = make_trace(job, sequence) if keep_traces else None  # for pictures it takes longer than decoding
        yield RunOutcome(run=run, row=row, tokens=tokens[:count], trace=trace)


def _row(
    run: PlannedRun, job: Job, steps: Sequence[Step], tokens: Sequence[Any], counts: Mapping[str, Any]
) -> ResultRow:
    """Return the result row of a run.

    Args:
        run: What was run.
        job: Its job.
        steps: Recorded steps; empty if `counts` has their numbers.
        tokens: Output tokens.
        counts: Further fields of the row.
    """
    problems, fields = run.problems, dict[str, Any]()
    if problems.is_correct or problems.extract_answer:
        text = job.model.render_output(tokens).text or ""
        if problems.extract_answer:
            fields["answer"] = problems.extract_answer(text)[:MAX_ANSWER_CHARACTERS]
        if problems.is_correct and run.answer is not None:
            fields["correct"] = problems.is_correct(text, run.answer)
    return row_of(
        steps,
        **{
            "key": run.key,
            "method": run.arm.runner.name if run.arm.runner else job.method.name,
            "label": run.arm.label,
            "curve": run.arm.curve,
            "model": job.model.card.id,
            "weights": weights_of(job),
            "config": dict(run.config),
            "seed": job.seed,
            "problem": run.problem,
            "correct": None,
            "device": environment(job.model.device, torch.float32).device,
            **fields,
            **counts,
        },
    )


def check_weights(found: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Raise SweepError if a worker has other weights than this machine.

    Args:
        found: Model -> hash of its weights in the worker.
        expected: Model -> hash of its weights here; models that it lacks are not compared.
    """
    for model, weights in found.items():
        if expected.get(model, weights) != weights:
            raise SweepError(
                f"{model}: a worker has other weights than this machine; give it the same version of Draftscope and of "
                "the model, then run the same command again"
            )


def weights_of(job: Job) -> dict[str, str]:
    """Return a hash of all weights of the target and of the drafter, by model id."""
    drafter = job.load_drafter()
    cards = [job.model.card, *([drafter.card] if drafter else [])]
    return {card.id: digest(dict(card.weights)) for card in cards}


_WARM: Final[set[tuple[str, str | None]]] = set()


def _warm_up(request: RunRequest) -> None:
    """Decode once per model and process, so that no row includes loading kernels and growing memory pools."""
    if (request.model, request.device) not in _WARM:
        decode([request.job()])
        _WARM.add((request.model, request.device))


def _time(done: Sequence[tuple[RunOutcome, Job]]) -> Iterator[RunOutcome]:
    """Run again without recording, arms alternating, and yield the outcomes with their median times."""
    seconds: list[list[float]] = [[] for _ in done]
    for _ in range(done[0][0].run.repeats):
        for (outcome, job), times in zip(done, seconds, strict=True):
            runner = outcome.run.arm.runner
            start = time.perf_counter()
            _ = runner.decode(job) if runner else decode([job])
            times.append(time.perf_counter() - start)
    for (outcome, _), times in zip(done, seconds, strict=True):
        yield replace(outcome, row=replace(outcome.row, seconds=median(times)))
