"""The numbers in a figure as a table: one line for each mark, bar, point or cell."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from visualizers import groups

COLUMNS: Final = ("panel", "series", "kind", "x", "y", "z", "x_error", "y_error", "text")
"""Those that hold nothing are left out; behind them stand the titles of the axes."""
_BREAK: Final = re.compile(r"<br\s*/?>")
_TAG: Final = re.compile(r"</?[a-z][^>]*>")
_UNDRAWN: Final = (None, "")


def as_csv(figure: go.Figure) -> str:
    """Return what is drawn as CSV. Pictures are not in it; a text like a formula gets a quote before it."""
    rows = list(_rows(figure))
    names = [name for name in (*COLUMNS, "x_title", "y_title") if any(row.get(name) not in _UNDRAWN for row in rows)]
    return groups.as_csv([{name: row.get(name) for name in names} for row in rows])


def _rows(figure: go.Figure) -> Iterator[Mapping[str, Any]]:
    axes = list(dict.fromkeys(map(_place, figure.data)))
    for trace in figure.data:
        place = _place(trace)
        across, down = (figure.layout[f"{name[0]}axis{name[1:]}"] for name in place)
        head = {
            "panel": axes.index(place) + 1 if len(axes) > 1 else None,
            "series": worded(trace.name),
            "kind": trace.type,
            "x_title": worded(across.title.text),
            "y_title": worded(down.title.text),
        }
        for row in _cells(trace) if trace.type in ("heatmap", "contour") else _points(trace):
            yield head | row


def _place(trace: Any) -> tuple[str, str]:
    """The axes of a trace, such as x2 and y2."""
    return trace.xaxis or "x", trace.yaxis or "y"


def _cells(trace: Any) -> Iterator[dict[str, Any]]:
    z = _listed(trace.z)
    across, down, words = _listed(trace.x), _listed(trace.y), _listed(trace.text)
    for i, line in enumerate(z):
        for j, value in enumerate(_listed(line)):
            if value is not None and value == value:  # NaN is not itself
                text = _listed(words[i])[j] if i < len(words) else None
                if text == "":
                    continue  # a cell that shows nothing
                x, y = across[j] if j < len(across) else j, down[i] if i < len(down) else i
                yield {"x": x, "y": y, "z": value, "text": worded(text)}


def _points(trace: Any) -> Iterator[dict[str, Any]]:
    columns = {name: _listed(getattr(trace, name, None)) for name in ("x", "y", "text")}
    for name in ("x", "y"):
        bars = getattr(trace, f"error_{name}", None)
        columns[f"{name}_error"] = _listed(bars.array if bars is not None and bars.visible is not False else None)
    for index in range(max(map(len, columns.values()), default=0)):
        row = {name: column[index] if index < len(column) else None for name, column in columns.items()}
        row |= {name: worded(row[name]) for name in ("x", "y", "text") if isinstance(row[name], str)}
        if row["x"] is not None or row["y"] is not None:
            yield row


def _listed(values: Any) -> Sequence[Any]:
    if values is None or isinstance(values, str):
        return ()
    return values.tolist() if hasattr(values, "tolist") else list(values)


def worded(text: Any) -> str | None:
    """Return a label as plain text: plotly's are ready for HTML."""
    return html.unescape(_TAG.sub("", _BREAK.sub(" ", text))) if isinstance(text, str) else None
