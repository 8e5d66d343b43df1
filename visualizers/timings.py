"""Timings of drafting, read from the file that `python -m benchmarks.continuous` writes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite

from visualizers.rows import SweepError


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """A batch that was decoded with drafts, beside the same decoded without."""

    gamma: int
    """Drafts per verification."""
    batch: int
    tokens_per_verification: float
    tokens_expected: float
    """The same, if every draft passed with the measured rate: (1 - a^(gamma + 1)) / (1 - a)."""
    faster_median: float
    faster_low_quartile: float
    faster_high_quartile: float
    share_draft: float
    """Of the time; the shares add up to 1."""
    share_target: float
    share_head: float
    share_deciding: float


@dataclass(frozen=True, slots=True)
class Timings:
    """What a file holds."""

    title: str
    rows: tuple[Timing, ...]


def read_timings(data: bytes) -> Timings:
    """Read timings.

    Raises:
        SweepError: With the field, the value and the remedy.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise SweepError("timings: is no JSON; give what `python -m benchmarks.continuous --json` wrote") from None
    rows = found.get("rows") if isinstance(found, Mapping) else None
    if not isinstance(rows, list) or not rows:
        raise SweepError("rows: there are none; give what `python -m benchmarks.continuous --json` wrote")
    return Timings(str(found.get("title", ""))[:200], tuple(_row(f"rows[{k}]", row) for k, row in enumerate(rows)))


def _row(path: str, row: object) -> Timing:
    given = row if isinstance(row, Mapping) else {}
    for field in fields(Timing):
        value = given.get(field.name)
        number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0
        if not number or (field.type is int and not isinstance(value, int)):
            raise SweepError(f"{path}.{field.name}: {value!r:.60} is no number from 0; measure anew")
    return Timing(**{field.name: given[field.name] for field in fields(Timing)})
