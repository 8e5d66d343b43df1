"""Whether a producer's own data is JSON of a bounded size."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from traces import limits
from traces.errors import Problem, quote
from traces.schema import Trace

_WHOLE: Final = "extensions"


def check_extensions(trace: Trace) -> Iterator[Problem]:
    """The first thing that is wrong with the extensions of a trace."""
    waiting: list[tuple[str, Any, int]] = [(_WHOLE, trace.extensions, 0)]
    seen = 0
    while waiting:
        path, value, depth = waiting.pop()
        seen += 1
        if seen > limits.EXTENSION_VALUES:
            yield Problem(_WHOLE, f"hold more than {limits.EXTENSION_VALUES} values", "keep large data in its own file")
            return
        if depth > limits.EXTENSION_NESTING:
            yield Problem(_WHOLE, f"nest deeper than {limits.EXTENSION_NESTING} levels", "flatten them")
            return
        wrong = _wrong(value)
        if wrong is not None:
            yield Problem(path if len(path) <= limits.NAME_CHARACTERS else _WHOLE, *wrong)
            return
        if isinstance(value, Mapping):
            waiting += [(f"{path}[{quote(name)}]", below, depth + 1) for name, below in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(f"{path}[{index}]", below, depth + 1) for index, below in enumerate(value)]


def _wrong(value: Any) -> tuple[str, str] | None:
    """What is wrong with one value, whatever it holds, and the remedy."""
    if isinstance(value, Mapping):
        bad = [name for name in value if not isinstance(name, str) or len(name) > limits.NAME_CHARACTERS]
        remedy = f"use text of up to {limits.NAME_CHARACTERS} characters"
        return (f"{quote(bad[0])} is no name", remedy) if bad else None
    if isinstance(value, str):
        too_long = len(value) > limits.TEXT_CHARACTERS
        problem = f"has {len(value)} characters, more than {limits.TEXT_CHARACTERS}"
        return (problem, "shorten it") if too_long else None
    if isinstance(value, float):
        return None if math.isfinite(value) else (f"{value} is not finite", "write null where a number does not apply")
    if isinstance(value, int):
        fits = -limits.WHOLE - 1 <= value <= limits.WHOLE
        return None if fits else (f"{quote(value)} does not fit 64 bits", "write it as text")
    if value is None or isinstance(value, list | tuple):
        return None
    return (f"a {type(value).__name__} is no JSON", "use text, numbers, lists and objects")
