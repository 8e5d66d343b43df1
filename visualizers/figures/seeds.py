"""Many seeds: what every setting took, run by run, with means, and lines between the runs of one seed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import plotly.graph_objects as go

from traces.pairing import estimate, of_seeds, seconds, target_forwards
from traces.schema import Trace
from visualizers.figure import Figure, Traces, grouped, side_by_side
from visualizers.style import NEUTRAL, series

MOST_GROUPS: Final = 6
_LABEL: Final = 22
"""Letters of a setting's name on one line below the axis."""


def repeated(traces: Traces) -> Mapping[str, tuple[Trace, ...]]:
    """Return runs that differ in their seed alone, by name, where there are at least two whole ones."""
    return {name: runs for name, runs in grouped(traces).items() if len(of_seeds(runs)) > 1}


def _supports(traces: Traces) -> str | None:
    groups = repeated(traces)
    if not groups:
        return "needs whole runs that differ in their seed alone"
    prompts = {trace.prompt for runs in groups.values() for trace in runs}
    if len(prompts) > 1:
        return "needs runs of one prompt"
    return f"draws up to {MOST_GROUPS} settings, {len(groups)} given" if len(groups) > MOST_GROUPS else None


def _draw(traces: Traces, step: int | None) -> go.Figure:
    groups = repeated(traces)
    timed = all(seconds(trace) for runs in groups.values() for trace in runs)
    figure = side_by_side(["Passes of the target", *(["Seconds"] if timed else [])], horizontal_spacing=0.12)
    _fill(figure, 1, groups, target_forwards)
    if timed:
        _fill(figure, 2, groups, seconds)
    figure.update_xaxes(
        tickvals=list(range(len(groups))), ticktext=[_broken(name) for name in groups], range=[-0.5, len(groups) - 0.5]
    )
    figure.update_yaxes(title_text="Target passes", rangemode="tozero", row=1, col=1)
    if timed:
        figure.update_yaxes(title_text="Seconds of decoding", rangemode="tozero", row=1, col=2)
    return figure.update_layout(height=480, showlegend=True)


def _fill(
    figure: go.Figure, panel: int, groups: Mapping[str, Sequence[Trace]], of: Callable[[Trace], float | None]
) -> None:
    """Draw a line a seed, and a mean with its standard error a setting."""
    values = [{seed: of(trace) for seed, trace in of_seeds(runs).items()} for runs in groups.values()]
    place = {"row": 1, "col": panel}
    for index, seed in enumerate(sorted({seed for each in values for seed in each})):
        figure.add_scatter(
            x=[i for i, each in enumerate(values) if seed in each],
            y=[each[seed] for each in values if seed in each],
            mode="lines+markers",
            name="one seed",
            legendgroup="seed",
            showlegend=panel == 1 and index == 0,
            line={"color": NEUTRAL, "width": 1},
            marker={"color": NEUTRAL, "size": 4},
            opacity=0.55,
            hovertemplate=f"seed {seed}: %{{y:.4~g}}<extra></extra>",
            **place,
        )
    for index, (name, each) in enumerate(zip(groups, values, strict=True)):
        mean = estimate([value for value in each.values() if value is not None])
        figure.add_scatter(
            x=[index],
            y=[mean.mean],
            error_y={"array": [mean.error or 0.0], "thickness": 2, "width": 8},
            mode="markers",
            name=f"{name}, mean of {mean.runs} seeds",
            legendgroup=str(index),
            showlegend=panel == 1,
            marker=series(index).marker(12),
            hovertemplate=f"{mean.mean:.4g} ± {mean.error or 0:.2g}<extra></extra>",
            **place,
        )


def _broken(name: str) -> str:
    """Return a name over several lines, broken after commas."""
    lines = [""]
    for part in name.split(", "):
        joined = f"{lines[-1]}, {part}" if lines[-1] else part
        lines = [*lines[:-1], joined] if len(joined) <= _LABEL or not lines[-1] else [*lines, part]
    return ",<br>".join(lines)


SEEDS = Figure(
    name="seeds",
    title="What every seed took",
    caption=(
        "Each grey line is one seed: the same prompt and the same random numbers, decoded with one setting after "
        "another. Large marks are means, and error bars one standard error over seeds. Where all lines fall, the "
        "difference holds for every seed, which says more than two means. Only whole runs count, and passes of a "
        "drafter are left out. Times are those of single runs on one machine."
    ),
    paper="",
    supports=_supports,
    drawing=_draw,
)
