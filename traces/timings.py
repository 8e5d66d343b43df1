"""Timings of drafting, read from the file that `python -m benchmarks.continuous` writes."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from traces.measured import Count, Measured, Number, read_measured
from traces.typed import adapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """A batch that was decoded with drafts, beside the same decoded without."""

    gamma: Count
    """Drafts per verification."""
    batch: Count
    tokens_per_verification: Number
    tokens_expected: Number
    """The same, if every draft passed with the measured rate: (1 - a^(gamma + 1)) / (1 - a)."""
    faster_median: Number
    faster_low_quartile: Number
    faster_high_quartile: Number
    share_draft: Number
    """Of the time; the shares add up to 1."""
    share_target: Number
    share_head: Number
    share_deciding: Number


Timings: TypeAlias = Measured[Timing]
"""What a file holds."""
_TYPE: Final = adapter(Timing, "Timing", "ignore")


def read_timings(data: bytes) -> Timings:
    """Read timings.

    Raises:
        SweepError: With the field, the value and the remedy.
    """
    return read_measured(data, _TYPE, "python -m benchmarks.continuous")
