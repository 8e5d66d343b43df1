"""Passes and times by window, read from the file that `python -m benchmarks.video` writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from traces.measured import Count, Measured, Number, read_measured
from traces.typed import adapter

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


Windows: TypeAlias = Measured[Window]
"""What a file holds."""
_TYPE: Final = adapter(Window, "Window", "ignore")


def read_windows(data: bytes) -> Windows:
    """Read what was measured by window; rows without one, of ordinary decoding, are left out.

    Raises:
        SweepError: With the field, the value and the remedy.
    """
    return read_measured(data, _TYPE, "python -m benchmarks.video", _ordinary)


def _ordinary(row: object) -> bool:
    return isinstance(row, Mapping) and "window" in row and row["window"] is None
