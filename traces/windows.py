"""Passes and times by window, read from the file that `python -m benchmarks.video` writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from traces import limits
from traces.errors import Problem
from traces.results import SweepError, read_json
from traces.timings import Count, Number
from traces.typed import Words, adapter, record

_MEASURE_ANEW: Final = "give what `python -m benchmarks.video --json` wrote"
_WORDS: Final = Words("row", _MEASURE_ANEW, _MEASURE_ANEW, _MEASURE_ANEW)
_SHORT: Final = Field(min_length=1, max_length=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What was decoded with one window, beside ordinary decoding of the same prompts."""

    kind: Annotated[str, _SHORT]
    """What is decoded, such as "video"."""
    decoder: Annotated[str, _SHORT]
    window: Count
    nfe_ratio: Number
    """Forward passes of ordinary decoding over its own."""
    nfe_ratio_error: Number
    time_ratio: Number
    """The same with processor seconds."""
    time_ratio_error: Number


@dataclass(frozen=True, slots=True)
class Windows:
    """What a file holds."""

    title: str
    rows: tuple[Window, ...]


_TYPE: Final = adapter(Window, "Window", "ignore")


def read_windows(data: bytes) -> Windows:
    """Read what was measured by window; rows without one, of ordinary decoding, are left out.

    Raises:
        SweepError: With the field, the value and the remedy.
    """
    found = read_json(data, "windows", limits.PART_VALUES, _MEASURE_ANEW)
    rows = found.get("rows") if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or not isinstance(rows, list):
        raise SweepError(f"rows: there are none; {_MEASURE_ANEW}")
    read = [_row(f"rows[{k}]", row) for k, row in enumerate(rows) if not _ordinary(row)]
    if not read:
        raise SweepError(f"rows: none has a window; {_MEASURE_ANEW}")
    return Windows(str(found.get("title", ""))[:200], tuple(read))


def _ordinary(row: object) -> bool:
    return isinstance(row, Mapping) and "window" in row and row["window"] is None


def _row(path: str, data: object) -> Window:
    problems: list[Problem] = []
    row = record(_TYPE, data, path, problems, _WORDS)
    if row is None:
        raise SweepError(problems[0])
    return row
