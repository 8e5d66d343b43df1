"""Drafts of later steps: how well one pass predicts the next ones, and what each mechanism adds."""

from typing import Final

import plotly.graph_objects as go

from traces.foresight import MECHANISMS, STAGES, contributions, forecasts, foresight
from traces.schema import Fate
from visualizers.figure import Figure, Traces
from visualizers.plot import axes, curve, in_panel, side_by_side
from visualizers.style import Look, fate_color, series

SIZES: Final = (5, 7, 9)
"""Candidate sets, as in the paper."""
HORIZONS: Final = tuple(range(1, 9))
LOOKS: Final = {
    "parallel": (Fate.UNMASKED, "solid"),
    "speculative": (Fate.ACCEPTED, "dash"),
    "corrected": (Fate.RESAMPLED, "dashdot"),
    "fallback": (Fate.FALLBACK, "dot"),
}
"""Mechanism -> the fate whose colour it has, and its dash."""


@Figure(
    name="foresight",
    title="How well one pass predicts the next ones",
    paper="PSD, Fig. 5",
    caption="After each pass the most confident open positions are candidates. Coverage: the share of what the next "
    "passes made final that was among them. Precision: the share of candidates that were final by then. Dashed: the "
    "best set of that size, chosen in hindsight. Passes near the end of their block are left out.",
    needs=lambda trace: (
        trace.canvas.kind == "text" and any(len(one.candidates) >= SIZES[0] for one in forecasts(trace.steps))
    ),
    needed="a text with ranked open positions",
    at_most="one group",
)
def _foresight(traces: Traces) -> go.Figure:
    rows = foresight([trace.steps for trace in traces], SIZES, HORIZONS)
    figure = side_by_side(["Coverage of what was decoded", "Precision of the candidates"], horizontal_spacing=0.1)
    for i, size in enumerate(SIZES):
        here, look = [one for one in rows if one.size == size], series(i)
        horizons = [one.horizon for one in here]
        best: Look = {"line": {"color": look.color, "dash": "dash", "width": 1.5}}
        best["marker"] = {**look.marker(6), "symbol": f"{look.symbol}-open"}
        for panel, name in enumerate(("coverage", "precision"), start=1):
            words = f"{size} candidates"
            points = horizons, [100 * getattr(one, name) for one in here]
            solid: Look = {"line": {**look.line, "dash": "solid"}, **in_panel(panel, i)}
            curve(figure, i, words, points, f"{words}, %{{x}} passes: %{{y:.1f}} %", **solid)
            points = horizons, [100 * getattr(one, f"{name}_best") for one in here]
            words += ", in hindsight"
            curve(figure, i, words, points, f"{words}, %{{x}} passes: %{{y:.1f}} %", **best, **in_panel(panel, i))
    axes(figure, "Passes ahead", "Share of decoded positions (%)", "Share of candidates (%)", bounds=(0, 103))
    return figure.update_xaxes(dtick=1)


@Figure(
    name="contributions",
    title="What each mechanism adds along a block",
    paper="PSD, Fig. 6",
    caption="Tokens that the policy revealed (parallel), that drafts of later steps added (speculative), that a "
    "verifier drew in place of a draft (corrected), and that were revealed although nothing was confident (fallback), "
    "in per cent of the block's positions for each twentieth of its passes. Of three or more blocks, the one in which "
    "the text ended is left out.",
    needs=lambda trace: trace.canvas.kind == "text" and trace.canvas.block != 1 and bool(contributions([trace.steps])),
    needed="tokens revealed in blocks of several",
    at_most="one group",
)
def _contributions(traces: Traces) -> go.Figure:
    rows = contributions([trace.steps for trace in traces])
    stages = [stage for stage in STAGES if any(one.stage == stage for one in rows)]
    heads = [f"{stage.capitalize()} block" for stage in stages]
    figure = side_by_side(heads, horizontal_spacing=0.07, shared_yaxes=True)
    for panel, stage in enumerate(stages, start=1):
        for i, name in enumerate(MECHANISMS):
            here = [one for one in rows if (one.stage, one.mechanism) == (stage, name)]
            if not here:
                continue
            fate, dash = LOOKS[name]
            color = fate_color(fate)
            look: Look = {"line": {"color": color, "dash": dash, "width": 2}, "marker": {"color": color, "size": 6}}
            points = [100 * one.progress for one in here], [one.percent for one in here]
            hover = f"{name} at %{{x:.0f}} %: %{{y:.1f}} % of the block, {here[0].blocks} blocks<extra></extra>"
            curve(figure, i, name, points, hover, **look, **in_panel(panel, i))
    axes(figure, "Progress: share of the block's passes (%)", "Tokens (% of the block)")
    return figure.update_xaxes(range=[0, 100])
