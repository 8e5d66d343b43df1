"""How likely drafts were to stay, over the canvas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from traces.replay import PENDING, outcomes
from traces.schema import FATES, Fate, Trace
from traces.video import frame_count, frame_names
from visualizers.figure import Figure, Traces, labels, missing, side_by_side, too_long, too_many
from visualizers.figures.canvas import panel_height, square_axes
from visualizers.picture import cells, grid
from visualizers.style import cividis, fate_marker

REJECTED: Final = (Fate.RESAMPLED, Fate.REJECTED)


def verdicts(trace: Trace, step: int | None = None) -> dict[int, tuple[float, Fate]]:
    """Return accept probability and fate of every position's last verdict, or of all tests of step number `step`."""
    chosen = trace.steps if step is None else trace.steps[max(step - 1, 0) : step]
    found: dict[int, tuple[float, Fate]] = {}
    for one in chosen:
        for position, fate, bar in zip(one.position, one.fate, one.accept_prob or (), strict=False):
            if bar is not None and (step is not None or fate not in PENDING):
                found[position] = (bar, fate)
    return found


def untested(trace: Trace) -> Mapping[int, Fate]:
    """Return how the positions became final that never had a test."""
    made = {p: left.fate for step in trace.steps for p, left in outcomes(step).items() if left.fate.final}
    tests = verdicts(trace)
    return {position: fate for position, fate in made.items() if position not in tests}


def _judged(trace: Trace) -> bool:
    return bool(verdicts(trace))


@dataclass(frozen=True, slots=True)
class Panel:
    """A canvas, or one latent frame of a video, and where it stands among the others."""

    trace: Trace
    frame: int
    row: int
    col: int

    @property
    def places(self) -> dict[int, tuple[int, int]]:
        """Row and column of every position in it."""
        columns = self.trace.canvas.shape[-1]
        found = {}
        for position, (row, column) in enumerate(cells(self.trace.canvas)):
            if frame_count(self.trace.canvas) == 1:
                found[position] = (row, column)
            elif column // columns == self.frame:
                found[position] = (row, column % columns)
        return found

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = grid(self.trace.canvas)
        return rows, columns // frame_count(self.trace.canvas)


def _panels(drawn: Sequence[Trace]) -> tuple[go.Figure, list[Panel]]:
    """Return the empty figure: canvases side by side, or of videos one below the other, with a panel a latent frame."""
    counts = [frame_count(trace.canvas) for trace in drawn]
    if max(counts) == 1:
        panels = [Panel(trace, 0, 1, col) for col, trace in enumerate(drawn, start=1)]
        return side_by_side(labels(drawn), horizontal_spacing=0.06), panels
    named = zip(drawn, labels(drawn) if len(drawn) > 1 else [""], counts, strict=True)
    titles = [
        f"{label}<br>{name}" if label and not frame else name
        for trace, label, count in named
        for frame, name in enumerate([*frame_names(trace), *[""] * (max(counts) - count)])
    ]
    specs: list[list[dict[str, object] | None]] = [
        [{} if col < count else None for col in range(max(counts))] for count in counts
    ]
    figure = make_subplots(
        rows=len(drawn),
        cols=max(counts),
        specs=specs,
        subplot_titles=[title for title in titles if title],
        horizontal_spacing=0.05,
        vertical_spacing=0.3 / len(drawn) if len(drawn) > 1 else 0,
    )
    figure.update_annotations(font={"size": 13}, yshift=4).update_layout(margin={"t": 112})
    return figure, [
        Panel(trace, frame, row, frame + 1)
        for row, (trace, count) in enumerate(zip(drawn, counts, strict=True), start=1)
        for frame in range(count)
    ]


def _draw(traces: Traces, step: int | None) -> go.Figure:
    drawn = [trace for trace in traces if _judged(trace)]
    figure, panels = _panels(drawn)
    named: set[Fate] = set()
    for panel in panels:
        _fill(figure, panel, step, max(4.0, min(13.0, 260 / (panel.size[1] * len(panels)))), named)
    when = "at the test that settled it" if step is None else f"in forward pass {step}"
    rows = panels[-1].row
    return figure.update_layout(
        height=panel_height(len(panels)) if rows == 1 else 140 + 300 * rows,
        title_text=f"Accept probability of every draft {when}",
        coloraxis={
            "colorscale": cividis(),
            "cmin": 0,
            "cmax": 1,
            "colorbar": {"title": {"text": "Accept<br>probability"}},
        },
    )


def _fill(figure: go.Figure, panel: Panel, step: int | None, size: float, named: set[Fate]) -> None:
    """Draw one panel: the heat map and the marks, with a legend entry for a fate that is not named yet."""
    trace, place, where = panel.trace, panel.places, {"row": panel.row, "col": panel.col}
    rows, columns = panel.size
    square_axes(figure, panel.size, panel.row, panel.col)
    tests = verdicts(trace, None if step is None else min(step, len(trace.steps)))
    heat: list[list[float | None]] = [[None] * columns for _ in range(rows)]
    marked: dict[Fate, list[int]] = {Fate.RESAMPLED: []}
    for position, (bar, fate) in tests.items():
        if position not in place:
            continue
        row, column = place[position]
        heat[row][column] = bar
        if fate in REJECTED:
            marked[Fate.RESAMPLED].append(position)
    hover = "row %{y}, column %{x}<br>accept probability %{z:.3f}<extra></extra>"
    figure.add_heatmap(z=heat, coloraxis="coloraxis", hovertemplate=hover, **where)
    for position, fate in untested(trace).items() if step is None else ():
        if position in place:
            marked.setdefault(fate, []).append(position)
    for fate in sorted(marked, key=list(FATES).index):
        name = "the draft was rejected" if fate is Fate.RESAMPLED else f"{fate.value}: {fate.meaning}"
        figure.add_scatter(
            x=[place[position][1] for position in marked[fate]],
            y=[place[position][0] for position in marked[fate]],
            mode="markers",
            name=name,
            legendgroup=fate.value,
            showlegend=fate not in named,
            marker=fate_marker(fate, size),
            hoverinfo="skip",
            **where,
        )
        named.add(fate)


ACCEPTANCE = Figure(
    name="acceptance",
    title="Acceptance heat map",
    caption=(
        "How likely the draft at each position was to stay when it was judged: yellow drafts were nearly certain "
        "to, dark blue ones hardly could. That probability is min(1, p / q): p says how likely the model finds the "
        "draft, q how likely it was when it was guessed. It is shown for the position's last verdict, or for one "
        "forward pass when a step is given. Squares mark drafts that were rejected; cells without a colour were "
        "decoded without a draft being judged, and over a whole run a mark says how. A video has a panel for every "
        "latent frame."
    ),
    paper="",
    supports=lambda traces: (
        missing(traces, _judged, "accept probabilities") or too_many(traces, _judged) or too_long(traces)
    ),
    drawing=_draw,
    stepped=True,
    whole=True,
    panel_width=460,
)
