"""A page that shows traces with nothing else around: one HTML file, no request to anywhere."""

import html
import json
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Final

from traces.io import dumps
from traces.schema import Trace
from visualizers import player
from visualizers.palette import DARK, LIGHT

POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)
"""Content security policy: only what is in the file. Figures after the player may compile their own code."""


def standalone(traces: Sequence[Trace], title: str, *, after: str = "") -> str:
    """Return a self-contained HTML page with the player showing `traces`.

    Args:
        traces: At least one; several are shown side by side.
        title: Heading and title of the page; plain text.
        after: HTML to follow the player, trusted as it is.

    Raises:
        ValueError: When there are no traces.
    """
    if not traces:
        raise ValueError("traces: a page needs at least one trace to show; give one")
    content = Template(player.page()).substitute(
        title=html.escape(title),
        after=after,
        data=inert(json.dumps(player.data(), separators=(",", ":"))),
        traces=inert("[" + ",".join(dumps(trace).decode() for trace in traces) + "]"),
        script=player.script(),
    )
    return document(title, content, player.style())


def document(title: str, content: str, style: str = "") -> str:
    """Return a self-contained HTML page; the title is plain text, content and style are trusted as they are."""
    return Template(Path(__file__).with_name("document.html").read_text(encoding="utf-8")).substitute(
        policy=html.escape(POLICY),
        title=html.escape(title),
        light=LIGHT.background,
        light_text=LIGHT.text,
        dark=DARK.background,
        dark_text=DARK.text,
        style=style,
        content=content,
    )


def inert(document: str) -> str:
    """Return JSON that parses to the same value but can neither close nor open an element."""
    return document.replace("<", "\\u003c")
