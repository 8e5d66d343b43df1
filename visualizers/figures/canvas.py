"""The canvas at a moment, with what the last pass did."""

from math import prod
from typing import Final

import plotly.graph_objects as go

from draftscope.analysis.stats import progress_curve
from draftscope.traces.replay import position_updates, state_after
from draftscope.traces.schema import FATES, Step, Trace
from draftscope.traces.video import frame_count, frame_names
from draftscope.visualizers.figure import MAX_FRAMES, Figure, Traces, panels_at
from draftscope.visualizers.palette import WHITE
from draftscope.visualizers.picture import cells, data_url, grid, recorded_picture, render_canvas
from draftscope.visualizers.plot import add_once, fate_mark
from draftscope.visualizers.style import NEUTRAL

HEIGHTS: Final = (640, 580, 480)
"""Pixels that a figure of one, two or more panels is high."""
FEW_ROWS: Final = 4
"""Rows that all have a tick."""
FLAT: Final = (460, 390, 358)
"""Sizes for videos, whose latent frames share the width."""


def halfway(trace: Trace) -> int:
    """Return the first step after which half of the canvas is final."""
    half = prod(trace.canvas.shape) / 2
    return next(
        (step for step, tokens in enumerate(progress_curve(trace.steps).tokens) if tokens >= half), len(trace.steps)
    )


def square_axes(figure: go.Figure, size: tuple[int, int], row: int, col: int) -> None:
    """Set the axes of a panel to rows and columns of square cells, both from 1, the first row on top.

    Args:
        figure: Figure, changed in place.
        size: Rows and columns of cells.
        row: Row of the panel, from 1.
        col: Column of the panel, from 1; only the first has a title for its rows.
    """
    bare = {"showgrid": False, "zeroline": False, "constrain": "domain"}
    placement = {"row": row, "col": col}
    figure.update_xaxes(title_text="Column", range=[0.5, size[1] + 0.5], **bare, **placement)
    anchor = figure.get_subplot(row, col).yaxis.anchor
    if size[0] <= FEW_ROWS:
        figure.update_yaxes(dtick=1, **placement)
    figure.update_yaxes(range=[size[0] + 0.5, 0.5], constraintoward="top", scaleanchor=anchor, **bare, **placement)
    if col == 1:
        figure.update_yaxes(title_text="Row", **placement)


def mark_size(columns: int, panels: int) -> float:
    """Return the pixels of a mark that fits into a cell.

    Args:
        columns: Columns of cells in a panel.
        panels: Panels in a row.
    """
    return max(4.0, min(13.0, 260 / (columns * panels)))


def _name_frames(figure: go.Figure, trace: Trace, panel: int) -> None:
    """Label the latent frames of a video, which are drawn side by side."""
    frames = frame_count(trace.canvas)
    if not 1 < frames <= MAX_FRAMES:
        return
    columns = trace.canvas.shape[-1]
    middles = [frame * columns + (columns + 1) / 2 for frame in range(frames)]
    figure.update_xaxes(title_text="", tickvals=middles, ticktext=frame_names(trace), row=1, col=panel)
    for frame in range(1, frames):
        line = {"color": NEUTRAL, "width": 2}
        figure.add_vline(x=frame * columns + 0.5, line=line, row=1, col=panel, exclude_empty_subplots=False)


@Figure(
    name="canvas",
    title="The canvas during decoding",
    caption="The picture after a forward pass, by default when half of it is final. Drafts that are not verified yet "
    "are faded, open positions grey; marks show what the last pass did.",
    accepts=lambda trace: trace.canvas.kind != "text" and bool(trace.steps),
    requirement="an image or video canvas",
    limit="panels",
    takes_step=True,
    panel_width=460,
)
def _canvas(traces: Traces, step: int | None) -> go.Figure:
    moments = [halfway(trace) if step is None else min(step, len(trace.steps)) for trace in traces]
    figure, first = panels_at(traces, moments, horizontal_spacing=0.06)
    for panel, (trace, moment) in enumerate(zip(traces, moments, strict=True), start=1):
        rows, columns = grid(trace.canvas)
        square_axes(figure, (rows, columns), 1, panel)
        _name_frames(figure, trace, panel)
        state, tiles = state_after(trace, moment), trace.legend.tiles
        if picture := data_url(render_canvas(tiles, trace.canvas, state)) if tiles else recorded_picture(trace, state):
            placement = {"x": 0.5, "y": 0.5, "sizex": columns, "sizey": rows, "sizing": "stretch", "layer": "below"}
            figure.add_layout_image(source=picture, **placement, row=1, col=panel)
        for mark in _marks(trace, trace.steps[moment - 1], mark_size(columns, len(traces))) if moment else ():
            add_once(figure, mark, row=1, col=panel)
    title = f"The canvas after {first}" if len(traces) == 1 else "The canvas during decoding"
    heights = FLAT if all(frame_count(trace.canvas) > 1 for trace in traces) else HEIGHTS
    return figure.update_layout(height=heights[min(len(traces), 3) - 1], title_text=title)


def _marks(trace: Trace, step: Step, size: float) -> list[go.Scatter]:
    """Return the marks of the step's entries, fate by fate; strokes get a white outline to read on any picture."""
    cell_of, left = cells(trace.canvas), position_updates(step)
    marks = []
    for fate in FATES:
        here = [(position, outcome.entry) for position, outcome in left.items() if outcome.fate is fate]
        if not here:
            continue
        points = [(column + 1, row + 1) for row, column in (cell_of[position] for position, _ in here)]
        hover = "position %{customdata[0]}, row %{y}, column %{x}<br>%{customdata[1]}"
        verdict = [[position + 1, _verdict(step, entry)] for position, entry in here]
        mark = fate_mark(fate, points, size, hover, customdata=verdict)
        if mark.marker.symbol.endswith("-open"):
            halo = {"color": WHITE, "line": {"color": WHITE, "width": 5}, "size": size + 2}
            marks.append(go.Scatter(mark, hoverinfo="skip", hovertemplate=None, showlegend=False))
            marks[-1].marker.update(halo)
        marks.append(mark)
    return marks


def _verdict(step: Step, entry: int) -> str:
    accept_prob, uniform = (column[entry] if column else None for column in (step.accept_prob, step.coin))
    if accept_prob is None:
        return "not verified"
    return f"accept probability {accept_prob:.3f}" + ("" if uniform is None else f", drawn number {uniform:.3f}")
