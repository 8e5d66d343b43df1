"""Which drafts changed and which stayed: every position in every forward pass."""

from typing import Final

import numpy as np
import plotly.graph_objects as go

from draftscope.traces.replay import canvas_size, position_updates
from draftscope.traces.schema import FATES, Trace
from draftscope.traces.video import frame_ends
from draftscope.visualizers.figure import MAX_FRAMES, Figure, Traces, labels
from draftscope.visualizers.palette import BLACK, REJECTED, WHITE
from draftscope.visualizers.plot import side_by_side
from draftscope.visualizers.style import NEUTRAL, Look, discrete_colorscale, fate_color

FATE_ORDER: Final = tuple(FATES)
CROSS_ROOM: Final = 860
"""Pixels that the crosses of a row share, so that they fit into their cells."""
ONE_SCALE: Final = 2
"""Times as many passes as the shortest run up to which the longest shares its scale."""
SMALL: Final = 90
"""Passes from which on a cell is too small to be seen alone."""


def churn(trace: Trace) -> np.ndarray:
    """Return the codes of the fates [steps, positions]: 1 for the first of `FATE_ORDER`, 0 where nothing happened."""
    codes = np.zeros((len(trace.steps), canvas_size(trace.canvas)), dtype=np.int8)
    for row, step in enumerate(trace.steps):
        for position, outcome in position_updates(step).items():
            codes[row, position] = 1 + FATE_ORDER.index(outcome.fate)
    return codes


@Figure(
    name="churn",
    title="Token churn: the outcome of every draft, pass by pass",
    paper="SCD, section 3 (token changes between iterations)",
    caption="A row is a forward pass, a column a position. Blue drafts were accepted, crossed vermilion ones rejected. "
    "Drafts to the right of a rejection wait for the next pass: grey ones stayed as they were, orange ones were "
    "replaced. Runs share one scale unless one takes more than twice the passes of another. Dashed lines end a video's "
    "latent frames.",
    accepts=lambda trace: any(step.position for step in trace.steps),
    requirement="steps with positions",
    limit="panels",
)
def _draw(traces: Traces) -> go.Figure:
    heads = [f"{label}: {len(trace.steps)} passes" for label, trace in zip(labels(traces), traces, strict=True)]
    figure = side_by_side(heads, horizontal_spacing=0.06)
    occurring: set[int] = set()
    for panel, trace in enumerate(traces, start=1):
        codes = churn(trace)
        occurring |= set(np.unique(codes).tolist()) - {0}
        _panel(figure, trace, codes, panel, len(traces))
    for fate in (FATE_ORDER[code - 1] for code in sorted(occurring)):
        symbol, color, width = ("square-x", BLACK, 1) if fate in REJECTED else ("square", WHITE, 0)
        marker = {"color": fate_color(fate), "symbol": symbol, "size": 11, "line": {"color": color, "width": width}}
        look: Look = {"mode": "markers", "marker": marker, "row": 1, "col": 1}
        figure.add_scatter(x=[None], y=[None], name=f"{fate.value}: {fate.meaning}", **look)
    figure.update_xaxes(title_text="Position, in decoding order", showgrid=False, zeroline=False)
    passes = [len(trace.steps) for trace in traces]
    one_scale = max(passes) <= ONE_SCALE * min(passes)  # then fewer passes are less tall
    for panel, count in enumerate(passes, start=1):
        figure.update_yaxes(range=[(max(passes) if one_scale else count) + 0.5, 0.5], row=1, col=panel)
    figure.update_yaxes(showgrid=False, zeroline=False)
    figure.update_yaxes(title_text="Forward pass", col=1)
    return figure.update_layout(height=560)


def _panel(figure: go.Figure, trace: Trace, codes: np.ndarray, panel: int, panels: int) -> None:
    where = {"row": 1, "col": panel}
    names = np.array(["", *(fate.value for fate in FATE_ORDER)])
    look: Look = {"zmin": -0.5, "zmax": len(FATE_ORDER) + 0.5, "showscale": False, "hoverinfo": "x+y+text"}
    look["colorscale"] = discrete_colorscale(["rgba(0,0,0,0)", *map(fate_color, FATE_ORDER)])
    figure.add_heatmap(z=codes, x0=1, y0=1, text=names[codes], **look, **where)
    if len(trace.steps) >= SMALL and np.count_nonzero(codes) <= 2 * len(trace.steps):
        row, position = np.nonzero(codes)
        colors = [fate_color(FATE_ORDER[code - 1]) for code in codes[row, position]]
        dot: Look = {"mode": "markers", "marker": {"symbol": "square", "size": 2, "color": colors}, "hoverinfo": "skip"}
        figure.add_scatter(x=position + 1, y=row + 1, showlegend=False, **dot, **where)
    ends = frame_ends(trace.canvas)
    for end in ends if len(ends) <= MAX_FRAMES else ():
        line = {"color": NEUTRAL, "width": 1, "dash": "dash"}
        figure.add_vline(x=end + 0.5, line=line, layer="below", **where)
    row, position = np.nonzero(np.isin(codes, [1 + FATE_ORDER.index(fate) for fate in REJECTED]))
    size = max(1.5, min(4.0, CROSS_ROOM / (codes.shape[1] * panels)))
    cross: Look = {"mode": "markers", "marker": {"symbol": "x-thin", "size": size}, "showlegend": False}
    cross["marker"]["line"] = {"color": BLACK, "width": size / 4}
    cross["hovertemplate"] = "position %{x}, forward pass %{y}: rejected<extra></extra>"
    figure.add_scatter(x=position + 1, y=row + 1, **cross, **where)
    figure.update_xaxes(range=[0.5, canvas_size(trace.canvas) + 0.5], **where)
