"""What was measured here, from the files that `make measured` writes.

A file is a JSON object with `rows`, a list of flat objects that name their `method`; `title` and `environment` say what
was measured and where. Files of another shape are left out.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[1] / "benchmarks" / "results"
_ERRORS: Final = ("_standard_error", "_error")
_TIGHT: Final = "\N{NO-BREAK SPACE}"
_MEDIAN, _LOW, _HIGH = "_median", "_low_quartile", "_high_quartile"


@dataclass(frozen=True, slots=True)
class Measured:
    """The rows of one result that speak of a method."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    place: str
    """Where it was measured, in words."""


def measured(method: str, folder: Path = FOLDER) -> list[Measured]:
    """What all results say of a method."""
    return [found for path in sorted(folder.glob("*.json")) if (found := _of(path, method))]


def _of(path: Path, method: str) -> Measured | None:
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    rows = [row for row in _rows(result) if row.get("method") == method]
    if not rows:
        return None
    names = dict.fromkeys(name for row in rows for name in row)
    columns = [name for name in names if name != "method" and not _belongs(name, names)]
    return Measured(
        title=str(result.get("title") or path.stem.replace("_", " ")),
        heads=tuple(name.replace("_", " ") for name in columns),
        rows=tuple(tuple(_cell(row, name) for name in columns) for row in rows),
        place=_place(result.get("environment")),
    )


def _rows(result: Any) -> list[Mapping[str, Any]]:
    rows = result.get("rows") if isinstance(result, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _belongs(name: str, names: Mapping[str, None]) -> bool:
    """Whether a column is the error or a quartile of another and is written beside it."""
    owners = [name.removesuffix(ending) for ending in _ERRORS if name.endswith(ending)]
    owners += [name.removesuffix(ending) + _MEDIAN for ending in (_LOW, _HIGH) if name.endswith(ending)]
    return any(owner in names or f"{owner}_percent" in names for owner in owners)


def _cell(row: Mapping[str, Any], name: str) -> str:
    bare = name.removesuffix("_percent")
    error = next((row[bare + ending] for ending in _ERRORS if bare + ending in row), None)
    base = name.removesuffix(_MEDIAN)
    low, high = row.get(base + _LOW), row.get(base + _HIGH)
    text = _text(row.get(name))
    if error is not None:
        text += f"{_TIGHT}±{_TIGHT}{error:.2g}"
    if name.endswith(_MEDIAN) and low is not None and high is not None:
        text += f" ({_text(low)} to {_text(high)})".replace(" ", _TIGHT)
    return text


def _place(environment: Any) -> str:
    if not isinstance(environment, dict):
        return ""
    known = [f"{name.replace('_', ' ')} {value}" for name, value in environment.items() if isinstance(value, str | int)]
    return ", ".join(known)


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
