"""Hypothesis strategies for hostile input: odd values, changed documents, damaged bytes.

A few examples of each run with the suite, always the same ones. `DRAFTSCOPE_ROBUSTNESS=full` tries many more, chosen at
random each time.
"""

import gzip
import json
import os
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from support import hostile

MARK: Final = "pwned"
"""Part of every hostile text, and a global name once any of them ran as script."""
FULL: Final = os.environ.get("DRAFTSCOPE_ROBUSTNESS") == "full"
TEXTS: Final = (
    *hostile.TEXTS,
    f"</script><script>globalThis.{MARK}=1</script>",
    f"<!--<script>globalThis.{MARK}=1//",
    f"\"' onmouseover='globalThis.{MARK}=1' x=\"",
    f"<svg onload=globalThis.{MARK}=1>",
    f"{{{{{MARK}}}}}%(x)s%n\u202e\u2028{MARK}",
)
"""Each could run somewhere: in HTML, an attribute, a JavaScript template, Markdown or an SVG."""
texts = st.sampled_from(TEXTS) | st.just(" ".join(TEXTS)[:499])
numbers = (
    st.integers(-1, 1)
    | st.floats()
    | st.sampled_from((2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30, 10**400, 1e-320, 1e308, -0.0))
)
words = st.text(max_size=5) | st.sampled_from(("\ud800", "0", "1e5", "null", "../../etc/passwd", "%s%n", "A" * 5000))
flat = st.none() | st.booleans() | numbers | words | texts
deep = st.just('{"a": {"b": [[]]}}').map(json.loads)  # always another one, which `changed` may change
odd = flat | st.lists(flat, max_size=3) | st.dictionaries(words, flat, max_size=2) | deep
"""Anything that JSON can hold, and what is just beyond."""
depths = st.sampled_from((3, 30, 150, 199, 201, 1000, 5000))


def examples(num_quick: int, many: int) -> settings:
    """Return settings for `few` examples within the suite, `many` at full size."""
    return settings(
        max_examples=many if FULL else num_quick,
        derandomize=not FULL,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail where the block takes more processor time: it must not stall, however busy the machine is."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    assert time.process_time() - start < seconds


def one_line(error: Exception) -> str:
    """A refusal, which has to be a line that says something."""
    assert str(error).strip() and "\n" not in str(error), repr(error)
    return str(error)


def names_field(error: ValueError) -> None:
    """Fail unless a refusal is a line that begins with the field at fault."""
    field, colon, _ = one_line(error).partition(": ")
    assert colon and field.replace("_", "").isalnum(), repr(error)


def nested(depth: int) -> str:
    """JSON text of lists within each other, of objects where the depth is even."""
    return ('{"a":', "[")[depth % 2] * depth + "1" + "}]"[depth % 2] * depth


def as_json(document: Any) -> bytes:
    """The document as text, NaN, Infinity and lone surrogates included; "deep N" becomes N levels of nesting."""
    return re.sub('"deep ([0-9]+)"', lambda match: nested(int(match[1])), json.dumps(document)).encode()


@st.composite
def changed(draw: st.DrawFn, document: Any, max_changes: int = 3) -> Any:
    """A copy of a JSON document with one to `most` changes anywhere."""
    holder = [json.loads(json.dumps(document))]
    for _ in range(draw(st.integers(1, max_changes))):
        inside: Any = holder
        name: Any = 0
        while isinstance(inside[name], list | dict) and inside[name] and draw(st.integers(0, 4)):
            inside = inside[name]
            name = draw(st.sampled_from(list(inside) if isinstance(inside, dict) else range(len(inside))))
        action = draw(st.sampled_from(("odd", "odd", "text", "deep", "remove", "add", "repeat", "nudge")))
        if action == "remove" and inside is not holder:
            del inside[name]
        elif action == "add" and isinstance(inside, dict):
            inside[draw(texts | st.sampled_from(("x_a", "constructor", "__proto__", "")))] = draw(odd)
        elif action == "repeat" and isinstance(inside, list) and inside is not holder:
            inside[name:name] = [inside[name]] * draw(st.sampled_from((1, 10, 1000)))
        elif action == "nudge" and isinstance(inside[name], int | float):
            inside[name] = draw(st.sampled_from((inside[name] - 1, inside[name] + 1, 2 * inside[name], -inside[name])))
        else:
            inside[name] = draw({"text": texts, "deep": depths.map("deep {}".format)}.get(action, odd))
    return holder[0]


@st.composite
def damaged(draw: st.DrawFn, data: bytes, head: int | None = None) -> bytes:
    """Bytes that are cut off, or with some flipped, put in or left out; all within the first `head` bytes."""
    content = bytearray(data)
    end = len(content) if head is None else min(head, len(content))
    for _ in range(draw(st.sampled_from((1, 1, 2, 8)))):
        at = draw(st.integers(0, max(end - 1, 0)))
        length = draw(st.sampled_from((0, 1, 1, 4, 100, len(content))))
        put = st.binary(max_size=100) | st.sampled_from((b"", b"\xff\xfe", b"[" * 300, b"9" * 5000))
        flipped = bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in content[at : at + 1])
        content[at : at + length] = flipped if length == 1 else draw(put)
    return bytes(content)


@st.composite
def documents(draw: st.DrawFn, document: Any) -> bytes:
    """Return a changed document as a file: as text or gzipped, sometimes damaged, or with trailing data."""
    data = as_json(draw(changed(document)))
    data = draw(damaged(data)) if draw(st.integers(0, 4)) == 0 else data
    kind = draw(st.sampled_from(("plain", "plain", "plain", "zipped", "twice", "damaged", "bomb")))
    if kind == "plain":
        return data
    if kind == "bomb":
        return gzip.compress(data + b" " * draw(st.sampled_from((10**6, 10**8))), 1, mtime=0)
    zipped = gzip.compress(data, 1, mtime=0)
    return draw(damaged(zipped)) if kind == "damaged" else zipped * (1 + (kind == "twice"))
