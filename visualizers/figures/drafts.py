"""How the distributions of drafts settle while they wait."""

from collections.abc import Mapping, Sequence
from typing import Final

import plotly.graph_objects as go

from traces.stats import AgeStatistics, agreement_by_age, agreement_by_position
from visualizers.figure import Figure, Traces, grouped, with_count
from visualizers.plot import axes, curve, side_by_side
from visualizers.style import Look, series, translucent

POSITIONS: Final = 6
"""Positions that are drawn one by one."""
FEWEST_AT_AN_AGE: Final = 5
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
    title="Beta trajectory: 1 - TV of successive distributions, by age",
    paper="SCD, Fig. 3",
    caption="β is the probability that a draft is accepted: 1 minus the total variation (TV) between the distribution "
    "it was drawn from and the new one. Left: single positions, among those that waited longest. Right: the mean over "
    "positions of an age and its standard error, where at least 5 got that old. Old drafts are survivors, which "
    "nothing rejected before. Initial guesses are left out.",
    needs=lambda trace: bool(agreement_by_position(trace.steps)),
    needed="the measures `age` and `tv`",
    at_most="groups",
)
def _beta(traces: Traces) -> go.Figure:
    groups = grouped(traces)
    heads = [f"{name}: some positions" if len(groups) > 1 else "Some positions" for name in groups]
    figure = side_by_side([*heads, "All positions"], shared_yaxes=True, horizontal_spacing=0.04)
    oldest = 1
    for i, (name, runs) in enumerate(groups.items()):
        for k, (position, trajectory) in enumerate(longest_waiting(agreement_by_position(runs[0].steps)).items()):
            points = [age for age, _ in trajectory], [beta for _, beta in trajectory]
            thin: Look = {"showlegend": False, "line": {**series(k).line, "width": 1.5}, "row": 1, "col": i + 1}
            curve(figure, k, f"position {position}", points, "age %{x}, β %{y:.3f}", marker=series(k).marker(5), **thin)
        ages = agreement_by_age([step for run in runs for step in run.steps])
        oldest = max(oldest, *(row.age for row in ages))
        _mean_by_age(figure, i, with_count(name, runs), ages, len(groups) + 1)
    axes(figure, "Age in the window (iterations)", "β = 1 – TV", bounds=(0, 1.03), showlegend=None)
    return figure.update_xaxes(range=[0.6, oldest + 0.4], dtick=1 if oldest <= 12 else None)


def _mean_by_age(figure: go.Figure, index: int, name: str, every: Sequence[AgeStatistics], panel: int) -> None:
    """Draw the mean over positions with a band of one standard error."""
    rows = [row for row in every if row.count >= FEWEST_AT_AN_AGE]
    ages = [row.age for row in rows]
    low = [max(0.0, row.mean - (row.variance / row.count) ** 0.5) for row in rows]
    high = [min(1.0, row.mean + (row.variance / row.count) ** 0.5) for row in rows]
    place: Look = {"legendgroup": name, "row": 1, "col": panel}
    band: Look = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
    band |= {"fill": "toself", "fillcolor": translucent(series(index).color, 0.18)}
    figure.add_scatter(x=ages + ages[::-1], y=high + low[::-1], **band, **place)
    counts = [[row.variance, row.count] for row in rows]
    hover = "age %{x}: mean β %{y:.3f}, variance %{customdata[0]:.4f}, %{customdata[1]} positions"
    label = f"{name}, mean ± standard error"
    curve(figure, index, label, (ages, [row.mean for row in rows]), hover, customdata=counts, **place)
