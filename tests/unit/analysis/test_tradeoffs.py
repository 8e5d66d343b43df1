"""Trade-offs between speed and quality: best settings and the frontier."""

from dataclasses import replace

import pytest

from draftscope.analysis.tradeoffs import Drafting, Tradeoff, best, frontier, predicted

SAFE = Tradeoff(
    kind="text", method="s2d2", setting="a", speed=2.0, speed_low=1.8, speed_high=2.1, change=0.0, error=0.5
)
LOSSY = replace(SAFE, setting="b", speed=3.0, speed_low=2.5, speed_high=3.5, change=-4.0, error=1.0)
NOISY = replace(SAFE, setting="c", speed=2.5, speed_low=2.2, speed_high=2.8, change=-1.0, error=1.5)


def test_the_fastest_that_loses_no_more_than_allowed_is_best() -> None:
    assert best([SAFE, LOSSY], 0) is SAFE
    assert best([SAFE, LOSSY], 3.5) is SAFE
    assert best([SAFE, LOSSY], 4) is LOSSY
    assert best([SAFE, NOISY], 0) is NOISY  # its loss is below its own standard error
    assert best([SAFE, replace(NOISY, error=0.9)], 0) is SAFE
    assert best([replace(SAFE, speed=0.9)], 10) is None
    assert best([replace(SAFE, speed=1.1, speed_low=0.97)], 10) is None
    assert best([replace(SAFE, reported=True)], 10) is None
    unknown = replace(SAFE, change=None, error=None)
    assert best([unknown], 10) is None
    assert best([replace(unknown, exact=True)], 0) is not None


def test_the_frontier_holds_what_no_other_beats_in_both() -> None:
    beaten = replace(SAFE, setting="d", speed=1.9, change=-0.5)
    assert [one.setting for one in frontier([LOSSY, SAFE, beaten, NOISY])] == ["a", "c", "b"]


def test_another_cost_of_drafts_moves_the_speed_by_the_formula() -> None:
    passes = Drafting(ordinary_passes=100, draft_passes=100, cost=0.2)
    one = replace(SAFE, drafting=passes, speed=2.0)  # 30 v + 100 x 0.2 = 50 ordinary passes: v = 1
    assert predicted(one, 0.2).speed == pytest.approx(2.0)
    free = predicted(one, 0.0)
    assert free.speed == pytest.approx(100 / 30) and free.predicted
    assert predicted(one, 1.0).speed == pytest.approx(100 / 130)
    assert free.speed_low == pytest.approx(1.8 * free.speed / 2)
    assert predicted(SAFE, 0.7) is SAFE  # no drafter
