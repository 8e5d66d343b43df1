"""Methods: what each method does, in words, formulas and numbers.

The words are docs/methods/NAME.md up to the heading that begins with code.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

import gradio as gr

from draftscope.analysis.shipped_results import conclusions, measured
from draftscope.demo.components.frame import recorded_run
from draftscope.demo.components.widgets import data_table, formulas, table
from draftscope.demo.jobs.recordings import Recording
from draftscope.engines.methods import METHODS
from draftscope.engines.methods.method import Method
from draftscope.traces.files import ROOT

FOLDER: Final = ROOT / "docs" / "methods"
IN_THE_CODE: Final = "\n## In the code\n"
_REPORTED: Final = "\n### Reported"
"""Heading of results reported by others. They never share a table with results measured here."""
_MEASURED: Final = "Measured here"
_CONCLUSIONS: Final = "Conclusions of the paper"
_CONCLUDED: Final = "Each with what was found here"
_CONCLUSION_HEADS: Final = ("In the paper", "It concludes", "Found here", "Verdict")
_NOTHING: Final = "Not measured yet: `make measured` does it."
_NOTE: Final = "± is a standard error, brackets hold the quartiles."
PAPERS: Final[Sequence[tuple[str, Sequence[str], str]]] = (
    ("Classical", ("speculative", "ar"), "A small model drafts, a large one verifies; or nothing is drafted."),
    ("SCD (arXiv 2510.24211)", ("scd", "gsd"), "Pictures and videos: a model verifies its own drafts, many in a pass."),
    ("CSpD (arXiv 2411.11925)", ("cspd", "cspd-block", "cspd-release", "continuous"), "A small model drafts vectors."),
    (
        "S2D2 (arXiv 2603.25702)",
        ("s2d2", "self-spec", "blockwise", "editing"),
        "Text by blocks: a model verifies its own drafts.",
    ),
    ("PSD (arXiv 2605.15609)", ("psd", "lopa", "ete-style", "fdm-style"), "Text by blocks: drafts side by side."),
    ("SimSD (arXiv 2606.02544)", ("simsd",), "Text by blocks: a small model drafts, a large one verifies."),
)
"""Papers with their methods, the baselines, and one line each."""


def build(recordings: Sequence[Recording] = ()) -> None:
    """Lay the list out by papers: one accordion a method, in which a recorded run plays.

    Args:
        recordings: The gallery; a method without a run in it has none here.
    """
    others = METHODS.keys() - {name for _, names, _ in PAPERS for name in names}
    for paper, names, about in (*PAPERS, *([("Others", sorted(others), "")] if others else ())):
        gr.Markdown(f"## {paper}\n\n{about}", elem_classes="reading")
        for name in names:
            _build_method(METHODS[name], recordings)


def _build_method(method: Method, recordings: Sequence[Recording]) -> None:
    with gr.Accordion(f"{method.title}: {method.summary}", open=False, elem_id=f"method-{method.name}"):
        text, heading, reported = described(method).partition(_REPORTED)
        formulas(text)
        if recording := next((one for one in recordings if one.method == method.name), None):
            gr.Markdown(f"### A recorded run\n\n{recording.about}", elem_classes="reading")
            recorded_run(recording)
        if found := conclusions(method.name):
            rows = [(one.source, one.statement, one.found, one.verdict) for one in found]
            data_table(_CONCLUSIONS, [(_CONCLUDED, table(_CONCLUSION_HEADS, rows))])
        if reported:
            formulas(heading + reported)
        if results := measured(method.name):
            tables = [(one.title, table(one.heads, one.rows, f"{_NOTE} {one.device_text}.")) for one in results]
            data_table(_MEASURED, tables)
        else:
            formulas(f"### {_MEASURED}\n\n{_NOTHING}")


@cache
def method_text(name: str) -> str:
    """Return the first part of docs/methods/`name`.md, with headings one level lower to fit the page."""
    text, _, _ = (FOLDER / f"{name}.md").read_text(encoding="utf-8").partition(IN_THE_CODE)
    return re.sub(r"^#", "##", text, flags=re.MULTILINE)


def described(method: Method) -> str:
    """Return the documentation of a method, or its registry entry if it has no page."""
    if (FOLDER / f"{method.name}.md").is_file():
        return method_text(method.name)
    paper = f" *{method.paper}.*" if method.paper else ""
    return (
        f"## {method.title}\n\n{method.summary[:1].upper()}{method.summary[1:]}.{paper}\n\nIt has no description yet."
    )
