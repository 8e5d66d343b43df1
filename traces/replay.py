"""Canvas after each step, rebuilt from the steps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import Final, NamedTuple

from draftscope.traces.schema import Canvas, Fate, Step, Token, Trace

PENDING: Final = frozenset({Fate.DRAFTED, Fate.KEPT, Fate.CHANGED})
"""Fates that leave a draft waiting for a verdict."""


class Outcome(NamedTuple):
    """Result of a step at a position."""

    token: Token | None
    """None where the position is open again, or its id is unknown."""
    fate: Fate
    entry: int
    """Index of the entry of the step that decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanvasState:
    """The canvas after `step` forward passes, one entry per position in decoding order."""

    step: int
    tokens: tuple[Token | None, ...]
    """Final token or pending draft; None where the position is open, or its id is unknown."""
    fates: tuple[Fate | None, ...]
    """The last fate at the position; None where nothing happened yet."""
    final: tuple[bool, ...]
    decoded: int
    """Positions that are final."""


def canvas_size(canvas: Canvas) -> int:
    """Number of positions."""
    return prod(canvas.shape)


def position_updates(step: Step) -> dict[int, Outcome]:
    """Return the result of a step at every position it covers.

    If several rows cover one position, a final token takes precedence over a draft, and a draft over an open position;
    among equals the last entry counts.
    """
    left: dict[int, Outcome] = {}
    tokens = step.token or (None,) * len(step.position)
    for entry, (position, token, fate) in enumerate(zip(step.position, tokens, step.fate, strict=True)):
        weight = _weight(fate)
        if position not in left or weight >= _weight(left[position].fate):
            left[position] = Outcome(token if weight else None, fate, entry)
    return left


def canvas_states(trace: Trace) -> Iterator[CanvasState]:
    """The canvas before any step, then after each step: `len(trace.steps) + 1` states."""
    replay = CanvasReplay(canvas_size(trace.canvas))
    yield replay.state()
    for step in trace.steps:
        replay.apply(step)
        yield replay.state()


def state_after(trace: Trace, step: int) -> CanvasState:
    """Return the canvas after some forward passes.

    Args:
        trace: The run.
        step: Number of passes, from 0.

    Raises:
        ValueError: If the trace has fewer steps.
    """
    if not 0 <= step <= len(trace.steps):
        raise ValueError(f"step: {step} is not between 0 and {len(trace.steps)}, the number of steps of the trace")
    return replay_steps(islice(trace.steps, step), canvas_size(trace.canvas))


def replay_steps(steps: Sequence[Step] | Iterator[Step], positions: int) -> CanvasState:
    """Return the canvas after steps.

    Args:
        steps: Steps from the beginning of a run.
        positions: Number of positions of the canvas.
    """
    replay = CanvasReplay(positions)
    for step in steps:
        replay.apply(step)
    return replay.state()


def _weight(fate: Fate) -> int:
    return 2 if fate.final else 1 if fate in PENDING else 0


class CanvasReplay:
    """Canvas to which steps are applied in place, for live and recorded runs."""

    def __init__(self, positions: int) -> None:
        self._step = 0
        self._tokens: list[Token | None] = [None] * positions
        self._fates: list[Fate | None] = [None] * positions
        self.final = [False] * positions
        """Whether each position is part of the output by now."""

    def apply(self, step: Step) -> None:
        """Take one more step."""
        self._step += 1
        for position, (token, fate, _) in position_updates(step).items():
            self._tokens[position] = token
            self._fates[position] = fate
            self.final[position] = fate.final

    def state(self) -> CanvasState:
        """The canvas as it is now."""
        tokens, fates, final = tuple(self._tokens), tuple(self._fates), tuple(self.final)
        return CanvasState(step=self._step, tokens=tokens, fates=fates, final=final, decoded=sum(final))
