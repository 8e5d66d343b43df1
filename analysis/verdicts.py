"""Whether drafts are worth it: a speed with its range, and the batches for which it holds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from draftscope.analysis.run_report import times

WORTH: Final = 1.15
"""Times as fast from which a speed-up is worth the second model and its memory."""
MAX_BATCH: Final = 4096


class Range(NamedTuple):
    """Times as fast as ordinary decoding of the same batch, with the ends of the interval."""

    speed: float
    low: float
    high: float


Speeds: TypeAlias = Callable[[int], Range | None]
"""The speed of every batch; None if it does not fit the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer for one batch, and where it turns."""

    batch: int
    at: Range
    turns: int | None
    """The next larger batch with another answer; None if no batch has one."""
    ends: int | None
    """The largest batch that fits the memory, where no larger one has another answer; None if all fit."""

    @property
    def answer(self) -> Literal["Yes", "Perhaps", "No"]:
        """Whether it is worth it over the whole interval, over a part of it, or nowhere."""
        if self.at.low >= WORTH:
            return "Yes"
        return "Perhaps" if self.at.high >= WORTH else "No"

    @property
    def is_worth(self) -> bool:
        """Whether the estimate itself is worth it."""
        return self.at.speed >= WORTH

    def __str__(self) -> str:
        """One sentence."""
        low, high = times(self.at.low), times(self.at.high)
        span = "" if low == high else f", {low} to {high},"
        return f"{self.answer}: about {times(self.at.speed)} times{span} at batch {self.batch:,}; {self.limit}."

    @property
    def limit(self) -> str:
        """Up to which batch this holds, in words."""
        if self.turns is not None:
            return f"{'no' if self.is_worth else 'yes'} from batch {self.turns:,} on"
        if self.is_worth and self.ends is not None:
            return f"memory ends at batch {self.ends:,}" if self.ends > self.batch else "memory ends there"
        return f"no batch up to {MAX_BATCH if self.ends is None else self.ends:,} changes that"


def verdict(speeds: Speeds, batch: int) -> Verdict | None:
    """Return the verdict for a batch; None if it does not fit the memory.

    Larger batches are tried by doubling, and the one at which the answer turns is found by halving.

    Args:
        speeds: Returns the speed at a batch; None if that does not fit.
        batch: Sequences that are decoded together.
    """
    at = speeds(batch)
    if at is None:
        return None
    worth, known, ends = at.speed >= WORTH, batch, None
    while known < MAX_BATCH:
        larger = min(2 * known, MAX_BATCH)
        reached = speeds(larger)
        if reached is None:
            ends = _last(known, larger, lambda one: speeds(one) is not None)
            turned = ends if (last := speeds(ends)) and (last.speed >= WORTH) != worth else None
        else:
            turned = larger if (reached.speed >= WORTH) != worth else None
        if turned is not None:

            def same(one: int) -> bool:
                found = speeds(one)
                return found is not None and (found.speed >= WORTH) == worth

            return Verdict(batch=batch, at=at, turns=_last(known, turned, same) + 1, ends=None)
        if ends is not None:
            break
        known = larger
    return Verdict(batch=batch, at=at, turns=None, ends=ends)


def _last(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the largest number for which something holds that holds for `low` and not for `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
