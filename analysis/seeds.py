"""Runs of several seeds: means with their standard errors, and one setting against another, seed by seed."""

from collections.abc import Callable, Mapping, Sequence
from math import floor, fsum, log10, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from draftscope.traces.schema import Trace
from draftscope.traces.stats import draft_forwards


class Estimate(NamedTuple):
    """A mean over runs."""

    mean: float
    deviation: float
    """Standard deviation of the sample; 0 for a single run."""
    runs: int

    @property
    def error(self) -> float | None:
        """Standard error; None for a single run."""
        return self.deviation / sqrt(self.runs) if self.runs > 1 else None

    def __str__(self) -> str:
        """Return the mean to the second digit of its error, without powers of ten."""
        if self.error is None or self.error == 0:
            return _digits(self.mean, 3)
        decimals = 1 - floor(log10(self.error))
        form = f",.{max(0, decimals)}f"
        return f"{round(self.mean, decimals):{form}} ± {round(self.error, decimals):{form}}"


def _digits(value: float, count: int) -> str:
    """Return a number with `count` digits, or all before the point if they are more, without a power of ten."""
    if value == 0:
        return "0"
    num_decimals = max(0, count - 1 - floor(log10(abs(value))))
    text = f"{value:,.{num_decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of at least one number."""
    return Estimate(fmean(values), stdev(values) if len(values) > 1 else 0.0, len(values))


def over_runs(samples: Sequence[Sequence[float]]) -> Estimate:
    """The mean of numbers that several runs gave, some runs more of them than others.

    Numbers of one run depend on each other, so the error comes from how far the runs are apart: it is that of the ratio
    estimator of cluster sampling, which for as many numbers in every run is the standard error of their means. The
    numbers of a single run are taken for independent.

    Args:
        samples: The numbers of every run; those without any are left out. There is at least one number.

    Returns:
        The mean of all numbers, with the count of runs, or of numbers where there is a single run.
    """
    nonempty = [each for each in samples if each]
    if len(nonempty) == 1:
        return estimate(nonempty[0])
    size = fmean(map(len, nonempty))
    mean = fsum(map(fsum, nonempty)) / (size * len(nonempty))
    apart = [len(each) / size * (fmean(each) - mean) for each in nonempty]
    return Estimate(mean, sqrt(fsum(one * one for one in apart) / (len(nonempty) - 1)), len(nonempty))


def runs_by_seed(traces: Sequence[Trace]) -> Mapping[int, Trace]:
    """Seed -> the last whole run with it."""
    return {trace.seed: trace for trace in traces if trace.seed is not None and trace.summary.complete}


def paired_by_seed(
    first: Sequence[Trace], second: Sequence[Trace], of: Callable[[Trace], float | None]
) -> Mapping[int, tuple[float, float]]:
    """Return a number of both complete runs of each seed, where both have it.

    Args:
        first: Runs of one arm.
        second: Runs of the other arm.
        of: Returns the number of a run; None if it has none.
    """
    left, right = runs_by_seed(first), runs_by_seed(second)
    pairs = {seed: (of(left[seed]), of(right[seed])) for seed in sorted(left.keys() & right.keys())}
    return {seed: (a, b) for seed, (a, b) in pairs.items() if a is not None and b is not None}


def target_forwards(trace: Trace) -> float:
    """Forward passes of the model whose distribution is decoded."""
    return float(trace.summary.forwards - draft_forwards(trace.steps))


def seconds(trace: Trace) -> float | None:
    """Measured time of the passes; None where it was not measured."""
    return trace.summary.seconds or None
