"""What was measured here, from the files that `make bench` writes.

A file is a JSON object with `rows`, a list of flat objects that name their `method`; `title` and `environment` say what
was measured and where. Files of another shape are left out.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[1] / "benchmarks" / "results"
_HEADING: Final = "### Measured here"
_NONE: Final = "Nothing yet: `make bench` measures and records."


def measured(method: str, folder: Path = FOLDER) -> str:
    """The rows of all results that speak of a method, as Markdown; each table says where it was measured."""
    tables = [table for path in sorted(folder.glob("*.json")) if (table := _table_of(path, method))]
    return "\n\n".join([_HEADING, *(tables or [_NONE])])


def _table_of(path: Path, method: str) -> str:
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    rows = [row for row in _rows(result) if row.get("method") == method]
    if not rows:
        return ""
    columns = [name for name in dict.fromkeys(name for row in rows for name in row) if name != "method"]
    lines = [_line([name.replace("_", " ") for name in columns]), _line(["---"] * len(columns))]
    lines += [_line([row.get(name) for name in columns]) for row in rows]
    head = f"**{_text(result.get('title') or path.stem.replace('_', ' '))}**"
    return "\n\n".join([head, "\n".join(lines), _place(result.get("environment"))])


def _rows(result: Any) -> list[Mapping[str, Any]]:
    rows = result.get("rows") if isinstance(result, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _place(environment: Any) -> str:
    if not isinstance(environment, dict):
        return ""
    known = [f"{name.replace('_', ' ')} {value}" for name, value in environment.items() if isinstance(value, str | int)]
    return f"*{_text(', '.join(known))}*" if known else ""


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(_text, cells))} |"


def _text(value: object) -> str:
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
