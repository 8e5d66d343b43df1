"""The order in which text becomes final: how close to left to right, how surely, how many at once."""

from collections.abc import Sequence
from statistics import fmean
from typing import Final

import plotly.graph_objects as go

from traces.replay import outcomes
from traces.schema import FATES, Trace
from traces.text_stats import decode_order, decoded_by_step, global_ar_ness, local_ar_ness
from visualizers.figure import Figure, Traces, grouped, in_panel, labels, missing, side_by_side, too_many
from visualizers.style import NEUTRAL, fate_marker, series
from visualizers.summary import mean_of, spread

REACHES: Final = (1, 2, 3, 4)
"""Values of k."""
BINS: Final = 20
"""Stages of a run over which confidence is averaged."""
MOST_GROUPS: Final = 6


def _text(trace: Trace) -> bool:
    return trace.canvas.kind == "text" and len(decode_order(trace.steps)) > max(REACHES)


def _few(traces: Traces) -> str | None:
    groups = len(grouped([trace for trace in traces if _text(trace)]))
    return f"draws up to {MOST_GROUPS} groups of runs, {groups} given" if groups > MOST_GROUPS else None


def _ar_ness(traces: Traces, step: int | None) -> go.Figure:
    figure = side_by_side(["Local: neighbours in a row", "Global: among the leftmost open"], shared_yaxes=True)
    for i, (name, runs) in enumerate(grouped([trace for trace in traces if _text(trace)]).items()):
        orders = [decode_order(trace.steps) for trace in runs]
        look = series(i)
        for panel, measure in enumerate((local_ar_ness, global_ar_ness), start=1):
            means = [mean_of([measure(order, k) for order in orders]) for k in REACHES]
            figure.add_scatter(
                x=REACHES,
                y=[mean.value for mean in means],
                error_y=spread(means),
                name=name if len(runs) == 1 else f"{name}, {len(runs)} runs",
                **look.curve(),
                hovertemplate="@%{x}: %{y:.3f}",
                **in_panel(panel, i),
            )
    for panel in (1, 2):
        figure.add_hline(y=1, line={"color": NEUTRAL, "dash": "dot", "width": 1.5}, row=1, col=panel)
    figure.update_xaxes(title_text="k", tickvals=REACHES)
    figure.update_yaxes(range=[0, 1.05])
    figure.update_yaxes(title_text="AR-ness @k", col=1)
    return figure.update_layout(height=440, showlegend=True)


def _order(traces: Traces, step: int | None) -> go.Figure:
    drawn = [trace for trace in traces if _text(trace)]
    figure = side_by_side(labels(drawn), shared_yaxes=True, horizontal_spacing=0.05)
    named: set[str] = set()
    for panel, trace in enumerate(drawn, start=1):
        size = max(4.0, min(9.0, 520 / (len(decode_order(trace.steps)) * len(drawn)) * 4))
        for mark in _final_tokens(trace, size):
            mark.update(showlegend=mark.name not in named)
            named.add(mark.name)
            figure.add_trace(mark, row=1, col=panel)
        block = trace.canvas.block
        last = max(decode_order(trace.steps))
        first = (block or 1) - trace.canvas.block_offset
        for border in range(first, last + 1, block) if block else ():
            line = {"color": NEUTRAL, "dash": "dot", "width": 1}
            figure.add_hline(y=border - 0.5, line=line, layer="below", row=1, col=panel)
    figure.update_xaxes(title_text="Forward pass", rangemode="tozero")
    figure.update_yaxes(title_text="Position in the text", col=1)
    return figure.update_layout(height=520, showlegend=True)


def _final_tokens(trace: Trace, size: float) -> list[go.Scatter]:
    """Return a mark for every token where and when it became final, fate by fate."""
    marks = []
    for fate in FATES:
        if not fate.final:
            continue
        here = [
            (number, position)
            for number, step in enumerate(trace.steps, start=1)
            for position, outcome in outcomes(step).items()
            if outcome.fate is fate
        ]
        if here:
            marks.append(
                go.Scatter(
                    x=[number for number, _ in here],
                    y=[position for _, position in here],
                    mode="markers",
                    name=f"{fate.value}: {fate.meaning}",
                    legendgroup=fate.value,
                    marker=fate_marker(fate, size),
                    hovertemplate="position %{y}, forward pass %{x}<extra>" + fate.value + "</extra>",
                )
            )
    return marks


def _sure(trace: Trace) -> bool:
    return _text(trace) and any(one.confidence is not None for one in decoded_by_step(trace.steps))


def along(trace: Trace) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return confidence and tokens, each with the share of the run's decoding steps at which it stands."""
    found = decoded_by_step(trace.steps)
    last = max(1, len(found) - 1)
    sure = [(place / last, one.confidence) for place, one in enumerate(found) if one.confidence is not None]
    return sure, [(place / last, float(one.tokens)) for place, one in enumerate(found)]


def binned(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return the middles of `BINS` equal stages that hold a point, and the mean over each."""
    stages: dict[int, list[float]] = {}
    for place, value in points:
        stages.setdefault(min(BINS - 1, int(place * BINS)), []).append(value)
    return [(stage + 0.5) / BINS for stage in sorted(stages)], [fmean(stages[stage]) for stage in sorted(stages)]


def _confidence(traces: Traces, step: int | None) -> go.Figure:
    figure = side_by_side(["Confidence of decoded tokens", "Tokens decoded at once"], horizontal_spacing=0.1)
    for i, (name, runs) in enumerate(grouped([trace for trace in traces if _sure(trace)]).items()):
        look = series(i)
        curves = [[point for run in runs for point in along(run)[panel]] for panel in (0, 1)]
        for panel, points in enumerate(curves, start=1):
            x, y = binned(points)
            figure.add_scatter(
                x=[100 * place for place in x],
                y=y,
                name=name if len(runs) == 1 else f"{name}, {len(runs)} runs",
                **look.curve(6),
                hovertemplate="at %{x:.0f} %: %{y:.3~g}",
                **in_panel(panel, i),
            )
    figure.update_xaxes(title_text="Progress: share of decoding passes (%)", range=[0, 100])
    figure.update_yaxes(title_text="Mean confidence", range=[0, 1.03], row=1, col=1)
    figure.update_yaxes(title_text="Tokens per decoding pass", rangemode="tozero", row=1, col=2)
    return figure.update_layout(height=440, showlegend=True)


AR_NESS = Figure(
    name="ar-ness",
    title="How close to left to right the text was decoded",
    caption=(
        "Local @k is the share of tokens that end a run of k + 1 neighbouring positions decoded one after the other; "
        "global @k the share that were among the k leftmost open positions when they were decoded. Both are 1 for "
        "ordinary decoding. Tokens of one pass count in the order of their verdicts, or else by falling "
        "confidence. Means over runs that differ in seed or prompt alone, error bars one standard deviation."
    ),
    paper="S2D2, Fig. 2, 5 and 6 (top; k = 2)",
    supports=lambda traces: missing(traces, _text, "a text of more than a few tokens") or _few(traces),
    drawing=_ar_ness,
)

ORDER = Figure(
    name="order",
    title="Which position became final when",
    caption=(
        "Each mark is a token that became final: when, where, and by which rule. A line that climbs token by token "
        "is left-to-right decoding; marks above each other became final in the same pass; a mark that hangs below "
        "later ones was left open for a while. Dotted lines are the borders of blocks. All of it is read from what "
        "the trace says became of each token."
    ),
    paper="S2D2, Fig. 2 (AR-ness), token by token",
    supports=lambda traces: missing(traces, _text, "a text of more than a few tokens") or too_many(traces, _text),
    drawing=_order,
)

CONFIDENCE = Figure(
    name="confidence",
    title="Confidence and tokens per pass along decoding",
    caption=(
        f"Means over {BINS} equal stages of the passes that made a token final. Left: the probability with which "
        "those tokens were chosen, drafts by their own distribution; corrected draws have none and are left out. "
        "Right: how "
        "many became final at once. Runs that differ in seed or prompt alone are taken together."
    ),
    paper="S2D2, Fig. 2, 5 and 6 (bottom)",
    supports=lambda traces: missing(traces, _sure, "a text with the confidence of its tokens") or _few(traces),
    drawing=_confidence,
)
