"""Problems of a trace, each in one line."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

MAX_COUNTED: Final = 100
"""Further problems are not looked for."""
_QUOTE_LENGTH: Final = 60


class Problem(NamedTuple):
    """One thing that is wrong."""

    field: str
    """Path of the field, such as `steps[3].p[2]`, or the name of the whole file."""
    problem: str
    """The value found, and why it is invalid."""
    remedy: str

    def __str__(self) -> str:
        """The problem in one line."""
        return f"{self.field}: {self.problem}; {self.remedy}"


class TraceError(ValueError):
    """A trace that cannot be read, written or trusted. The message is a single line.

    It has the attributes of a `Problem`, and `more`, how many further problems were found, up to MAX_COUNTED.
    """

    def __init__(self, field: str, problem: str, remedy: str, *, more: int = 0) -> None:
        further = f" ({more}{'+' if more >= MAX_COUNTED else ''} more)" if more else ""
        super().__init__(f"{field}: {problem}; {remedy}{further}")
        self.field, self.problem, self.remedy, self.more = field, problem, remedy, more


class TraceWarning(UserWarning):
    """A trace that was read is of a later version, and may hold what this release does not know."""


def raise_first(problems: Iterable[Problem]) -> None:
    """Raise the first problem as a TraceError with the number of further ones; do nothing if there is none."""
    remaining = iter(problems)
    first = next(remaining, None)
    if first is not None:
        raise TraceError(*first, more=sum(1 for _ in islice(remaining, MAX_COUNTED)))


def range_problem(
    field: str, value: float, low: float, high: float, remedy: str, slack: float = 0
) -> Iterator[Problem]:
    """Yield the problem of a number that is out of range; nothing if it is not.

    Args:
        field: Path of the number in the trace.
        value: The number.
        low: Smallest value that is allowed.
        high: Largest value that is allowed.
        remedy: How to correct it.
        slack: How far rounding may take it over either bound.
    """
    if low - slack <= value <= high + slack:
        return
    side, bound = ("below", low) if value < low else ("above", high)
    yield Problem(
        field, f"{format_value(value)} is {side} {f'{bound:g}' if isinstance(bound, float) else bound}", remedy
    )


def format_value(value: object) -> str:
    """Return a value for a message: short, on one line, without control characters."""
    if isinstance(value, str | bytes):  # A megabyte of text must not be escaped to be cut afterwards.
        value = value[: _QUOTE_LENGTH + 1]
    elif isinstance(value, list | tuple | dict):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    elif isinstance(value, int) and value.bit_length() > 200:
        return "a huge integer"
    text = repr(value)
    return text if len(text) <= _QUOTE_LENGTH else f"{text[:_QUOTE_LENGTH]}..."
