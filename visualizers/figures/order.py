"""The order in which text becomes final: how close to left to right, how confident, how many at once."""

from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go

from draftscope.analysis.block_stats import decode_order, decoded_by_step, global_ar_ness, local_ar_ness
from draftscope.analysis.seeds import Estimate, over_runs
from draftscope.traces.replay import position_updates
from draftscope.traces.schema import FATES, Fate, Trace
from draftscope.visualizers.figure import Figure, Traces, group_runs, labels, with_count
from draftscope.visualizers.plot import (
    add_level_line,
    add_once,
    axes,
    curve,
    error_bars,
    fate_mark,
    in_panel,
    means,
    side_by_side,
)
from draftscope.visualizers.style import NEUTRAL, Look, series

REACHES: Final = (1, 2, 3, 4)
"""Values of k."""
BINS: Final = 20
"""Stages of a run over which confidence is averaged."""


def _text(trace: Trace) -> bool:
    return trace.canvas.kind == "text" and len(decode_order(trace.steps)) > max(REACHES)


@Figure(
    name="ar-ness",
    title="How close to left to right the text was decoded",
    paper="S2D2, Fig. 2, 5 and 6 (top; k = 2)",
    caption="Local @k is the share of tokens that end a run of k + 1 neighbouring positions decoded one after the "
    "other; global @k the share that were among the k leftmost open positions. Both are 1 for ordinary decoding. "
    "Tokens of one pass count in the order of their verdicts, or else by falling confidence. Error bars are one "
    "standard deviation.",
    accepts=_text,
    requirement="a text of more than a few tokens",
    limit="groups",
)
def _ar_ness(traces: Traces) -> go.Figure:
    figure = side_by_side(["Local: neighbours in a row", "Global: among the leftmost open"], shared_yaxes=True)
    for i, (name, runs) in enumerate(group_runs(traces).items()):
        orders = [decode_order(trace.steps) for trace in runs]
        for panel, measure in enumerate((local_ar_ness, global_ar_ness), start=1):
            mean, error = means([[measure(order, k) for order in orders] for k in REACHES])
            points, placement = (REACHES, mean), in_panel(panel, i)
            curve(figure, i, with_count(name, runs), points, "@%{x}: %{y:.3f}", **error_bars(error), **placement)
    add_level_line(figure, 1)
    return axes(figure, "Positions looked at, k", "Share left to right (AR-ness @k)", bounds=(0, 1.05)).update_xaxes(
        tickvals=REACHES
    )


@Figure(
    name="order",
    title="Which position became final when",
    paper="S2D2, Fig. 2 (AR-ness), token by token",
    caption="Each mark is a token that became final: when, where, and by which rule. A line that climbs token by token "
    "is left-to-right decoding; marks above each other became final in the same pass. Dotted lines are the borders of "
    "blocks.",
    accepts=_text,
    requirement="a text of more than a few tokens",
    limit="panels",
)
def _order(traces: Traces) -> go.Figure:
    figure = side_by_side(labels(traces), shared_yaxes=True, horizontal_spacing=0.05)
    for panel, trace in enumerate(traces, start=1):
        order = decode_order(trace.steps)
        size = max(4.0, min(9.0, 2080 / (len(order) * len(traces))))
        points: dict[Fate, list[tuple[float, float]]] = {}
        for number, step in enumerate(trace.steps, start=1):
            for position, outcome in position_updates(step).items():
                points.setdefault(outcome.fate, []).append((number, position + 1))
        for fate in (fate for fate in FATES if fate.final and fate in points):
            mark = fate_mark(fate, points[fate], size, "position %{y}, forward pass %{x}")
            add_once(figure, mark, row=1, col=panel)
        if (block := trace.canvas.block or 1) > 1:
            line = {"color": NEUTRAL, "dash": "dot", "width": 1}
            for border in range(block - trace.canvas.block_offset, max(order) + 1, block):
                figure.add_hline(y=border + 0.5, line=line, layer="below", row=1, col=panel)
    axes(figure, "Forward pass", "Position in the text", height=520)
    return figure.update_xaxes(rangemode="tozero").update_yaxes(rangemode="normal")


def along(trace: Trace) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return confidence and tokens, each by the share of the run's decoding steps before it."""
    steps = decoded_by_step(trace.steps)
    last = max(1, len(steps) - 1)
    sure = [(index / last, one.confidence) for index, one in enumerate(steps) if one.confidence is not None]
    return sure, [(index / last, float(one.tokens)) for index, one in enumerate(steps)]


def binned(runs: Sequence[Sequence[tuple[float, float]]]) -> dict[float, Estimate]:
    """Return the middles of `BINS` equal stages that hold a point of a run, and the mean over each."""
    stages: dict[int, list[list[float]]] = {}
    for run, points in enumerate(runs):
        for x, value in points:
            stages.setdefault(min(BINS - 1, int(x * BINS)), [[] for _ in runs])[run].append(value)
    return {(stage + 0.5) / BINS: over_runs(stages[stage]) for stage in sorted(stages)}


@Figure(
    name="confidence",
    title="Confidence and tokens per pass along decoding",
    paper="S2D2, Fig. 2, 5 and 6 (bottom)",
    caption="Means over 20 equal stages of the passes that made a token final, with standard errors over "
    "several runs. Confidence is the probability with which those tokens were chosen, of drafts by their own "
    "distribution; corrected draws have none.",
    accepts=lambda trace: _text(trace) and any(one.confidence is not None for one in decoded_by_step(trace.steps)),
    requirement="a text with the confidence of its tokens",
    limit="groups",
)
def _confidence(traces: Traces) -> go.Figure:
    figure = side_by_side(["Confidence of decoded tokens", "Tokens decoded at once"], horizontal_spacing=0.1)
    for i, (name, runs) in enumerate(group_runs(traces).items()):
        for part in (0, 1):
            stages = binned([along(run)[part] for run in runs])
            points = [100 * at for at in stages], [each.mean for each in stages.values()]
            look: Look = {"marker": series(i).marker(6), **in_panel(part + 1, i)}
            if len(runs) > 1:
                look |= error_bars([each.error or 0.0 for each in stages.values()])
            curve(figure, i, with_count(name, runs), points, "at %{x:.0f} %: %{y:.3~g}", **look)
    axes(figure, "Progress: share of decoding passes (%)", "Mean confidence", "Tokens per decoding pass")
    return figure.update_xaxes(range=[0, 100]).update_yaxes(range=[0, 1.03], col=1)
