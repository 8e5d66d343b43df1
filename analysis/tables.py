"""Tables and metrics as plain data, for the page and for files."""

from collections.abc import Sequence
from typing import Any, NamedTuple

_MAX_ROWS = 2000


class Fact(NamedTuple):
    """Number with its name and interpretation."""

    label: str
    figure: str
    note: str = ""


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> dict[str, Any]:
    """Return the value of a data table.

    Args:
        heads: Titles of the columns.
        rows: Values of each row; only the first rows of a long table are shown.
        note: Line below it, unless rows are left out, which that line reports then.
    """
    cells = [[in_words(value) for value in row] for row in rows[:_MAX_ROWS]]
    more = f"The first {_MAX_ROWS} of {len(rows)} rows." if len(rows) > _MAX_ROWS else note
    return {"heads": list(heads), "rows": cells, "more": more}


def in_words(value: object) -> str:
    """A value as a cell shows it."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ", ".join(map(in_words, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def counted(number: int, noun: str) -> str:
    """Return a count with its noun, such as "1 run" and "2 runs".

    Args:
        number: The count.
        noun: Noun in the singular, whose plural ends in s.
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return a duration, such as "42 s" and "2.5 min"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds >= 600 else f"{seconds / 60:.1f} min"
