"""What a benchmark wrote with `--json`: a title, and rows of one kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Generic, TypeAlias, TypeVar

from pydantic import Field, TypeAdapter

from traces import limits
from traces.errors import Problem
from traces.results import SweepError, read_json
from traces.typed import Words, record

Row = TypeVar("Row")
Count: TypeAlias = Annotated[int, Field(ge=0, le=limits.EXACT)]
Number: TypeAlias = Annotated[float, Field(ge=0, le=limits.EXACT)]


@dataclass(frozen=True, slots=True)
class Measured(Generic[Row]):
    """What a file holds."""

    title: str
    rows: tuple[Row, ...]


def read_measured(
    data: bytes, kind: TypeAdapter[Row], command: str, left_out: Callable[[object], bool] = lambda row: False
) -> Measured[Row]:
    """Read the rows that `command` wrote.

    Raises:
        SweepError: With the field, the value and the remedy.
    """
    remedy = f"give what `{command} --json` wrote"
    found = read_json(data, "file", limits.PART_VALUES, remedy)
    rows = found.get("rows") if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or not isinstance(rows, list):
        raise SweepError(f"rows: there are none; {remedy}")
    problems: list[Problem] = []
    read = []
    for k, row in enumerate(rows):
        if left_out(row):
            continue
        one = record(kind, row, f"rows[{k}]", problems, Words("row", remedy, remedy, remedy))
        if one is None:
            raise SweepError(problems[0])
        read.append(one)
    if not read:
        raise SweepError(f"rows: there are none of this kind; {remedy}")
    return Measured(str(found.get("title", ""))[:200], tuple(read))
