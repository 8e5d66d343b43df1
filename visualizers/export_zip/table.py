"""The numbers in a figure as a table: one row for each point, bar or cell.

A column is named after its axis, with the unit, and a category on an axis replaces its number. Guide lines, notes and
shapes are not data.
"""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from draftscope.visualizers import tables

_BREAK: Final = re.compile(r"<br\s*/?>")
_TAG: Final = re.compile(r"</?[a-z][^>]*>")
_UNDRAWN: Final = (None, "")


def as_csv(figure: go.Figure) -> str:
    """Return what is drawn as CSV. Pictures are not in it; a text like a formula gets a quote before it."""
    rows = list(_rows(figure))
    found = dict.fromkeys(name for row in rows for name, value in row.items() if value not in _UNDRAWN)
    names = [name for name in found if name != "text"] + (["text"] if "text" in found else [])
    return tables.as_csv(names, [[row.get(name) for name in names] for row in rows])


def _rows(figure: go.Figure) -> Iterator[Mapping[str, Any]]:
    axes = list(dict.fromkeys(map(_machine, figure.data)))
    notes = figure.layout.annotations
    heads = [worded(note.text) for note in notes if note.yref == "paper" and note.yanchor == "bottom"]
    panels = heads if len(heads) == len(axes) else [str(number) for number in range(1, len(axes) + 1)]
    for trace in figure.data:
        if trace.type == "scatter" and trace.mode == "lines" and trace.hoverinfo == "skip":
            continue
        coordinates = _machine(trace)
        head = {"panel": panels[axes.index(coordinates)] if len(axes) > 1 else None, "series": worded(trace.name)}
        if trace.meta:  # names of the data that a text replaces
            rows = [[worded(value) if isinstance(value, str) else value for value in row] for row in trace.customdata]
            yield from (head | dict(zip(trace.meta, row, strict=True)) for row in rows)
            continue
        names = [_title(figure, axis) or axis[0] for axis in coordinates]
        names = names if names[0] != names[1] else ["x", "y"]
        shown = [_axis(figure, axis) for axis in coordinates]
        ticks = [dict(zip(_listed(one.tickvals), map(worded, _listed(one.ticktext)), strict=False)) for one in shown]
        for row in _cells(trace) if trace.type in ("heatmap", "contour") else _points(trace):
            cells_of_row = {
                name: ticks[k].get(row[at], row[at]) for k, (name, at) in enumerate(zip(names, "xy", strict=True))
            }
            cells_of_row |= {f"{name} ±": row.get(f"{at}_error") for name, at in zip(names, "xy", strict=True)}
            if "z" in row and not row["text"]:
                bar = figure.layout[trace.coloraxis].colorbar if trace.coloraxis else trace.colorbar
                cells_of_row[worded(bar.title.text) or "value"] = row["z"]
            yield head | cells_of_row | {"text": row.get("text")}


def _axis(figure: go.Figure, name: str) -> Any:
    return figure.layout[f"{name[0]}axis{name[1:]}"]


def _title(figure: go.Figure, name: str) -> str | None:
    """The title of an axis; of one without, the only title that axes in its direction have."""
    axes = figure.select_xaxes() if name[0] == "x" else figure.select_yaxes()
    titles = {worded(axis.title.text) for axis in axes if axis.title.text}
    return worded(_axis(figure, name).title.text) or (titles.pop() if len(titles) == 1 else None)


def _machine(trace: Any) -> tuple[str, str]:
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
                x = across[j] if j < len(across) else (trace.x0 or 0) + j
                y = down[i] if i < len(down) else (trace.y0 or 0) + i
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
