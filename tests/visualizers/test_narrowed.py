"""Figures as a phone shows them: narrow, one panel below the other, nothing cut off at the side."""

import pytest
from support.raster import decoded

from visualizers import FIGURES, supported
from visualizers.bundle.widths import narrowed
from visualizers.wrapping import panels

TRACES = [decoded("ar"), decoded("scd", window=16)]
ACROSS = 46
"""Letters that a phone shows on one line."""


@pytest.mark.parametrize("name", [figure.name for figure in supported(TRACES)])
def test_panels_stand_below_one_another_and_words_fit(name: str) -> None:
    drawn = FIGURES[name].draw(TRACES)
    before = drawn.to_json()
    slim = narrowed(drawn)
    assert drawn.to_json() == before  # what is exported stays as it was
    axes = panels(slim)
    assert len({tuple(x.domain) for x, _ in axes}) <= 1
    assert slim.layout.width is None and slim.layout.title.text is None
    words = [axis.title.text or "" for axis in (*slim.select_xaxes(), *slim.select_yaxes())]
    words += [note.text or "" for note in slim.layout.annotations if note.yref == "paper"]
    assert all(len(line) <= ACROSS for text in words for line in text.split("<br>"))
    assert not any("+text" in (getattr(trace, "mode", None) or "") for trace in slim.data)
