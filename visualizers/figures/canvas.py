"""The canvas at a moment, with what the last pass did, and how likely drafts on it were to be accepted."""

from collections.abc import Sequence
from math import prod
from typing import Final, NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.stats import progress_curve
from traces.replay import PENDING, position_updates, state_after
from traces.schema import FATES, Fate, Step, Trace
from traces.video import frame_count, frame_names
from visualizers.figure import MAX_FRAMES, Figure, Traces, labels, panels_at
from visualizers.palette import CIVIDIS, REJECTED, WHITE
from visualizers.picture import cells, data_url, grid, recorded_picture, render_canvas
from visualizers.plot import add_once, fate_mark, side_by_side
from visualizers.style import NEUTRAL, fate_marker

HEIGHTS: Final = (640, 580, 480)
"""Pixels that a figure of one, two or more panels is high."""
FLAT: Final = (460, 390, 358)
"""Sizes for videos, whose latent frames share the width."""


def halfway(trace: Trace) -> int:
    """Return the first step after which half of the canvas is final."""
    half = prod(trace.canvas.shape) / 2
    return next(
        (step for step, tokens in enumerate(progress_curve(trace.steps).tokens) if tokens >= half), len(trace.steps)
    )


def _square_axes(figure: go.Figure, size: tuple[int, int], row: int, col: int) -> None:
    """Set the axes of a panel to rows and columns of square cells, both from 1, the first row on top."""
    bare = {"showgrid": False, "zeroline": False, "constrain": "domain"}
    placement = {"row": row, "col": col}
    figure.update_xaxes(title_text="Column", range=[0.5, size[1] + 0.5], **bare, **placement)
    anchor = figure.get_subplot(row, col).yaxis.anchor
    figure.update_yaxes(range=[size[0] + 0.5, 0.5], constraintoward="top", scaleanchor=anchor, **bare, **placement)
    if col == 1:
        figure.update_yaxes(title_text="Row", **placement)


def _mark_size(columns: int, panels: int) -> float:
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
        _square_axes(figure, (rows, columns), 1, panel)
        _name_frames(figure, trace, panel)
        state, tiles = state_after(trace, moment), trace.legend.tiles
        if picture := data_url(render_canvas(tiles, trace.canvas, state)) if tiles else recorded_picture(trace, state):
            placement = {"x": 0.5, "y": 0.5, "sizex": columns, "sizey": rows, "sizing": "stretch", "layer": "below"}
            figure.add_layout_image(source=picture, **placement, row=1, col=panel)
        for mark in _marks(trace, trace.steps[moment - 1], _mark_size(columns, len(traces))) if moment else ():
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


def verdicts(trace: Trace, step: int | None = None) -> dict[int, tuple[float, Fate]]:
    """Return accept probability and fate of every position's last verdict, or of all verdicts of step number `step`."""
    chosen = trace.steps if step is None else trace.steps[max(step - 1, 0) : step]
    last: dict[int, tuple[float, Fate]] = {}
    for one in chosen:
        for position, fate, accept_prob in zip(one.position, one.fate, one.accept_prob or (), strict=False):
            if accept_prob is not None and (step is not None or fate not in PENDING):
                last[position] = (accept_prob, fate)
    return last


class Panel(NamedTuple):
    """A canvas, or one latent frame of a video, with the row and column of its panel."""

    trace: Trace
    frame: int
    row: int
    col: int


def _panels(traces: Sequence[Trace]) -> tuple[go.Figure, list[Panel]]:
    """Return the empty figure: canvases side by side, or of videos one below the other, with a panel a latent frame."""
    counts = [frame_count(trace.canvas) for trace in traces]
    if max(counts) == 1:
        panels = [Panel(trace, 0, 1, col) for col, trace in enumerate(traces, start=1)]
        return side_by_side(labels(traces), horizontal_spacing=0.06), panels
    names = labels(traces) if len(traces) > 1 else [""]
    titles = []
    for trace, label, count in zip(traces, names, counts, strict=True):
        first, *others = frame_names(trace)
        titles += [f"{label}<br>{first}" if label else first, *others, *[""] * (max(counts) - count)]
    figure = make_subplots(
        rows=len(traces),
        cols=max(counts),
        specs=[[{} if col < count else None for col in range(max(counts))] for count in counts],
        subplot_titles=[title for title in titles if title],
        horizontal_spacing=0.05,
        vertical_spacing=0.3 / len(traces) if len(traces) > 1 else 0,
    )
    figure.update_annotations(font={"size": 13}, yshift=4).update_layout(margin={"t": 112})
    numbered = enumerate(zip(traces, counts, strict=True), start=1)
    return figure, [Panel(trace, k, row, k + 1) for row, (trace, count) in numbered for k in range(count)]


def _too_long(traces: Traces) -> str | None:
    longest = max(frame_count(trace.canvas) for trace in traces)
    return f"draws up to {MAX_FRAMES} latent frames, a video has {longest}" if longest > MAX_FRAMES else None


@Figure(
    name="acceptance",
    title="Acceptance heat map",
    caption="The probability min(1, p / q) with which each draft was accepted: at the position's last verdict, or in "
    "the chosen forward pass. Squares mark rejected drafts; cells without a colour were decoded without a verdict.",
    accepts=lambda trace: bool(verdicts(trace)),
    requirement="accept probabilities",
    limit="panels",
    refuses=_too_long,
    takes_step=True,
    whole_run=True,
    panel_width=460,
)
def _acceptance(traces: Traces, step: int | None) -> go.Figure:
    figure, panels = _panels(traces)
    for panel in panels:
        _fill(figure, panel, step, len(panels))
    when = "when it was verified last" if step is None else f"in forward pass {step}"
    rows = panels[-1].row
    bar = {"title": {"text": "Accept<br>probability"}}
    return figure.update_layout(
        height=HEIGHTS[min(len(panels), 3) - 1] if rows == 1 else 140 + 300 * rows,
        title_text=f"Accept probability of every draft {when}",
        coloraxis={"colorscale": CIVIDIS, "cmin": 0, "cmax": 1, "colorbar": bar},
    )


def _fill(figure: go.Figure, panel: Panel, step: int | None, panels: int) -> None:
    """Draw one panel: the heat map and the marks."""
    trace, where = panel.trace, {"row": panel.row, "col": panel.col}
    rows, wide = grid(trace.canvas)
    columns = wide // frame_count(trace.canvas)
    numbered_cells = enumerate(cells(trace.canvas))
    cell_of = {at: (row, column % columns) for at, (row, column) in numbered_cells if column // columns == panel.frame}
    _square_axes(figure, (rows, columns), panel.row, panel.col)
    heat: list[list[float | None]] = [[None] * columns for _ in range(rows)]
    marked: dict[Fate, list[int]] = {Fate.RESAMPLED: []}
    verified = verdicts(trace, None if step is None else min(step, len(trace.steps)))
    for position, (accept_prob, fate) in verified.items():
        if position in cell_of:
            row, column = cell_of[position]
            heat[row][column] = accept_prob
            if fate in REJECTED:
                marked[Fate.RESAMPLED].append(position)
    hover = "row %{y}, column %{x}<br>accept probability %{z:.3f}<extra></extra>"
    figure.add_heatmap(z=heat, x0=1, y0=1, coloraxis="coloraxis", hovertemplate=hover, **where)
    steps = trace.steps if step is None else ()
    final = {p: left.fate for one in steps for p, left in position_updates(one).items() if left.fate.final}
    for position, fate in final.items():
        if position in cell_of and position not in verified:
            marked.setdefault(fate, []).append(position)
    for fate in sorted(marked, key=list(FATES).index):
        name = "the draft was rejected" if fate is Fate.RESAMPLED else f"{fate.value}: {fate.meaning}"
        y, x = ([cell_of[position][axis] + 1 for position in marked[fate]] for axis in (0, 1))
        marker = fate_marker(fate, _mark_size(columns, panels))
        mark = go.Scatter(x=x, y=y, mode="markers", name=name, marker=marker, hoverinfo="skip")
        add_once(figure, mark, **where)
