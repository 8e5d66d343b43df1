"""How distributions settle while drafts wait, and how often two successive draws agree, or could (SCD, section 3)."""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Final, NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from draftscope.analysis.seeds import over_runs
from draftscope.analysis.stats import agreement_by_position, agreements_of_ages, measured
from draftscope.traces.measures import MEASURES
from draftscope.traces.schema import Fate, Step, Trace
from draftscope.visualizers.figure import Figure, Traces, group_runs, with_count
from draftscope.visualizers.palette import BLACK, WHITE
from draftscope.visualizers.plot import axes, bars, curve, dots, error_bars, in_panel, means, side_by_side, thin_ticks
from draftscope.visualizers.style import NEUTRAL, Look, hatched, series, translucent

POSITIONS: Final = 6
"""Positions that are drawn one by one."""
MIN_AT_AN_AGE: Final = 5
"""Positions an age needs for its mean to be drawn."""

Trajectory = Sequence[tuple[int, float]]


def longest_waiting(trajectories: Mapping[int, Trajectory]) -> dict[int, Trajectory]:
    """Pick `POSITIONS` positions, spread over the canvas, among the third that waited longest."""
    longest = sorted(trajectories, key=lambda position: (-len(trajectories[position]), position))
    pool = sorted(longest[: max(POSITIONS, len(longest) // 3)])
    if len(pool) > POSITIONS:
        pool = [pool[i * (len(pool) - 1) // (POSITIONS - 1)] for i in range(POSITIONS)]
    return {position: trajectories[position] for position in pool}


@Figure(
    name="beta",
    title="How alike successive distributions are, by age",
    paper="SCD, Fig. 3",
    caption="β is the probability that a draft is accepted: 1 minus the total variation (TV) between the distribution "
    "it was drawn from and the new one. Some positions are single ones of the first run, among those that waited "
    "longest. Of all positions the means by age are shown, where at least 5 got that old, with standard errors: over "
    "runs, or over the positions of a single run. Old drafts are survivors, which nothing rejected before. Initial "
    "guesses are left out.",
    accepts=lambda trace: bool(agreement_by_position(trace.steps)),
    requirement="the measures `age` and `tv`",
    limit="groups",
)
def _beta(traces: Traces) -> go.Figure:
    groups = group_runs(traces)
    heads = [f"{name}: some positions" if len(groups) > 1 else "Some positions" for name in groups]
    figure = side_by_side([*heads, "All positions"], shared_yaxes=True, horizontal_spacing=0.04)
    oldest = 1
    for i, (name, runs) in enumerate(groups.items()):
        for k, (at, trajectory) in enumerate(longest_waiting(agreement_by_position(runs[0].steps)).items()):
            points = [age for age, _ in trajectory], [beta for _, beta in trajectory]
            thin: Look = {"showlegend": False, "line": {**series(k).line, "width": 1.5}, "row": 1, "col": i + 1}
            curve(figure, k, f"position {at + 1}", points, "age %{x}, β %{y:.3f}", marker=series(k).marker(5), **thin)
        ages = betas_by_age(runs)
        oldest = max(oldest, *ages)
        _draw_mean_by_age(figure, i, with_count(name, runs), ages, len(groups) + 1)
    axes(figure, "Age in the window (iterations)", "Overlap β, 1 – total variation", bounds=(0, 1.03), showlegend=None)
    return figure.update_xaxes(range=[0.6, oldest + 0.4], dtick=1 if oldest <= 12 else None)


def betas_by_age(runs: Traces) -> dict[int, list[list[float]]]:
    """Return β of the positions of every run, by age."""
    each = [agreements_of_ages(run.steps) for run in runs]
    return {age: [list(one.get(age, ())) for one in each] for age in sorted({age for one in each for age in one})}


def _draw_mean_by_age(
    figure: go.Figure, index: int, name: str, betas: Mapping[int, Sequence[Sequence[float]]], panel: int
) -> None:
    """Draw the mean over positions with a band of one standard error."""
    ages = [age for age, by_run in betas.items() if sum(map(len, by_run)) >= MIN_AT_AN_AGE]
    rows = [over_runs(betas[age]) for age in ages]
    low = [max(0.0, row.mean - (row.error or 0.0)) for row in rows]
    high = [min(1.0, row.mean + (row.error or 0.0)) for row in rows]
    placement: Look = {"legendgroup": name, "row": 1, "col": panel}
    band: Look = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
    band |= {"fill": "toself", "fillcolor": translucent(series(index).color, 0.18)}
    figure.add_scatter(x=ages + ages[::-1], y=high + low[::-1], **band, **placement)
    counts = [[row.error, sum(map(len, betas[age]))] for age, row in zip(ages, rows, strict=True)]
    hover = "age %{x}: mean β %{y:.3f}, standard error %{customdata[0]:.4f}, %{customdata[1]} positions"
    label = f"{name}, mean ± standard error"
    curve(figure, index, label, (ages, [row.mean for row in rows]), hover, customdata=counts, **placement)


LOOKS: Final = {"collision_independent": (0, ""), "collision_gumbel": (2, "."), "collision_maximal": (1, "/")}
"""Measure -> number of its curve, and pattern of its bars."""
MAX_POINTS: Final = 3000
BINS: Final = 20
DISTANCE_BINS: Final = 10
MIN_IN_A_BIN: Final = 10


class KeptShare(NamedTuple):
    """Drafts whose distribution moved by about the same total variation, and the share that stayed as it was."""

    tv: float
    share: float
    error: float
    """Standard error of the share, over runs where there are several."""
    drafts: int


_of_collisions = partial(
    Figure,
    accepts=lambda trace: bool(_recorded(trace)),
    requirement="total variation and collision probabilities",
    limit="groups",
)


def kept_by_distance(runs: Sequence[Sequence[Step]]) -> tuple[KeptShare, ...]:
    """Count, per bin of total variation, the pending drafts that stayed; bins with hardly any draft are left out."""
    binned: list[list[list[tuple[float, bool]]]] = [[[] for _ in runs] for _ in range(DISTANCE_BINS)]
    for run, steps in enumerate(runs):
        for step in steps:
            initial = step.numbers.get("initial", (None,) * len(step.fate))
            for fate, tv, guess in zip(step.fate, step.numbers.get("tv", ()), initial, strict=False):
                if tv is not None and not guess and fate in (Fate.KEPT, Fate.CHANGED):
                    binned[min(int(tv * DISTANCE_BINS), DISTANCE_BINS - 1)][run].append((tv, fate is Fate.KEPT))
    shares_of = []
    for here in binned:
        if (count := sum(map(len, here))) >= MIN_IN_A_BIN:
            share = over_runs([[float(stayed) for _, stayed in run] for run in here])
            shares_of.append(
                KeptShare(fmean(tv for run in here for tv, _ in run), share.mean, share.error or 0.0, count)
            )
    return tuple(shares_of)


def shares(values: Sequence[float], bins: int = BINS) -> tuple[float, ...]:
    """Return the share of values in each of `bins` equal bins of [0, 1], in per cent."""
    counts = [0] * bins
    for value in values:
        counts[min(int(value * bins), bins - 1)] += 1
    return tuple(100 * count / len(values) for count in counts)


def _recorded(*runs: Trace) -> tuple[str, ...]:
    return tuple(name for name in LOOKS if any(measured(trace.steps, "tv", name) for trace in runs))


@_of_collisions(
    name="collision",
    title="Agreement of successive draws by total variation",
    paper="SCD, Fig. 4 (c)",
    caption="Every draft of the window is drawn again in each iteration, from a distribution that moved by the total "
    "variation (TV) on the x axis. Points are probabilities of agreement, computed from the two distributions; stars "
    "are shares of pending drafts that stayed as they were, with standard errors. Initial guesses are left out.",
)
def _scatter(traces: Traces) -> go.Figure:
    groups = group_runs(traces)
    heads = [with_count(name, runs) for name, runs in groups.items()]
    figure = side_by_side(heads, shared_yaxes=True, horizontal_spacing=0.05)
    curve_tv = [i / 50 for i in range(51)]
    bounds = (
        ("1 – TV, the most any coupling allows", "dash", [1 - x for x in curve_tv]),
        ("(1 – TV) / (1 + TV), the least Gumbel sharing gives", "dot", [(1 - x) / (1 + x) for x in curve_tv]),
    )
    star = {"color": WHITE, "symbol": "star", "size": 13, "line": {"color": BLACK, "width": 1.5}}
    for panel, runs in enumerate(groups.values(), start=1):
        for number, name in enumerate(_recorded(*runs)):
            points = [point for trace in runs for point in measured(trace.steps, "tv", name)]
            tv, agreed = zip(*points[thin_ticks(points, MAX_POINTS)], strict=True)
            small: Look = {"marker": {**series(LOOKS[name][0]).marker(5), "opacity": 0.5}, **in_panel(panel, number)}
            dots(figure, 0, MEASURES[name].label, (tv, agreed), "TV %{x:.3f}<br>agree %{y:.3f}", **small)
        for number, (name, dash, y) in enumerate(bounds, start=len(LOOKS)):
            line: Look = {"mode": "lines", "line": {"color": NEUTRAL, "width": 2, "dash": dash}, "hoverinfo": "skip"}
            curve(figure, 0, name, (curve_tv, y), "", **line, **in_panel(panel, number))
        bins = kept_by_distance([trace.steps for trace in runs])
        stayed, counts = ([here.tv for here in bins], [here.share for here in bins]), [here.drafts for here in bins]
        hover = "TV %{x:.3f}<br>%{y:.0%} of %{customdata} drafts stayed<extra></extra>"
        look: Look = {"marker": star, "customdata": counts, **in_panel(panel, -1)}
        look |= error_bars([here.error for here in bins])
        dots(figure, 0, "Drafts that stayed", stayed, hover, **look)
    x, y_title = "Total variation between successive distributions", "Probability that two draws agree"
    return axes(figure, x, y_title, height=560, bounds=(-0.02, 1.02)).update_xaxes(range=[-0.02, 1.02])


@_of_collisions(
    name="collision-histogram",
    title="How likely successive draws are to agree",
    paper="SCD, Fig. 4 (a), (b)",
    caption="The probabilities that successive draws agree, over all verified and pending drafts: for independent "
    "draws, shared Gumbel noise and maximal coupling; means over runs with standard errors. Initial guesses are left "
    "out.",
)
def _histograms(traces: Traces) -> go.Figure:
    groups = group_runs(traces)
    names = _recorded(*traces)
    figure = make_subplots(
        rows=len(names),
        cols=len(groups),
        shared_xaxes=True,
        shared_yaxes=True,
        vertical_spacing=0.07,
        horizontal_spacing=0.04,
        column_titles=[with_count(name, runs) for name, runs in groups.items()] if len(groups) > 1 else None,
    )
    middles = [(i + 0.5) / BINS for i in range(BINS)]
    hover = "about %{x:.2f}: %{y:.1f} % of the drafts, mean of all %{customdata:.3f}"
    for row, name in enumerate(names, start=1):
        number, pattern = LOOKS[name]
        highest = 0.0
        for panel, runs in enumerate(groups.values(), start=1):
            if name in _recorded(*runs):
                each = [[value for (value,) in measured(trace.steps, name)] for trace in runs]
                mean = fmean(value for values in each for value in values)
                parts, error = means(list(zip(*(shares(values) for values in each if values), strict=True)))
                highest = max(highest, *(part + half for part, half in zip(parts, error, strict=True)))
                marker = {"color": series(number).color, "pattern": hatched(pattern)}
                look: Look = {"marker": marker, "customdata": [mean] * BINS, **error_bars(error)}
                look |= in_panel(panel, number) | {"row": row}
                bars(figure, number, MEASURES[name].label, (middles, parts), hover, **look)
        figure.update_yaxes(range=[0, 1.05 * highest], row=row)
    figure.update_xaxes(range=[0, 1])
    figure.update_xaxes(title_text="Probability that two draws agree", row=len(names))
    figure.update_yaxes(title_text="Drafts (%)", col=1)
    figure.update_annotations(font={"size": 13}, yshift=4)
    return figure.update_layout(height=560, bargap=0.1, margin={"t": 112 if len(groups) > 1 else 84})
