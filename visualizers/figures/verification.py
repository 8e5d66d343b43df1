"""Verification of drafts: ratios, distances, the two distributions, and the denoising paths of vectors."""

from collections.abc import Iterator
from math import exp
from statistics import fmean
from typing import Final, NamedTuple

import plotly.graph_objects as go

from draftscope.analysis.block_stats import by_draft_step
from draftscope.analysis.seeds import estimate
from draftscope.traces.measures import MEASURES
from draftscope.traces.schema import Fate, PathPair, Trace
from draftscope.visualizers.figure import Figure, Traces, group_runs, labels, panels_at, with_count
from draftscope.visualizers.plot import (
    add_level_line,
    axes,
    curve,
    dots,
    error_bars,
    in_panel,
    side_by_side,
    step_curve,
)
from draftscope.visualizers.style import NEUTRAL, Look, fate_marker, series

HIGHEST, LOWEST = 10.0, -30.0
"""Nats; ratios beyond are drawn at the edge."""
NAMES: Final = {Fate.ACCEPTED: "accepted", Fate.RESAMPLED: "rejected and replaced"}
COMPARED: Final = {
    "kl": "KL divergence (nats)",
    "cross_entropy": "Cross entropy (nats)",
    "agrees": "Top-1 agreement (%)",
}
"""Measures of a verified draft, and the axis of each."""


class Verdict(NamedTuple):
    """One verdict on a draft."""

    position: int
    fate: Fate
    value: float
    """The requested measure."""
    uniform: float | None
    tries: float | None


def judged(trace: Trace, measure: str) -> list[Verdict]:
    """Return the verdicts of a run whose drafts have a measure.

    Args:
        trace: Run.
        measure: Name of the measure in `Step.numbers`.
    """
    verdicts = []
    for step in trace.steps:
        empty = (None,) * len(step.position)
        columns = step.numbers.get(measure, empty), step.coin or empty, step.numbers.get("tries", empty)
        for position, fate, value, *columns_left in zip(step.position, step.fate, *columns, strict=True):
            if fate.judged and value is not None:
                verdicts.append(Verdict(position, fate, value, *columns_left))
    return verdicts


def _accepted_share(verdicts: list[Verdict]) -> float:
    return sum(one.fate is Fate.ACCEPTED for one in verdicts) / len(verdicts)


@Figure(
    name="ratios",
    title="The ratio by which every draft was verified",
    paper="CSpD, Table 6 (likelihood ratios), draft by draft",
    caption="How likely the target finds each verified draft over how likely the drafter did, as densities, on a "
    "logarithmic scale. Above 0 a draft is always accepted, below with the probability that is the ratio. Ratios "
    "beyond 10 and -30 are drawn at the edge.",
    accepts=lambda trace: bool(judged(trace, "log_ratio")),
    requirement="verified drafts with `log_ratio`",
    limit="panels",
)
def _ratios(traces: Traces) -> go.Figure:
    figure = side_by_side(labels(traces), horizontal_spacing=0.06, shared_yaxes=True)
    for panel, trace in enumerate(traces, start=1):
        verdicts = judged(trace, "log_ratio")
        for fate, name in NAMES.items():
            here = [one for one in verdicts if one.fate is fate]
            points = [one.position + 1 for one in here], [min(HIGHEST, max(LOWEST, one.value)) for one in here]
            hover = "position %{x}<br>log ratio %{customdata[0]:.3g}<br>drawn number %{customdata[1]:.3f}"
            hover += "<br>tries %{customdata[2]}<extra></extra>"
            look: Look = {"marker": fate_marker(fate, 8), **in_panel(panel, list(NAMES).index(fate))}
            look["customdata"] = [(one.value, one.uniform, one.tries) for one in here]
            dots(figure, 0, name, points, hover, **look)
        add_level_line(figure, 0, row=1, col=panel)
    return axes(figure, "Position", "Log ratio (nats)", bounds=(LOWEST - 1, HIGHEST + 1))


@Figure(
    name="distances",
    title="Distance of drafts from the target's token for the same noise",
    paper="CSpD, Table 4 (alignment), as a distribution",
    caption="Share of verified drafts within a squared distance of the token that the target would have sampled there. "
    "With aligned trajectories both start from the same noise, and more drafts are accepted.",
    accepts=lambda trace: bool(judged(trace, "distance_squared")),
    requirement="verified drafts with `distance_squared`",
    limit="groups",
)
def _distances(traces: Traces) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(group_runs(traces).items()):
        verdicts = [one for trace in runs for one in judged(trace, "distance_squared")]
        distances = sorted(one.value for one in verdicts)
        points = distances, [100 * (rank + 1) / len(distances) for rank in range(len(distances))]
        label = f"{name}: {100 * _accepted_share(verdicts):.0f} % accepted, mean {fmean(distances):.3g}"
        step_curve(figure, i, label, points, "%{y:.0f} % of drafts lie within %{x:.3g}<extra></extra>")
    axes(figure, "Squared distance of draft and target's token", "Share of verified drafts (%)", bounds=(0, 103))
    return figure.update_xaxes(type="log", exponentformat="power")


@Figure(
    name="ratio-means",
    title="Mean ratio of the verified drafts",
    paper="CSpD, Table 6 (likelihood ratios)",
    caption="Mean of the ratio by which drafts were verified, with its standard error, over the share accepted. A "
    "ratio of two densities is 1 on average (dotted), and other means show a bias. If the distributions hardly "
    "overlap, the mean depends on drafts too rare to occur and comes out low; if whole paths are verified, the ratio "
    "is capped at 1 on the way and its mean is below 1 by design.",
    accepts=lambda trace: len(judged(trace, "log_ratio")) > 1,
    requirement="several verified drafts with `log_ratio`",
    limit="groups",
)
def _ratio_means(traces: Traces) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(group_runs(traces).items()):
        verdicts = [one for run in runs for one in judged(run, "log_ratio")]
        ratio = estimate([exp(min(one.value, 700)) for one in verdicts])  # exp overflows beyond
        hover = f"mean ratio %{{y:.3f}} over {ratio.runs} drafts, %{{x:.1f}} % accepted<extra></extra>"
        points = [100 * _accepted_share(verdicts)], [ratio.mean]
        dots(figure, i, f"{name}: {ratio}", points, hover, **error_bars([ratio.error or 0.0]))
    add_level_line(figure, 1)
    axes(figure, "Verified drafts accepted (%)", "Mean acceptance ratio", height=460)
    return figure.update_xaxes(range=[0, 103])


@Figure(
    name="draft-steps",
    title="Draft and target distribution, draft by draft",
    paper="SimSD, Fig. 3 and 4",
    caption="By the draft's number in its verification: how far the drafting and the verifying distribution are apart "
    "(KL divergence), how unlikely the target finds it (cross entropy), and how often it is the target's most likely "
    "token. Means with standard errors.",
    accepts=lambda trace: bool(by_draft_step([trace.steps])),
    requirement="the measures `kl`, `cross_entropy` or `agrees`",
    limit="groups",
)
def _draft_steps(traces: Traces) -> go.Figure:
    groups = group_runs(traces)
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


MAX_PATHS: Final = 3
"""Drafts in a panel; more paths than that are a tangle."""


class Entry(NamedTuple):
    """A verified draft with its paths."""

    step: int
    """Counted from 1."""
    position: int
    fate: Fate
    pair: PathPair


def recorded(trace: Trace) -> Iterator[Entry]:
    """Yield the verified drafts of a run that have paths, in the order of their verdicts."""
    for number, step in enumerate(trace.steps, start=1):
        for position, fate, pair in zip(step.position, step.fate, step.paths or (), strict=False):
            if pair is not None:
                yield Entry(number, position, fate, pair)


def first_drafts(trace: Trace, step: int | None) -> list[Entry]:
    """Return the few drafts to draw.

    Args:
        trace: Run with recorded paths.
        step: Those from the last verification up to this pass on; None for those from the first rejection on.
    """
    entries = list(recorded(trace))
    if step is None:
        first = next((one.step for one in entries if one.fate is not Fate.ACCEPTED), entries[0].step)
    else:
        first = max((one.step for one in entries if one.step <= step), default=entries[0].step)
    return [one for one in entries if one.step >= first][:MAX_PATHS]


def _has(trace: Trace) -> bool:
    return next(recorded(trace), None) is not None


@Figure(
    name="trajectories",
    title="Denoising paths of draft and target",
    paper="CSpD, Fig. 4",
    caption="The first 3 drafts verified from a verification on, from noise (open mark) to token (square, triangle or "
    "cross): the target's path solid, the draft's dotted. With the same noise both start at one point. Two directions "
    "are shown, the same for every token and run.",
    accepts=_has,
    requirement="verified drafts with denoising `paths`",
    limit="panels",
    takes_step=True,
)
def _trajectories(traces: Traces, step: int | None) -> go.Figure:
    chosen = [first_drafts(trace, step) for trace in traces]
    figure, start = panels_at(traces, [drafts[0].step for drafts in chosen])
    positions = sorted({draft.position for drafts in chosen for draft in drafts})
    looks = {position: (series(i).color, _STARTS[i % len(_STARTS)]) for i, position in enumerate(positions)}
    for panel, drafts in enumerate(chosen, start=1):
        for draft in drafts:
            for path in ("target", "draft"):
                figure.add_trace(_path(draft, path, *looks[draft.position]), row=1, col=panel)
        figure.update_yaxes(scaleanchor=f"x{panel}" if panel > 1 else "x", row=1, col=panel)
    entries = [(f"position {at + 1}, start (x_T)", color, "", symbol) for at, (color, symbol) in looks.items()]
    for name, color, dash, symbol in (*entries, *((name, NEUTRAL, *look) for name, look in _LOOKS.items())):
        marker = {"color": color, "symbol": symbol, "size": 10, "line": {"width": 0 if dash else 2}}
        line, mode = {"color": color, "dash": dash or "solid", "width": 2}, "lines+markers" if dash else "markers"
        figure.add_scatter(x=[None], y=[None], name=name, mode=mode, line=line, marker=marker, hoverinfo="skip")
    axes(
        figure,
        "Component along (1, 1, 1 ...)",
        "Component along (1, -1, 1 ...)",
        height=600 if len(traces) == 1 else 520,
    )
    points = [point for drafts in chosen for draft in drafts for point in (*draft.pair.draft, *draft.pair.target)]
    for axis, update in enumerate((figure.update_xaxes, figure.update_yaxes)):
        low, high = min(point[axis] for point in points), max(point[axis] for point in points)
        margin = 0.06 * (high - low) + 0.01
        update(range=[low - margin, high + margin], rangemode="normal", zeroline=False, constrain="domain")
    if len(traces) == 1:
        figure.update_layout(title_text=f"Denoising paths of draft and target from {start} on")
    return figure


_LOOKS: Final = {
    "target": ("solid", "square"),
    "draft, accepted": ("dot", "triangle-up"),
    "draft, rejected": ("dot", "x"),
}
"""Style of every draft: dash of the line, mark of its end."""
_STARTS: Final = ("circle-open", "diamond-open", "pentagon-open", "hexagram-open", "square-open")


def _path(draft: Entry, path: str, color: str, start: str) -> go.Scatter:
    """Return one of the two paths of a draft in a colour, from a symbol of its own on."""
    verdict = "accepted" if draft.fate is Fate.ACCEPTED else "rejected"
    dash, end = _LOOKS["target" if path == "target" else f"draft, {verdict}"]
    points = draft.pair.target if path == "target" else draft.pair.draft
    last = len(points) - 1
    between = last - 1
    marker: Look = {"color": color, "opacity": 1, "symbol": [start, *["circle"] * between, end]}
    marker |= {"size": [12, *[3] * between, 11], "line": {"width": [2, *[0] * between, 1]}}
    return go.Scatter(
        x=[x for x, _ in points],
        y=[y for _, y in points],
        customdata=[[last - i, squared] for i, squared in enumerate(draft.pair.distance_squared)],
        mode="lines+markers",
        name=f"position {draft.position + 1}, {path}",
        showlegend=False,
        line={"color": color, "dash": dash, "width": 2},
        marker=marker,
        hovertemplate=f"position {draft.position + 1}, {path}<br>after step %{{pointNumber}}, x_%{{customdata[0]}}<br>"
        f"squared distance %{{customdata[1]:.3g}}<extra>{verdict}</extra>",
    )


@Figure(
    name="divergence",
    title="Distance of draft and target along denoising",
    paper="CSpD, Fig. 4 and Table 4 (distance), step by step",
    caption="Squared distance of the draft's state and the target's after each denoising step, over all components, as "
    "a mean over verified drafts. Aligned paths start at distance 0, which a logarithmic axis cannot show.",
    accepts=_has,
    requirement="verified drafts with denoising `paths`",
    limit="groups",
)
def _divergence(traces: Traces) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(group_runs(traces).items()):
        drafts = [one.pair.distance_squared for trace in runs for one in recorded(trace)]
        distances = [fmean(column) for column in zip(*drafts, strict=True)]  # at x_T ... x_0
        label = f"{name}: ends {distances[-1]:.3g} apart, {len(drafts)} drafts"
        points = list(range(len(distances))), [distance or None for distance in distances]  # 0 has no logarithm
        hover = "after step %{x}<br>mean squared distance %{y:.3g}<extra></extra>"
        curve(figure, i, label, points, hover, marker=series(i).marker(6))
    axes(figure, "Denoising step (0: noise)", "Mean squared distance")
    return figure.update_yaxes(type="log", exponentformat="power")
