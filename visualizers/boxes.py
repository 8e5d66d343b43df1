"""Where something stands in a figure, so that nothing is written over it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Box:
    """A place in a figure, in whatever units its axes are measured in."""

    left: float
    right: float
    bottom: float
    top: float

    def meets(self, other: "Box") -> bool:
        """Whether one covers a part of the other."""
        across = self.left < other.right and other.left < self.right
        return across and self.bottom < other.top and other.bottom < self.top
