"""Layout of labels in a figure, so that none covers a mark or another label."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

PLACES: Final = ("top right", "top left", "bottom right", "bottom left", "top center", "bottom center")
_LETTER, _LINE = 0.008, 0.055
"""Width of a letter and height of a line, in shares of the panel."""
_ACROSS, _UP = 0.006, 0.015
"""Half the width and height of a mark."""


class Box(NamedTuple):
    """A rectangle in a figure, in whatever units its axes are measured in."""

    left: float
    right: float
    bottom: float
    top: float

    def meets(self, other: "Box") -> bool:
        """Whether one covers a part of the other."""
        across = self.left < other.right and other.left < self.right
        return across and self.bottom < other.top and other.bottom < self.top


def arrange_labels(
    points: Sequence[tuple[float, float]],
    wanted: Iterable[tuple[int, str, str]],
    *,
    beyond: tuple[float, float] = (0.0, 0.0),
) -> Mapping[int, str]:
    """Find a position for each label where nothing else is.

    Args:
        points: All marks, in shares of the panel's width and height.
        wanted: Index of a point, its label and the position to try first, the most important label first.
        beyond: How far a label may extend out of the panel, across and up.

    Returns:
        Index -> position in plotly's terms, for the labels that have space.
    """
    boxes = [Box(x - _ACROSS, x + _ACROSS, y - _UP, y + _UP) for x, y in points]
    inside = Box(-beyond[0], 1 + beyond[0], -beyond[1], 1 + beyond[1])
    placed: dict[int, str] = {}
    for index, text, first in wanted:
        for side in dict.fromkeys((first, *PLACES)):
            box = _label(points[index], _LETTER * len(text), side)
            fits = inside.left <= box.left and box.right <= inside.right
            fits = fits and inside.bottom <= box.bottom and box.top <= inside.top
            if fits and not any(box.meets(other) for other in boxes):
                boxes.append(box)
                placed[index] = side
                break
    return placed


def _label(point: tuple[float, float], width: float, align: str) -> Box:
    """The box of a label of some width next to a point, as plotly places it."""
    x, y = point
    side = align.split()[1]
    left = {"right": x + _ACROSS, "left": x - _ACROSS - width, "center": x - width / 2}[side]
    bottom = y + _UP if align.startswith("top") else y - _UP - _LINE
    return Box(left, left + width, bottom, bottom + _LINE)
