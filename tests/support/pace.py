"""How fast the machine is now, for bounds on time: a slow hour must not fail code that is fine."""

import time
from typing import Final

USUAL: Final = 0.0035
"""Seconds of processor time of the work below where the bounds were set."""


def slower() -> float:
    """How many times as long as usual work of plain Python takes now, and at least once."""
    since = time.process_time()
    counts: dict[int, float] = {}
    for number in range(60_000):
        counts[number % 97] = counts.get(number % 97, 0.0) + number * 0.5
    return max(1.0, (time.process_time() - since) / USUAL)
