"""How drafts settle while they wait: agreement of successive distributions, and tokens that change."""

from collections.abc import Mapping, Sequence
from typing import Final

import plotly.graph_objects as go

from traces.schema import Trace
from traces.stats import AgeStatistics, agreement_by_age, agreement_by_position, mean_difference, token_difference
from visualizers.figure import MOST_PANELS, Figure, Traces, grouped, missing, side_by_side
from visualizers.style import series
from visualizers.summary import Mean, mean_of

TRAJECTORIES: Final = 6
FEWEST_AT_AN_AGE: Final = 5
"""Positions an age needs for its mean to be drawn."""
MOST_TICKS: Final = 12
"""Ages up to which every one gets its tick."""
DISTANCES: Final = (1, 2, 3)

Trajectory = Sequence[tuple[int, float]]


def telling(trajectories: Mapping[int, Trajectory], count: int = TRAJECTORIES) -> dict[int, Trajectory]:
    """Pick `count` positions, spread over the canvas, among the third that waited longest."""
    longest = sorted(trajectories, key=lambda position: (-len(trajectories[position]), position))
    pool = sorted(longest[: max(count, len(longest) // 3)])
    chosen = pool if len(pool) <= count else [pool[i * (len(pool) - 1) // (count - 1)] for i in range(count)]
    return {position: trajectories[position] for position in chosen}


def _has_agreement(trace: Trace) -> bool:
    return bool(agreement_by_position(trace.steps))


def _agreeing(traces: Traces) -> Mapping[str, tuple[Trace, ...]]:
    """Runs that can be drawn, gathered where they differ in seed or prompt alone."""
    return grouped([trace for trace in traces if _has_agreement(trace)])


def _few(traces: Traces) -> str | None:
    count = len(_agreeing(traces))
    return f"draws up to {MOST_PANELS} groups of runs side by side, {count} given" if count > MOST_PANELS else None


def _beta(traces: Traces, step: int | None) -> go.Figure:
    groups = _agreeing(traces)
    several = len(groups) > 1
    heads = [*(f"{name}: some positions" if several else "Some positions" for name in groups), "All positions"]
    figure = side_by_side(heads, shared_yaxes=True, horizontal_spacing=0.04)
    for panel, runs in enumerate(groups.values(), start=1):
        for i, (position, trajectory) in enumerate(telling(agreement_by_position(runs[0].steps)).items()):
            figure.add_trace(_trajectory(i, position, trajectory), row=1, col=panel)
    pooled = {name: agreement_by_age([step for run in runs for step in run.steps]) for name, runs in groups.items()}
    for i, (name, ages) in enumerate(pooled.items()):
        said = name if len(groups[name]) == 1 else f"{name}, {len(groups[name])} runs"
        for mark in _mean_by_age(i, said, ages):
            figure.add_trace(mark, row=1, col=len(groups) + 1)
    oldest = max(row.age for ages in pooled.values() for row in ages)
    figure.update_xaxes(title_text="Age in the window (iterations)", range=[0.6, oldest + 0.4])
    if oldest <= MOST_TICKS:
        figure.update_xaxes(dtick=1)
    figure.update_yaxes(range=[0, 1.03])
    figure.update_yaxes(title_text="β = 1 – TV", col=1)
    return figure.update_layout(height=440)


def _trajectory(index: int, position: int, trajectory: Trajectory) -> go.Scatter:
    look = series(index)
    return go.Scatter(
        x=[age for age, _ in trajectory],
        y=[beta for _, beta in trajectory],
        mode="lines+markers",
        name=f"position {position}",
        showlegend=False,
        line={**look.line, "width": 1.5},
        marker=look.marker(5),
        hovertemplate="age %{x}, β %{y:.3f}",
    )


def _mean_by_age(index: int, name: str, every: Sequence[AgeStatistics]) -> tuple[go.Scatter, ...]:
    ages = [row for row in every if row.count >= FEWEST_AT_AN_AGE]
    look = series(index)
    age = [row.age for row in ages]
    low = [max(0.0, row.mean - row.variance**0.5) for row in ages]
    high = [min(1.0, row.mean + row.variance**0.5) for row in ages]
    band = go.Scatter(
        x=age + age[::-1],
        y=high + low[::-1],
        fill="toself",
        mode="lines",
        line={"width": 0},
        fillcolor=look.band(),
        hoverinfo="skip",
        legendgroup=name,
        showlegend=False,
    )
    curve = go.Scatter(
        x=age,
        y=[row.mean for row in ages],
        customdata=[[row.variance, row.count] for row in ages],
        name=f"{name}, mean ± standard deviation",
        legendgroup=name,
        **look.curve(7),
        hovertemplate="age %{x}: mean β %{y:.3f}, variance %{customdata[0]:.4f}, %{customdata[1]} positions",
    )
    return band, curve


def differences(traces: Traces, distance: int) -> Mean | None:
    """Return the mean share of drafts that differ `distance` iterations apart, over runs; None without any."""
    means = [mean_difference(token_difference(trace.steps, distance)) for trace in traces]
    shares = [mean.share for mean in means if mean is not None]
    return mean_of(shares) if shares else None


def _has_windows(trace: Trace) -> bool:
    return bool(token_difference(trace.steps))


def _hamming(traces: Traces, step: int | None) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(grouped([trace for trace in traces if _has_windows(trace)]).items()):
        found = [(distance, mean) for distance in DISTANCES if (mean := differences(runs, distance)) is not None]
        look = series(i)
        figure.add_scatter(
            x=[distance for distance, _ in found],
            y=[100 * mean.value for _, mean in found],
            error_y={"array": [100 * mean.deviation for _, mean in found], "visible": len(runs) > 1, "thickness": 1.2},
            name=name if len(runs) == 1 else f"{name}, {len(runs)} runs",
            **look.curve(),
            hovertemplate="%{x} apart: %{y:.1f} % differ",
        )
    figure.update_xaxes(title_text="Iterations between the windows, N", dtick=1)
    figure.update_yaxes(title_text="Drafts that differ (%)", rangemode="tozero")
    return figure.update_layout(height=440, showlegend=True)


BETA = Figure(
    name="beta",
    title="Beta trajectory: 1 - TV of successive distributions, by age",
    caption=(
        "β is the probability that a draft passes its test: 1 minus the total variation (TV) between the distribution "
        "it "
        "was drawn from and the new one. Left: single positions, among those that waited longest. Right: mean over "
        f"all positions of an age, with a band of one standard deviation, where at least {FEWEST_AT_AN_AGE} "
        "positions got that old. Rising curves mean that waiting pays; yet old ages are survivors, drafts that nothing "
        "rejected before. Runs that differ in seed or prompt alone are taken together. The player draws beta over "
        "passes instead of ages. Initial guesses are left out."
    ),
    paper="SCD, Fig. 3",
    supports=lambda traces: missing(traces, _has_agreement, "the measures `age` and `tv`") or _few(traces),
    drawing=_beta,
)

HAMMING = Figure(
    name="hamming",
    title="How far drafts drift over several iterations",
    caption=(
        "The share of positions whose draft differs between two windows N iterations apart, over positions pending "
        "in both, as a mean over iterations (error bars: standard deviation between runs). A flat curve means that "
        "drafts stay near one place, a rising one that they wander. Counted from the tokens; initial guesses are "
        "left out."
    ),
    paper="SCD, Fig. 6",
    supports=lambda traces: missing(traces, _has_windows, "drafts that wait from one forward pass to the next"),
    drawing=_hamming,
)
