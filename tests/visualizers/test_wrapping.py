"""More panels than fit beside one another stand in rows, each with its own title, axes and marks."""

from dataclasses import replace

import pytest
from support.jacobi import Raster, decode

from visualizers import FIGURES

RUNS = [decode(window=4 + seed, seed=seed, raster=Raster(rows=4, columns=4, codes=8)) for seed in range(6)]


def places(count: int) -> list[tuple[float, float]]:
    """Left edge and lower edge of every panel's axes."""
    figure = FIGURES["churn"].draw(RUNS[:count])
    axes = [figure.get_subplot(1, column) for column in range(1, count + 1)]
    return [(axis.xaxis.domain[0], axis.yaxis.domain[0]) for axis in axes]


def test_three_panels_stay_in_a_row() -> None:
    assert len({bottom for _, bottom in places(3)}) == 1


@pytest.mark.parametrize("count", [4, 5, 6])
def test_more_stand_in_two_rows_of_three(count: int) -> None:
    found = places(count)
    assert len(set(found)) == count
    assert [left for left, _ in found[3:]] == [left for left, _ in found[: count - 3]]
    assert {bottom for _, bottom in found[:3]} != {bottom for _, bottom in found[3:]}
    assert min(bottom for _, bottom in found) == pytest.approx(0, abs=1e-9)


def test_every_panel_keeps_its_title_above_it() -> None:
    figure = FIGURES["churn"].draw(RUNS)
    for column, title in enumerate(figure.layout.annotations[:6], start=1):
        axes = figure.get_subplot(1, column)
        assert title.y == pytest.approx(axes.yaxis.domain[1])
        assert title.x == pytest.approx(sum(axes.xaxis.domain) / 2)


def test_a_figure_of_one_panel_is_left_alone() -> None:
    drawn = FIGURES["race"].draw([replace(run, seed=seed) for seed, run in enumerate(RUNS)])
    assert drawn.layout.yaxis.domain in (None, (0.0, 1.0))
