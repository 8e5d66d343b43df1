"""How likely drafts were to stay, over the canvas."""

from collections.abc import Mapping
from typing import Final

import plotly.graph_objects as go

from traces.replay import PENDING, outcomes
from traces.schema import FATES, Fate, Trace
from visualizers.figure import Figure, Traces, labels, missing, side_by_side, too_many
from visualizers.figures.canvas import panel_height, square_cells
from visualizers.picture import cells
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


def _draw(traces: Traces, step: int | None) -> go.Figure:
    drawn = [trace for trace in traces if _judged(trace)]
    figure = side_by_side(labels(drawn), horizontal_spacing=0.06)
    named: set[Fate] = set()
    for panel, trace in enumerate(drawn, start=1):
        rows, columns = square_cells(figure, trace.canvas, panel)
        place, tests = cells(trace.canvas), verdicts(trace, None if step is None else min(step, len(trace.steps)))
        heat: list[list[float | None]] = [[None] * columns for _ in range(rows)]
        for position, (bar, _) in tests.items():
            row, column = place[position]
            heat[row][column] = bar
        hover = "row %{y}, column %{x}<br>accept probability %{z:.3f}<extra></extra>"
        figure.add_heatmap(z=heat, coloraxis="coloraxis", hovertemplate=hover, row=1, col=panel)
        rejected = [position for position, (_, fate) in tests.items() if fate in REJECTED]
        marked = {Fate.RESAMPLED: rejected}
        for position, fate in untested(trace).items() if step is None else ():
            marked.setdefault(fate, []).append(position)
        size = max(4.0, min(13.0, 260 / (columns * len(drawn))))
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
                row=1,
                col=panel,
            )
            named.add(fate)
    when = "at the test that settled it" if step is None else f"in forward pass {step}"
    return figure.update_layout(
        height=panel_height(len(drawn)),
        title_text=f"Accept probability of every draft {when}",
        coloraxis={
            "colorscale": cividis(),
            "cmin": 0,
            "cmax": 1,
            "colorbar": {"title": {"text": "Accept<br>probability"}},
        },
    )


ACCEPTANCE = Figure(
    name="acceptance",
    title="Accept probability over the canvas",
    caption=(
        "How likely the draft at each position was to stay: yellow drafts were nearly certain, dark blue ones "
        "hopeless. The value is min(1, p(x) / q(x)) at the position's last test, or in one forward pass when a "
        "step is given. Squares mark drafts that were rejected; cells without a colour were decoded without a test, "
        "and "
        "over a whole run a mark says how."
    ),
    paper="",
    supports=lambda traces: missing(traces, _judged, "accept probabilities") or too_many(traces, _judged),
    drawing=_draw,
    stepped=True,
    panel_width=460,
)
