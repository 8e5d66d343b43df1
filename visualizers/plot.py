"""Panels, curves, bars and axes of figures, on top of plotly."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import plotly.graph_objects as go
from plotly.basedatatypes import BaseTraceType
from plotly.subplots import make_subplots

from draftscope.analysis.seeds import estimate
from draftscope.traces.schema import Fate
from draftscope.visualizers.style import NEUTRAL, PATTERNS, Look, fate_marker, hatched, series


def plain(text: str) -> str:
    """Return text from a trace so that plotly shows it as it is; plotly reads a few HTML tags in its labels."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def side_by_side(titles: Sequence[str], **options: Any) -> go.Figure:
    """Return a figure with one panel a title; a single panel needs no title of its own."""
    if len(titles) == 1:
        return make_subplots(**options)
    figure = make_subplots(cols=len(titles), subplot_titles=titles, **options)
    return figure.update_annotations(font={"size": 13}, yshift=4).update_layout(margin={"t": 112})


def in_panel(panel: int, index: int) -> Look:
    """Return what puts curve number `index` into one of several panels, with one legend entry for all of them."""
    return {"legendgroup": str(index), "showlegend": panel == 1, "row": 1, "col": panel}


MAX_MARKS: Final = 12
"""Marks on a curve of steps."""
Points: TypeAlias = tuple[Sequence[Any], Sequence[Any]]
"""x and y."""


def curve(figure: go.Figure, index: int, name: str, points: Points, hover: str, **more: Any) -> None:
    """Add a curve with a mark at every point.

    Args:
        figure: Figure, changed in place.
        index: Number of the curve, which chooses colour, dash and symbol.
        name: Entry of the legend.
        points: x and y.
        hover: Template of the text on hover, in plotly's syntax.
        more: Options of plotly, which override the look; see `error_bars` and `in_panel`.
    """
    values = series(index)
    look: Look = {"mode": "lines+markers", "line": values.line, "marker": values.marker(9), **more}
    figure.add_scatter(x=points[0], y=points[1], name=name, hovertemplate=hover, **look)


def step_curve(figure: go.Figure, index: int, name: str, points: Points, hover: str, **more: Any) -> None:
    """Add a curve of steps, whose risers a dash would hide: a solid line with a mark at some of its points.

    `figure`, `index`, `name`, `points`, `hover` and `more` are those of `curve`.
    """
    values = series(index)
    line, marker = values.line | {"dash": "solid", "shape": "hv"}, values.marker(7) | {"maxdisplayed": MAX_MARKS}
    curve(figure, index, name, points, hover, **{"line": line, "marker": marker, **more})


def error_bars(values: Sequence[float]) -> Look:
    """Return error bars of the given half lengths for `curve`; none where all are 0."""
    return {"error_y": {"array": values, "thickness": 1.2}} if any(values) else {}


def dots(figure: go.Figure, index: int, name: str, points: Points, hover: str, **more: Any) -> None:
    """Add marks without a line.

    `figure`, `index`, `name`, `points`, `hover` and `more` are those of `curve`.
    """
    curve(figure, index, name, points, hover, **{"mode": "markers", "line": None, **more})


def bars(figure: go.Figure, index: int, name: str, points: Points, hover: str, **more: Any) -> None:
    """Add bars.

    `figure`, `index`, `name`, `points`, `hover` and `more` are those of `curve`.
    """
    marker = {"color": series(index).color, "pattern": hatched(PATTERNS[index % len(PATTERNS)])}
    figure.add_bar(x=points[0], y=points[1], name=name, hovertemplate=hover, **{"marker": marker, **more})


def fate_mark(fate: Fate, points: Sequence[tuple[float, float]], size: float, hover: str, **more: Any) -> go.Scatter:
    """Return marks for the outcome of positions; the legend entry explains the fate.

    Args:
        fate: Outcome, which chooses colour and symbol.
        points: Pairs of x and y, at least one.
        size: Pixels of a mark.
        hover: Template of the text on hover, in plotly's syntax.
        more: Options of plotly.
    """
    x, y = zip(*points, strict=True)
    look: Look = {"mode": "markers", "marker": fate_marker(fate, size), "name": f"{fate.value}: {fate.meaning}"}
    return go.Scatter(x=x, y=y, hovertemplate=f"{hover}<extra>{fate.value}</extra>", **look, **more)


def add_once(figure: go.Figure, mark: BaseTraceType, **placement: Any) -> None:
    """Add a mark, with a legend entry unless one of its name exists.

    Args:
        figure: Figure, changed in place.
        mark: Trace of plotly.
        placement: Row and column of a panel.
    """
    is_shown = any(other.showlegend and other.name == mark.name for other in figure.data)
    entry = mark.showlegend is not False and not is_shown
    figure.add_trace(mark.update(legendgroup=mark.name, showlegend=entry), **placement)


def means(values: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    """Return the mean of each list, and its standard error, 0 for a single value."""
    estimates = [estimate(each) for each in values]
    return [each.mean for each in estimates], [each.error or 0.0 for each in estimates]


def axes(figure: go.Figure, x: str, *y: str, height: int = 440, bounds: Any = None, **layout: Any) -> go.Figure:
    """Title the axes, and return the figure, changed in place.

    Args:
        figure: Figure.
        x: Title of the x axes of all panels.
        y: Titles of the y axes of the first panels.
        height: Height of the figure in pixels.
        bounds: Range of the y axes; by default they start at zero.
        layout: Further options of plotly's layout.
    """
    figure.update_xaxes(title_text=x)
    figure.update_yaxes(**({"range": list(bounds)} if bounds else {"rangemode": "tozero"}))
    for axis, title in zip(figure.select_yaxes(), y, strict=False):
        axis.update(title_text=title)
    return figure.update_layout(height=height, **{"showlegend": True, **layout})


def add_level_line(figure: go.Figure, y: float, **placement: Any) -> None:
    """Draw a level line, such as that of ordinary decoding.

    Args:
        figure: Figure, changed in place.
        y: Its height on the y axis.
        placement: Row and column of a panel; by default all.
    """
    figure.add_hline(y=y, line={"color": NEUTRAL, "dash": "dot", "width": 1.5}, **placement)


def thin_ticks(items: Sequence[object], maximum: int) -> slice:
    """Return the slice that leaves a few evenly spread items, the first one included.

    Args:
        items: Ticks.
        maximum: How many may be left.

    Example:
        >>> list(range(10))[thin_ticks(range(10), 4)]
        [0, 3, 6, 9]
    """
    return slice(None, None, max(1, -(-len(items) // maximum)))
