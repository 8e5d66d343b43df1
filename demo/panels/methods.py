"""Methods: what each method does, in words, formulas and numbers.

The words are docs/methods/NAME.md up to the heading that begins with code.
"""

import re
from functools import cache
from pathlib import Path
from typing import Final

import gradio as gr

from demo.panels.widgets import data_table, formulas, table
from demo.runs.measured import measured
from engines.methods import METHODS
from engines.methods.method import Method

FOLDER: Final = Path(__file__).parents[2] / "docs" / "methods"
IN_THE_CODE: Final = "\n## In the code\n"
_REPORTED: Final = "\n### Reported"
"""What follows in a text are numbers of others; they stand beside those measured here, never in one table with them."""
_HEADING: Final = "### Measured here"
_NOTHING: Final = "Nothing yet: `make measured` measures and records."
_NOTE: Final = "± is a standard error, brackets hold the quartiles."


def build() -> None:
    """Lay the list out: one accordion a method."""
    for name, method in METHODS.items():
        with gr.Accordion(f"{method.title}: {method.summary}", open=False, elem_id=f"method-{name}"):
            text, heading, reported = described(method).partition(_REPORTED)
            formulas(text)
            with gr.Row():
                if reported:
                    with gr.Column(min_width=360):
                        formulas(heading + reported)
                with gr.Column(min_width=360):
                    _build_measured(name)


def _build_measured(name: str) -> None:
    results = measured(name)
    gr.Markdown(_HEADING if results else f"{_HEADING}\n\n{_NOTHING}", elem_classes="reading")
    for result in results:
        gr.Markdown(f"{result.title}.", elem_classes="measured")
        data_table(result.title, value=table(result.heads, result.rows))
        gr.Markdown(f"{_NOTE} {result.place}.", elem_classes="measured place")


@cache
def method_text(name: str) -> str:
    """The first part of docs/methods/`name`.md, its headings one level lower, as they stand below the page's own."""
    text, _, _ = (FOLDER / f"{name}.md").read_text(encoding="utf-8").partition(IN_THE_CODE)
    return re.sub(r"^#", "##", text, flags=re.MULTILINE)


def described(method: Method) -> str:
    """What there is to read about a method: its text, or what the registry says of one that has none yet."""
    if (FOLDER / f"{method.name}.md").is_file():
        return method_text(method.name)
    paper = f" *{method.paper}.*" if method.paper else ""
    return (
        f"## {method.title}\n\n{method.summary[:1].upper()}{method.summary[1:]}.{paper}\n\nIt has no description yet."
    )
