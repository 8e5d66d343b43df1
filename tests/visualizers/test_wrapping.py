"""Many panels stand in rows, each with its title, axes and marks; on a phone one stands below the other."""

import pytest
from support.raster import decoded, jacobi

from visualizers import FIGURES, supported
from visualizers.bundle.widths import narrowed
from visualizers.wrapping import panels

RUNS = [jacobi(4, 4, 4 + seed, seed) for seed in range(6)]
TRACES = [decoded("ar"), decoded("scd", window=16)]
ACROSS = 46
"""Letters that a phone shows on one line."""


@pytest.mark.parametrize("count", [3, 4, 6])
def test_more_than_three_panels_stand_in_rows_below_their_titles(count: int) -> None:
    figure = FIGURES["churn"].draw(RUNS[:count])
    axes = panels(figure)
    places = [(x.domain[0], y.domain[0]) for x, y in axes]
    assert len(set(places)) == count and [left for left, _ in places[3:]] == [left for left, _ in places[: count - 3]]
    assert len({bottom for _, bottom in places}) == (1 if count == 3 else 2)
    assert min(bottom for _, bottom in places) == pytest.approx(0, abs=1e-9)
    for (x, y), title in zip(axes, figure.layout.annotations[:count], strict=True):
        assert (title.x, title.y) == pytest.approx((sum(x.domain) / 2, y.domain[1]))


@pytest.mark.parametrize("name", [figure.name for figure in supported(TRACES)])
def test_on_a_phone_panels_stand_below_one_another_and_words_fit(name: str) -> None:
    drawn = FIGURES[name].draw(TRACES)
    before = drawn.to_json()
    slim = narrowed(drawn)
    assert drawn.to_json() == before  # what is exported stays as it was
    assert len({tuple(x.domain) for x, _ in panels(slim)}) <= 1
    assert slim.layout.width is None and slim.layout.title.text is None
    words = [axis.title.text or "" for axis in (*slim.select_xaxes(), *slim.select_yaxes())]
    words += [note.text or "" for note in slim.layout.annotations if note.yref == "paper"]
    assert all(len(line) <= ACROSS for text in words for line in text.split("<br>"))
    assert not any("+text" in (getattr(trace, "mode", None) or "") for trace in slim.data)
