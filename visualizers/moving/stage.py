"""All lanes on one picture: what was asked above them, what the marks mean and who won below."""

import html
from collections.abc import Iterator, Sequence
from itertools import islice
from math import ceil
from typing import Final

from PIL import Image

from traces.replay import Replay, State, canvas_size
from traces.schema import Trace
from visualizers.figure import labels
from visualizers.moving.clock import Look, Moment
from visualizers.moving.colors import colors_of
from visualizers.moving.errors import MOST_HEIGHT, MovingError, NoRoom
from visualizers.moving.key import MARGIN, Key
from visualizers.moving.lane import BELOW, TITLE, Lane, canvas_of
from visualizers.moving.lettering import Letters, written

GAP: Final = 20
"""Units between lanes."""
PICTURE_WIDTH: Final = 432
"""Units that a picture is wide at most."""
FOOT: Final = 68
"""Units of the key and the line below it."""
PROMPT_LINES: Final = 3
MOST_INITIALS: Final = 5
"""Letters of a method's name that is spelled in capitals."""


class Stage:
    """The ground that the lanes stand on. Its size is fixed when it is made."""

    def __init__(self, traces: Sequence[Trace], look: Look) -> None:
        """Lay the lanes out.

        Raises:
            MovingError: They do not fit.
        """
        self._look = look
        self._unit = look.width / 720
        self._colors = colors_of(look.theme)
        self._across = {1: 1, 2: 2, 4: 2}.get(len(traces), 3)
        self._shared = len({(trace.prompt, trace.model.id) for trace in traces}) == 1
        self._prompt, self._model = _asked(traces) if self._shared else ("", "")
        self._prompt_letters = Letters(19 * self._unit, self._colors.surface.text, bold=True)
        self._prompt_lines = self._prompt_letters.wrapped(self._prompt, self._inner, PROMPT_LINES)
        self.lanes = self._lanes(traces)
        self._key = Key(traces, self._unit, self._colors)
        self.size = look.width // 2 * 2, ceil((self._top + self._rows_height + FOOT * self._unit) / 2) * 2
        if self.size[1] > MOST_HEIGHT:
            what = f"{self.size[1]} pixels high is more than {MOST_HEIGHT}"
            raise MovingError(what, "choose a smaller {size}", *_fewer(traces))

    @property
    def _inner(self) -> float:
        return self._look.width - 2 * MARGIN * self._unit

    @property
    def _top(self) -> int:
        """Pixels above the lanes."""
        lines = len(self._prompt_lines) * 25 + (20 if self._model else 0)
        return round((MARGIN + 2 + lines + (10 if lines else 0)) * self._unit)

    @property
    def _column(self) -> float:
        """Pixels that a lane may be wide."""
        return (self._inner - (self._across - 1) * GAP * self._unit) / self._across

    def _lanes(self, traces: Sequence[Trace]) -> list[Lane]:
        names = [*self._look.names, *names_of(traces, alike=self._shared)[len(self._look.names) :]]
        lanes = []
        for trace, name in zip(traces, names, strict=True):
            width = self._column
            if trace.canvas.kind == "image":
                width = min(width, PICTURE_WIDTH * self._unit)
            down = ceil(len(traces) / self._across)
            room = MOST_HEIGHT / down - (TITLE + BELOW + 2 * GAP + FOOT) * self._unit
            try:
                canvas = canvas_of(trace, (int(width), int(min(room, 900 * self._unit))), self._unit, self._colors)
            except NoRoom as error:
                raise MovingError(error.what, *error.remedies, *_fewer(traces)) from None
            lanes.append(Lane(trace, name, canvas, self._unit, self._colors))
        return lanes

    @property
    def _rows(self) -> list[list[Lane]]:
        return [self.lanes[start : start + self._across] for start in range(0, len(self.lanes), self._across)]

    @property
    def _rows_height(self) -> float:
        return sum(max(lane.height for lane in row) for row in self._rows) + (len(self._rows) - 1) * 14 * self._unit

    def frames(self, moments: Sequence[Moment]) -> Iterator[Image.Image]:
        """Draw the moments, which follow one another; every state is that of `traces.replay`."""
        replays = [Replay(canvas_size(lane.trace.canvas)) for lane in self.lanes]
        steps = [iter(lane.trace.steps) for lane in self.lanes]
        states = [replay.state() for replay in replays]
        for tick, moment in enumerate(moments):
            for lane, count in enumerate(moment.counts):
                for step in islice(steps[lane], count - states[lane].step):
                    replays[lane].apply(step)
                if count != states[lane].step:
                    states[lane] = replays[lane].state()
            yield self.paint(states, tick)

    def corners(self) -> list[tuple[int, int]]:
        """Return left and top of every lane."""
        found = []
        top = float(self._top)
        for row in self._rows:
            tall = max(lane.height for lane in row)
            wide = sum(lane.canvas.width for lane in row) + (len(row) - 1) * GAP * self._unit
            left = MARGIN * self._unit if len(self._rows) > 1 else (self._look.width - wide) / 2
            for lane in row:
                found.append((round(left), round(top)))
                step = self._column if len(self._rows) > 1 else lane.canvas.width
                left += step + GAP * self._unit
            top += tall + 14 * self._unit
        return found

    def paint(self, states: Sequence[State], tick: int = 0) -> Image.Image:
        """Draw all lanes as their states are; `tick` counts the frames, for clips that play."""
        image = Image.new("RGB", self.size, self._colors.surface.background)
        self._head(image)
        for lane, corner, state in zip(self.lanes, self.corners(), states, strict=True):
            image.paste(lane.paint(state, self._look.clock, tick), corner)
        self._foot(image, states)
        return image

    def _left(self) -> int:
        return min(left for left, _ in self.corners())

    def _head(self, image: Image.Image) -> None:
        unit, surface = self._unit, self._colors.surface
        base, left = (MARGIN + 20) * unit, self._left()
        for line in self._prompt_lines:
            self._prompt_letters.write(image, (left, base), line)
            base += 25 * unit
        letters = Letters(13 * unit, surface.muted)
        letters.write(image, (left, base - 3 * unit), letters.shortened(self._model, self._inner))

    def _foot(self, image: Image.Image, states: Sequence[State]) -> None:
        """Draw the key to the marks, and below it what a frame is or, at the end, how the runs compare."""
        unit = self._unit
        base = image.height - 14 * unit
        left = float(self._left())
        self._say(image, (left, base), self._verdict() if all(map(Lane.done, self.lanes, states)) else "")
        self._key.paint(image, left, base - 46 * unit)

    def _say(self, image: Image.Image, at: tuple[float, float], verdict: str) -> None:
        """Write the verdict as large as it fits, or what a frame is while there is none."""
        room = image.width - at[0] - MARGIN * self._unit
        letters = Letters(13 * self._unit, self._colors.surface.muted)
        if verdict:
            letters = Letters(17 * self._unit, self._colors.surface.text, bold=True)
            size = min(letters.size, letters.size * room / letters.width(verdict))
            letters = Letters(max(size, 12 * self._unit), letters.color, bold=True)
        letters.write(image, at, letters.shortened(verdict or self._clock(), room))

    def _clock(self) -> str:
        if self._look.clock == "milliseconds":
            slow = self._look.slow
            speed = "real time" if slow == 1 else f"{slow:g}x slower" if slow > 1 else f"{1 / slow:g}x faster"
            return f"Time as measured, {speed}." if slow == 1 else f"Time as measured, shown {speed}."
        passes = "one forward pass" if self._look.every == 1 else f"{self._look.every} forward passes"
        return f"A frame is {passes} of {'the run' if len(self.lanes) == 1 else 'every run'}."

    def _verdict(self) -> str:
        """Say how the last run compares with the first."""
        if len(self.lanes) == 1:
            return ""
        first, last = self.lanes[0].trace.summary, self.lanes[-1].trace.summary
        if not (first.complete and last.complete and last.forwards and first.forwards):
            return ""
        said = _times(first.forwards / last.forwards, "fewer forward passes", "more forward passes")
        if first.seconds > 0 and last.seconds > 0:
            said += f", {_times(first.seconds / last.seconds, 'faster', 'slower')}"
        beside = "" if len(self.lanes) == 2 else f" than {self.lanes[0].name}"
        return f"{self.lanes[-1].name}: {said}{beside}"


def names_of(traces: Sequence[Trace], *, alike: bool) -> list[str]:
    """Name the lanes by what sets them apart, and by their models where the runs are not alike."""
    names = [html.unescape(label) for label in labels(traces)]
    shown = [
        _titled(trace.method) + name.removeprefix(trace.method) if name.startswith(trace.method) else name
        for name, trace in zip(names, traces, strict=True)
    ]
    if alike:
        return shown
    return [
        f"{name}: {trace.prompt or trace.model.title or trace.model.id}"
        for name, trace in zip(shown, traces, strict=True)
    ]


def _fewer(traces: Sequence[Trace]) -> tuple[str, ...]:
    """Return what helps where several runs share the room."""
    return ("show fewer runs",) if len(traces) > 1 else ()


def _titled(method: str) -> str:
    """Return the name of a method as a title: short ones are initials."""
    first, dash, rest = method.partition("-")
    return (first.upper() if len(first) <= MOST_INITIALS else first.capitalize()) + dash + rest


def _asked(traces: Sequence[Trace]) -> tuple[str, str]:
    """Return the prompt and the model of runs that share both."""
    trace = traces[0]
    prompt = f"“{trace.prompt}”" if trace.prompt and trace.canvas.kind != "text" else trace.prompt
    return written(prompt), written(trace.model.title or trace.model.id)


def _times(ratio: float, more: str, less: str) -> str:
    return f"{ratio:.2f}x {more}" if ratio >= 1 else f"{1 / ratio:.2f}x {less}"
