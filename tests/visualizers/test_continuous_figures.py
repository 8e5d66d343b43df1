"""Figures of drafts that are vectors show the verdicts of the trace."""

from dataclasses import replace

import pytest
from support.handmade import ALL

from traces.schema import Fate, Trace
from visualizers import FIGURES
from visualizers.figures.densities import LOWEST, judged
from visualizers.figures.trajectories import shown

RUN = ALL["cspd"]()


def test_verdicts_come_with_coin_and_tries() -> None:
    first, second = judged(RUN, "log_ratio")
    assert (first.position, first.fate, first.value, first.tries) == (0, Fate.ACCEPTED, 0.25, None)
    assert (second.fate, second.value, second.coin, second.bar, second.tries) == (Fate.RESAMPLED, -1.5, 0.5, 0.25, 3)


def test_ratios_are_drawn_by_fate_and_extreme_ones_at_the_edge() -> None:
    verify = RUN.steps[1]
    numbers = {**verify.numbers, "log_ratio": (0.25, -5000.0)}
    far = replace(RUN, steps=(RUN.steps[0], replace(verify, numbers=numbers)))
    kept, rejected = FIGURES["ratios"].draw([far]).data
    assert (list(kept.x), list(kept.y)) == ([0], [0.25])
    assert (list(rejected.x), list(rejected.y)) == ([1], [LOWEST])
    assert rejected.customdata[0][0] == -5000


def test_distances_are_cumulative_shares() -> None:
    (curve,) = FIGURES["distances"].draw([RUN]).data
    assert list(curve.x) == [0.125, 2.5]
    assert list(curve.y) == [50, 100]
    assert "50 % kept, mean 1.31" in curve.name


def verified_later() -> Trace:
    """A run whose first verification keeps its only draft, and whose second one rejects."""
    draft, verify = RUN.steps
    first = replace(
        verify,
        position=verify.position[:1],
        token=verify.token[:1],
        fate=verify.fate[:1],
        paths=(verify.paths or ())[:1],
    )
    return replace(RUN, steps=(draft, first, verify))


def test_trajectories_begin_with_the_first_refusal_or_the_step_that_is_asked_for() -> None:
    run = verified_later()
    assert [(one.step, one.position) for one in shown(run, None)] == [(3, 0), (3, 1)]
    assert [(one.step, one.position) for one in shown(run, 2)] == [(2, 0), (3, 0), (3, 1)]
    assert [one.step for one in shown(run, 0)] == [2, 3, 3]


def test_trajectories_are_the_points_of_the_trace() -> None:
    kept, rejected = RUN.steps[1].paths or ()
    assert kept is not None
    assert rejected is not None
    figure = FIGURES["trajectories"].draw([RUN])
    ways = {mark.name: mark for mark in figure.data if mark.name.endswith((", target", ", draft"))}
    for name, points in {
        "position 0, target": kept.target,
        "position 0, draft": kept.draft,
        "position 1, target": rejected.target,
        "position 1, draft": rejected.draft,
    }.items():
        assert list(zip(ways[name].x, ways[name].y, strict=True)) == list(points)
    assert ways["position 0, draft"].marker.symbol[-1] == "triangle-up"
    assert ways["position 1, draft"].marker.symbol[-1] == "x"
    assert ways["position 0, draft"].line.dash != ways["position 0, target"].line.dash
    assert figure.layout.yaxis.scaleanchor == "x"


def test_panels_of_trajectories_share_their_ranges() -> None:
    figure = FIGURES["trajectories"].draw([RUN, verified_later()])
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range
    assert figure.layout.yaxis.range == figure.layout.yaxis2.range


def test_divergence_is_the_mean_over_judged_drafts_of_whole_vectors() -> None:
    (curve,) = FIGURES["divergence"].draw([RUN]).data
    assert list(curve.x) == [0, 1, 2]
    assert list(curve.y) == [None, 0.51, 1.3125]  # 0 has no logarithm
    assert "ends 1.31 apart, 2 drafts" in curve.name


def test_runs_of_other_settings_may_have_other_steps() -> None:
    verify = RUN.steps[1]
    short = tuple(
        replace(pair, draft=pair.draft[1:], target=pair.target[1:], distance_squared=pair.distance_squared[1:])
        for pair in verify.paths or ()
        if pair
    )
    other = replace(RUN, config={"steps": 1}, steps=(RUN.steps[0], replace(verify, paths=short)))
    assert [len(curve.x) for curve in FIGURES["divergence"].draw([RUN, other]).data] == [3, 2]


def test_the_map_of_acceptance_says_how_untested_tokens_came_to_be() -> None:
    draft, verify = RUN.steps
    bonus = replace(verify, fate=(Fate.ACCEPTED, Fate.BONUS), draft=(verify.token[0], None), accept_prob=(1.0, None))
    heat, *marks = FIGURES["acceptance"].draw([replace(RUN, steps=(draft, bonus))]).data
    assert list(heat.z) == [[None, 1.0]]  # position 0 lies in the right cell
    assert {mark.name.split(":")[0]: (list(mark.x), list(mark.y)) for mark in marks} == {
        "the draft was rejected": ([], []),
        "bonus": ([0], [0]),
    }


@pytest.mark.parametrize("name", ["ratios", "distances", "trajectories", "divergence"])
def test_traces_of_ids_are_refused_with_the_reason(name: str) -> None:
    assert "needs judged drafts with " in str(FIGURES[name].supports([ALL["scd"]()]))
