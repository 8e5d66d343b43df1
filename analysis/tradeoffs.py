"""Speed-up against loss of quality, for one kind of output or many, and the best choice."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from draftscope.traces.labels import name_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """Cost of a drafter in passes, so that another cost can be assumed."""

    ordinary_passes: float
    """Passes of the baseline for the same tokens."""
    draft_passes: float
    cost: float
    """Cost of a draft pass, in baseline passes of the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tradeoff:
    """A method with its settings, compared with the baseline of the same model and batch size."""

    kind: str
    """Kind of output: picture, video, text, continuous."""
    method: str
    setting: str
    """In words."""
    speed: float
    """Times as fast as ordinary decoding, in time."""
    speed_low: float | None = None
    """Lower quartile, or a standard error below."""
    speed_high: float | None = None
    change: float | None = None
    """Change of quality from the baseline, in percentage points; None if it was not measured."""
    error: float | None = None
    """Standard error of the change."""
    quality: str = ""
    """Measure of quality and its sample size."""
    exact: bool = False
    """Whether the output follows the model's own distribution."""
    model: str = ""
    batch: int | None = 1
    """None where it is unknown."""
    hardware: str = ""
    source: str = ""
    """Source of the numbers."""
    reported: bool = False
    """Whether others measured it, on their machines and models."""
    drafting: Drafting | None = None
    predicted: bool = False
    """Whether the speed is reckoned from passes, with another cost of drafts than was measured."""
    settings: tuple[tuple[str, object], ...] = ()
    """Settings that tell it from others, by name."""

    @property
    def name(self) -> str:
        """Name of the method with its settings."""
        return name_for(self.method, dict(self.settings))

    @property
    def called(self) -> str:
        """Method and setting."""
        return f"{self.name} with {self.setting.removeprefix(f'{self.name}, ')}"

    @property
    def faster(self) -> bool:
        """Whether it is faster than ordinary decoding beyond its own spread."""
        return self.speed > 1 and (self.speed_low is None or self.speed_low > 1)

    @property
    def window(self) -> int:
        """Tokens of a pass that the setting names; 0 where it names none."""
        named = re.search(r"window (\d+)", self.setting)
        return int(named[1]) if named else 0

    @property
    def height(self) -> float | None:
        """The change of quality to draw: nothing is lost by an exact method that was not measured. None if unknown."""
        return 0.0 if self.change is None and self.exact else self.change

    @property
    def within_noise(self) -> bool:
        """Whether the change is no larger than twice its standard error."""
        return self.change is not None and abs(self.change) <= 2 * (self.error or 0)

    def is_within_loss(self, max_loss: float) -> bool:
        """Whether at most `max_loss` percentage points are lost, or what is lost is below its own standard error."""
        if self.height is None:
            return False
        return -self.height <= max(max_loss, self.error or 0.0)


def predicted(one: Tradeoff, cost: float) -> Tradeoff:
    """Return the tradeoff for another cost of drafts, computed from the counted passes.

    With N baseline passes, T target passes and D draft passes at c baseline passes each, decoding is N / (T v + D c)
    times as fast. The cost v of a verifying pass follows from the measured speed and is kept.

    Args:
        one: Measured tradeoff; returned as it is if it has no drafter.
        cost: c, the time of a draft pass over that of a baseline pass.
    """
    drafting = one.drafting
    if drafting is None:
        return one
    verifying = drafting.ordinary_passes / one.speed - drafting.draft_passes * drafting.cost
    speed = drafting.ordinary_passes / (max(verifying, 0.0) + drafting.draft_passes * cost)
    ratio = speed / one.speed
    low, high = (None if edge is None else edge * ratio for edge in (one.speed_low, one.speed_high))
    return replace(one, speed=speed, speed_low=low, speed_high=high, predicted=True)


def best(among: Sequence[Tradeoff], max_loss: float) -> Tradeoff | None:
    """Return the fastest measured tradeoff; None if none beats the baseline.

    Args:
        among: Tradeoffs; those that a paper reports are left out.
        max_loss: Percentage points of quality that it may lose.
    """
    fits = [one for one in among if not one.reported and one.faster and one.is_within_loss(max_loss)]
    return max(fits, key=lambda one: one.speed, default=None)


def frontier(among: Sequence[Tradeoff]) -> tuple[Tradeoff, ...]:
    """Return the Pareto front of speed and quality, slowest first."""
    known = [(one, (one.speed, one.height)) for one in among if one.height is not None and not one.reported]
    unbeaten = on_frontier([point for _, point in known])
    return tuple(
        sorted((one for (one, _), keep in zip(known, unbeaten, strict=True) if keep), key=lambda one: one.speed)
    )


def on_frontier(points: Sequence[tuple[float, float]]) -> tuple[bool, ...]:
    """Return for points of (speed, quality) whether no other is at least as good in both and better in one."""
    return tuple(
        not any(s >= speed and q >= quality and (s, q) != (speed, quality) for s, q in points)
        for speed, quality in points
    )
