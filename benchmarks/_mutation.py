"""Strange documents from sound ones: values of another type or size, text that tries to be script, damaged bytes.

All of it follows from a `random.Random`, so that a seed names a document.
"""

import gzip
import json
from collections.abc import Sequence
from random import Random
from typing import Any, Final

MARK: Final = "pwned"
"""Stands in every text of `TEXTS`, and is a global name once any of them ran as script."""
TEXTS: Final = (
    f"${{Object.assign(globalThis,{{{MARK}:1}})}}",
    f"${{globalThis.{MARK}=1}}",
    f"`+Object.assign(globalThis,{{{MARK}:1}})+`",
    f"\\u0024{{globalThis.{MARK}=1}}\\`",
    f"</script><script>globalThis.{MARK}=1</script>",
    f"<!--<script>globalThis.{MARK}=1//",
    f"<img src=x onerror=globalThis.{MARK}=1>",
    f"\"' onmouseover='globalThis.{MARK}=1' x=\"",
    f"<a href='javascript:globalThis.{MARK}=1'>j</a>",
    f"[link](javascript:globalThis.{MARK}=1)",
    f"<svg onload=globalThis.{MARK}=1>",
    f"{{{{{MARK}}}}}%(x)s%n\u202e\u2028{MARK}",
)
"""Each could run somewhere: in HTML, an attribute, a JavaScript template, Markdown or an SVG."""
ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 0.5, -0.0, 1e-320, 1e16, 1e100, 1e308, -1e308, float("nan"), float("inf")),
    *(2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30, 10**400),
    *("", " ", "\x00", "\ud800", "\u202e", "0", "1e5", "null", "../../etc/passwd", "%s%n", "A" * 5000),
    *([], {}, [None], [[]], [1, 2, 3], {"": None}, {"a": {"b": []}}),
)
"""One of everything that JSON can hold, and what is just beyond."""
DEPTHS: Final = (3, 30, 150, 199, 201, 1000, 5000)


def changed(document: Any, chance: Random, most: int = 3) -> Any:
    """A copy of a JSON document with one to `most` changes anywhere."""
    holder = {"": json.loads(json.dumps(document))}
    for _ in range(chance.randint(1, most)):
        _change(holder, chance)
    return holder[""]


def _change(holder: dict[str, Any], chance: Random) -> None:
    """One change at one place."""
    inside, name = _place(holder, chance)
    kind = chance.randrange(8)
    if kind <= 2:
        inside[name] = chance.choice(ODD)
    elif kind == 3:
        inside[name] = chance.choice(TEXTS)
    elif kind == 4:
        inside[name] = nested(chance.choice(DEPTHS), chance)
    elif kind == 5 and inside is not holder:
        del inside[name]
    elif kind == 6 and isinstance(inside, dict) and inside is not holder:
        inside[chance.choice((chance.choice(TEXTS), "x_a", "constructor", "__proto__", ""))] = chance.choice(ODD)
    elif isinstance(inside, list):
        inside[name:name] = [inside[name]] * chance.choice((1, 2, 10, 1000))
    else:
        inside[name] = _other(inside[name], chance)


def _place(holder: dict[str, Any], chance: Random) -> tuple[Any, Any]:
    """A container and a name or index in it."""
    inside: Any = holder
    while True:
        name = chance.choice(list(inside)) if isinstance(inside, dict) else chance.randrange(len(inside))
        below = inside[name]
        if not isinstance(below, dict | list) or not below or (inside is not holder and chance.random() < 0.2):
            return inside, name
        inside = below


def _other(value: Any, chance: Random) -> Any:
    """A value of the same type."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return value + chance.choice((-1, 1, 2**31, -value - 1))
    if isinstance(value, float):
        return value * chance.choice((-1, 2, 1e-300, 1e300))
    return chance.choice(TEXTS) if isinstance(value, str) else [value]


def nested(depth: int, chance: Random) -> Any:
    """Lists or objects within each other."""
    found: Any = 1
    named = chance.random() < 0.5
    for _ in range(depth):
        found = {"a": found} if named else [found]
    return found


def as_json(document: Any) -> bytes:
    """The document as text: NaN, Infinity and halves of characters included, and as deep as it is."""
    try:
        return json.dumps(document, default=repr).encode()
    except RecursionError:
        return _deep(document)


def _deep(document: Any) -> bytes:
    """The same without recursion, for what `json` finds too deep."""
    text: list[str] = []
    waiting: list[Any] = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, _Written):
            text.append(value.text)
        elif isinstance(value, dict):
            parts: list[Any] = []
            for index, (name, below) in enumerate(value.items()):
                parts += [_Written(f"{',' if index else '{'}{json.dumps(name)}:"), below]
            waiting += reversed([*(parts or [_Written("{")]), _Written("}")])
        elif isinstance(value, list):
            parts = []
            for index, below in enumerate(value):
                parts += [_Written("," if index else "["), below]
            waiting += reversed([*(parts or [_Written("[")]), _Written("]")])
        else:
            text.append(json.dumps(value, default=repr))
    return "".join(text).encode()


class _Written:
    """Text that is JSON already."""

    def __init__(self, text: str) -> None:
        self.text = text


def damaged(data: bytes, chance: Random) -> bytes:
    """Bytes with a few flipped, cut off, put in, or left out."""
    kind = chance.randrange(6)
    if kind == 0:
        return data[: chance.randrange(len(data) + 1)]
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8, 64))):
        at = chance.randrange(max(len(made), 1))
        if kind <= 2:
            made[at : at + 1] = bytes([made[at] ^ 1 << chance.randrange(8)]) if made else b""
        elif kind == 3:
            made[at:at] = chance.randbytes(chance.choice((1, 4, 100)))
        elif kind == 4:
            del made[at : at + chance.choice((1, 4, 100))]
        else:
            made[at:at] = chance.choice((b"\xff\xfe", b"\xef\xbb\xbf", b"[" * 300, b'{"a":', b"9" * 5000, b"\x00"))
    return bytes(made)


def packed(data: bytes, chance: Random) -> bytes:
    """The data gzipped, now and then damaged, followed by more, or with far more behind it than it seems."""
    kind = chance.randrange(8)
    if kind == 0:
        return gzip.compress(data + b" " * chance.choice((10**6, 10**8)), 1, mtime=0)
    zipped = gzip.compress(data, 1, mtime=0)
    if kind == 1:
        return zipped + zipped
    return damaged(zipped, chance) if kind == 2 else zipped


def shortened(document: object, most: int = 400) -> str:
    """A document as a report shows it."""
    data = document if isinstance(document, bytes) else as_json(document)
    text = data.decode("utf-8", "backslashreplace")
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]} ({len(text)} characters)"


def picked(chance: Random, texts: Sequence[str] = TEXTS) -> str:
    """One hostile text, or all of them in a row."""
    return " ".join(texts)[:499] if chance.random() < 0.3 else chance.choice(texts)
