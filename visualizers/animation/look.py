"""How a moving picture is made, and its frames on a clock of forward passes, of milliseconds, or of other hardware."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil
from typing import Final, Literal, NamedTuple

from draftscope.analysis.hardware import HardwareError, Machine, predict
from draftscope.traces.schema import Trace
from draftscope.visualizers.style import Theme

Clock = Literal["passes", "milliseconds", "computed"]
MAX_RUNS: Final = 6
MAX_FRAMES: Final = 600
MAX_SECONDS: Final = 120
"""Length of the film, including the last frame."""
MAX_CELLS: Final = 2**23
"""Positions drawn in all frames together."""
_RANGES: Final = {
    "fps": (1, 50),
    "width": (240, 1600),
    "passes_per_frame": (1, 2**16),
    "slowdown": (0.001, 1000),
    "last_frame_seconds": (0, 30),
}
"""Setting -> smallest and largest value."""
_SLACK: Final = 1e-6
"""By how much of its unit a sum of rounded times may miss the end of a pass."""


class MovingError(ValueError):
    """Error for an animation that cannot be made. The message is one line with the remedy."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        """Join the problem, with the value at fault, and the remedy, which names fields of `AnimationOptions`."""
        self.problem, self.remedy = problem, remedy
        super().__init__(f"{problem}: {remedy}" if remedy else problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnimationOptions:
    """How a moving picture is made; a value out of range raises `MovingError`."""

    clock: Clock = "passes"
    """Whether a frame is a forward pass of every run, or a span of time: measured, or computed for a `machine`.

    A drafter's pass counts its share of a target pass.
    """
    machine: Machine | None = None
    theme: Theme = "light"
    fps: float = 10
    """Frames a second."""
    width: int = 720
    """Pixels across."""
    passes_per_frame: int = 1
    """On the clock of passes: passes from one frame to the next."""
    slowdown: float = 4
    """On the clocks of time: how many times slower than that."""
    last_frame_seconds: float = 3
    """Seconds that the last frame stays."""
    names: tuple[str, ...] = ()
    """Titles of the runs; by default the method and the settings that differ."""

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise MovingError(f"{name.replace('_', ' ')} {value:g}", f"choose a number from {low:g} to {high:g}")
        if (self.clock == "computed") != (self.machine is not None):
            raise MovingError(f"clock {self.clock}", "the clock `computed` and a machine belong together; give both")


class Moment(NamedTuple):
    """One frame: what it shows and for how long."""

    counts: tuple[int, ...]
    """Forward passes that every run has made."""
    seconds: float


def moments(traces: Sequence[Trace], look: AnimationOptions) -> tuple[Moment, ...]:
    """Return the frames in order: the first before any pass, the last with all runs complete.

    Args:
        traces: Runs, side by side.
        look: Clock, frames a second, names, and how long the last frame stays.

    Raises:
        MovingError: There are no or too many traces, no passes, or too many frames or seconds.
    """
    if not 1 <= len(traces) <= MAX_RUNS:
        raise MovingError(f"{len(traces)} traces", f"give 1 to {MAX_RUNS} to be shown side by side")
    if len(look.names) > len(traces):
        raise MovingError(f"{len(look.names)} names for {len(traces)} traces", "give at most one each")
    if not any(trace.steps for trace in traces):
        raise MovingError("no trace has a forward pass, so nothing moves", "give a run that was decoded")
    counts = _counts(traces, look)
    last = max(look.last_frame_seconds, 1 / look.fps)
    return *(Moment(each, 1 / look.fps) for each in counts[:-1]), Moment(counts[-1], last)


def fitting(traces: Sequence[Trace], look: AnimationOptions) -> AnimationOptions:
    """Return options with as many passes to a frame as the limits need, or at most as slow as they allow.

    Args:
        traces: Runs, side by side.
        look: Options, which may exceed the limits.

    Raises:
        MovingError: The times cannot be computed, or are too long for any speed.
    """
    max_frames = max(1, _max_frames(traces, look) - 1)
    if look.clock == "passes":
        longest = max((_weighed(trace)[-1] for trace in traces), default=0)
        return replace(look, passes_per_frame=max(look.passes_per_frame, ceil(longest / max_frames)))
    seconds = max(pass_ends(trace, look.machine)[-1] for trace in traces) / 1000
    return replace(look, slowdown=min(look.slowdown, 0.99 * max_frames / (look.fps * seconds))) if seconds else look


def pass_ends(trace: Trace, machine: Machine | None) -> list[float]:
    """Return when each pass ends, in milliseconds; the first number is the start, 0.

    Args:
        trace: Run.
        machine: Hardware that the times are computed for; None for the measured times.

    Raises:
        MovingError: The times cannot be computed.
    """
    try:
        computed = predict(trace, machine).passes if machine else ()
    except HardwareError as error:
        raise MovingError(str(error)) from error
    times = [1000 * cost.seconds for cost in computed] or [step.call.milliseconds.total for step in trace.steps]
    return list(accumulate(times, initial=0.0))


def _max_frames(traces: Sequence[Trace], look: AnimationOptions) -> int:
    positions = sum(len(trace.output.tokens) for trace in traces)
    return min(MAX_FRAMES, int((MAX_SECONDS - look.last_frame_seconds) * look.fps), MAX_CELLS // max(1, positions))


def _weighed(trace: Trace) -> list[float]:
    """Return when each pass ends on the clock of passes.

    A drafter's pass counts its mean time over that of the fastest target pass, 1 where these were not timed.
    """
    drafts, target = (
        [step.call.milliseconds.total for step in trace.steps if (step.call.role == "draft") is drafted]
        for drafted in (True, False)
    )
    part = sum(drafts) / len(drafts) / min(target) if drafts and any(drafts) and min(target, default=0) else 1.0
    return list(accumulate((part if step.call.role == "draft" else 1.0 for step in trace.steps), initial=0.0))


def _counts(traces: Sequence[Trace], look: AnimationOptions) -> list[tuple[int, ...]]:
    """Return how many passes of every run are finished in each frame, all in the last one."""
    by_pass = look.clock == "passes"
    ends = [_weighed(trace) if by_pass else pass_ends(trace, look.machine) for trace in traces]
    longest, step = (
        max(each[-1] for each in ends),
        look.passes_per_frame if by_pass else 1000 / (look.fps * look.slowdown),
    )
    if longest == 0:
        raise MovingError("no pass of these runs was timed", "set clock to passes")
    frames, max_frames = 1 + ceil(longest / step - _SLACK), _max_frames(traces, look)
    if frames > max_frames:
        fits = fitting(traces, look)
        remedy = (
            f"set passes per frame to {fits.passes_per_frame}"
            if by_pass
            else f"show it faster, with a slowdown of {fits.slowdown:.2g} or less"
        )
        raise MovingError(f"{frames} frames are more than {max_frames}", remedy)
    counts = [tuple(bisect_right(each, frame * step + _SLACK) - 1 for each in ends) for frame in range(frames)]
    return [*counts[:-1], tuple(len(each) - 1 for each in ends)]
