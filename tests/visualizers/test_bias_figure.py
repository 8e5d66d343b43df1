"""What ratios draw is shown on one scale, and beside it what differs from the target."""

import pytest

from visualizers.figures.bias import BIAS, Bias, Density

NAMES = ("vanilla", "exact", "paper", "release", "distance-only")


def judged(name: str, first: float) -> Density:
    return Density(name=name, cells=((first, 0.1), (0.2, 0.7 - first)), total_variation=abs(first - 0.4))


def test_below_each_density_stands_what_it_has_over_the_target_on_one_scale() -> None:
    ways = [judged(name, first) for name, first in zip(NAMES, (0.4, 0.41, 0.5, 0.2, 0.38), strict=True)]
    target = ((0.4, 0.1), (0.2, 0.3))
    drawn = BIAS.draw(
        Bias(edges=(-1.0, 0.0, 1.0), target=target, draft=judged("draft", 0.1), drawn=ways, said="six <steps>")
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
