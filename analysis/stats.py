"""Statistics of runs: acceptance by position, progress, changes between passes, agreement of draws, comparisons."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import fsum
from statistics import fmean, median, pvariance
from typing import NamedTuple

from draftscope.traces.replay import PENDING, position_updates
from draftscope.traces.schema import Fate, Step, Token
from draftscope.traces.stats import (
    STAGES,
    Tally,
    cost,
    count_verdicts,
    stage_milliseconds,
)


class Stage(NamedTuple):
    """Time spent in one stage of the steps."""

    name: str
    """A field of `Milliseconds`."""
    mean_milliseconds: float
    """Per step."""
    median_milliseconds: float
    """Per step; a slow first step does not move it."""
    share: float
    """Share of the time of all stages."""


class Race(NamedTuple):
    """Tokens decoded against what they cost, all cumulative: entry k is after k steps, entry 0 is zero."""

    tokens: tuple[int, ...]
    milliseconds: tuple[float, ...]


class Difference(NamedTuple):
    """How many drafts differ between two windows."""

    step: int
    """Index of the step that left the later window."""
    compared: int
    """Positions with a draft in both windows, fresh initial drafts excluded."""
    changed: int

    @property
    def share(self) -> float:
        """Share of compared drafts that changed."""
        return self.changed / self.compared


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeStatistics:
    """The distribution's agreement with its predecessor, over all positions of one age."""

    age: int
    count: int
    mean: float
    variance: float
    """Variance of the population."""


def latency_breakdown(steps: Sequence[Step]) -> tuple[Stage, ...]:
    """Time per stage, in the order of the stages (SCD Table 4); empty without steps."""
    if not steps:
        return ()
    total = cost(steps).milliseconds.total
    return tuple(
        Stage(name, fmean(times), median(times), fsum(times) / total if total else 0.0)
        for name in STAGES
        for times in [stage_milliseconds(steps, name)]
    )


def acceptance_by_position(steps: Sequence[Step], positions: int) -> tuple[Tally, ...]:
    """Return the verdicts at each position of the canvas.

    Args:
        steps: Steps of a run.
        positions: Number of positions.
    """
    verdicts: list[list[Fate]] = [[] for _ in range(positions)]
    for step in steps:
        for position, fate in zip(step.position, step.fate, strict=True):
            if fate.judged:
                verdicts[position].append(fate)
    return tuple(count_verdicts(fates) for fates in verdicts)


def progress_curve(steps: Sequence[Step]) -> Race:
    """Tokens decoded against forward passes and milliseconds."""
    decoded: set[int] = set()
    tokens = [0]
    for step in steps:
        decoded.update(position for position, fate in zip(step.position, step.fate, strict=True) if fate.final)
        tokens.append(len(decoded))
    times = accumulate((step.call.milliseconds.total for step in steps), initial=0.0)
    return Race(tuple(tokens), tuple(times))


def token_difference(steps: Sequence[Step], distance: int = 1) -> tuple[Difference, ...]:
    """Count how many drafts changed between windows (SCD Fig. 2; Fig. 6 for 2, 3 ... iterations).

    A window is what a step leaves pending of the positions it speaks of. A position counts when both windows hold it
    and its earlier draft came from the model, not from an initial draft (measure `initial`). Iterations with nothing
    to compare are left out.

    Args:
        steps: Steps from the beginning of a run.
        distance: Iterations between the windows.
    """
    windows = _windows(steps)
    differences = []
    for index in range(distance, len(windows)):
        earlier, later = windows[index - distance], windows[index]
        shared = earlier.keys() & later.keys()
        if shared:
            changed = sum(earlier[position] != later[position] for position in shared)
            differences.append(Difference(step=index, compared=len(shared), changed=changed))
    return tuple(differences)


def mean_difference(differences: Sequence[Difference]) -> float | None:
    """The mean share of compared drafts that changed, each iteration counting once; None without any."""
    return fmean(one.share for one in differences) if differences else None


def agreement_by_position(steps: Sequence[Step]) -> dict[int, tuple[tuple[int, float], ...]]:
    """Agreement beta = 1 - TV of successive distributions, per position as (age, beta) pairs in time order.

    SCD, Fig. 3a and b.

    Initial drafts are excluded: their distribution is a point mass, not the model's. Empty where `tv` or `age` is
    missing.
    """
    trajectories: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for position, (age, tv) in _measured(steps, "age", "tv"):
        trajectories[position].append((round(age), 1 - tv))
    return {position: tuple(trajectories[position]) for position in sorted(trajectories)}


def agreement_by_age(steps: Sequence[Step]) -> tuple[AgeStatistics, ...]:
    """Mean and variance of beta over all positions of an age, youngest first (SCD Fig. 3c)."""
    return tuple(
        AgeStatistics(age=age, count=len(values), mean=fmean(values), variance=pvariance(values))
        for age, values in sorted(agreements_of_ages(steps).items())
    )


def agreements_of_ages(steps: Sequence[Step]) -> Mapping[int, Sequence[float]]:
    """Return beta of every position of an age, by age."""
    betas: dict[int, list[float]] = defaultdict(list)
    for trajectory in agreement_by_position(steps).values():
        for age, beta in trajectory:
            betas[age].append(beta)
    return betas


def measured(steps: Sequence[Step], *names: str) -> tuple[tuple[float, ...], ...]:
    """Return the named measures of every entry that has them all; initial drafts are excluded (SCD Fig. 4)."""
    return tuple(values for _, values in _measured(steps, *names))


def _windows(steps: Sequence[Step]) -> list[dict[int, Token]]:
    """Per step, the drafts from the model that it leaves pending."""
    windows: list[dict[int, Token]] = []
    for step in steps:
        for position, flag in zip(step.position, step.numbers.get("initial", ()), strict=False):
            if flag:  # the verified draft leaves the windows that contain it: it was only a draft
                for window in reversed(windows):
                    if window.pop(position, None) is None:
                        break
        left = position_updates(step).items()
        windows.append({at: token for at, (token, fate, _) in left if fate in PENDING and token is not None})
    return windows


def _measured(steps: Sequence[Step], *names: str) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Yield position and named measures of every entry that has them all and verified no initial draft."""
    for step in steps:
        if any(name not in step.numbers for name in names):
            continue
        initial = step.numbers.get("initial", (None,) * len(step.position))
        columns = [step.numbers[name] for name in names]
        for position, flag, *values in zip(step.position, initial, *columns, strict=True):
            present = tuple(value for value in values if value is not None)
            if not flag and len(present) == len(names):
                yield position, present
