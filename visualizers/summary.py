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


def mean_of(values: Sequence[float]) -> Mean | None:
    """Return the mean of a number per run; None without any."""
    if not values:
        return None
    return Mean(fmean(values), stdev(values) if len(values) > 1 else 0.0, len(values))
