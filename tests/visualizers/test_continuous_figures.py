"""Figures of drafts that are vectors show the verdicts of the trace."""

from dataclasses import replace

from support.handmade import ALL

from traces.schema import Fate
from visualizers import FIGURES
from visualizers.figures.judging import LOWEST
from visualizers.figures.trajectories import shown

RUN = ALL["cspd"]()


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
    assert "50 % accepted, mean 1.31" in curve.name


def test_trajectories_begin_with_the_first_refusal_or_the_step_that_is_asked_for() -> None:
    draft, verify = RUN.steps
    columns = {name: getattr(verify, name)[:1] for name in ("position", "token", "fate", "paths")}
    run = replace(RUN, steps=(draft, replace(verify, **columns), verify))  # the first keeps its draft, then one falls
    assert [(one.step, one.position) for one in shown(run, None)] == [(3, 0), (3, 1)]
    assert [(one.step, one.position) for one in shown(run, 2)] == [(2, 0), (3, 0), (3, 1)]
    assert [one.step for one in shown(run, 0)] == [2, 3, 3]


def test_trajectories_are_the_points_of_the_trace() -> None:
    figure = FIGURES["trajectories"].draw([RUN])
    ways = {mark.name: mark for mark in figure.data if mark.name.endswith((", target", ", draft"))}
    for position, pair in enumerate(RUN.steps[1].paths or ()):
        assert pair is not None
        for name, points in (("target", pair.target), ("draft", pair.draft)):
            mark = ways[f"position {position}, {name}"]
            assert list(zip(mark.x, mark.y, strict=True)) == list(points)
    ends = [ways[f"position {position}, draft"].marker.symbol[-1] for position in (0, 1)]
    assert ends == ["triangle-up", "x"] and figure.layout.yaxis.scaleanchor == "x"
    assert ways["position 0, draft"].line.dash != ways["position 0, target"].line.dash


def test_divergence_is_the_mean_over_judged_drafts_of_whole_vectors() -> None:
    (curve,) = FIGURES["divergence"].draw([RUN]).data
    assert list(curve.x) == [0, 1, 2]
    assert list(curve.y) == [None, 0.51, 1.3125]  # 0 has no logarithm
    assert "ends 1.31 apart, 2 drafts" in curve.name


def test_the_map_of_acceptance_says_how_untested_tokens_came_to_be() -> None:
    draft, verify = RUN.steps
    bonus = replace(verify, fate=(Fate.ACCEPTED, Fate.BONUS), draft=(verify.token[0], None), accept_prob=(1.0, None))
    heat, *marks = FIGURES["acceptance"].draw([replace(RUN, steps=(draft, bonus))]).data
    assert list(heat.z) == [[None, 1.0]]  # position 0 lies in the right cell
    assert {mark.name.split(":")[0]: (list(mark.x), list(mark.y)) for mark in marks} == {
        "the draft was rejected": ([], []),
        "bonus": ([0], [0]),
    }
