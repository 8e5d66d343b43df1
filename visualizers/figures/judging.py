"""What drafts were judged by: ratios, distances, and how far the two distributions are apart."""

from math import exp
from statistics import fmean
from typing import Final, NamedTuple

import plotly.graph_objects as go

from traces.measures import MEASURES
from traces.pairing import estimate
from traces.schema import Fate, Trace
from traces.text_stats import by_draft_step
from visualizers.figure import Figure, Traces, grouped, labels, with_count
from visualizers.plot import axes, curve, dots, error_bars, guide, in_panel, side_by_side
from visualizers.style import Look, fate_marker, series

HIGHEST, LOWEST = 10.0, -30.0
"""Nats; ratios beyond are drawn at the edge."""
NAMES: Final = {Fate.ACCEPTED: "accepted", Fate.RESAMPLED: "rejected and replaced"}
COMPARED: Final = {
    "kl": "KL divergence (nats)",
    "cross_entropy": "Cross entropy (nats)",
    "agrees": "Top-1 agreement (%)",
}
"""Measures of a judged draft, and the axis of each."""


class Verdict(NamedTuple):
    """One verdict on a draft."""

    position: int
    fate: Fate
    value: float
    """The measure that was asked for."""
    uniform: float | None
    tries: float | None


def judged(trace: Trace, measure: str) -> list[Verdict]:
    """Return the verdicts of a run whose drafts have a measure."""
    verdicts = []
    for step in trace.steps:
        empty = (None,) * len(step.position)
        columns = step.numbers.get(measure, empty), step.coin or empty, step.numbers.get("tries", empty)
        for position, fate, value, *rest in zip(step.position, step.fate, *columns, strict=True):
            if fate.judged and value is not None:
                verdicts.append(Verdict(position, fate, value, *rest))
    return verdicts


def _accepted_share(verdicts: list[Verdict]) -> float:
    return sum(one.fate is Fate.ACCEPTED for one in verdicts) / len(verdicts)


@Figure(
    name="ratios",
    title="The ratio every draft was judged by",
    paper="CSpD, Table 6 (likelihood ratios), draft by draft",
    caption="How likely the target finds each judged draft over how likely the drafter did, as densities, on a "
    "logarithmic scale. Above 0 a draft is always accepted, below with the probability that is the ratio. Ratios "
    "beyond 10 and -30 are drawn at the edge.",
    needs=lambda trace: bool(judged(trace, "log_ratio")),
    needed="judged drafts with `log_ratio`",
    at_most="panels",
)
def _ratios(traces: Traces) -> go.Figure:
    figure = side_by_side(labels(traces), horizontal_spacing=0.06, shared_yaxes=True)
    for panel, trace in enumerate(traces, start=1):
        verdicts = judged(trace, "log_ratio")
        for fate, name in NAMES.items():
            here = [one for one in verdicts if one.fate is fate]
            points = [one.position for one in here], [min(HIGHEST, max(LOWEST, one.value)) for one in here]
            hover = "position %{x}<br>log ratio %{customdata[0]:.3g}<br>drawn number %{customdata[1]:.3f}"
            hover += "<br>tries %{customdata[2]}<extra></extra>"
            look: Look = {"marker": fate_marker(fate, 8), **in_panel(panel, list(NAMES).index(fate))}
            look["customdata"] = [(one.value, one.uniform, one.tries) for one in here]
            dots(figure, 0, name, points, hover, **look)
        guide(figure, 0, row=1, col=panel)
    return axes(figure, "Position", "Log ratio (nats)", bounds=(LOWEST - 1, HIGHEST + 1))


@Figure(
    name="distances",
    title="Distance of drafts from the target's token for the same noise",
    paper="CSpD, Table 4 (alignment), as a distribution",
    caption="Share of judged drafts within a squared distance of the token that the target would have drawn there. "
    "With aligned trajectories both start from the same noise, and more drafts are accepted.",
    needs=lambda trace: bool(judged(trace, "distance_squared")),
    needed="judged drafts with `distance_squared`",
    at_most="groups",
)
def _distances(traces: Traces) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(grouped(traces).items()):
        verdicts = [one for trace in runs for one in judged(trace, "distance_squared")]
        distances = sorted(one.value for one in verdicts)
        points = distances, [100 * (rank + 1) / len(distances) for rank in range(len(distances))]
        label = f"{name}: {100 * _accepted_share(verdicts):.0f} % accepted, mean {fmean(distances):.3g}"
        steps: Look = {"mode": "lines", "line": {**series(i).line, "shape": "hv"}}
        curve(figure, i, label, points, "%{y:.0f} % of drafts lie within %{x:.3g}<extra></extra>", **steps)
    axes(figure, "Squared distance of draft and target's token", "Share of judged drafts (%)", bounds=(0, 103))
    return figure.update_xaxes(type="log")


@Figure(
    name="ratio-means",
    title="Mean ratio of the judged drafts",
    paper="CSpD, Table 6 (likelihood ratios)",
    caption="Mean of the ratio that drafts were judged by, with its standard error, over the share accepted. A ratio "
    "of two densities is 1 on average (dotted), and other means show a bias. Where the distributions hardly overlap, "
    "the mean rests on drafts too rare to be seen and comes out low; where whole paths are judged, the ratio is cut at "
    "1 on the way and its mean is below 1 by design.",
    needs=lambda trace: len(judged(trace, "log_ratio")) > 1,
    needed="several judged drafts with `log_ratio`",
    at_most="groups",
)
def _ratio_means(traces: Traces) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(grouped(traces).items()):
        verdicts = [one for run in runs for one in judged(run, "log_ratio")]
        ratio = estimate([exp(min(one.value, 700)) for one in verdicts])  # exp overflows beyond
        hover = f"mean ratio %{{y:.3f}} over {ratio.runs} drafts, %{{x:.1f}} % accepted<extra></extra>"
        points = [100 * _accepted_share(verdicts)], [ratio.mean]
        dots(figure, i, f"{name}: {ratio}", points, hover, **error_bars([ratio.error or 0.0]))
    guide(figure, 1)
    axes(figure, "Judged drafts accepted (%)", "Mean ratio", height=460)
    return figure.update_xaxes(range=[0, 103])


@Figure(
    name="draft-steps",
    title="Draft and target distribution, draft by draft",
    paper="SimSD, Fig. 3 and 4",
    caption="By the draft's number in its verification: how far the distribution it was drawn from and the one that "
    "judged it are apart (KL divergence), how little the judge expected it (cross entropy), and how often it is the "
    "judge's likeliest token. Means with standard errors.",
    needs=lambda trace: bool(by_draft_step([trace.steps])),
    needed="the measures `kl`, `cross_entropy` or `agrees`",
    at_most="groups",
)
def _draft_steps(traces: Traces) -> go.Figure:
    groups = grouped(traces)
    rows = {name: by_draft_step([trace.steps for trace in runs]) for name, runs in groups.items()}
    recorded = {measure for each in rows.values() for row in each for measure in row.means}
    drawn = [measure for measure in COMPARED if measure in recorded]
    figure = side_by_side([MEASURES[measure].label for measure in drawn], horizontal_spacing=0.09)
    for i, (name, each) in enumerate(rows.items()):
        for panel, measure in enumerate(drawn, start=1):
            scale = 100 if measure == "agrees" else 1
            here = [row for row in each if measure in row.means]
            points = [row.order for row in here], [scale * row.means[measure] for row in here]
            more = {"customdata": [row.count for row in here], **in_panel(panel, i)}
            error = [scale * row.errors[measure] for row in here]
            hover = "draft %{x}: %{y:.3f}, %{customdata} verifications"
            curve(figure, i, with_count(name, groups[name]), points, hover, **error_bars(error), **more)
    axes(figure, "Draft, in the order made", *(COMPARED[measure] for measure in drawn))
    if "agrees" in drawn:
        figure.update_yaxes(range=[0, 103], col=drawn.index("agrees") + 1)
    longest = max(row.order for each in rows.values() for row in each)
    return figure.update_xaxes(dtick=1 if longest <= 12 else None)
