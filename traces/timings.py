"""Timings of drafting, read from the file that `python -m benchmarks.continuous` writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from traces import limits
from traces.errors import Problem
from traces.results import SweepError, read_json
from traces.typed import Words, adapter, record

_MEASURE_ANEW: Final = "give what `python -m benchmarks.continuous --json` wrote"
_WORDS: Final = Words("row", _MEASURE_ANEW, _MEASURE_ANEW, _MEASURE_ANEW)

Count: TypeAlias = Annotated[int, Field(ge=0, le=limits.EXACT)]
Number: TypeAlias = Annotated[float, Field(ge=0, le=limits.EXACT)]


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


@dataclass(frozen=True, slots=True)
class Timings:
    """What a file holds."""

    title: str
    rows: tuple[Timing, ...]


_TIMING_TYPE: Final = adapter(Timing, "Timing", "ignore")


def read_timings(data: bytes) -> Timings:
    """Read timings.

    Raises:
        SweepError: With the field, the value and the remedy.
    """
    found = read_json(data, "timings", limits.PART_VALUES, _MEASURE_ANEW)
    rows = found.get("rows") if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or not isinstance(rows, list) or not rows:
        raise SweepError(f"rows: there are none; {_MEASURE_ANEW}")
    return Timings(str(found.get("title", ""))[:200], tuple(_row(f"rows[{k}]", row) for k, row in enumerate(rows)))


def _row(path: str, data: object) -> Timing:
    problems: list[Problem] = []
    row = record(_TIMING_TYPE, data, path, problems, _WORDS)
    if row is None:
        raise SweepError(problems[0])
    return row
