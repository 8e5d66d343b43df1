"""What the marks on the canvases mean: a row of swatches with words, of what occurs in these runs."""

from collections.abc import Callable, Sequence
from typing import Final

from PIL import Image, ImageDraw

from traces.replay import PENDING
from traces.schema import Fate, Trace
from visualizers.moving.colors import REJECTED, Colors, hatching
from visualizers.moving.lettering import Letters

MARGIN: Final = 14
"""Units around everything."""
_SIDE: Final = 16
"""Units that a swatch is long."""


class Key:
    """The key to the marks."""

    def __init__(self, traces: Sequence[Trace], unit: float, colors: Colors) -> None:
        """Find out what needs an explanation; `unit` scales all."""
        self._unit, self._colors = unit, colors
        self._chips = all(trace.canvas.kind == "text" for trace in traces)
        self._words = Letters(13 * unit, colors.surface.muted)
        fates = {fate for trace in traces for step in trace.steps for fate in step.fate}
        marks: list[tuple[Callable[[Image.Image], None], str]] = [(self._decided, "decided in this pass")]
        if fates & set(REJECTED):
            marks.append((self._rejected, "draft rejected" + ("" if Fate.REJECTED in fates else ", drawn again")))
        if fates & PENDING:
            marks.append((self._draft, "draft, not verified yet"))
        self._marks = [*marks, (self._open, "open")]

    def paint(self, image: Image.Image, left: float, top: float) -> None:
        """Draw the key from `left` on, or further left where it would not fit."""
        unit, side = self._unit, round(_SIDE * self._unit)
        wide = sum(side + self._words.width(words) + 24 * unit for _, words in self._marks)
        if left + wide > image.width:
            left = max(MARGIN * unit, (image.width - wide) / 2)
        for draw, words in self._marks:
            swatch = Image.new("RGB", (side, side), self._colors.surface.panel)
            draw(swatch)
            image.paste(swatch, (round(left), round(top)))
            self._words.write(image, (left + side + 6 * unit, top + side / 2 + 4.5 * unit), words)
            left += side + self._words.width(words) + 24 * unit

    def _draft(self, image: Image.Image) -> None:
        lines = hatching(*image.size, max(4, image.width // 3)).point(lambda value: value * 0.65)
        image.paste(self._colors.hatch, mask=lines)

    def _open(self, image: Image.Image) -> None:
        ImageDraw.Draw(image).rectangle((0, 0, image.width - 1, image.height - 1), outline=self._colors.surface.line)

    def _decided(self, image: Image.Image) -> None:
        self._framed(image, self._colors.fates[Fate.ACCEPTED] if self._chips else self._colors.surface.accent)

    def _rejected(self, image: Image.Image) -> None:
        color = self._colors.fates[Fate.RESAMPLED] if self._chips else self._colors.surface.emphasis
        self._framed(image, color)
        ink = self._colors.inks[Fate.RESAMPLED] if self._chips else color
        corner = image.width * 0.5
        ImageDraw.Draw(image).polygon([(0, 0), (corner, 0), (0, corner)], fill=ink)

    def _framed(self, image: Image.Image, color: str) -> None:
        """Draw a frame around a cell, or the filled place of a word."""
        image.paste(color if self._chips else self._colors.surface.line, (0, 0, *image.size))
        pen = ImageDraw.Draw(image)
        pen.rectangle((0, 0, image.width - 1, image.height - 1), outline=color, width=max(2, image.width // 7))
