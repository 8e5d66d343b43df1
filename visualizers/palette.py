"""The colours and marks everything is drawn with: Okabe and Ito's colours, and one mark per fate.

Colours are told apart by people with any colour vision, and no meaning rests on colour alone: every fate has a glyph too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from traces.schema import Fate

BLACK: Final = "#000000"
ORANGE: Final = "#E69F00"
SKY_BLUE: Final = "#56B4E9"
GREEN: Final = "#009E73"
YELLOW: Final = "#F0E442"
BLUE: Final = "#0072B2"
VERMILLION: Final = "#D55E00"
PURPLE: Final = "#CC79A7"
GREY: Final = "#767676"


@dataclass(frozen=True, slots=True)
class Mark:
    """How a fate is drawn: a colour for light and dark pages, and a glyph that says the same without colour."""

    light: str
    dark: str
    glyph: str


MARKS: Final[Mapping[Fate, Mark]] = MappingProxyType(
    {
        Fate.DRAFTED: Mark(GREY, "#A0A0A0", "·"),
        Fate.KEPT: Mark(GREY, "#A0A0A0", "○"),
        Fate.CHANGED: Mark("#B07D00", ORANGE, "△"),
        Fate.REJECTED: Mark(VERMILLION, VERMILLION, "×"),
        Fate.DISCARDED: Mark(GREY, "#A0A0A0", "-"),
        Fate.SAMPLED: Mark(BLUE, SKY_BLUE, "■"),
        Fate.PREFILLED: Mark(GREY, "#A0A0A0", "▪"),
        Fate.ACCEPTED: Mark(BLUE, SKY_BLUE, "●"),
        Fate.RESAMPLED: Mark(VERMILLION, ORANGE, "□"),
        Fate.BONUS: Mark(GREEN, GREEN, "★"),
        Fate.UNMASKED: Mark(BLUE, SKY_BLUE, "◆"),
        Fate.FALLBACK: Mark(PURPLE, PURPLE, "◇"),
        Fate.EDITED: Mark(PURPLE, PURPLE, "✎"),
    }
)
