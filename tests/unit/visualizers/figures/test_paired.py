"""The figure of paired differences has the pairs, the means and the intervals of the analysis, worked out by hand."""

from dataclasses import replace
from math import exp, log, sqrt

import plotly.graph_objects as go
import pytest
from support import handmade

from draftscope.traces.schema import Trace
from draftscope.visualizers import FIGURES

ORDINARY, DRAFTED = handmade.ar(), handmade.ALL["scd"]()
PASSES = {("a", 0): (40, 20), ("a", 1): (40, 10), ("a", 2): (40, 40)}
T = 4.30265
"""Student's 97.5 % quantile of 2 degrees of freedom."""


def run(of: Trace, prompt: str, seed: int, forwards: int, **summary: object) -> Trace:
    sums = replace(of.summary, forwards=forwards, seconds=0, complete=True, tokens=8, **summary)
    return replace(of, prompt=prompt, seed=seed, steps=(), summary=sums)


def runs(passes: dict[tuple[str, int], tuple[int, int]]) -> list[Trace]:
    both = [
        (key, of, count)
        for key, counts in passes.items()
        for of, count in zip((ORDINARY, DRAFTED), counts, strict=True)
    ]
    return [run(of, prompt, seed, count) for (prompt, seed), of, count in both]


def marks(drawn: go.Figure, panel: int) -> tuple[go.Scatter, go.Scatter]:
    """The pairs and the mean of the only group in a panel."""
    return tuple(mark for mark in drawn.data if mark.xaxis == ("x" if panel == 1 else f"x{panel}"))


def test_pairs_mean_and_interval_are_those_of_the_differences() -> None:
    drawn = FIGURES["paired"].draw(runs(PASSES))
    pairs, mean = marks(drawn, 2)
    assert drawn.layout.xaxis2.title.text == "Passes, difference" and list(pairs.x) == [-20, -30, 0]
    assert [list(each) for each in pairs.customdata] == [["a", 0], ["a", 1], ["a", 2]]
    half = T * sqrt(700 / 3) / sqrt(3)  # s² = ((-20 + 50/3)² + (-30 + 50/3)² + (50/3)²) / 2
    assert mean.x[0] == pytest.approx(-50 / 3)
    assert mean.error_x.array[0] == mean.error_x.arrayminus[0] == pytest.approx(half, rel=1e-4)
    pairs, mean = marks(drawn, 1)
    logs = [log(2), log(4), 0.0]
    assert list(pairs.x) == pytest.approx([2, 4, 1]) and mean.x[0] == pytest.approx(exp(sum(logs) / 3))
    neutral = [(shape.xref, shape.x0) for shape in drawn.layout.shapes]
    assert neutral == [("x", 1), ("x2", 0)]
    for axis, inside in ((drawn.layout.xaxis, (1, 4)), (drawn.layout.xaxis2, (-30, 0))):
        assert axis.range[0] < min(inside) and axis.range[1] > max(inside)  # all marks, and the line of no difference


def test_seeds_of_a_prompt_are_drawn_each_and_averaged_first() -> None:
    (pairs, mean) = marks(FIGURES["paired"].draw(runs(PASSES | {("b", 0): (40, 30)})), 2)
    assert len(pairs.x) == 4 and mean.x[0] == pytest.approx((-50 / 3 - 10) / 2)
    assert "of 4 pairs" in mean.hovertemplate


def test_what_has_no_two_pairs_is_refused() -> None:
    figure, reason = FIGURES["paired"], "needs two ways of decoding with two seeds or prompts in common"
    assert figure.supports(runs({("a", 0): (4, 2)})) == reason
    assert figure.supports([trace for trace in runs(PASSES) if trace.method == ORDINARY.method]) == reason
    assert (
        figure.supports([replace(ORDINARY, seed=None)])
        == "needs complete runs with a seed, which this trace does not have"
    )
