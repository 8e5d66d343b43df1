"""Traces of a version 1.x to come: what this release does not know of them is carried along and written back."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from traces.schema import VERSION, Trace

Place: TypeAlias = tuple[str | int, ...]
"""Names and indices that lead to a value of a JSON document."""
MOST_NAMED: Final = 5


class TraceWarning(UserWarning):
    """A trace that was read holds something that this release does not know."""


class Unknown(NamedTuple):
    """A field that this release does not know."""

    place: Place
    value: Any

    @property
    def name(self) -> str:
        """The field as a message calls it, the same for all steps."""
        parts = ("[]" if isinstance(item, int) else f".{item[:40]}" for item in self.place)
        return "".join(parts).removeprefix(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterTrace(Trace):
    """A trace of a later version 1.x, with the fields of it that have no record here."""

    unknown: tuple[Unknown, ...] = ()


def warning(name: str, version: str, unknown: Iterable[Unknown]) -> str:
    """What to tell the reader of a later trace; empty where everything in it is known."""
    names = sorted({ascii(field.name)[1:-1] for field in unknown})
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (
        f"{name}: {', '.join(names[:MOST_NAMED])}{more}: not known to version {VERSION}, kept as they are; "
        f"use a release that knows version {version} to see them"
    )


def unknown_fields(document: Any, record: object, place: Place = ()) -> Iterator[Unknown]:
    """The fields of a document that its record has not."""
    if is_dataclass(record):
        names = {field.name for field in fields(record)}
        for name, value in document.items():
            if name in names:
                yield from unknown_fields(value, getattr(record, name), (*place, name))
            else:
                yield Unknown((*place, name), value)
    elif isinstance(record, tuple) and any(map(is_dataclass, record)):
        for index, (value, below) in enumerate(zip(document, record, strict=True)):
            yield from unknown_fields(value, below, (*place, index))


def put_back(document: Any, unknown: Iterable[Unknown]) -> None:
    """Put unknown fields back where their records still are, and where nothing has taken their place."""
    for (*way, last), value in unknown:
        holder = document
        try:
            for item in way:
                holder = holder[item]
        except (KeyError, IndexError, TypeError):
            continue
        if isinstance(holder, dict):
            holder.setdefault(last, value)
