"""Power: the smallest bias that a test would have found, so that a proof can state what it cannot see."""

from math import sqrt
from typing import Final

FOUND: Final = 0.99
"""Probability with which a test finds a bias of the stated size."""
_Z: Final = 2.3263478740408408
"""Quantile of the standard normal distribution at `FOUND`."""


def enumerated_variation(bound: float, outcomes: int) -> float:
    """Return the total variation above which one of the outcomes must be off by more than `bound`."""
    return bound * outcomes / 2


def sampled_variation(samples: int, cells: int, bound: float) -> float:
    """Return the total variation over equally likely cells that Pearson's statistic finds.

    The statistic of a biased distribution is noncentral chi-square; its noncentrality is the number of samples times
    the sum of (o - e)^2 / e over the cells, which is at least four times the squared total variation.

    Args:
        samples: Independent samples.
        cells: Equally likely cells.
        bound: Bound of the statistic as a standard normal number, by Wilson and Hilferty (1931).

    Returns:
        A total variation from 0 to 1; the approximation is that of Abdel-Aty (1954).
    """
    k = cells - 1
    limit = k * (1 - 2 / (9 * k) + bound * sqrt(2 / (9 * k))) ** 3
    low, high = 0.0, 4.0 * samples
    for _ in range(100):
        middle = (low + high) / 2
        spread = 2 * (k + 2 * middle) / (9 * (k + middle) ** 2)
        is_found = (1 - spread - (limit / (k + middle)) ** (1 / 3)) / sqrt(spread) > _Z
        low, high = (low, middle) if is_found else (middle, high)
    return min(sqrt(high / samples) / 2, 1.0)


def sampled_shift(samples: int, bound: float) -> float:
    """Return the shift of a mean, in standard deviations, that a test finds; the same for a correlation.

    Args:
        samples: Number of samples.
        bound: z-score above which the test fails.
    """
    return (bound + _Z) / sqrt(samples)


def compared_rate(compared: int) -> float:
    """Return the rate of wrong cases of which a comparison of this many shows at least one."""
    return float(1 - (1 - FOUND) ** (1 / compared)) if compared else 1.0
