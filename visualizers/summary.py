"""Means over runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over runs with the sample standard deviation, 0 for a single run."""

    value: float
    deviation: float
    runs: int


def mean_of(values: Sequence[float]) -> Mean:
    """Return the mean of a number per run, for at least one run."""
    return Mean(fmean(values), stdev(values) if len(values) > 1 else 0.0, len(values))


def spread(means: Sequence[Mean]) -> dict[str, object]:
    """Return error bars of one standard deviation between runs."""
    return {
        "array": [mean.deviation for mean in means],
        "visible": any(mean.runs > 1 for mean in means),
        "thickness": 1.2,
    }
