"""Timings that `python -m benchmarks.continuous` and `python -m benchmarks.video` write with `--json`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Generic, TypeAlias, TypeVar

from pydantic import Field, TypeAdapter

from draftscope.analysis.results import Count, SweepError, read_json
from draftscope.traces import limits
from draftscope.traces.errors import Problem
from draftscope.traces.validation import ErrorTexts, adapter, record

Row = TypeVar("Row")
Number: TypeAlias = Annotated[float, Field(ge=0, le=limits.EXACT)]
Label: TypeAlias = Annotated[str, Field(min_length=1, max_length=40)]
OptionalLabel: TypeAlias = Annotated[str, Field(max_length=40)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """A batch decoded with drafts, compared with the same batch decoded without."""

    gamma: Count
    """Drafts per verification."""
    batch: Count
    tokens_per_verification: Number
    tokens_expected: Number
    """Expected tokens if every draft were accepted with the measured rate a: (1 - a^(gamma + 1)) / (1 - a)."""
    faster_median: Number
    faster_low_quartile: Number
    faster_high_quartile: Number
    share_draft: Number
    """Share of the time spent on drafts; the shares add up to 1."""
    share_target: Number
    share_head: Number
    share_deciding: Number
    acceptance: Number = 0.0
    """Acceptance rate of the verified drafts."""
    draft_cost: Number = 0.0
    """Cost of a draft, in baseline tokens; 0 in older files."""
    verify_cost: Number = 0.0
    """Cost of a verification, in baseline tokens; 0 in older files."""
    drafter: OptionalLabel = ""
    verdict: OptionalLabel = ""

    @property
    def costed(self) -> bool:
        """Whether the row reports the cost of drafts and verifications."""
        return self.draft_cost > 0 and self.verify_cost > 0

    @property
    def way(self) -> str:
        """Drafter and verdict, where the row names them."""
        return ", ".join(part for part in (self.drafter, self.verdict) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Runs with one window size, compared with the baseline on the same prompts."""

    kind: Label
    """Kind of output, such as "video"."""
    decoder: Label
    window: Count
    nfe_ratio: Number
    """Forward passes of ordinary decoding over its own."""
    nfe_ratio_error: Number
    time_ratio: Number
    """Ratio of processor seconds."""
    time_ratio_error: Number


@dataclass(frozen=True, slots=True)
class Measured(Generic[Row]):
    """Contents of a file: a title, and rows of one kind."""

    title: str
    rows: tuple[Row, ...]


Timings: TypeAlias = Measured[Timing]
Windows: TypeAlias = Measured[Window]
_TIMING: Final = adapter(Timing, "Timing", "ignore")
_WINDOW: Final = adapter(Window, "Window", "ignore")


def read_timings(data: bytes) -> Timings:
    """Read timings; raises SweepError with the field, the value and the remedy."""
    return _read(data, _TIMING, "python -m benchmarks.continuous")


def read_windows(data: bytes) -> Windows:
    """Read passes and times by window, without rows of ordinary decoding; raises SweepError as `read_timings`."""
    return _read(data, _WINDOW, "python -m benchmarks.video")


def _read(data: bytes, kind: TypeAdapter[Row], command: str) -> Measured[Row]:
    remedy = f"give what `{command} --json` wrote"
    document = read_json(data, "file", limits.PART_VALUES, remedy)
    rows = document.get("rows") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(rows, list):
        raise SweepError(f"rows: there are none; {remedy}")
    problems: list[Problem] = []
    read = []
    for k, row in enumerate(rows):
        if isinstance(row, Mapping) and row.get("window", 0) is None:
            continue  # ordinary decoding
        one = record(kind, row, f"rows[{k}]", problems, ErrorTexts("row", remedy, remedy, remedy))
        if one is None:
            raise SweepError(problems[0])
        read.append(one)
    if not read:
        raise SweepError(f"rows: there are none of this kind; {remedy}")
    return Measured(str(document.get("title", ""))[:200], tuple(read))
