"""Drafts of many runs: shares, tries and mean ratios are those of the traces."""

from dataclasses import replace
from math import exp, sqrt

import pytest
from support.handmade import ALL

from traces.schema import Fate, Trace
from traces.stats import summarise
from visualizers import FIGURES
from visualizers.figures.rates import FEWEST, PARTS
from visualizers.figures.sweeps import acceptances, swept, tries

RUN = ALL["cspd"]()


def rejecting(trace: Trace) -> Trace:
    """The first draft is refused, and the second one falls with it."""
    draft, verify = trace.steps
    fates = (Fate.RESAMPLED, Fate.DISCARDED)
    rejected = replace(verify, fate=fates, numbers={**verify.numbers, "tries": (5, None)})
    last = replace(verify, position=(1,), token=verify.token[1:], fate=(Fate.SAMPLED,), draft=None, numbers={})
    steps = (draft, rejected, replace(last, accept_prob=None, coin=None))
    return replace(trace, steps=steps, summary=summarise(steps, 2, complete=True))


def given(trace: Trace, seed: int = 0, **config: object) -> Trace:
    return replace(trace, seed=seed, config={**trace.config, **config})  # type: ignore[arg-type]


def test_both_shares_and_the_tries_are_counted() -> None:
    assert acceptances(RUN) == (0.5, 0.5) and tries(RUN) == 3
    assert acceptances(rejecting(RUN)) == (0, 0) and tries(rejecting(RUN)) == 5
    assert acceptances(ALL["ar"]()) is None


def test_shares_differ_by_the_drafts_behind_a_refusal() -> None:
    verify = rejecting(RUN).steps[1]
    run = replace(RUN, steps=(*RUN.steps, verify), summary=summarise((*RUN.steps, verify), 2, complete=True))
    assert acceptances(run) == (pytest.approx(1 / 3), 1 / 4)


def test_the_setting_with_most_values_is_the_axis() -> None:
    runs = [given(RUN, gamma=gamma, align=align) for align in (True, False) for gamma in (4, 2, 8)]
    setting, groups = swept(runs) or ("", {})
    assert setting == "gamma"
    assert [list(sweep) for sweep in groups.values()] == [[2, 4, 8], [2, 4, 8]]
    assert "needs complete runs that differ" in str(FIGURES["by-setting"].supports([RUN, given(RUN, seed=1)]))


def test_means_over_seeds_are_drawn_by_setting() -> None:
    runs = [given(RUN, gamma=2), given(rejecting(RUN), seed=1, gamma=2), given(RUN, gamma=4)]
    judged, drafted, proposals = FIGURES["by-setting"].draw(runs).data
    assert list(judged.x) == [2, 4] and list(judged.y) == list(drafted.y) == [25, 50]
    assert judged.error_y.array[0] == pytest.approx(50 / sqrt(2))
    assert list(proposals.y) == [4, 3]


def test_a_choice_keeps_the_order_of_the_runs() -> None:
    runs = [given(RUN, sampler=name) for name in ("ddpm", "ddim")]
    assert list(FIGURES["by-setting"].draw(runs).data[0].x) == ["ddpm", "ddim"]


def test_parts_of_the_sequence_with_few_verdicts_are_left_out() -> None:
    runs = [given(RUN, seed=seed) for seed in range(FEWEST)]
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
