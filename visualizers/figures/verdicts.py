"""What verification makes of drafts: how many pass, and how far the two distributions are apart along the draft."""

from collections import Counter
from statistics import fmean
from typing import Final

import plotly.graph_objects as go

from traces.measures import MEASURES
from traces.schema import Trace
from traces.text_stats import by_draft_step, verifications
from visualizers.figure import Figure, Traces, grouped, in_panel, missing, side_by_side
from visualizers.style import hatched, series

MOST_GROUPS: Final = 6
COMPARED: Final = {
    "kl": "KL divergence (nats)",
    "cross_entropy": "Cross entropy (nats)",
    "agrees": "Top-1 agreement (%)",
}
"""Measures of a judged draft, and the axis of each."""
PATTERNS: Final = ("", "/", ".", "x", "\\", "+")


def _judged(trace: Trace) -> bool:
    return bool(verifications(trace.steps))


def _compared(trace: Trace) -> bool:
    return bool(by_draft_step([trace.steps]))


def _few(traces: Traces) -> str | None:
    groups = len(grouped(traces))
    return f"draws up to {MOST_GROUPS} groups of runs, {groups} given" if groups > MOST_GROUPS else None


def _accepted(traces: Traces, step: int | None) -> go.Figure:
    figure = go.Figure()
    longest = 0
    for i, (name, runs) in enumerate(grouped([trace for trace in traces if _judged(trace)]).items()):
        found = [one for trace in runs for one in verifications(trace.steps)]
        counts = Counter(one.accepted for one in found)
        longest = max(longest, *(one.accepted for one in found))
        mean = fmean(one.accepted for one in found)
        heights = [100 * counts[accepted] / len(found) for accepted in range(max(counts) + 1)]
        figure.add_bar(
            x=list(range(max(counts) + 1)),
            y=heights,
            customdata=[counts[accepted] for accepted in range(max(counts) + 1)],
            name=f"{name}: {mean:.2f} of {fmean(one.drafts for one in found):.2f} pass",
            marker={"color": series(i).color, "pattern": hatched(PATTERNS[i])},
            hovertemplate="%{x} accepted: %{y:.1f} % of verifications (%{customdata})<extra></extra>",
        )
    figure.update_xaxes(title_text="Drafts accepted in a verification", range=[-0.6, longest + 0.6])
    if longest <= 16:
        figure.update_xaxes(dtick=1)
    figure.update_yaxes(title_text="Share of verifications (%)", rangemode="tozero")
    return figure.update_layout(height=440, showlegend=True, barmode="group")


def _by_step(traces: Traces, step: int | None) -> go.Figure:
    groups = grouped([trace for trace in traces if _compared(trace)])
    rows = {name: by_draft_step([trace.steps for trace in runs]) for name, runs in groups.items()}
    shown = [measure for measure in COMPARED if any(measure in row.means for found in rows.values() for row in found)]
    figure = side_by_side([MEASURES[measure].label for measure in shown], horizontal_spacing=0.09)
    for i, (name, found) in enumerate(rows.items()):
        look = series(i)
        for panel, measure in enumerate(shown, start=1):
            scale = 100 if measure == "agrees" else 1
            here = [row for row in found if measure in row.means]
            figure.add_scatter(
                x=[row.order for row in here],
                y=[scale * row.means[measure] for row in here],
                error_y={"array": [scale * row.errors[measure] for row in here], "thickness": 1.2},
                customdata=[row.count for row in here],
                name=name if len(groups[name]) == 1 else f"{name}, {len(groups[name])} runs",
                **look.curve(8),
                hovertemplate="draft %{x}: %{y:.3f}, %{customdata} verifications",
                **in_panel(panel, i),
            )
    for panel, measure in enumerate(shown, start=1):
        bounds = {"range": [0, 103]} if measure == "agrees" else {"rangemode": "tozero"}
        figure.update_yaxes(title_text=COMPARED[measure], **bounds, row=1, col=panel)
    figure.update_xaxes(title_text="Draft, in the order made")
    if max(row.order for found in rows.values() for row in found) <= 12:
        figure.update_xaxes(dtick=1)
    return figure.update_layout(height=440, showlegend=True)


ACCEPTED = Figure(
    name="accepted-drafts",
    title="Drafts accepted in a verification",
    caption=(
        "How often a verification passed how many drafts, before the first rejection, as a share of the passes that "
        "judged drafts. The legend says how many passed on average, out of the drafts put to the test. A peak at 0 is "
        "verification for nothing; a peak at the right end says that longer drafts would pay. Runs that differ in "
        "seed or prompt alone are taken together."
    ),
    paper="SimSD, Table 3 (acceptance), as a distribution",
    supports=lambda traces: missing(traces, _judged, "judged drafts") or _few(traces),
    drawing=_accepted,
)

DRAFT_STEPS = Figure(
    name="draft-steps",
    title="Drafting distribution against judging distribution, draft by draft",
    caption=(
        "Each draft is drawn from one distribution and judged by another. By the draft's number in its "
        "verification: how far these two are apart (Kullback-Leibler divergence, 0 where they are equal), how "
        "little the judge expected the draft (cross entropy), and how often the draft is the judge's likeliest "
        "token. Curves that get worse to the right say that later drafts rest on more guesses. Means with standard "
        "errors, over runs that differ in seed or prompt alone."
    ),
    paper="SimSD, Fig. 3 and 4",
    supports=lambda traces: (
        missing(traces, _compared, "the measures `kl`, `cross_entropy` or `agrees`") or _few(traces)
    ),
    drawing=_by_step,
)
