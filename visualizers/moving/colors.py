"""The colours of moving pictures, which are those of the player."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from PIL import Image, ImageDraw

from traces.schema import Fate
from visualizers.palette import BLACK, DARK, LIGHT, MARKS, WHITE, Surface, ink
from visualizers.style import Theme

REJECTED = (Fate.RESAMPLED, Fate.REJECTED)
"""Fates that say that the draft did not pass."""


@dataclass(frozen=True, slots=True)
class Colors:
    """The colours of one theme."""

    surface: Surface
    hatch: str
    """Lines over drafts."""
    fates: Mapping[Fate, str]
    inks: Mapping[Fate, str]
    """What reads on the colours of the fates."""

    @property
    def every(self) -> tuple[str, ...]:
        """All colours, for a palette that must have them."""
        surface = self.surface
        quiet = (surface.background, surface.panel, surface.text, surface.muted, surface.line, surface.accent)
        return tuple(dict.fromkeys((*quiet, surface.emphasis, BLACK, WHITE, *self.fates.values())))


@cache
def colors_of(theme: Theme) -> Colors:
    """Return the colours of a theme."""
    dark = theme == "dark"
    fates = {fate: mark.dark if dark else mark.light for fate, mark in MARKS.items()}
    inks = {fate: ink(color) for fate, color in fates.items()}
    return Colors(DARK if dark else LIGHT, WHITE if dark else BLACK, fates, inks)


@cache
def hatching(width: int, height: int, gap: int) -> Image.Image:
    """Return diagonal lines `gap` pixels apart, as a mask."""
    scale = 3
    large = Image.new("L", (width * scale, height * scale), 0)
    pen = ImageDraw.Draw(large)
    for start in range(-large.height, large.width, gap * scale):
        pen.line((start, large.height, start + large.height, 0), fill=255, width=max(scale, round(gap * scale / 5)))
    return large.resize((width, height), Image.Resampling.BOX)
