"""What decoding costs: the race to the last token, time per stage, runs side by side."""

from typing import Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from traces.schema import Trace
from traces.stats import compare, latency_breakdown, race
from visualizers.figure import Figure, Traces, labels, missing, side_by_side
from visualizers.palette import BLUE, GREEN, VERMILLION
from visualizers.style import NEUTRAL, hatched, series

MOST_RUNS: Final = 12
"""Runs in one race or one comparison."""
STAGES: Final = {
    "prepare": "Prepare: drafts, masks, cache",
    "forward": "Forward: the network",
    "logits": "Logits: guidance, truncation, softmax",
    "decide": "Decide: draw, verify, keep",
}
"""Fields of `Milliseconds` in words."""
_COLORS: Final = (NEUTRAL, BLUE, VERMILLION, GREEN)
_PATTERNS: Final = ("/", "", ".", "x")
ROOM: Final = 1.75
"""Length of an axis over its longest bar, so that the number fits beside the bar."""


def _timed(trace: Trace) -> bool:
    return any(step.call.milliseconds.total > 0 for step in trace.steps)


def _ran(trace: Trace) -> bool:
    return bool(trace.steps)


def _few(traces: Traces) -> str | None:
    return f"draws up to {MOST_RUNS} runs, {len(traces)} given" if len(traces) > MOST_RUNS else None


def _race(traces: Traces, step: int | None) -> go.Figure:
    timed = any(map(_timed, traces))
    figure = side_by_side(
        ["By forward passes", "By time"] if timed else [""], shared_yaxes=True, horizontal_spacing=0.05
    )
    for i, (name, trace) in enumerate(zip(labels(traces), traces, strict=True)):
        run, look = race(trace.steps), series(i)
        clocks = [(run.forwards, "forward passes")] + ([(run.milliseconds, "ms")] if _timed(trace) else [])
        for panel, (clock, unit) in enumerate(clocks, start=1):
            shared = {"name": name, "legendgroup": str(i), "hovertemplate": "%{y} tokens after %{x:.4~g} " + unit}
            curve = {"x": clock, "y": run.tokens, "mode": "lines", "line": {**look.line, "shape": "hv"}}
            end = {"x": clock[-1:], "y": run.tokens[-1:], "mode": "markers", "showlegend": False}
            figure.add_scatter(**shared, **curve, showlegend=panel == 1, row=1, col=panel)
            figure.add_scatter(**shared, **end, marker=look.marker(10), row=1, col=panel)
    figure.update_xaxes(title_text="Forward passes", rangemode="tozero", col=1)
    if timed:
        figure.update_xaxes(title_text="Time (ms)", rangemode="tozero", col=2)
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title_text="Tokens decoded", col=1)
    return figure.update_layout(height=440, showlegend=True)


def _latency(traces: Traces, step: int | None) -> go.Figure:
    drawn = [trace for trace in traces if _timed(trace)]
    breakdowns = [{stage.name: stage for stage in latency_breakdown(trace.steps)} for trace in drawn]
    sums = [" + ".join(f"{row[name].mean_milliseconds:.2f}" for name in STAGES) + " ms" for row in breakdowns]
    names = [f"{name}<br>{figures}" for name, figures in zip(labels(drawn), sums, strict=True)]
    figure = go.Figure()
    for i, (stage, words) in enumerate(STAGES.items()):
        rows = [breakdown[stage] for breakdown in breakdowns]
        figure.add_bar(
            y=names,
            x=[row.mean_milliseconds for row in rows],
            customdata=[[row.median_milliseconds, row.share] for row in rows],
            orientation="h",
            name=words,
            marker={"color": _COLORS[i], "pattern": hatched(_PATTERNS[i])},
            hovertemplate="mean %{x:.3f} ms, median %{customdata[0]:.3f} ms, %{customdata[1]:.1%} of the time",
        )
    figure.update_xaxes(title_text="Mean time per forward pass (ms)")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_layout(legend_traceorder="normal", barmode="stack")
    return figure.update_layout(height=240 + 56 * len(drawn), showlegend=True)


def _comparison(traces: Traces, step: int | None) -> go.Figure:
    rows = compare(traces)
    names = labels(traces)
    heads = ("Forward passes", "Time (ms)", "Query tokens", "Drafts accepted (%)")
    figure = make_subplots(rows=1, cols=len(heads), shared_yaxes=True, horizontal_spacing=0.03)
    measured: list[list[tuple[float, float | None]]] = [
        [(row.trace.summary.forwards, row.forwards_ratio) for row in rows],
        [(1000 * row.trace.summary.seconds, row.time_ratio) for row in rows],
        [(row.trace.summary.query_tokens, row.query_tokens_ratio) for row in rows],
        [(100 * (row.trace.summary.acceptance or 0.0), None) for row in rows],
    ]
    for panel, (head, values) in enumerate(zip(heads, measured, strict=True), start=1):
        judged = [row.trace.summary.acceptance is not None for row in rows]
        figure.add_bar(
            y=names,
            x=[value for value, _ in values],
            text=[
                _said(value, ratio, panel < len(heads) or has)
                for (value, ratio), has in zip(values, judged, strict=True)
            ],
            textposition="outside",
            textfont={"size": 11},
            cliponaxis=False,
            orientation="h",
            showlegend=False,
            marker={"color": BLUE, "pattern": hatched(["/", *[""] * (len(rows) - 1)])},
            hovertemplate="%{y}: %{text}<extra></extra>",
            row=1,
            col=panel,
        )
        longest = max([value for value, _ in values] + [1.0])
        figure.update_xaxes(title_text=head, range=[0, ROOM * longest], nticks=4, row=1, col=panel)
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure.update_layout(height=220 + 44 * len(rows))


def _said(value: float, ratio: float | None, known: bool) -> str:
    if not known:
        return "no drafts"
    return f"{value:,.0f}" if ratio is None else f"{value:,.0f} ({ratio:.2f}×)"


RACE = Figure(
    name="race",
    title="The race to the last token",
    caption=(
        "How many tokens are final, by forward passes and by measured time, with one curve for every run. A curve "
        "jumps by as many tokens as a pass made final; ordinary decoding climbs one token at a time. A run can win "
        "in forward passes and lose in time, when its passes look at more tokens. A marker ends each curve."
    ),
    paper="SCD, Table 1 (NFE and latency), step by step",
    supports=lambda traces: missing(traces, _ran, "steps") or _few(traces),
    drawing=_race,
)

LATENCY = Figure(
    name="latency",
    title="Where the time of a forward pass goes",
    caption=(
        "Mean milliseconds of a forward pass, stage by stage, as they were measured in the run. Forward and logits "
        "are the model itself (logits are its scores for every possible token); what a method adds is in preparing "
        "and deciding. Times hold for the machine and the batch of the run only."
    ),
    paper="SCD, Table 4",
    supports=lambda traces: missing(traces, _timed, "measured times") or _few(traces),
    drawing=_latency,
)

COMPARISON = Figure(
    name="comparison",
    title="What each run cost",
    caption=(
        "Totals of each run. In brackets the gain over the first run (hatched): tokens per forward pass, per "
        "second and per query token, so more than 1× is better everywhere. Query tokens are the tokens fed to the "
        "network: speculation pays for fewer passes with more of them. Accepted drafts are counted up to the first "
        "rejection of each pass."
    ),
    paper="SCD, Tables 1 and 3",
    supports=lambda traces: (
        ("needs at least 2 runs" if len(traces) < 2 else None) or missing(traces, _ran, "steps") or _few(traces)
    ),
    drawing=_comparison,
)
