"""Speed against quality of every method and model, what was measured above what papers report."""

from collections.abc import Mapping, Sequence
from math import log10
from typing import Final, NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from draftscope.analysis.tradeoffs import Tradeoff, frontier
from draftscope.visualizers.figure import DataFigure
from draftscope.visualizers.label_layout import Box, arrange_labels
from draftscope.visualizers.plot import dots, plain
from draftscope.visualizers.style import NEUTRAL, Look, series, translucent

LOWEST: Final = -25.0
"""Percentage points of loss beyond which a point is named in words, not drawn."""
_LOOKS: Final = {"picture": 0, "text": 1, "continuous": 2, "video": 3}
_TICKS: Final = (0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 10)
_ROW: Final = 26
"""Pixels of a row of reported numbers."""
_PLOT: Final = 340


class TradeoffView(NamedTuple):
    """The data to draw, and the reader's choices."""

    measured: Sequence[Tradeoff]
    reported: Sequence[Tradeoff] = ()
    max_loss: float = 0.0
    """Percentage points of quality that may be lost."""
    best: Tradeoff | None = None
    """The answer, which gets a ring."""


@DataFigure(
    name="tradeoffs",
    title="Speed against quality",
    caption="Every point is a method with its settings, compared with the baseline of the same model and batch. Bars "
    "are standard errors of the change in quality; the shaded band is within the allowed loss. A method that keeps "
    "the model's distribution and was only timed is on the zero line. Large points are those that no other beats in "
    "both. Below, hollow: results of papers for other models on other machines, in time alone.",
)
def tradeoffs_figure(view: TradeoffView) -> go.Figure:
    """Draw the measurements, above the results of papers if there are any."""
    rows = list(dict.fromkeys(one.name for one in view.reported))
    below = _ROW * len(rows) if rows else 0
    figure = make_subplots(
        rows=2 if rows else 1,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.13 * _PLOT / (_PLOT + below),
        row_heights=[_PLOT, below] if rows else [1],
        subplot_titles=["Measured here", "Reported by papers, of other models on other machines"] if rows else None,
    )
    figure.update_annotations(font={"size": 13}, x=0, xanchor="left", yshift=2)
    ends = _ends(view)
    for kind in dict.fromkeys(one.kind for one in view.measured):
        for predicted in (False, True):
            _points(figure, view, kind, predicted, ends)
    if view.best is not None and view.best.height is not None:
        ring = {"symbol": "circle-open", "size": 24, "line": {"width": 2.5}, "color": NEUTRAL}
        look: Look = {"mode": "markers", "marker": ring, "name": "the answer", "hoverinfo": "skip"}
        figure.add_scatter(x=[view.best.speed], y=[view.best.height], **look)
    _reported(figure, view.reported, rows)
    # Below the points, as plotly draws no line in a panel that is still empty: where nothing, or no more than is
    # allowed, is lost; and where a method is as fast as ordinary decoding.
    free = translucent(series(2).color, 0.13)
    figure.add_hrect(y0=-view.max_loss, y1=ends.top, fillcolor=free, line_width=0, layer="below", row=1, col=1)
    figure.add_hline(y=0, line={"color": NEUTRAL, "dash": "dot", "width": 1.2}, row=1, col=1)
    figure.add_vline(x=1, line={"color": NEUTRAL, "dash": "dot", "width": 1.5})
    edge = {"row": 2 if rows else 1, "col": 1}
    figure.update_xaxes(type="log", range=[log10(ends.left), log10(ends.right)], tickvals=_TICKS)
    figure.update_xaxes(title_text="Times as fast as ordinary decoding", **edge)
    quality = "Change of quality<br>(percentage points)"
    figure.update_yaxes(title_text=quality, range=[ends.bottom, ends.top], row=1, col=1)
    lost = sum(1 for one in view.measured if one.height is not None and one.height < ends.bottom)
    more = f"; {lost} more lose over {-LOWEST:.0f} points" if lost else ""
    figure.update_layout(height=_PLOT + below + 210, showlegend=True, margin={"t": 104})
    return figure.update_layout(title_subtitle_text=plain(f"{len(view.measured)} settings measured{more}"))


def _ends(view: TradeoffView) -> Box:
    """The ends of the axes: x in times, y in percentage points."""
    speeds = [one.speed for one in (*view.measured, *view.reported)] or [1.0]
    heights = [one.height for one in view.measured if one.height is not None and one.height >= LOWEST] or [0.0]
    spread = [(one.height or 0) + (one.error or 0) for one in view.measured]
    return Box(
        left=min(*speeds, 0.6) / 1.25,
        right=max(*speeds, 2.0) * 1.45,
        bottom=min(*heights, -4.0) - 2.5,
        top=min(max(*spread, 4.0), 20.0) + 2.5,
    )


def _points(figure: go.Figure, view: TradeoffView, kind: str, predicted: bool, ends: Box) -> None:
    """All points of a kind; those on the frontier are larger and named."""
    numbered = [(number, one) for number, one in enumerate(view.measured) if one.kind == kind]
    points = [(number, one) for number, one in numbered if one.predicted == predicted and one.height is not None]
    if not points:
        return
    best, labels = set(map(id, frontier(view.measured))), _labels(view, ends)
    look = series(_LOOKS.get(kind, len(_LOOKS)))
    placed_labels = [labels.get(number, ("", "top center")) for number, _ in points]
    large = [id(one) in best for _, one in points]
    marker: Look = {"color": look.color, "symbol": look.symbol + ("-open-dot" if predicted else "")}
    marker |= {"size": [12 if each else 8 for each in large], "opacity": [1.0 if each else 0.6 for each in large]}
    error: Look = {"thickness": 1, "width": 2, "color": translucent(look.color, 0.45)}
    error["array"] = [one.error if one.change is not None else 0 for _, one in points]
    text: Look = {"mode": "markers+text", "textfont": {"size": 11}, "hovertext": [_hover(one) for _, one in points]}
    text |= {"text": [label for label, _ in placed_labels], "textposition": [side for _, side in placed_labels]}
    text["customdata"] = [number for number, _ in points]
    xy = [one.speed for _, one in points], [one.height for _, one in points]
    name = f"{kind}, predicted" if predicted else kind
    dots(figure, 0, name, xy, "%{hovertext}<extra></extra>", marker=marker, error_y=error, **text, row=1, col=1)


def _labels(view: TradeoffView, ends: Box) -> Mapping[int, tuple[str, str]]:
    """Return number of a point on the frontier -> label and place, where there is room for one."""
    best = set(map(id, frontier(view.measured)))
    chosen = [(n, one) for n, one in enumerate(view.measured) if id(one) in best and (one.height or 0) >= ends.bottom]
    order = sorted(range(len(chosen)), key=lambda i: (chosen[i][1] is not view.best, -chosen[i][1].speed))
    wanted = [(i, chosen[i][1].setting, "top right") for i in order]
    wide, high = log10(ends.right / ends.left), ends.top - ends.bottom
    points = [(log10(one.speed / ends.left) / wide, ((one.height or 0.0) - ends.bottom) / high) for _, one in chosen]
    placed = arrange_labels(points, wanted)
    return {chosen[i][0]: (plain(chosen[i][1].setting), side) for i, side in placed.items()}


def _hover(one: Tradeoff) -> str:
    known = one.speed_low is not None and one.speed_high is not None
    spread = f" ({one.speed_low:.2f} to {one.speed_high:.2f})" if known else ""
    how = ", predicted" if one.predicted else ""
    if one.change is None:
        quality = "quality not measured: exact" if one.exact else "quality not given"
    else:
        error = f" ± {one.error:.1f}" if one.error is not None else ""
        quality = f"{one.change:+.1f}{error} points, {one.quality}" if one.quality else f"{one.change:+.1f} points"
    exactness = "" if one.reported else ("exact" if one.exact else "approximate")
    batch = "" if one.batch is None else f"batch {one.batch}"
    where = ", ".join(part for part in (one.model, one.hardware, batch, exactness) if part)
    speed = f"{one.speed:.2f} times as fast{spread}{how}"
    return "<br>".join(map(plain, (one.called, speed, quality, where, one.source)))


def _reported(figure: go.Figure, reported: Sequence[Tradeoff], rows: Sequence[str]) -> None:
    """Draw the results of papers: hollow, in a panel of their own, because their quality has other measures."""
    for kind in dict.fromkeys(one.kind for one in reported):
        those = [one for one in reported if one.kind == kind]
        look = series(_LOOKS.get(kind, len(_LOOKS)))
        marker: Look = {"color": look.color, "symbol": f"{look.symbol}-open", "size": 9, "line": {"width": 1.5}}
        xy = [one.speed for one in those], [one.name for one in those]
        look_of: Look = {"hovertext": [_hover(one) for one in those], "marker": marker}
        dots(figure, 0, f"{kind}, reported", xy, "%{hovertext}<extra></extra>", **look_of, row=2, col=1)
    if rows:
        figure.update_yaxes(categoryarray=list(rows), autorange="reversed", row=2, col=1)
