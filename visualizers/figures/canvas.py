"""The picture during decoding, with what the last forward pass did."""

from math import prod
from typing import Final

import plotly.graph_objects as go

from traces.replay import State, outcomes, state_after
from traces.schema import FATES, Canvas, Step, Trace
from traces.video import frame_count, frame_names
from visualizers.figure import MOST_FRAMES, Figure, Traces, labels, missing, side_by_side, too_many
from visualizers.palette import WHITE
from visualizers.picture import cells, compose, data_url, grid
from visualizers.style import NEUTRAL, fate_marker

FLAT: Final = (460, 390, 358)
"""Pixels that a figure of one, two or more videos is high: latent frames stand side by side and share the width."""


def halfway(trace: Trace) -> int:
    """Return the first step after which half of the canvas is final."""
    decoded: set[int] = set()
    for count, step in enumerate(trace.steps, start=1):
        decoded.update(position for position, fate in zip(step.position, step.fate, strict=True) if fate.final)
        if 2 * len(decoded) >= prod(trace.canvas.shape):
            return count
    return len(trace.steps)


def square_cells(figure: go.Figure, canvas: Canvas, panel: int) -> tuple[int, int]:
    """Set the axes of a panel to the canvas' rows and columns, the first row on top, and return their numbers."""
    rows, columns = grid(canvas)
    square_axes(figure, (rows, columns), 1, panel)
    return rows, columns


def square_axes(figure: go.Figure, size: tuple[int, int], row: int, col: int) -> None:
    """Set the axes of a panel to rows and columns of square cells, the first row on top."""
    bare = {"showgrid": False, "zeroline": False, "constrain": "domain"}
    place = {"row": row, "col": col}
    figure.update_xaxes(title_text="Column", range=[-0.5, size[1] - 0.5], **bare, **place)
    anchor = figure.get_subplot(row, col).yaxis.anchor
    figure.update_yaxes(range=[size[0] - 0.5, -0.5], constraintoward="top", scaleanchor=anchor, **bare, **place)
    if col == 1:
        figure.update_yaxes(title_text="Row", **place)


def _name_frames(figure: go.Figure, trace: Trace, panel: int) -> None:
    """Say where the latent frames of a video lie, which stand side by side."""
    frames = frame_count(trace.canvas)
    if not 1 < frames <= MOST_FRAMES:
        return
    columns = trace.canvas.shape[-1]
    middles = [frame * columns + (columns - 1) / 2 for frame in range(frames)]
    figure.update_xaxes(title_text="", tickvals=middles, ticktext=frame_names(trace), row=1, col=panel)
    for frame in range(1, frames):
        line = {"color": NEUTRAL, "width": 2}
        figure.add_vline(x=frame * columns - 0.5, line=line, row=1, col=panel, exclude_empty_subplots=False)


def panel_height(panels: int) -> int:
    """Return the height of a figure with so many square panels side by side."""
    return {1: 640, 2: 580}.get(panels, 480)


def _background(trace: Trace, state: State) -> str | None:
    """Return the picture behind the marks: tiles, else the last recorded frame, else the result when it is reached."""
    if trace.legend.tiles is not None:
        return data_url(compose(trace.legend.tiles, trace.canvas, state))
    frames = [frame.image for frame in trace.legend.frames if frame.step <= state.step]
    if frames:
        return frames[-1]
    return trace.output.image if state.step == len(trace.steps) else None


def _drawable(trace: Trace) -> bool:
    return trace.canvas.kind != "text" and bool(trace.steps)


def _draw(traces: Traces, step: int | None) -> go.Figure:
    drawn = [trace for trace in traces if _drawable(trace)]
    moments = [halfway(trace) if step is None else min(step, len(trace.steps)) for trace in drawn]
    said = [f"forward pass {moment} of {len(trace.steps)}" for moment, trace in zip(moments, drawn, strict=True)]
    figure = side_by_side(
        [f"{label}<br>{words}" for label, words in zip(labels(drawn), said, strict=True)], horizontal_spacing=0.06
    )
    named: set[str] = set()
    for panel, (trace, moment) in enumerate(zip(drawn, moments, strict=True), start=1):
        rows, columns = square_cells(figure, trace.canvas, panel)
        _name_frames(figure, trace, panel)
        if picture := _background(trace, state_after(trace, moment)):
            place = {"x": -0.5, "y": -0.5, "sizex": columns, "sizey": rows, "sizing": "stretch", "layer": "below"}
            figure.add_layout_image(source=picture, **place, row=1, col=panel)
        size = max(4.0, min(13.0, 260 / (columns * len(drawn))))
        for mark in _marks(trace, trace.steps[moment - 1], size) if moment else ():
            figure.add_trace(mark, row=1, col=panel)
            if mark.legendgroup in named:
                figure.data[-1].showlegend = False
            elif mark.showlegend is not False:
                named.add(mark.legendgroup)
    title = f"The canvas after {said[0]}" if len(drawn) == 1 else "The canvas during decoding"
    flat = all(frame_count(trace.canvas) > 1 for trace in drawn)
    height = FLAT[min(len(drawn), len(FLAT)) - 1] if flat else panel_height(len(drawn))
    return figure.update_layout(height=height, title_text=title)


def _marks(trace: Trace, step: Step, size: float) -> list[go.Scatter]:
    """Return the marks of the step's entries, fate by fate; strokes get a white halo to read on any picture."""
    place, left = cells(trace.canvas), outcomes(step)
    found = []
    for fate in FATES:
        here = [(position, outcome.entry) for position, outcome in left.items() if outcome.fate is fate]
        if not here:
            continue
        mark = go.Scatter(
            x=[place[position][1] for position, _ in here],
            y=[place[position][0] for position, _ in here],
            customdata=[[position, _said(step, entry)] for position, entry in here],
            mode="markers",
            name=f"{fate.value}: {fate.meaning}",
            legendgroup=fate.value,
            marker=fate_marker(fate, size),
            hovertemplate="position %{customdata[0]}, row %{y}, column %{x}<br>%{customdata[1]}<extra>"
            f"{fate.value}</extra>",
        )
        if mark.marker.symbol.endswith("-open"):
            halo = {"color": WHITE, "line": {"color": WHITE, "width": 5}, "size": size + 2}
            found.append(go.Scatter(mark, marker=mark.marker, hoverinfo="skip", hovertemplate=None, showlegend=False))
            found[-1].marker.update(halo)
        found.append(mark)
    return found


def _said(step: Step, entry: int) -> str:
    """Say the verdict in numbers, where there was one."""
    bar = step.accept_prob[entry] if step.accept_prob else None
    coin = step.coin[entry] if step.coin else None
    if bar is None:
        return "no test"
    return f"accept probability {bar:.3f}" + ("" if coin is None else f", coin {coin:.3f}")


CANVAS = Figure(
    name="canvas",
    title="The canvas during decoding",
    caption=(
        "The picture as far as it is decoded after the given forward pass (by default when half of it is final). "
        "Final tokens are drawn as they are, drafts that still wait to be judged are faded, places without a token "
        "are grey. Marks say what the last forward pass did at each place it touched. It is put together from the "
        "recorded passes and a small picture for every token."
    ),
    paper="",
    supports=lambda traces: missing(traces, _drawable, "an image or video canvas") or too_many(traces, _drawable),
    drawing=_draw,
    stepped=True,
    panel_width=460,
)
