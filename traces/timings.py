"""Timings of drafting, read from the file that `python -m benchmarks.continuous` writes."""

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from traces.measured import Count, Measured, Number, read_measured
from traces.typed import adapter

Said: TypeAlias = Annotated[str, Field(max_length=40)]


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
    acceptance: Number = 0.0
    """Of judged drafts."""
    draft_cost: Number = 0.0
    """Of a draft, in tokens of ordinary decoding; 0 in files from before it was measured."""
    verify_cost: Number = 0.0
    """Of a verification, likewise."""
    drafter: Said = ""
    verdict: Said = ""

    @property
    def costed(self) -> bool:
        """Whether the row says what drafts and verifications cost."""
        return self.draft_cost > 0 and self.verify_cost > 0

    @property
    def way(self) -> str:
        """Drafter and verdict, where the row names them."""
        return ", ".join(part for part in (self.drafter, self.verdict) if part)


Timings: TypeAlias = Measured[Timing]
"""What a file holds."""
_TYPE: Final = adapter(Timing, "Timing", "ignore")


def read_timings(data: bytes) -> Timings:
    """Read timings.

    Raises:
        SweepError: With the field, the value and the remedy.
    """
    return read_measured(data, _TYPE, "python -m benchmarks.continuous")
