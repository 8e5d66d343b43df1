"""Traces of a version 1.x to come: what this release does not know of them is left out, and named in a warning."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

from traces.schema import VERSION, Trace

MOST_NAMED: Final = 5


class TraceWarning(UserWarning):
    """A trace that was read holds something that this release does not know."""


def warning(name: str, document: Any, trace: Trace) -> str:
    """What to tell the reader of a later trace; empty where everything in its document is known."""
    names = sorted({ascii(field)[1:-1] for field in _unknown(document, trace)})
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (
        f"{name}: {', '.join(names[:MOST_NAMED])}{more}: not known to version {VERSION}, left out; "
        f"use a release that knows version {trace.version} to see them"
    )


def _unknown(document: Any, record: object, place: str = "") -> Iterator[str]:
    """The fields of a document that its record has not, as messages call them, the same for all steps."""
    if is_dataclass(record):
        names = {field.name for field in fields(record)}
        for name, value in document.items():
            own = f"{place}.{name[:40]}".removeprefix(".")
            if name in names:
                yield from _unknown(value, getattr(record, name), own)
            else:
                yield own
    elif isinstance(record, tuple) and any(map(is_dataclass, record)):
        for value, below in zip(document, record, strict=True):
            yield from _unknown(value, below, f"{place}[]")
