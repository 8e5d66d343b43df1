"""Ways of decoding compared pair by pair: the same prompt and seed decoded in both."""

from collections.abc import Mapping
from textwrap import wrap
from typing import Final

import plotly.graph_objects as go

from draftscope.analysis.paired import Paired, compared
from draftscope.traces.labels import is_baseline
from draftscope.visualizers.figure import Figure, Traces, group_runs
from draftscope.visualizers.plot import dots, plain, side_by_side
from draftscope.visualizers.style import NEUTRAL, Look, series

_AXES: Final = {
    "Times as fast": "Times as fast",
    "Times the tokens per target pass": "Times tokens per pass",
    "Target passes": "Passes, difference",
    "Seconds": "Seconds, difference",
}
"""Titles of axes, by the names of `analysis.paired.compared`."""
_MEAN, _FIRST, _LAST = -0.2, 0.05, 0.35
"""Rows from the middle of a group to its mean, and to its first and last pair."""
_LETTERS: Final = 26
"""Letters of a line of a group's name."""


def paired_groups(traces: Traces) -> tuple[str, Mapping[str, Mapping[str, Paired]]]:
    """Return what is compared with, ordinary decoding or the first, and by group its comparisons.

    Args:
        traces: Runs that differ in method or settings, prompt and seed.

    Returns:
        The baseline's name, and name of a group -> name of a comparison -> the comparison, of those with two or more
        independent differences.
    """
    groups = group_runs(traces) if traces else {}
    base = next((name for name, runs in groups.items() if is_baseline(runs[0])), next(iter(groups), ""))
    found = {name: compared(groups[base], runs) for name, runs in groups.items() if name != base}
    return base, {name: each for name, each in found.items() if any(one.units > 1 for one in each.values())}


@Figure(
    name="paired",
    title="Paired differences over prompts and seeds",
    caption="Each dot is a pair of runs with the same prompt and seed, each diamond the mean of a way of decoding: of "
    "ratios the geometric mean, of several prompts that of their means. Bars are 95 % intervals of Student over "
    "seeds, or over prompts where there are several. The dotted line is the way that all are compared with, ordinary "
    "decoding where it is among the runs: a bar that crosses it shows no difference. Passes are those of the target; "
    "ratios are per token.",
    accepts=lambda trace: trace.summary.complete and trace.seed is not None,
    requirement="complete runs with a seed",
    refuses=lambda traces: (
        None if paired_groups(traces)[1] else "needs two ways of decoding with two seeds or prompts in common"
    ),
    limit="groups",
)
def _paired(traces: Traces) -> go.Figure:
    base, groups = paired_groups(traces)
    names = [name for name in _AXES if any(name in each for each in groups.values())]
    figure = side_by_side([""] * len(names), shared_yaxes=True, horizontal_spacing=0.05)
    for panel, name in enumerate(names, 1):
        drawn = [(row, group, found[name]) for row, (group, found) in enumerate(groups.items()) if name in found]
        for row, group, paired in drawn:
            _draw(figure, panel, row, group, paired)
        neutral = drawn[0][2].neutral
        figure.add_vline(x=neutral, line={"color": NEUTRAL, "dash": "dot", "width": 2}, row=1, col=panel)
        bounds = [end for _, _, one in drawn for end in (*one.by_pair.values(), one.low, one.high) if end is not None]
        low, high = min(neutral, *bounds), max(neutral, *bounds)
        padding = 0.06 * (high - low or 1.0)
        figure.update_xaxes(title_text=_AXES[name], range=[low - padding, high + padding], zeroline=False, col=panel)
    figure.update_yaxes(
        tickvals=[*range(len(groups))],
        ticktext=["<br>".join(wrap(group, _LETTERS)) for group in groups],
        range=[len(groups) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
    )
    figure.update_yaxes(title_text=f"Compared with {base[:1].lower()}{base[1:]}", col=1)
    return figure.update_layout(height=230 + 70 * len(groups), meta={"panel_height": 60 + 56 * len(groups)})


def _draw(figure: go.Figure, panel: int, row: int, group: str, paired: Paired) -> None:
    """Draw the pairs of a group, their mean and its interval."""
    look, placement = series(row), {"row": 1, "col": panel, "showlegend": False}
    between = (_LAST - _FIRST) / max(1, len(paired.by_pair) - 1)
    heights = [row + _FIRST + between * index for index in range(len(paired.by_pair))]
    hover = "%{x:.3~g}, seed %{customdata[1]}, %{customdata[0]}<extra></extra>"
    pairs = [[plain(prompt), seed] for prompt, seed in paired.by_pair]
    mark: Look = {"marker": look.marker(6) | {"opacity": 0.5}, "customdata": pairs}
    dots(figure, row, group, ([*paired.by_pair.values()], heights), hover, **mark, **placement)
    mean: Look = {"marker": {"symbol": "diamond", "size": 9, "color": look.color}}
    words = f"mean %{{x:.3~g}} of {paired.pairs} pairs"
    if paired.low is not None and paired.high is not None:
        ends = {"array": [paired.high - paired.mean], "arrayminus": [paired.mean - paired.low]}
        mean["error_x"] = {"type": "data", "symmetric": False, "thickness": 2, "width": 7, **ends}
        words += f", {paired.low:.3g} to {paired.high:.3g}"
    dots(figure, row, f"{group}: mean", ([paired.mean], [row + _MEAN]), f"{words}<extra></extra>", **mean, **placement)
