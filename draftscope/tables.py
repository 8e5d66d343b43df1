"""A trace as a table: one row an entry of a step, one column for whatever the steps recorded."""

from typing import Any

from traces.schema import Step, Trace

_ALWAYS = ("step", "role", "mode", "position", "token", "text", "fate")
_COLUMNS = ("row", "draft", "p", "q", "accept_prob", "coin")


def columns(trace: Trace) -> dict[str, list[Any]]:
    """The table as lists of equal length by name; None where a step did not record something."""
    table: dict[str, list[Any]] = {name: [] for name in _ALWAYS}
    for step in trace.steps:
        for name in _COLUMNS:
            if getattr(step, name) is not None:
                table.setdefault(name, [])
        for name in step.numbers:
            table.setdefault(name, [])
    words = trace.legend.vocabulary or {}
    for index, step in enumerate(trace.steps):
        found = _of_step(index, step)
        found["text"] = [words.get(token) if isinstance(token, int) else None for token in found["token"]]
        for name, column in table.items():
            column += found.get(name) or [None] * len(step.position)
    return table


def _of_step(index: int, step: Step) -> dict[str, list[Any]]:
    count = len(step.position)
    found: dict[str, list[Any]] = {
        "step": [index] * count,
        "role": [step.call.role] * count,
        "mode": [step.call.mode] * count,
        "position": list(step.position),
        "token": list(step.token or (None,) * count),
        "fate": [fate.value for fate in step.fate],
    }
    found |= {name: list(column) for name in _COLUMNS if (column := getattr(step, name)) is not None}
    return found | {name: list(column) for name, column in step.numbers.items()}
