"""The text of single tokens, where a token may be a part of a character."""

import re
from collections.abc import Sequence
from typing import Any, Final

_PRINTABLE: Final = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
"""Bytes that byte-level BPE writes as the letter of the same number; the others get the letters from 256 on."""
_LETTERS: Final = {chr(byte): byte for byte in _PRINTABLE} | {
    chr(256 + index): byte for index, byte in enumerate(sorted(set(range(256)) - set(_PRINTABLE)))
}
_BYTE: Final = re.compile("<0x([0-9A-F]{2})>")
_LONE: Final = re.compile("[\udc80-\udcff]")


def token_text(tokenizer: Any, token: int) -> str:
    """Return what a token adds to a text that it does not begin.

    Bytes that are only part of a character are written `<0xE4>`, as SentencePiece does; `traces.words` joins them.

    Args:
        tokenizer: A tokenizer of transformers, or a `tokenizers.Tokenizer`.
        token: An id of it.
    """
    text = str(tokenizer.decode([token]))
    if "\ufffd" in text:
        data = _bytes_of(tokenizer, token)
        return text if data is None else _LONE.sub(_written, data.decode("utf-8", "surrogateescape"))
    twice = str(tokenizer.decode([token, token]))  # SentencePiece drops the space before the first word of a text
    return twice.removeprefix(text) if twice.startswith(text) else text


def decoded_text(tokenizer: Any, tokens: Sequence[int]) -> str:
    """Return the text of some tokens, without a last character of which only the first bytes came.

    Args:
        tokenizer: A tokenizer of transformers, or a `tokenizers.Tokenizer`.
        tokens: Ids of it.
    """
    text = str(tokenizer.decode(list(tokens)))
    if text.endswith("\ufffd") and _BYTE.search(token_text(tokenizer, tokens[-1])[-len("<0x00>") :]):
        return text.rstrip("\ufffd")
    return text


def _bytes_of(tokenizer: Any, token: int) -> bytes | None:
    """The bytes of a token of byte-level BPE, or of a byte of SentencePiece; None for other tokens."""
    named = getattr(tokenizer, "convert_ids_to_tokens", None) or getattr(tokenizer, "id_to_token", None)
    name = None if named is None else named(token)
    if not isinstance(name, str):
        return None
    if byte := _BYTE.fullmatch(name):
        return bytes.fromhex(byte[1])
    return bytes(_LETTERS[letter] for letter in name) if all(letter in _LETTERS for letter in name) else None


def _written(lone: re.Match[str]) -> str:
    return f"<0x{ord(lone[0]) - 0xDC00:02X}>"
