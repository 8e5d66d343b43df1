"""Figures of drafts that are vectors show the verdicts of the trace."""

from dataclasses import replace

import pytest
from support.handmade import ALL

from traces.schema import Fate
from visualizers import FIGURES
from visualizers.figures.continuous import LOWEST, judged

RUN = ALL["cspd"]()


def test_verdicts_come_with_coin_and_tries() -> None:
    first, second = judged(RUN, "log_ratio")
    assert (first.position, first.fate, first.value, first.tries) == (0, Fate.ACCEPTED, 0.25, None)
    assert (second.fate, second.value, second.coin, second.bar, second.tries) == (Fate.RESAMPLED, -1.5, 0.5, 0.25, 3)


def test_ratios_are_drawn_by_fate_and_extreme_ones_at_the_edge() -> None:
    verify = RUN.steps[1]
    numbers = {**verify.numbers, "log_ratio": (0.25, -5000.0)}
    far = replace(RUN, steps=(RUN.steps[0], replace(verify, numbers=numbers)))
    kept, refused = FIGURES["ratios"].draw([far]).data
    assert (list(kept.x), list(kept.y)) == ([0], [0.25])
    assert (list(refused.x), list(refused.y)) == ([1], [LOWEST])
    assert refused.customdata[0][0] == -5000


def test_distances_are_cumulative_shares() -> None:
    (curve,) = FIGURES["distances"].draw([RUN]).data
    assert list(curve.x) == [0.125, 2.5]
    assert list(curve.y) == [50, 100]
    assert "50 % kept, mean 1.31" in curve.name


@pytest.mark.parametrize("name", ["ratios", "distances"])
def test_traces_of_ids_are_refused_with_the_reason(name: str) -> None:
    assert "needs judged drafts with `" in str(FIGURES[name].supports([ALL["scd"]()]))
