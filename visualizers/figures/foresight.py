"""Drafts of later steps: how well one pass foresees the next, what each mechanism adds, and what depth is worth."""

from collections.abc import Callable
from typing import Final

import plotly.graph_objects as go

from traces.foresight import MECHANISMS, STAGES, contributions, forecasts, foresight
from traces.schema import Fate, Trace
from visualizers.figure import Figure, Traces, grouped, in_panel, missing, side_by_side
from visualizers.figures.by_setting import by_setting
from visualizers.style import NEUTRAL, fate_color, series
from visualizers.summary import mean_of, spread

SIZES: Final = (5, 7, 9)
"""Candidate sets, as in the paper."""
HORIZONS: Final = tuple(range(1, 9))
DEPTH: Final = "depth"
MOST_CURVES: Final = 6
FATES: Final = {
    "parallel": Fate.UNMASKED,
    "speculative": Fate.ACCEPTED,
    "corrected": Fate.RESAMPLED,
    "fallback": Fate.FALLBACK,
}
"""Whose colour a mechanism has."""
DASHES: Final = dict(zip(MECHANISMS, ("solid", "dash", "dashdot", "dot"), strict=True))


def _foresees(trace: Trace) -> bool:
    return trace.canvas.kind == "text" and any(len(one.candidates) >= SIZES[0] for one in forecasts(trace.steps))


def _speculates(trace: Trace) -> bool:
    return trace.canvas.kind == "text" and trace.canvas.block != 1 and bool(contributions([trace.steps]))


def _one_group(traces: Traces, has: Callable[[Trace], bool]) -> str | None:
    groups = len(grouped([trace for trace in traces if has(trace)]))
    return f"draws one group of runs, {groups} given" if groups > 1 else None


def _foresight(traces: Traces, step: int | None) -> go.Figure:
    found = foresight([trace.steps for trace in traces if _foresees(trace)], SIZES, HORIZONS)
    figure = side_by_side(["Coverage of what was decoded", "Precision of the candidates"], horizontal_spacing=0.1)
    for i, size in enumerate(SIZES):
        rows, look = [one for one in found if one.size == size], series(i)
        columns = [
            ([100 * one.coverage for one in rows], [100 * one.coverage_best for one in rows]),
            ([100 * one.precision for one in rows], [100 * one.precision_best for one in rows]),
        ]
        for panel, (measured, best) in enumerate(columns, start=1):
            where = {"x": [one.horizon for one in rows], "row": 1, "col": panel, "legendgroup": str(i)}
            figure.add_scatter(
                y=measured,
                mode="lines+markers",
                name=f"{size} candidates",
                showlegend=panel == 1,
                line={**look.line, "dash": "solid"},
                marker=look.marker(8),
                hovertemplate=f"{size} candidates, %{{x}} passes: %{{y:.1f}} %",
                **where,
            )
            figure.add_scatter(
                y=best,
                mode="lines+markers",
                name=f"{size} candidates, in hindsight",
                showlegend=panel == 1,
                line={"color": look.color, "dash": "dash", "width": 1.5},
                marker={**look.marker(6), "symbol": f"{look.symbol}-open"},
                hovertemplate=f"in hindsight, {size} candidates, %{{x}} passes: %{{y:.1f}} %",
                **where,
            )
    figure.update_xaxes(title_text="Passes ahead", dtick=1)
    figure.update_yaxes(range=[0, 103])
    figure.update_yaxes(title_text="Share of decoded positions (%)", row=1, col=1)
    figure.update_yaxes(title_text="Share of candidates (%)", row=1, col=2)
    return figure.update_layout(height=460, showlegend=True)


def _contributions(traces: Traces, step: int | None) -> go.Figure:
    found = contributions([trace.steps for trace in traces if _speculates(trace)])
    stages = [stage for stage in STAGES if any(one.stage == stage for one in found)]
    heads = [f"{stage.capitalize()} block" for stage in stages]
    figure = side_by_side(heads, horizontal_spacing=0.07, shared_yaxes=True)
    for panel, stage in enumerate(stages, start=1):
        for name in MECHANISMS:
            rows = [one for one in found if (one.stage, one.mechanism) == (stage, name)]
            if not rows:
                continue
            blocks, color = rows[0].blocks, fate_color(FATES[name])
            figure.add_scatter(
                x=[100 * one.progress for one in rows],
                y=[one.percent for one in rows],
                mode="lines+markers",
                name=name,
                legendgroup=name,
                showlegend=panel == 1,
                line={"color": color, "dash": DASHES[name], "width": 2},
                marker={"color": color, "size": 6},
                hovertemplate=f"{name} at %{{x:.0f}} %: %{{y:.1f}} % of the block, {blocks} blocks<extra></extra>",
                row=1,
                col=panel,
            )
    figure.update_xaxes(title_text="Progress: share of the block's passes (%)", range=[0, 100])
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title_text="Tokens (% of the block)", row=1, col=1)
    return figure.update_layout(height=440, showlegend=True)


def _depth(traces: Traces, step: int | None) -> go.Figure:
    figure = side_by_side(["Tokens per forward pass", "Query tokens per token"], horizontal_spacing=0.1)
    for i, (name, sweep) in enumerate(by_setting(traces, DEPTH).items()):
        look = series(i)
        for panel, value in enumerate((_speed, _price), start=1):
            means = [mean_of([value(run) for run in runs]) for runs in sweep.values()]
            figure.add_scatter(
                x=list(sweep),
                y=[mean.value for mean in means],
                error_y=spread(means),
                name=name,
                **look.curve(),
                hovertemplate="depth %{x}: %{y:.2f}",
                **in_panel(panel, i),
            )
    figure.update_xaxes(title_text="Depth of the drafts", dtick=1)
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title_text="Tokens per forward pass", row=1, col=1)
    figure.update_yaxes(title_text="Query tokens per token (less is better)", row=1, col=2)
    figure.add_hline(y=1, line={"color": NEUTRAL, "dash": "dot", "width": 1.5}, row=1, col=1)
    return figure.update_layout(height=440, showlegend=True)


def _speed(trace: Trace) -> float:
    return trace.summary.tokens_per_forward


def _price(trace: Trace) -> float:
    return trace.summary.query_tokens / max(1, trace.summary.tokens)


def _swept(traces: Traces) -> str | None:
    groups = len(by_setting(traces, DEPTH))
    if not groups:
        return "needs complete runs that differ in the setting `depth`"
    return f"draws up to {MOST_CURVES} curves, {groups} given" if groups > MOST_CURVES else None


FORESIGHT = Figure(
    name="foresight",
    title="How well one pass foresees the next ones",
    caption=(
        "After each pass, the most confident open positions are taken as candidates for what comes next. Coverage: of "
        "what the next passes made final, the share that was among them; it falls, since one fixed set has to answer "
        "for more and more. Precision: the share of candidates that were final by then; it rises. Dashed: the best "
        "set of that size, chosen in hindsight. Passes near the end of their block, and with too few candidates, are "
        "left out. Means over passes, then over runs."
    ),
    paper="PSD, Fig. 5",
    supports=lambda traces: (
        missing(traces, _foresees, "a text with ranked open positions") or _one_group(traces, _foresees)
    ),
    drawing=_foresight,
)

CONTRIBUTIONS = Figure(
    name="contributions",
    title="What each mechanism adds along a block",
    caption=(
        "Tokens that the policy revealed (parallel), that drafts of later steps added (speculative), that a verifier "
        "put in the place of a draft (corrected), and that were revealed for want of anything confident (fallback), "
        "along the passes over a block, in per cent of its positions per twentieth of its passes. Early is the first "
        "block, middle and late are others further on; of three or more, the one in which the text ended is left out. "
        "Means over runs."
    ),
    paper="PSD, Fig. 6",
    supports=lambda traces: (
        missing(traces, _speculates, "tokens revealed in blocks of several") or _one_group(traces, _speculates)
    ),
    drawing=_contributions,
)

DEPTH_SWEEP = Figure(
    name="depth",
    title="What deeper drafts are worth",
    caption=(
        "Left: tokens per forward pass by depth of the drafts; where the curve flattens, deeper drafts no longer hold. "
        "Right: what they cost, in tokens fed per token decoded, all rows counted: a pass over many rows is one pass, "
        "and not free. Means over runs that differ in seed or prompt alone, bars one standard deviation."
    ),
    paper="PSD, section 4.2",
    supports=_swept,
    drawing=_depth,
)
