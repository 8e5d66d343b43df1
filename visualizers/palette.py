"""Colours and glyphs, said once for the player in the browser and for the figures.

The hues are those of Okabe and Ito (https://jfly.uni-koeln.de/color/). A hue names a family of fates (blue: a draft
that passed, vermillion: a rejection, green: final without a test, orange and sky: drafts that still move, grey: nothing
new); the glyph names the fate itself, so that nothing rests on colour alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from plotly.colors import hex_to_rgb, sequential

from draftscope.traces.schema import Fate

BLACK: Final = "#000000"
WHITE: Final = "#ffffff"
ORANGE: Final = "#E69F00"
SKY_BLUE: Final = "#56B4E9"
GREEN: Final = "#009E73"
BLUE: Final = "#0072B2"
VERMILLION: Final = "#D55E00"
PURPLE: Final = "#CC79A7"
PALE: Final = "#f4f5f7"
"""The middle of scales that diverge."""

CIVIDIS: Final = tuple(sequential.Cividis)
"""Ten even stops of the cividis map (Nunez, Anderton, Renslow 2018), low to high."""


@dataclass(frozen=True, slots=True)
class Surface:
    """The quiet colours of one theme."""

    background: str
    panel: str
    text: str
    muted: str
    line: str
    accent: str
    emphasis: str
    """Colour of the reader's choice, against `accent`."""


LIGHT: Final = Surface(
    background="#ffffff",
    panel="#f4f3ef",
    text="#16181d",
    muted="#565b66",
    line="#dcd9d1",
    accent=BLUE,
    emphasis=VERMILLION,
)
DARK: Final = Surface(
    background="#171a20",
    panel="#1d2128",
    text="#eeeff1",
    muted="#a4acb8",
    line="#343a45",
    accent=SKY_BLUE,
    emphasis=ORANGE,
)
_CIRCLE: Final = "M8 3a5 5 0 1 0 0 10a5 5 0 1 0 0-10z"
_SQUARE: Final = "M3.5 3.5h9v9h-9z"
_DIAMOND: Final = "M8 2l6 6-6 6-6-6z"
_TRIANGLE: Final = "M8 2.5l6 10.5h-12z"


@dataclass(frozen=True, slots=True)
class Mark:
    """How a fate is drawn: a colour for light and dark pages, and a glyph that says the same without colour."""

    light: str
    dark: str
    glyph: str
    """The glyph as a character, for running text."""
    path: str
    """The glyph as an SVG path in a box of 16 by 16."""
    filled: bool
    """Whether the path is filled or stroked."""
    symbol: str
    """The plotly marker that looks like it."""


MARKS: Final[Mapping[Fate, Mark]] = MappingProxyType(
    {
        Fate.DRAFTED: Mark(SKY_BLUE, SKY_BLUE, "+", "M8 3v10M3 8h10", False, "cross-thin-open"),
        Fate.KEPT: Mark("#bcc1c9", "#5c626c", "-", "M3 8h10", False, "line-ew-open"),
        Fate.CHANGED: Mark(ORANGE, ORANGE, "△", _TRIANGLE, False, "triangle-up-open"),
        Fate.REJECTED: Mark(VERMILLION, VERMILLION, "✕", "M4 4l8 8M12 4l-8 8", False, "x-thin-open"),
        Fate.DISCARDED: Mark("#8b919b", "#8b919b", "/", "M4 12l8-8", False, "line-ne-open"),
        Fate.SAMPLED: Mark("#6b717b", "#a2a8b2", "■", _SQUARE, True, "square"),
        Fate.PREFILLED: Mark("#3d424a", "#d5d8dd", "▬", "M3 6h10v4h-10z", True, "hourglass"),
        Fate.ACCEPTED: Mark(BLUE, "#3a94d3", "●", _CIRCLE, True, "circle"),
        Fate.RESAMPLED: Mark(VERMILLION, VERMILLION, "□", _SQUARE, False, "square-open"),
        Fate.BONUS: Mark(GREEN, GREEN, "◆", _DIAMOND, True, "diamond"),
        Fate.UNMASKED: Mark(GREEN, GREEN, "▲", _TRIANGLE, True, "triangle-up"),
        Fate.FALLBACK: Mark(PURPLE, PURPLE, "◇", _DIAMOND, False, "diamond-open"),
        Fate.EDITED: Mark(PURPLE, PURPLE, "○", _CIRCLE, False, "circle-open"),
    }
)
"""Fate -> mark, in the order of a legend."""

REJECTED: Final = (Fate.RESAMPLED, Fate.REJECTED)
"""Fates of a rejected draft."""


def luminance(color: str) -> float:
    """Return the relative luminance of `#rrggbb` in [0, 1] (WCAG 2.2, "relative luminance")."""
    channels = (value / 255 for value in hex_to_rgb(color))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21 (WCAG 2.2).

    Args:
        first: Colour as `#rrggbb`.
        second: The other colour; their order has no effect.

    Example:
        >>> contrast("#000000", "#ffffff")
        21.0
    """
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def ink(color: str) -> str:
    """Return black or white: the one with the higher contrast on `color`."""
    return BLACK if contrast(color, BLACK) >= contrast(color, WHITE) else WHITE
