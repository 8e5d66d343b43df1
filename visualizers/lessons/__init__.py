"""Five lessons, each with a text and a drawing that the reader changes, as one HTML file without a server.

The text of a lesson is NAME.html and its drawing NAME.js. The scripts are ES modules with types in comments, which
`tools/player` checks. Recorded runs come from `data`.
"""

import json
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from draftscope.visualizers import player
from draftscope.visualizers.lessons.data import lesson_data
from draftscope.visualizers.player_page import document, inert
from draftscope.visualizers.scripts import joined

LESSONS: Final = MappingProxyType(
    {
        "exact": "Why it is exact",
        "passes": "How many tokens a pass",
        "jacobi": "Drafting for itself",
        "blocks": "Fill, then check",
        "vectors": "Vectors",
    }
)
"""Name of a lesson, also in addresses, -> its title, in their order."""

FOLDER: Final = Path(__file__).parent
_SCRIPTS: Final = ("arithmetic", "core", "frame", *LESSONS, "begin")


@cache
def lesson_html(name: str = "") -> str:
    """Return lessons as an HTML page that needs no server, with script, style and recorded runs inside.

    Args:
        name: A name of `LESSONS`; empty for all of them, with a list to choose from. The part of the page's address
            after `#` is the name of the lesson that is shown.

    Raises:
        ValueError: If there is no such lesson.
    """
    if name and name not in LESSONS:
        raise ValueError(f"name: there is no lesson {name!r}; use one of {', '.join(LESSONS)}, or none for all")
    names = [name] if name else list(LESSONS)
    data = inert(json.dumps({each: lesson_data(each) for each in names}, separators=(",", ":"), ensure_ascii=False))
    content = (
        ("" if name else _navigation())
        + "".join(map(_article, names))
        + f'<script type="application/json" id="lesson-data">{data}</script>\n<script>{script()}</script>'
    )
    return document(LESSONS[name] if name else "Lessons", content, player.fonts() + _read("lessons.css"))


@cache
def script() -> str:
    """Return the JavaScript of all lessons, which begins those whose articles are on its page."""
    return f'(() => {{\n"use strict";\n{joined(FOLDER, _SCRIPTS)}}})();\n'


def _navigation() -> str:
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in LESSONS.items())
    return f'<nav class="lessons" aria-label="Lessons"><ol>{links}</ol></nav>\n'


def _article(name: str) -> str:
    return (
        f'<article class="lesson" id="{name}" hidden><div class="prose">{_read(f"{name}.html")}</div>'
        f'<section class="figure" aria-label="Drawing: {LESSONS[name]}"></section>'
        '<p class="live sr" role="status"></p></article>\n'
    )


def _read(file: str) -> str:
    return (FOLDER / file).read_text(encoding="utf-8")
