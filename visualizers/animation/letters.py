"""Letters of any script, drawn by Pillow in fonts of packages."""

import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Final, Literal

import regex
from PIL import ImageDraw, ImageFont

from draftscope.traces.words import direction
from draftscope.visualizers.animation.look import MovingError
from draftscope.visualizers.fonts import COMMON, EAST_ASIAN, FALLBACKS, font_file

_CHARACTER: Final = regex.compile(r"\X")
_SHAPING: Final = frozenset("\u200c\u200d\ufe0e\ufe0f")
"""Characters that only change how others look."""
_KANA, _HANGUL = regex.compile(r"[\p{Hiragana}\p{Katakana}]"), regex.compile(r"\p{Hangul}")
JAPANESE, KOREAN, CHINESE = range(3)
"""Forms of Han characters, as the font for East Asian scripts has them; Chinese ones are the simplified."""
_UNASSIGNED: Final = "\U0010fffe"

Place = tuple[float, float, Literal["left", "right", ""]]
"""Left edge of a word, its width, and the side to which it runs."""


@lru_cache(maxsize=2**14)  # every frame asks for the same words
def text_width(text: str, size: float) -> float:
    """Return how many pixels a line of text takes in letters of `size` pixels."""
    return sum(_font(name, size).getlength(run) for run, name in _runs(text))


def han_forms(text: str) -> int:
    """Return the forms in which Han characters of a text are written: Japanese next to kana, Korean next to Hangul."""
    return JAPANESE if _KANA.search(text) else KOREAN if _HANGUL.search(text) else CHINESE


def draw_text(
    pen: ImageDraw.ImageDraw, at: tuple[float, float], text: str, size: float, fill: str, forms: int = CHINESE
) -> None:
    """Draw a line of text from its left edge and baseline on; it runs to the side of its first letter.

    Args:
        pen: Draws on an image.
        at: Left edge and baseline, in pixels.
        text: The line.
        size: Height of its letters in pixels.
        fill: Colour.
        forms: Forms of Han characters, as `han_forms` gives them; all take the same width.
    """
    across, runs = at[0], list(_runs(text))
    for run, name in reversed(runs) if direction(text) == "left" else runs:
        font = _font(name, size, forms if name == EAST_ASIAN else 0)
        pen.text((across, at[1]), run, fill=fill, font=font, anchor="ls")
        across += font.getlength(run)


def visual_places(words: Sequence[Place], width: float, base: Literal["left", "right", ""]) -> list[float]:
    """Return the left edges of a line's words in visual order, as `arrangement` of the player has them.

    Args:
        words: In the order of reading, laid out from the left.
        width: Width of the line.
        base: The side to which the whole text runs.
    """
    sides = [side for _, _, side in words]
    runs: list[list[int]] = []
    owned: list[str] = []
    for index, side in enumerate(sides):
        last = next((each for each in reversed(sides[:index]) if each), base)
        following = next((each for each in sides[index + 1 :] if each), base)
        owned.append(side or (last if last == following else base))
        if index and owned[index - 1] == owned[index]:
            runs[-1].append(index)
        else:
            runs.append([index])
    edges = [left for left, _, _ in words]
    for run in runs:
        ends = words[run[0]][0] + words[run[-1]][0] + words[run[-1]][1]
        for index in run if owned[run[0]] != (base or "right") else ():
            edges[index] = ends - words[index][0] - words[index][1]
    return [width - left - words[i][1] for i, left in enumerate(edges)] if base == "left" else edges


def _runs(text: str) -> Iterator[tuple[str, str]]:
    """Yield parts of a text, each with the font that has its letters; spaces and signs stay with what is before."""
    run, current = "", ""
    for character in _CHARACTER.findall("".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cs"))):
        name = _font_of(character)
        if current and not direction(character) and all(_has(current, c) for c in character if c not in _SHAPING):
            name = current
        if run and name != current:
            yield run, current
            run = ""
        run, current = run + character, name
    if run:
        yield run, current


@cache
def _font_of(character: str) -> str:
    """The first font that has the letters of a character; the usual one, with its empty box, if none has."""
    letters = [letter for letter in character if letter not in _SHAPING] or [" "]
    script = unicodedata.name(letters[0], "").partition(" ")[0].title()
    for name in (COMMON, f"NotoSans{script}", *FALLBACKS):
        if font_file(name) and all(_has(name, letter) for letter in letters):
            return name
    return COMMON


@cache
def _has(name: str, letter: str) -> bool:
    """Whether a font has a letter: what it draws is not what it draws for a letter that no font has."""
    font = _font(name, 20)
    return bytes(font.getmask(letter)) != bytes(font.getmask(_UNASSIGNED)) or letter == " "


@cache
def _font(name: str, size: float, index: int = 0) -> ImageFont.FreeTypeFont:
    path = font_file(name)
    if path is None:
        raise MovingError(f"the font {name} is missing", "install manimgx-fonts and noto-cjk-sans-otc")
    return ImageFont.truetype(path, size, index)
