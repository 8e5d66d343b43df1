"""Figures of drafts that are vectors show the verdicts of the trace: shares, tries, ratios, distances and paths."""

from dataclasses import replace
from math import exp

import pytest
from support.handmade import ALL

from draftscope.traces.schema import Fate, Trace
from draftscope.traces.stats import summarise
from draftscope.visualizers import FIGURES
from draftscope.visualizers.figures.acceptance import FEWEST, PARTS
from draftscope.visualizers.figures.bias import Bias, Density, bias_figure
from draftscope.visualizers.figures.sweeps import acceptances, swept, tries
from draftscope.visualizers.figures.verification import LOWEST, first_drafts

RUN = ALL["cspd"]()


def test_ratios_are_drawn_by_fate_and_extreme_ones_at_the_edge() -> None:
    verify = RUN.steps[1]
    numbers = {**verify.numbers, "log_ratio": (0.25, -5000.0)}
    far = replace(RUN, steps=(RUN.steps[0], replace(verify, numbers=numbers)))
    near, rejected = FIGURES["ratios"].draw([far]).data
    assert (list(near.x), list(near.y)) == ([1], [0.25])
    assert (list(rejected.x), list(rejected.y)) == ([2], [LOWEST])
    assert rejected.customdata[0][0] == -5000


def test_distances_are_cumulative_shares() -> None:
    (curve,) = FIGURES["distances"].draw([RUN]).data
    assert list(curve.x) == [0.125, 2.5]
    assert list(curve.y) == [50, 100]
    assert "50 % accepted, mean 1.31" in curve.name


def test_trajectories_begin_with_the_first_refusal_or_the_step_that_is_asked_for() -> None:
    draft, verify = RUN.steps
    columns = {name: getattr(verify, name)[:1] for name in ("position", "token", "fate", "paths")}
    run = replace(RUN, steps=(draft, replace(verify, **columns), verify))  # the first keeps its draft, then one falls
    assert [(one.step, one.position) for one in first_drafts(run, None)] == [(3, 0), (3, 1)]
    assert [(one.step, one.position) for one in first_drafts(run, 2)] == [(2, 0), (3, 0), (3, 1)]
    assert [one.step for one in first_drafts(run, 0)] == [2, 3, 3]


def test_trajectories_are_the_points_of_the_trace() -> None:
    figure = FIGURES["trajectories"].draw([RUN])
    ways = {mark.name: mark for mark in figure.data if mark.name.endswith((", target", ", draft"))}
    for position, pair in enumerate(RUN.steps[1].paths or (), 1):
        for name, points in (("target", pair.target), ("draft", pair.draft)):
            mark = ways[f"position {position}, {name}"]
            assert list(zip(mark.x, mark.y, strict=True)) == list(points)
    ends = [ways[f"position {position}, draft"].marker.symbol[-1] for position in (1, 2)]
    assert ends == ["triangle-up", "x"] and figure.layout.yaxis.scaleanchor == "x"
    assert ways["position 1, draft"].line.dash != ways["position 1, target"].line.dash


def test_divergence_is_the_mean_over_judged_drafts_of_whole_vectors() -> None:
    (curve,) = FIGURES["divergence"].draw([RUN]).data
    assert list(curve.x) == [0, 1, 2]
    assert list(curve.y) == [None, 0.51, 1.3125]  # 0 has no logarithm
    assert "ends 1.31 apart, 2 drafts" in curve.name


def rejecting(trace: Trace) -> Trace:
    """The first draft is refused, and the second one falls with it."""
    draft, verify = trace.steps
    fates = (Fate.RESAMPLED, Fate.DISCARDED)
    rejected = replace(verify, fate=fates, numbers={**verify.numbers, "tries": (5, None)})
    last = replace(verify, position=(1,), token=verify.token[1:], fate=(Fate.SAMPLED,), draft=None, numbers={})
    steps = (draft, rejected, replace(last, accept_prob=None, coin=None))
    return replace(trace, steps=steps, summary=summarise(steps, 2, complete=True))


def with_config(trace: Trace, seed: int = 0, **config: object) -> Trace:
    return replace(trace, seed=seed, config={**trace.config, **config})


def test_both_shares_and_the_tries_are_counted() -> None:
    assert acceptances(RUN) == (0.5, 0.5) and tries(RUN) == 3
    assert acceptances(rejecting(RUN)) == (0, 0) and tries(rejecting(RUN)) == 5
    assert acceptances(ALL["ar"]()) is None
    verify = rejecting(RUN).steps[1]
    run = replace(RUN, steps=(*RUN.steps, verify), summary=summarise((*RUN.steps, verify), 2, complete=True))
    assert acceptances(run) == (pytest.approx(1 / 3), 1 / 4)


def test_the_setting_with_most_values_is_the_axis() -> None:
    runs = [with_config(RUN, gamma=gamma, same_noise_paths=align) for align in (True, False) for gamma in (4, 2, 8)]
    setting, groups = swept(runs) or ("", {})
    assert setting == "gamma"
    assert [list(sweep) for sweep in groups.values()] == [[2, 4, 8], [2, 4, 8]]
    assert "needs complete runs that differ" in str(FIGURES["by-setting"].supports([RUN, with_config(RUN, seed=1)]))


def test_means_over_seeds_are_drawn_by_setting_in_the_order_of_a_choice() -> None:
    runs = [with_config(RUN, gamma=2), with_config(rejecting(RUN), seed=1, gamma=2), with_config(RUN, gamma=4)]
    judged, drafted, proposals = FIGURES["by-setting"].draw(runs).data
    assert list(judged.x) == [2, 4] and list(judged.y) == list(drafted.y) == [25, 50]
    assert judged.error_y.array[0] == pytest.approx(25)
    assert list(proposals.y) == [4, 3]
    runs = [with_config(RUN, sampler=name) for name in ("ddpm", "ddim")]
    assert list(FIGURES["by-setting"].draw(runs).data[0].x) == ["ddpm", "ddim"]


def test_parts_of_the_sequence_with_few_verdicts_are_left_out() -> None:
    runs = [with_config(RUN, seed=seed) for seed in range(FEWEST)]
    (curve,) = FIGURES["along"].draw(runs).data
    half = 100 / PARTS / 2
    assert list(curve.x) == [half, pytest.approx(50 + half)]
    assert list(curve.y) == [100, 0] and [count for _, count in curve.customdata] == [FEWEST, FEWEST]
    assert "50 % of 10" in curve.name
    assert len(FIGURES["along"].draw(runs[:-1]).data[0].x) == 0


def test_mean_ratios_have_their_standard_error() -> None:
    (point,) = FIGURES["ratio-means"].draw([RUN]).data
    low, high = exp(-1.5), exp(0.25)
    assert point.y[0] == pytest.approx((low + high) / 2) and point.x[0] == 50
    assert point.error_y.array[0] == pytest.approx((high - low) / 2)


def density(name: str, first: float) -> Density:
    return Density(name=name, cells=((first, 0.1), (0.2, 0.7 - first)), total_variation=abs(first - 0.4))


def test_below_each_density_stands_what_it_has_over_the_target_on_one_scale() -> None:
    firsts = {"vanilla": 0.4, "exact": 0.41, "paper": 0.5, "release": 0.2, "distance-only": 0.38}
    ways = [density(name, first) for name, first in firsts.items()]
    target = ((0.4, 0.1), (0.2, 0.3))
    drawn = bias_figure.draw(
        Bias(edges=(-1.0, 0.0, 1.0), target=target, draft=density("draft", 0.1), drawn=ways, message="six <steps>")
    )
    differences = [mark.z for mark in drawn.data if mark.coloraxis == "coloraxis2"]
    assert [round(z[0][0], 6) for z in differences] == [-30, 0, 1, 10, -20, -2]
    assert all(z[1][1] == pytest.approx(-z[0][0]) and z[0][1] == z[1][0] == 0 for z in differences)
    assert (drawn.layout.coloraxis2.cmin, drawn.layout.coloraxis2.cmax) == pytest.approx((-30, 30))
    assert drawn.layout.coloraxis.cmin == 0
    titles = [note.text for note in drawn.layout.annotations]
    rows = [titles[k : k + 3] for k in range(0, 12, 3)]
    assert rows[0] == ["target", "vanilla", "exact"] and rows[2] == ["paper", "release", "distance-only"]
    assert rows[1] == ["draft, TV 0.300", "TV 0.000", "TV 0.010"] and rows[3] == ["TV 0.100", "TV 0.200", "TV 0.020"]
    assert drawn.layout.title.subtitle.text == "six &lt;steps&gt;"
