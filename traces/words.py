"""Words of a text as they are shown: pieces of a character are joined as soon as it is complete.

A byte that is only part of a character is written `<0xE4>` in a legend. `words.js` of the player has the same rules.
"""

import codecs
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

import regex

from draftscope.traces.replay import CanvasReplay, canvas_size
from draftscope.traces.schema import Token, Trace

MAX_JOINED: Final = 16
"""Tokens before one that are looked at for the beginning of its character."""
PIECE: Final = "·"
"""Mark of bytes that do not, or not yet, form a character."""
_BYTE: Final = re.compile("<0x([0-9A-F]{2})>")
_CHARACTER: Final = regex.compile(r"\X")
JOINER: Final = "\u200d"
"""At the edge of a word: its letter joins that of the next token, or of the one before."""
_JOINS: Final = r"[\p{Joining_Type=Dual_Joining}\p{Joining_Type=%s}\p{Joining_Type=Join_Causing}--\u200d]"
_LAST: Final = regex.compile(_JOINS % "Left_Joining" + r"[\p{Mn}\p{Me}]*$", regex.VERSION1)
"""A letter that joins the next one, with the marks over it: in Arabic, Syriac, N'Ko, Mongolian and other scripts."""
_FIRST: Final = regex.compile(_JOINS % "Right_Joining", regex.VERSION1)


def words(texts: Sequence[str | None]) -> list[str | None]:
    """Return what the tokens of a text show.

    A character of several tokens, such as an emoji, a letter with the vowel sign after it or a flag, is shown by the
    last of them, and by the others nothing. Letters that join, as in Arabic, do so from token to token.

    Args:
        texts: Text of each token by the legend, in reading order; None where no token is known.
    """
    if all(text is None or _is_plain(text) for text in texts):
        return list(texts)
    reader = _Reader()
    for text in texts:
        reader.read(text)
    reader.give_up()
    shown, before = reader.shown, None
    for index, text in enumerate(shown):
        if text is None:
            before = None
        elif text:
            if before is not None:
                _join(shown, before, index)
            before = index
    return shown


def word_after(before: Sequence[str | None], text: str) -> str:
    """Return what a token shows after others; its bytes where they complete no character.

    Args:
        before: Texts of the tokens before it; None where no token is known.
        text: Text of the token, in which <0xNN> is a byte.

    Example:
        >>> word_after(["<0xC3>"], "<0xA9>")
        'é'
    """
    shown = words([*before, text])[-1] or ""
    return text if _BYTE.search(text) and (not shown or PIECE in shown) else shown


def canvas_texts(vocabulary: Mapping[int, str], tokens: Sequence[Token | None]) -> list[str | None]:
    """Return the texts of the tokens of a canvas.

    Args:
        vocabulary: Id -> text, as the legend has it.
        tokens: Tokens by position.

    Returns:
        A text per position, "#ID" for ids that the legend lacks; None where no token is known.
    """
    known = (token if isinstance(token, int) else None for token in tokens)
    return [None if token is None else vocabulary.get(token, f"#{token}") for token in known]


def first_piece(texts: Sequence[str | None], shown: Sequence[str | None], index: int) -> int:
    """Return the index of the first token whose character the one at `index` shows; `index` itself for its own alone.

    Args:
        texts: Text of each token by the legend.
        shown: The `words` of the texts.
        index: Index of a token.
    """
    first = index
    if (shown[index] or "").strip():
        while first and (shown[first - 1] or "").strip() == "" != (texts[first - 1] or "").strip():
            first -= 1
    return first


def step_words(trace: Trace) -> Iterator[list[str | None]]:
    """Yield what each token of each step shows after those before it; None where its text is not known."""
    vocabulary, replay = trace.legend.vocabulary or {}, CanvasReplay(canvas_size(trace.canvas))
    is_plain = trace.canvas.kind != "text" or all(map(_is_plain, vocabulary.values()))
    for step in trace.steps:
        if not is_plain:
            replay.apply(step)
        tokens = () if is_plain else replay.state().tokens
        shown: list[str | None] = []
        for position, token in zip(step.position, step.token or (None,) * len(step.position), strict=True):
            text = vocabulary.get(token) if isinstance(token, int) else None
            before = [
                vocabulary.get(each) if isinstance(each, int) else None
                for each in tokens[max(0, position - MAX_JOINED) : position]
            ]
            shown.append(text if text is None or _is_plain(text) else word_after(before, text))
        yield shown


def direction(text: str) -> Literal["left", "right", ""]:
    """Return to which side a text runs, by its first letter; digits run to the right, and signs have none."""
    for letter in text:
        kind = unicodedata.bidirectional(letter)
        if kind in ("R", "AL"):
            return "left"
        if kind in ("L", "EN", "AN"):
            return "right"
    return ""


def _is_plain(text: str) -> bool:
    return text.isascii() and not _BYTE.search(text)


class _Reader:
    """Reads a text token by token; every character goes to the token that has the last of its bytes."""

    def __init__(self) -> None:
        self.shown: list[str | None] = []
        self._begun: list[int] = []  # tokens with bytes of the character under way
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def read(self, text: str | None) -> None:
        self.shown.append(None if text is None else "")
        if text is None:
            self.give_up()
        for number, part in enumerate(_BYTE.split(text or "")):
            if number % 2:
                self._byte(bytes.fromhex(part))
            elif part:
                self.give_up()
                self._show(len(self.shown) - 1, part)

    def give_up(self) -> None:
        """The bytes that were begun form no character."""
        for index in dict.fromkeys(self._begun):
            if not (self.shown[index] or "").endswith(PIECE):
                self._show(index, PIECE)
        self._begun.clear()
        self._decoder.reset()

    def _byte(self, byte: bytes) -> None:
        character = self._decode(byte)
        if character is None and self._begun:  # it does not go on, but may begin
            self.give_up()
            character = self._decode(byte)
        self._begun.append(len(self.shown) - 1)
        if character is None:
            self.give_up()
        elif character:
            self._begun.clear()
            self._show(len(self.shown) - 1, character)

    def _decode(self, byte: bytes) -> str | None:
        try:
            return self._decoder.decode(byte)
        except UnicodeDecodeError:
            return None

    def _show(self, index: int, text: str) -> None:
        self.shown[index] = f"{self.shown[index]}{text}"


def _join(shown: list[str | None], before: int, index: int) -> None:
    """Let the token at `index` show a character that begins at `before`, and letters that join do so."""
    first, second = shown[before] or "", shown[index] or ""
    if (first[-1] + second[0]).isascii():
        return
    last = _CHARACTER.findall(first)[-1]
    match = _CHARACTER.match(last + second)
    if match and len(match[0]) > len(last) and last != PIECE:
        shown[before], shown[index] = first.removesuffix(last), last + second
    elif _LAST.search(first) and _FIRST.match(second):
        shown[before], shown[index] = first + JOINER, JOINER + second
