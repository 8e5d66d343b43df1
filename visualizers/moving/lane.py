"""One run among those shown side by side: its title, its canvas, and how far it has come."""

from collections.abc import Iterable
from functools import cache
from itertools import accumulate
from typing import Final, Protocol

from PIL import Image, ImageDraw

from traces.replay import State
from traces.schema import Trace
from traces.stats import draft_forwards
from visualizers.moving.canvas import PictureCanvas
from visualizers.moving.clip import ClipCanvas
from visualizers.moving.clock import Clock, has_clip
from visualizers.moving.colors import Colors
from visualizers.moving.lettering import Letters, written
from visualizers.moving.text import TextCanvas, told
from visualizers.palette import GREEN, WHITE

TITLE: Final = 30
"""Units from the top of a lane to its canvas."""
BELOW: Final = 82
"""Units below the canvas."""


class Canvas(Protocol):
    """What a lane shows."""

    width: int
    height: int

    def paint(self, state: State, tick: int = 0) -> Image.Image:
        """Return the canvas after `state.step` passes; `tick` counts the frames of the moving picture."""

    def box(self, position: int) -> tuple[int, int, int, int]:
        """Return left, top, right and bottom of a position, the last two not included."""


def canvas_of(trace: Trace, room: tuple[int, int], unit: float, colors: Colors) -> Canvas:
    """Return the canvas of a trace, as large as the room lets it be."""
    if trace.canvas.kind == "text":
        return TextCanvas(trace, room, unit, colors)
    return (ClipCanvas if has_clip(trace) else PictureCanvas)(trace, room, unit, colors)


class Lane:
    """A run on its own ground, drawn anew for every frame."""

    def __init__(self, trace: Trace, name: str, canvas: Canvas, unit: float, colors: Colors) -> None:
        self.trace, self.canvas = trace, canvas
        self.name = written(name)
        self._unit, self._colors = unit, colors
        self._positions = told(trace)
        self._ends = list(accumulate((step.call.milliseconds.total for step in trace.steps), initial=0.0))
        self._drafter = draft_forwards(trace.steps)

    @property
    def height(self) -> int:
        """Pixels from title to counters."""
        return round(TITLE * self._unit) + self.canvas.height + round(BELOW * self._unit)

    def paint(self, state: State, clock: Clock, tick: int = 0) -> Image.Image:
        """Return the lane after `state.step` passes; `tick` counts the frames of the moving picture."""
        unit, surface = self._unit, self._colors.surface
        image = Image.new("RGB", (self.canvas.width, self.height), surface.background)
        title = Letters(16 * unit, surface.text, bold=True)
        title.write(image, (0, 18 * unit), title.shortened(self.name, image.width))
        top = round(TITLE * unit)
        image.paste(self.canvas.paint(state, tick), (0, top))
        top += self.canvas.height
        decoded = sum(state.final[: self._positions])
        self._progress(image, top + round(9 * unit), decoded)
        self._count(image, top + 46 * unit, state, decoded)
        self._details(image, top + 70 * unit, state, clock)
        return image

    def done(self, state: State) -> bool:
        """Whether the run has come to its end."""
        return state.step == len(self.trace.steps)

    def _progress(self, image: Image.Image, top: int, decoded: int) -> None:
        pen, surface = ImageDraw.Draw(image), self._colors.surface
        height = max(2, round(4 * self._unit))
        pen.rectangle((0, top, image.width - 1, top + height - 1), fill=surface.line)
        length = round(image.width * decoded / self._positions)
        if length:
            pen.rectangle((0, top, length - 1, top + height - 1), fill=surface.accent)

    def _count(self, image: Image.Image, base: float, state: State, decoded: int) -> None:
        """Write how many tokens there are and, on the right, how many passes they took."""
        unit, surface = self._unit, self._colors.surface
        large, small = Letters(28 * unit, surface.text, bold=True), Letters(15 * unit, surface.muted)
        large.write(image, (0, base), str(decoded))
        start = large.width(str(decoded)) + 6 * unit
        passes = f"{state.step} pass{'' if state.step == 1 else 'es'}"
        if self.done(state):
            badge = _badge(passes, unit)
            image.paste(badge, (image.width - badge.width, round(base + 6 * unit) - badge.height), badge)
            taken = badge.width
        else:
            running = Letters(18 * unit, surface.text)
            running.write(image, (image.width, base), passes, "rs")
            taken = round(running.width(passes))
        said = f"of {self._positions} tokens"
        if start + small.width(said) > image.width - taken - 4 * unit:
            said = f"/ {self._positions}"
        small.write(image, (start, base), said)

    def _details(self, image: Image.Image, base: float, state: State, clock: Clock) -> None:
        """Write tokens a pass on the left and milliseconds on the right, in quiet letters."""
        letters = Letters(13 * self._unit, self._colors.surface.muted)
        decoded = sum(state.final[: self._positions])
        rate = f"{decoded / state.step:.2f} tokens a pass" if state.step else ""
        if self._drafter and self.done(state):
            rate = f"{self._drafter} of the passes draft"
        time = f"{self._ends[state.step]:,.0f} ms"
        if clock == "milliseconds":
            letters = Letters(13 * self._unit, self._colors.surface.text)
        letters.write(image, (image.width, base), time, "rs")
        letters = Letters(13 * self._unit, self._colors.surface.muted)
        letters.write(image, (0, base), letters.shortened(rate, image.width - letters.width(time) - 8 * self._unit))


@cache
def _badge(text: str, unit: float) -> Image.Image:
    """Return a green pill with a tick and a text: this lane has come to its end."""
    scale = 3
    letters = Letters(17 * unit, WHITE, bold=True)
    width, height = round(letters.width(text) + 42 * unit), round(28 * unit)
    large = Image.new("L", (width * scale, height * scale), 0)
    ImageDraw.Draw(large).rounded_rectangle((0, 0, large.width - 1, large.height - 1), large.height / 2, fill=255)
    badge = Image.new("RGBA", (width, height), GREEN)
    tick = Image.new("L", large.size, 0)
    points = [(12, 15), (17, 20), (26, 9)]
    ImageDraw.Draw(tick).line(_scaled(points, unit * scale), fill=255, width=round(3 * unit * scale), joint="curve")
    badge.paste(WHITE, mask=tick.resize(badge.size, Image.Resampling.BOX))
    letters.write(badge, (32 * unit, height / 2 + 6 * unit), text)
    badge.putalpha(large.resize(badge.size, Image.Resampling.BOX))
    return badge


def _scaled(points: Iterable[tuple[float, float]], by: float) -> list[tuple[float, float]]:
    return [(x * by, y * by) for x, y in points]
