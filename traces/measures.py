"""The names a method may use for its own numbers, each with meaning and unit.

A name is added here once and then means the same in every trace, figure and tooltip. Names that begin with `x_` are free for
experiments: they are kept and shown as they are.
"""

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Measure:
    """A named number: where it applies, what it says, in which unit and range."""

    per: Literal["position", "step"]
    label: str
    meaning: str
    unit: str = ""
    low: float | None = None
    high: float | None = None


MEASURES: Final[dict[str, Measure]] = {
    # Laws of successive iterations at one position (SCD section 3; q and p are the old and the new law).
    "age": Measure("position", "Age", "iterations the position has been in the window", "iterations", 0),
    "initial": Measure("position", "Initial guess", "1 when the judged draft did not come from the model", "", 0, 1),
    "tv": Measure("position", "Total variation", "distance of the new law from the draft's law", "", 0, 1),
    "collision_independent": Measure(
        "position", "Collision, independent", "sum of p q: two separate draws agree", "", 0, 1
    ),
    "collision_maximal": Measure(
        "position", "Collision, maximal", "1 - TV: agreement under maximal coupling", "", 0, 1
    ),
    "collision_gumbel": Measure(
        "position", "Collision, Gumbel", "agreement when both draws share Gumbel noise", "", 0, 1
    ),
    "entropy": Measure("position", "Entropy", "entropy of the new law", "bits", 0),
    "draft_entropy": Measure("position", "Draft entropy", "entropy of the law the draft was drawn from", "bits", 0),
    "support": Measure("position", "Support", "tokens the new law gives any probability", "tokens", 1),
    # One step.
    "accepted": Measure("step", "Accepted", "drafts accepted in the step", "tokens", 0),
    "window": Measure("step", "Window", "drafts judged in the step", "tokens", 0),
}
"""Name -> measure."""

FREE_PREFIX: Final = "x_"
