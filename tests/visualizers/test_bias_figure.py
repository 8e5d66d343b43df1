"""What ratios draw is shown on one scale, and beside it what differs from the target."""

import pytest

from visualizers.figures.bias import BIAS, Bias, Judged

TARGET = ((0.4, 0.1), (0.2, 0.3))
EDGES = (-1.0, 0.0, 1.0)


def judged(name: str, first: float) -> Judged:
    return Judged(name=name, cells=((first, 0.1), (0.2, 0.7 - first)), total_variation=abs(first - 0.4))


NAMES = ("vanilla", "exact", "paper", "release", "distance-only")
DRAWN = BIAS.draw(
    Bias(
        edges=EDGES,
        target=TARGET,
        draft=judged("draft", 0.1),
        drawn=[judged(name, first) for name, first in zip(NAMES, (0.4, 0.41, 0.5, 0.2, 0.38), strict=True)],
        said="six <steps>",
    )
)


def heats(axis: str) -> list[list[list[float]]]:
    return [[[round(x, 6) for x in line] for line in mark.z] for mark in DRAWN.data if mark.coloraxis == axis]


def test_below_each_stands_what_it_has_over_the_target_and_the_draft_below_the_target() -> None:
    draft, vanilla, exact, paper, release, _ = heats("coloraxis2")
    assert draft == [[-30, 0], [0, 30]]
    assert vanilla == [[0, 0], [0, 0]]
    assert exact == [[1, 0], [0, -1]]
    assert paper == [[10, 0], [0, -10]] and release == [[-20, 0], [0, 20]]


def test_differences_share_a_scale_that_is_even_on_both_sides() -> None:
    assert (DRAWN.layout.coloraxis2.cmin, DRAWN.layout.coloraxis2.cmax) == pytest.approx((-30, 30))
    assert DRAWN.layout.coloraxis.cmin == 0


def test_titles_name_the_panels_in_their_order_and_text_is_no_markup() -> None:
    titles = [note.text for note in DRAWN.layout.annotations]
    rows = [titles[k : k + 3] for k in range(0, 12, 3)]
    assert rows[0] == ["target", "vanilla", "exact"] and rows[2] == ["paper", "release", "distance-only"]
    assert rows[1] == ["draft, TV 0.300", "TV 0.000", "TV 0.010"] and rows[3] == ["TV 0.100", "TV 0.200", "TV 0.020"]
    assert DRAWN.layout.title.subtitle.text == "six &lt;steps&gt;"
