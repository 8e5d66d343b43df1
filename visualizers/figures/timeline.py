"""Which drafts moved and which stayed: every position against every forward pass."""

from typing import Final

import numpy as np
import plotly.graph_objects as go

from traces.replay import canvas_size, outcomes
from traces.schema import FATES, Fate, Trace
from traces.video import frame_ends
from visualizers.figure import MOST_FRAMES, Figure, Traces, labels, missing, side_by_side, too_many
from visualizers.palette import BLACK, WHITE
from visualizers.style import NEUTRAL, fate_color, levels

FATE_ORDER: Final = tuple(FATES)
UNTOUCHED: Final = 0
"""Code of a cell that the step did not speak of; the fates follow from 1."""
CROSS_ROOM: Final = 860
"""Pixels that the crosses of a row share, so that they fit into their cells."""
REJECTED: Final = (Fate.RESAMPLED, Fate.REJECTED)


def churn(trace: Trace) -> np.ndarray:
    """Return the codes of the fates [steps, positions]: 1 for the first of `FATE_ORDER`, 0 where nothing happened."""
    codes = np.zeros((len(trace.steps), canvas_size(trace.canvas)), dtype=np.int8)
    for row, step in enumerate(trace.steps):
        for position, outcome in outcomes(step).items():
            codes[row, position] = 1 + FATE_ORDER.index(outcome.fate)
    return codes


def _has(trace: Trace) -> bool:
    return any(step.position for step in trace.steps)


def _draw(traces: Traces, step: int | None) -> go.Figure:
    drawn = [trace for trace in traces if _has(trace)]
    heads = [f"{label}: {len(trace.steps)} passes" for label, trace in zip(labels(drawn), drawn, strict=True)]
    figure = side_by_side(heads, horizontal_spacing=0.06)
    names = np.array(["", *(fate.value for fate in FATE_ORDER)])
    scale = levels(["rgba(0,0,0,0)", *map(fate_color, FATE_ORDER)])
    occurring: set[int] = set()
    for panel, trace in enumerate(drawn, start=1):
        codes = churn(trace)
        size = max(1.5, min(4.0, CROSS_ROOM / (codes.shape[1] * len(drawn))))
        occurring |= set(np.unique(codes).tolist()) - {UNTOUCHED}
        figure.add_heatmap(
            z=codes,
            y0=1,
            zmin=-0.5,
            zmax=len(FATE_ORDER) + 0.5,
            colorscale=scale,
            showscale=False,
            text=names[codes],
            hoverinfo="x+y+text",
            row=1,
            col=panel,
        )
        ends = frame_ends(trace.canvas)
        for end in ends if len(ends) <= MOST_FRAMES else ():
            figure.add_vline(x=end - 0.5, line={"color": NEUTRAL, "width": 1.5, "dash": "dash"}, row=1, col=panel)
        row, position = np.nonzero(np.isin(codes, [1 + FATE_ORDER.index(fate) for fate in REJECTED]))
        figure.add_scatter(
            x=position,
            y=row + 1,
            mode="markers",
            showlegend=False,
            marker={"symbol": "x-thin", "size": size, "line": {"color": BLACK, "width": size / 4}},
            hovertemplate="position %{x}, forward pass %{y}: rejected<extra></extra>",
            row=1,
            col=panel,
        )
    for code in sorted(occurring):
        figure.add_trace(_key(FATE_ORDER[code - 1]), row=1, col=1)
    figure.update_xaxes(title_text="Position, in decoding order", showgrid=False, zeroline=False)
    for panel, trace in enumerate(drawn, start=1):
        figure.update_xaxes(range=[-0.5, canvas_size(trace.canvas) - 0.5], row=1, col=panel)
        figure.update_yaxes(range=[len(trace.steps) + 0.5, 0.5], row=1, col=panel)
    figure.update_yaxes(showgrid=False, zeroline=False)
    figure.update_yaxes(title_text="Forward pass", col=1)
    return figure.update_layout(height=560)


def _key(fate: Fate) -> go.Scatter:
    """Return a legend entry for a fate's cells; its own data is nothing."""
    rejected = fate in REJECTED
    return go.Scatter(
        x=[None],
        y=[None],
        mode="markers",
        name=f"{fate.value}: {fate.meaning}",
        marker={
            "color": fate_color(fate),
            "symbol": "square-x" if rejected else "square",
            "size": 11,
            "line": {"color": BLACK if rejected else WHITE, "width": 1 if rejected else 0},
        },
    )


CHURN = Figure(
    name="churn",
    title="Token churn: what became of every draft, pass by pass",
    caption=(
        "Each row is a forward pass, each column a position. Blue cells were accepted, and a crossed vermilion "
        "cell is the first rejection of its row. Drafts to the right of it wait for the next pass: grey ones "
        "stayed as they were, orange ones were replaced. Much orange means that later drafts keep losing the "
        "tokens that they were guessed from. Dashed lines stand where latent frames of a video end. All of it is "
        "read from what the trace says became of each draft."
    ),
    paper="SCD, section 3 (token changes between iterations)",
    supports=lambda traces: missing(traces, _has, "steps with positions") or too_many(traces, _has),
    drawing=_draw,
)
