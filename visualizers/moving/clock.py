"""What to show when: the frames of a moving picture on a clock of forward passes or of milliseconds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil
from typing import Final, Literal

from traces.schema import Trace
from visualizers.moving.errors import (
    FASTEST,
    LONGEST_HOLD,
    MOST_FRAMES,
    MOST_LANES,
    MOST_SECONDS,
    SLOWEST,
    WIDTHS,
    MovingError,
)
from visualizers.style import Theme

Clock = Literal["passes", "milliseconds"]
SIZES: Final = {"small": 480, "medium": 720, "large": 1080}
"""Name -> pixels across."""
_SLACK: Final = 1e-6
"""Milliseconds by which a sum of rounded times may miss the end of a pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a moving picture is made; whatever is out of range raises `MovingError`."""

    clock: Clock = "passes"
    """Whether a frame is one forward pass of every lane or a span of time, the same for all."""
    theme: Theme = "light"
    fps: float = 10
    """Frames a second."""
    width: int = SIZES["medium"]
    """Pixels across."""
    every: int = 1
    """On the clock of passes: passes from one frame to the next."""
    slow: float = 4
    """On the clock of milliseconds: how many times slower than it happened."""
    hold: float = 3
    """Seconds that the last frame stays."""
    names: tuple[str, ...] = ()
    """Titles of the lanes; the traces say what is not given."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("fps", 1, FASTEST),
            ("width", *WIDTHS),
            ("every", 1, 2**16),
            ("slow", 1 / SLOWEST, SLOWEST),
            ("hold", 0, LONGEST_HOLD),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise MovingError(f"{name} {value:g}", f"choose a number from {low:g} to {high:g}")


@dataclass(frozen=True, slots=True)
class Moment:
    """One frame: what it shows and for how long."""

    counts: tuple[int, ...]
    """Forward passes that every lane has behind it."""
    seconds: float


def moments(traces: Sequence[Trace], look: Look) -> tuple[Moment, ...]:
    """Return the frames in order: before any pass first, the whole of every run last.

    Raises:
        MovingError: There are no or too many traces, no passes, or too many frames or seconds.
    """
    if not 1 <= len(traces) <= MOST_LANES:
        raise MovingError(f"{len(traces)} traces", f"give 1 to {MOST_LANES} to be shown side by side")
    if len(look.names) > len(traces):
        raise MovingError(f"{len(look.names)} names for {len(traces)} traces", "give at most one each")
    if not any(trace.steps for trace in traces):
        raise MovingError("no trace has a forward pass, so nothing moves", "give a run that was decoded")
    _check_length(traces, look)
    found = _passes(traces, look) if look.clock == "passes" else _milliseconds(traces, look)
    held = _held(traces, look)
    found += [found[-1]] * held
    seconds = [1 / look.fps] * (len(found) - 1) + [1 / look.fps if held else max(look.hold, 1 / look.fps)]
    return tuple(Moment(counts, time) for counts, time in zip(found, seconds, strict=True))


def has_clip(trace: Trace) -> bool:
    """Whether there is a clip that can play beside its latent frames."""
    return trace.canvas.kind == "video" and bool(trace.output.video)


def _decoding(traces: Sequence[Trace], look: Look) -> int:
    """Frames until every run has come to its end."""
    if look.clock == "passes":
        return 1 + ceil(max(len(trace.steps) for trace in traces) / look.every)
    return 1 + ceil(max(_ends(trace)[-1] for trace in traces) * _frames_a_millisecond(look) - _SLACK)


def _held(traces: Sequence[Trace], look: Look) -> int:
    """Frames in which nothing is decoded any more but clips play on."""
    return round(look.hold * look.fps) if any(map(has_clip, traces)) else 0


def fitted(traces: Sequence[Trace], look: Look, most: int = MOST_FRAMES) -> Look:
    """Return the look with as many passes to a frame as it takes for `most` frames and the longest time."""
    longest = max((len(trace.steps) for trace in traces), default=0)
    room = min(most - _held(traces, look), int((MOST_SECONDS - look.hold) * look.fps)) - 1
    return replace(look, every=max(look.every, ceil(longest / max(1, room))))


def _passes(traces: Sequence[Trace], look: Look) -> list[tuple[int, ...]]:
    longest = max(len(trace.steps) for trace in traces)
    shown = [*range(0, longest, look.every), longest]
    return [tuple(min(count, len(trace.steps)) for trace in traces) for count in shown]


def _milliseconds(traces: Sequence[Trace], look: Look) -> list[tuple[int, ...]]:
    ends = [_ends(trace) for trace in traces]
    step = 1 / _frames_a_millisecond(look)
    found = []
    at = [0] * len(traces)
    for frame in range(_decoding(traces, look)):
        for lane, lane_ends in enumerate(ends):
            while at[lane] + 1 < len(lane_ends) and lane_ends[at[lane] + 1] <= frame * step + _SLACK:
                at[lane] += 1
        found.append(tuple(at))
    found[-1] = tuple(len(trace.steps) for trace in traces)
    return found


def _ends(trace: Trace) -> list[float]:
    """Return when each pass ends, in milliseconds; the first number is the start."""
    return list(accumulate((step.call.milliseconds.total for step in trace.steps), initial=0.0))


def _frames_a_millisecond(look: Look) -> float:
    return look.fps * look.slow / 1000


def _check_length(traces: Sequence[Trace], look: Look) -> None:
    if look.clock == "milliseconds" and not any(_ends(trace)[-1] for trace in traces):
        raise MovingError("no pass of these runs was timed", "choose {clock} passes")
    held, decoding = _held(traces, look), _decoding(traces, look)
    seconds = (decoding - 1) / look.fps + look.hold
    room = min(MOST_FRAMES - held, int((MOST_SECONDS - look.hold) * look.fps)) - 1
    if decoding - 1 <= room:
        return
    if room < 1:
        remedy = "choose a shorter {hold}"
    elif look.clock == "passes":
        every = fitted(traces, look).every
        remedy = f"leave passes out with {{every}} {every}"
    else:
        remedy = f"show it faster with {{slow}} {_rounded_down(look.slow * room / (decoding - 1)):g}"
    if decoding + held > MOST_FRAMES:
        raise MovingError(f"{decoding + held} frames are more than {MOST_FRAMES}", remedy)
    raise MovingError(f"{seconds:.0f} seconds are more than {MOST_SECONDS}", remedy)


def _rounded_down(value: float) -> float:
    """Return a number with two digits that is not larger."""
    text = f"{value:.1e}"
    rounded = float(text)
    return rounded if rounded <= value else rounded - float(f"1e{int(text.split('e')[1]) - 1}")
