"""Verdicts for methods that need no drafter of their own: recorded runs on other hardware, with their papers' networks.

A recording has the passes of a method and what each of them settled. Their times are computed by
`draftscope.analysis.hardware`, as if the networks of its paper had made them; what they accepted stays that of the
model that was recorded. Nothing here is measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from statistics import fmean
from typing import Final

from draftscope.analysis.acceptance_rate import ratio_interval
from draftscope.analysis.hardware import (
    SIZES,
    HardwareError,
    Machine,
    NetworkSize,
    PassWork,
    check_memory,
    draft_cost,
    guided_rows,
    ordinary_cost,
    pass_cost,
    pass_works,
    predict,
)  # fmt: skip
from draftscope.analysis.run_report import RunReport
from draftscope.analysis.verdicts import Range, Verdict, verdict
from draftscope.traces.replay import canvas_size
from draftscope.traces.schema import Trace

PAPERS: Final = {
    "scd-picture": ("Lumina-mGPT 7B", ""),
    "video-scd": ("Cosmos 4B", ""),
    "tally-confidence": ("SDAR 8B", ""),
    "tally-s2d2": ("SDAR 8B", ""),
    "tally-psd": ("LLaDA 8B", ""),
    "text-simsd": ("SDAR 8B", "SDAR 1.7B"),
    "cspd-patch": ("MAR-H", "MAR-B"),
    "cspd-mixture": ("MAR-H", "MAR-B"),
    "cspd-patch-release": ("MAR-H", "MAR-B"),
}
"""Recordings that ship -> target and drafter of their papers; empty for methods that draft for themselves."""


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """A recording with the networks that it is computed for."""

    name: str
    title: str
    trace: Trace
    target: NetworkSize
    draft: NetworkSize | None

    @property
    def report(self) -> RunReport:
        """The report of the run."""
        return RunReport(self.trace)

    @cached_property
    def works(self) -> Mapping[tuple[bool, PassWork], int]:
        """The work of its passes of one sequence, alike ones counted together, with whether the drafter did it.

        They have the mean context of those counted together.
        """
        found: dict[tuple[bool, PassWork], list[float]] = {}
        works = pass_works(self.trace.steps, 1, self.trace.config)
        for step, work in zip(self.trace.steps, works, strict=True):
            found.setdefault((step.call.role == "draft", replace(work, context=0)), []).append(work.context)
        return {
            (drafts, replace(work, context=fmean(contexts))): len(contexts)
            for (drafts, work), contexts in found.items()
        }


def recorded_run(name: str, title: str, trace: Trace) -> RecordedRun | None:
    """Return a recording with the networks of its paper; None if `PAPERS` does not name it.

    Args:
        name: Key in `PAPERS`.
        title: Name for readers.
        trace: The recording.
    """
    if name not in PAPERS:
        return None
    target, draft = PAPERS[name]
    return RecordedRun(name, title, trace, SIZES[target], SIZES[draft] if draft else None)


def recorded_verdict(run: RecordedRun, machine: Machine) -> Verdict | None:
    """Return the verdict of a recording on other hardware; None if the batch does not fit the memory.

    The range is the 95 % interval of tokens per time over the passes of the target, each with the drafts before it.

    Args:
        run: The recording.
        machine: Device, engine, GPUs and batch; its networks are replaced by those of the recording.
    """
    machine = replace(machine, target=run.target, draft=run.draft)
    return _verdicts(run, machine)


@lru_cache(maxsize=256)
def _verdicts(run: RecordedRun, machine: Machine) -> Verdict | None:
    def speeds(batch: int) -> Range | None:
        many = replace(machine, batch=batch)
        return _range(run.trace, many) if batch == machine.batch else _speed(run, many)

    return verdict(speeds, machine.batch)


def _speed(run: RecordedRun, machine: Machine) -> Range | None:
    """The speed of a larger batch, from passes that are counted together; None if it does not fit the memory."""
    device, engine, batch, gpus = machine.device, machine.engine, machine.batch, machine.gpus
    rows, trace = guided_rows(run.trace.config) * batch, run.trace
    try:
        check_memory(device, run.target, run.draft, canvas_size(trace.canvas), rows, gpus)
    except HardwareError:
        return None
    seconds = 0.0
    for (drafts, work), count in run.works.items():
        many = replace(
            work, query_tokens=work.query_tokens * batch, rows=work.rows * batch, noisy_tokens=work.noisy_tokens * batch
        )
        size, cost = (run.draft, draft_cost) if drafts and run.draft else (run.target, pass_cost)
        seconds += count * cost(device, size, engine, many, gpus).seconds
    speed = trace.summary.tokens * ordinary_cost(trace, machine).seconds / seconds
    return Range(speed, speed, speed)


def _range(trace: Trace, machine: Machine) -> Range | None:
    """The speed of a run with its interval; None if it does not fit the memory."""
    try:
        found = predict(trace, machine)
    except HardwareError:
        return None
    groups = _groups(trace, [cost.seconds for cost in found.passes])
    if len(groups) < 2:
        return Range(found.speed_up, found.speed_up, found.speed_up)
    low, high = ratio_interval(groups)
    tokens, seconds = (sum(column) for column in zip(*groups, strict=True))
    scale = found.speed_up / (tokens / seconds)
    return Range(found.speed_up, max(0.0, low * scale), high * scale)


def _groups(trace: Trace, seconds: Sequence[float]) -> list[tuple[float, float]]:
    """Tokens and seconds of every pass of the target, with those of the drafter before it."""
    groups: list[tuple[float, float]] = []
    final: set[int] = set()
    spent = 0.0
    for step, duration in zip(trace.steps, seconds, strict=True):
        spent += duration
        before = len(final)
        final.difference_update(step.position)
        final.update(at for at, fate in zip(step.position, step.fate, strict=True) if fate.final)
        if step.call.role != "draft":
            groups.append((float(len(final) - before), spent))
            spent = 0.0
    return groups
