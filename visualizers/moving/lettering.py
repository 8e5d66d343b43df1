"""Words in pictures, in the font that comes with Pillow: Latin letters, digits and the usual signs."""

import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import Final

from PIL import Image, ImageDraw, ImageFont

from visualizers.moving.errors import CodecMissing

_INSTEAD: Final = {
    "×": "x",
    "–": "-",
    "—": "-",
    "−": "-",
    "\u00a0": " ",
    "≥": ">=",
    "≤": "<=",
    "·": ".",
    "→": "->",
    "←": "<-",
}
_NO_LETTER: Final = "\uffff"
_BOLD: Final = 0.025
"""Of the size: how far a bold letter's outline moves."""
_NARROWEST: Final = 0.1
"""Of the size: no letter is narrower."""


@cache
def font(size: float) -> ImageFont.FreeTypeFont:
    """Return the font with letters of `size` pixels.

    Raises:
        CodecMissing: Pillow was built without FreeType.
    """
    found = ImageFont.load_default(size)
    if not isinstance(found, ImageFont.FreeTypeFont):
        raise CodecMissing("letters are drawn by FreeType, which this Pillow lacks", "install Pillow as a wheel")
    return found


def written(text: str) -> str:
    """Return the text in letters that the font has; others lose their accents, and what is still missing is a `?`."""
    return "".join(map(_letter, text))


@cache
def _letter(character: str) -> str:
    if _has(character):
        return character
    if character in _INSTEAD:
        return _INSTEAD[character]
    bare = "".join(part for part in unicodedata.normalize("NFKD", character) if _has(part))
    return bare or "?"


@cache
def _has(character: str) -> bool:
    large = font(32)
    if character == " ":
        return True
    mask, missing = large.getmask(character), large.getmask(_NO_LETTER)
    return character.isprintable() and (mask.size != missing.size or bytes(mask) != bytes(missing))


@dataclass(frozen=True, slots=True)
class Letters:
    """How a text looks; all of it is in letters that the font has, see `written`."""

    size: float
    """Pixels."""
    color: str
    """`#rrggbb`."""
    bold: bool = False

    def width(self, text: str) -> float:
        """Return how many pixels a text takes."""
        return font(self.size).getlength(text) + (2 * _BOLD * self.size if self.bold else 0)

    def shortened(self, text: str, most: float) -> str:
        """Return the text, cut at its end where it takes more than `most` pixels."""
        near = text[: self._most_letters(most) + 1]
        if len(near) == len(text) and self.width(text) <= most:
            return text
        low, high = 0, len(near)
        while low < high:  # The longest beginning that fits.
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.width(near[:middle] + "...") <= most else (low, middle - 1)
        return near[:low].rstrip() + "..."

    def _most_letters(self, most: float) -> int:
        """Return how many letters can have room at all; a trace's text may have hundreds of thousands."""
        return int(most / (_NARROWEST * self.size)) + 1

    def wrapped(self, text: str, most: float, lines: int) -> list[str]:
        """Break a text into at most so many lines of `most` pixels; what does not fit is cut."""
        found: list[str] = []
        words = text[: lines * self._most_letters(most) + 1].split()
        while words:
            if len(found) == lines - 1:
                return [*found, self.shortened(" ".join(words), most)]
            count = 1
            while count < len(words) and self.width(" ".join(words[: count + 1])) <= most:
                count += 1
            found.append(self.shortened(" ".join(words[:count]), most))
            words = words[count:]
        return found

    def write(self, image: Image.Image, at: tuple[float, float], text: str, anchor: str = "ls") -> None:
        """Write a text on a picture with its anchor, as Pillow names it, at a place; the left end of the base line."""
        stroke = _BOLD * self.size if self.bold else 0
        pen = ImageDraw.Draw(image)
        pen.text(at, text, fill=self.color, font=font(self.size), anchor=anchor, stroke_width=stroke)
