"""A page that shows traces with nothing else around: one HTML file, no request to anywhere."""

import html
import json
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Final

from draftscope.analysis.run_report import report_messages
from draftscope.analysis.summary_text import summary_text
from draftscope.traces.io import dumps
from draftscope.traces.schema import Trace
from draftscope.visualizers import player
from draftscope.visualizers.palette import DARK, LIGHT

POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)
"""Content security policy: only what is in the file. Figures after the player may compile their own code."""

_SUMS_STYLE: Final = "pre { white-space: pre-wrap; }"


def standalone(traces: Sequence[Trace], title: str, *, after: str = "") -> str:
    """Return a self-contained HTML page with the player showing `traces`; those of sums have no pass to play.

    Args:
        traces: At least one; several are shown side by side, and sums as text.
        title: Heading and title of the page; plain text.
        after: HTML to follow the player, trusted as it is.

    Raises:
        ValueError: When there are no traces.
    """
    if not traces:
        raise ValueError("traces: a page needs at least one trace to show; give one")
    sums = "".join(f"<pre>{html.escape(summary_text(trace))}</pre>" for trace in traces if trace.sums)
    played = [trace for trace in traces if not trace.sums]
    if not played:
        return document(title, f"<h1>{html.escape(title)}</h1>\n{sums}\n{after}", _SUMS_STYLE)
    content = Template(player.page()).substitute(
        title=html.escape(title),
        after=sums + after,
        data=inert(json.dumps(player.data(), separators=(",", ":"))),
        traces=inert("[" + ",".join(dumps(trace).decode() for trace in played) + "]"),
        reports=inert(json.dumps(report_messages(traces))),
        script=player.script(),
    )
    return document(title, content, player.fonts() + player.style())


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
