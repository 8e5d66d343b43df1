"""How often two successive draws agree, and how often they could (SCD, section 3.1 and Fig. 4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from traces.measures import MEASURES
from traces.schema import Fate, Step, Trace
from traces.stats import measured
from visualizers.figure import Figure, Traces, labels, missing, side_by_side, thinned, too_many
from visualizers.palette import BLACK, WHITE
from visualizers.style import NEUTRAL, Series, hatched, series

COLLISIONS: Final = ("collision_independent", "collision_gumbel", "collision_maximal")
MOST_POINTS: Final = 3000
BINS: Final = 20
DISTANCE_BINS: Final = 10
FEWEST_IN_A_BIN: Final = 10


@dataclass(frozen=True, slots=True)
class Kept:
    """Drafts whose distribution moved by about the same total variation, and the share that stayed as it was."""

    tv: float
    share: float
    drafts: int


def kept_by_distance(steps: Sequence[Step], bins: int = DISTANCE_BINS) -> tuple[Kept, ...]:
    """Count, per bin of total variation, the pending drafts that stayed; bins with hardly any draft are left out."""
    found: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for step in steps:
        initial = step.numbers.get("initial", (None,) * len(step.fate))
        for fate, tv, guess in zip(step.fate, step.numbers.get("tv", ()), initial, strict=False):
            if tv is not None and not guess and fate in (Fate.KEPT, Fate.CHANGED):
                found[min(int(tv * bins), bins - 1)].append((tv, fate is Fate.KEPT))
    return tuple(
        Kept(sum(tv for tv, _ in here) / len(here), sum(kept for _, kept in here) / len(here), len(here))
        for here in found
        if len(here) >= FEWEST_IN_A_BIN
    )


def shares(values: Sequence[float], bins: int = BINS) -> tuple[float, ...]:
    """Return the share of values in each of `bins` equal bins of [0, 1], in per cent."""
    counts = [0] * bins
    for value in values:
        counts[min(int(value * bins), bins - 1)] += 1
    return tuple(100 * count / len(values) for count in counts)


def _recorded(trace: Trace) -> tuple[str, ...]:
    return tuple(name for name in COLLISIONS if measured(trace.steps, "tv", name))


def _has(trace: Trace) -> bool:
    return bool(_recorded(trace))


def _supports(traces: Traces) -> str | None:
    return missing(traces, _has, "total variation and collision probabilities") or too_many(traces, _has)


def _look(name: str) -> Series:
    return series(dict(zip(COLLISIONS, (0, 2, 1), strict=True))[name])


def _scatter(traces: Traces, step: int | None) -> go.Figure:
    drawn = [trace for trace in traces if _has(trace)]
    figure = side_by_side(labels(drawn), shared_yaxes=True, horizontal_spacing=0.05)
    for panel, trace in enumerate(drawn, start=1):
        marks = [_cloud(trace, name) for name in _recorded(trace)]
        for mark in (*marks, *_bounds(), _stayed(trace)):
            figure.add_trace(mark.update(legendgroup=mark.name, showlegend=panel == 1), row=1, col=panel)
    figure.update_xaxes(title_text="Total variation between successive distributions", range=[-0.02, 1.02])
    figure.update_yaxes(range=[-0.02, 1.02])
    figure.update_yaxes(title_text="Probability that two draws agree", col=1)
    return figure.update_layout(height=560)


def _cloud(trace: Trace, name: str) -> go.Scatter:
    points = measured(trace.steps, "tv", name)
    tv, probability = zip(*points[thinned(points, MOST_POINTS)], strict=True)
    return go.Scatter(
        x=tv,
        y=probability,
        mode="markers",
        name=MEASURES[name].label,
        marker={**_look(name).marker(5), "opacity": 0.5},
        hovertemplate="TV %{x:.3f}<br>agree %{y:.3f}",
    )


def _bounds() -> tuple[go.Scatter, ...]:
    tv = [i / 50 for i in range(51)]
    curves = (
        ("1 – TV, the most any coupling allows", "dash", [1 - x for x in tv]),
        ("(1 – TV) / (1 + TV), the least Gumbel sharing gives", "dot", [(1 - x) / (1 + x) for x in tv]),
    )
    return tuple(
        go.Scatter(
            x=tv, y=y, mode="lines", name=name, hoverinfo="skip", line={"color": NEUTRAL, "dash": dash, "width": 2}
        )
        for name, dash, y in curves
    )


def _stayed(trace: Trace) -> go.Scatter:
    bins = kept_by_distance(trace.steps)
    return go.Scatter(
        x=[here.tv for here in bins],
        y=[here.share for here in bins],
        customdata=[here.drafts for here in bins],
        mode="markers",
        name="Drafts that stayed in this run",
        marker={"color": WHITE, "symbol": "star", "size": 13, "line": {"color": BLACK, "width": 1.5}},
        hovertemplate="TV %{x:.3f}<br>%{y:.0%} of %{customdata} drafts stayed<extra></extra>",
    )


def _histograms(traces: Traces, step: int | None) -> go.Figure:
    drawn = [trace for trace in traces if _has(trace)]
    names = [name for name in COLLISIONS if any(name in _recorded(trace) for trace in drawn)]
    figure = make_subplots(
        rows=len(names),
        cols=len(drawn),
        shared_xaxes=True,
        shared_yaxes=True,
        vertical_spacing=0.07,
        horizontal_spacing=0.04,
        column_titles=list(labels(drawn)) if len(drawn) > 1 else None,
    )
    for row, name in enumerate(names, start=1):
        for panel, trace in enumerate(drawn, start=1):
            if name in _recorded(trace):
                figure.add_trace(_bars(trace, name).update(showlegend=panel == 1), row=row, col=panel)
        highest = max(max(bars.y) for bars in figure.data if bars.legendgroup == name)
        figure.update_yaxes(range=[0, 1.05 * highest], row=row)
    figure.update_xaxes(range=[0, 1])
    figure.update_xaxes(title_text="Probability that two draws agree", row=len(names))
    figure.update_yaxes(title_text="Drafts (%)", col=1)
    figure.update_annotations(font={"size": 13}, yshift=4)
    return figure.update_layout(height=560, bargap=0.1, margin={"t": 112 if len(drawn) > 1 else 84})


def _bars(trace: Trace, name: str) -> go.Bar:
    values = [value for (value,) in measured(trace.steps, name)]
    shape = {"square": "/", "diamond": "."}.get(_look(name).symbol, "")
    return go.Bar(
        x=[(i + 0.5) / BINS for i in range(BINS)],
        y=shares(values),
        customdata=[fmean(values)] * BINS,
        name=MEASURES[name].label,
        legendgroup=name,
        marker={"color": _look(name).color, "pattern": hatched(shape)},
        hovertemplate="about %{x:.2f}: %{y:.1f} % of the drafts, mean of all %{customdata:.3f}",
    )


COLLISION = Figure(
    name="collision",
    title="Agreement of successive draws against the distance of their distributions",
    caption=(
        "Every draft of the window is drawn anew in each iteration, from a distribution that moved by the total "
        "variation "
        "(TV) on the x axis. Two independent draws rarely agree on a flat distribution, however little it moved; "
        "coupled "
        "draws come close to 1 – TV, which nothing can exceed. Points are computed from the two distributions; stars "
        "count "
        "what happened in the run: the share of pending drafts that stayed as they were, in bins of TV. Initial "
        "guesses are left out."
    ),
    paper="SCD, Fig. 4 (c)",
    supports=_supports,
    drawing=_scatter,
)

COLLISION_HISTOGRAM = Figure(
    name="collision-histogram",
    title="How likely successive draws are to agree",
    caption=(
        "The probabilities of agreement over all drafts of the run, as a histogram: independent draws pile up near "
        "zero, both couplings move the mass to the right. Computed from the two distributions of every judged or "
        "pending "
        "draft, initial guesses left out."
    ),
    paper="SCD, Fig. 4 (a), (b)",
    supports=_supports,
    drawing=_histograms,
)
