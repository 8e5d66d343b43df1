"""Greedy texts of two engines that a visitor opens: where they part, both texts side by side, and the figures."""

from dataclasses import asdict
from typing import Any, Final, Literal

import gradio as gr

from draftscope.analysis.divergence_files import read_divergence
from draftscope.analysis.divergences import Divergence, GreedyText, split_views
from draftscope.demo.components.context import LATEST, QUIET, Site, Update, serialized
from draftscope.demo.components.figure import Panel
from draftscope.demo.components.widgets import component, notice, notice_box, upload_file
from draftscope.visualizers.figures.divergences import DIVERGENCE_FIGURES

MAX_SPLITS: Final = 50
"""Splits that are shown."""
_LEAD: Final = (
    "`draftscope diff A B --prompts FILE -o diff.json` finds the first token that differs between greedy texts of two "
    "engines, and whether rounding explains it. Open the file to see both texts."
)
_FIGURES: Final = {figure.name: figure for figure in DIVERGENCE_FIGURES}
_SCRIPT: Final = """
const side = (name, { before, marked, after, probabilities }) => build('div', { class: 'side' },
  build('h4', {}, name),
  build('p', { class: 'text', dir: 'auto' },
    before, build('mark', {}, marked), build('span', { class: 'after' }, after)),
  build('p', { class: 'note' }, probabilities));
const one = ({ title, prompt, names, views }) => build('section', {}, build('h3', {}, title),
  build('p', { class: 'note' }, prompt),
  build('div', { class: 'sides' }, ...views.map((view, at) => side(names[at], view))));
const show = () => place.replaceChildren(...(props.value || []).map(one));
"""
_STYLE: Final = """
section { margin: 0 0 20px; }
h3 { margin: 0; font-size: 15px; font-weight: 650; color: var(--body-text-color); }
h4 { margin: 0 0 4px; font-size: 13px; font-weight: 600; color: var(--body-text-color); overflow-wrap: anywhere; }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: 12px; }
.side { padding: 10px 12px; border: 1px solid var(--border-color-primary); border-radius: 8px; min-width: 0; }
.text { margin: 0; font-size: 14px; line-height: 1.5; color: var(--body-text-color); white-space: pre-wrap;
  overflow-wrap: anywhere; }
.text mark { padding: 0 3px; border-radius: 3px; background: #E69F00; color: #000; }
.text .after { opacity: 0.7; }
.note { margin: 4px 0; font-size: 13px; color: var(--body-text-color-subdued); overflow-wrap: anywhere; }
@media (max-width: 640px) { .sides { grid-template-columns: 1fr; } }
"""


class GreedyTextsView:
    """An upload, the verdict, both texts of every split, and a choice of figures."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.found: Any = gr.State(None)
        gr.Markdown(_LEAD, elem_classes="lead")
        with gr.Row():
            with gr.Column(scale=1, min_width=240):
                choices = [(figure.title, name) for name, figure in _FIGURES.items()]
                self.figure = gr.Radio(
                    choices, value=next(iter(_FIGURES)), label="Figure", visible=False, elem_classes="vertical"
                )
                self.upload = upload_file("diff-upload", "Open a comparison (.json)", ".json")
            with gr.Column(scale=4, min_width=320):
                self.verdict = notice_box(elem_id="diff-verdict")
                self.splits = component([], _SCRIPT, _STYLE, elem_id="diff-splits")
                self.panel = Panel(site, "diff")
                self.text = gr.Textbox(label="Comparison", lines=4, max_lines=20, visible=False, interactive=False)
        shown: list[Any] = [self.found, self.upload, self.figure, self.verdict, self.splits, self.text]
        parts = [*shown, *self.panel.parts]
        self.upload.upload(self.open, {self.upload, self.figure, site.look}, parts, **QUIET)
        drawing = LATEST | serialized("diff")
        self.figure.input(self.draw, {self.found, self.figure, site.look}, self.panel.parts, **drawing)

    def open(self, values: Update, request: gr.Request) -> Update:
        """Show a visitor's file, or what is wrong with it."""
        try:
            found, a, b = read_divergence(values[self.upload] or b"")
        except ValueError as error:
            return {self.verdict: notice("error", str(error), "Invalid comparison"), self.upload: None}
        kind: Literal["error", "warning", "info"] = "info" if found.worst in ("same", "tie") else "warning"
        return {
            self.found: found,
            self.upload: None,
            self.figure: gr.update(visible=True),
            self.verdict: notice("error" if found.worst == "bug" else kind, found.verdict, "Greedy texts."),
            self.splits: split_values(found, a, b),
            self.text: gr.update(value=str(found), visible=True),
            **self.draw({**values, self.found: found}, request),
        }

    def draw(self, values: Update, request: gr.Request) -> Update:
        """Draw the chosen figure."""
        found: Divergence | None = values[self.found]
        if found is None:
            return self.panel.hide("")
        figure = _FIGURES[values[self.figure]]
        return self.panel.show(figure, figure.draw(found), values[self.site.look], request)


def split_values(found: Divergence, a: tuple[GreedyText, ...], b: tuple[GreedyText, ...]) -> list[dict[str, Any]]:
    """Return what the page shows of the first splits, as data."""
    return [
        {
            "title": f"Prompt {split.text + 1}, token {split.position + 1}",
            "prompt": a[split.text].prompt[:500],
            "names": [f"A: {found.names[0]}", f"B: {found.names[1]}"],
            "views": [asdict(view) for view in split_views(split, a[split.text], b[split.text])],
        }
        for split in found.splits[:MAX_SPLITS]
    ]
