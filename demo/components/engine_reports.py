"""Reports about engines that a visitor opens: a certificate, or the comparison of greedy texts of two engines."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import gradio as gr

from draftscope.analysis.certificates import read_certificate
from draftscope.analysis.divergence_files import read_divergence
from draftscope.analysis.divergences import Divergence, GreedyText, split_views
from draftscope.demo.components.context import LATEST, QUIET, Site, Update, serialized
from draftscope.demo.components.figure import Panel
from draftscope.demo.components.widgets import component, notice, notice_box, upload_file
from draftscope.visualizers.figure import DataFigure
from draftscope.visualizers.figures.certificates import CERTIFICATE_FIGURES
from draftscope.visualizers.figures.divergences import DIVERGENCE_FIGURES

MAX_SPLITS: Final = 50
"""Splits that are shown."""
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
section { margin: 0 0 24px; }
h3 { margin: 0; font-size: 15px; font-weight: 650; color: var(--body-text-color); }
h4 { margin: 0 0 4px; font-size: 13px; font-weight: 600; color: var(--body-text-color); overflow-wrap: anywhere; }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: 12px; }
.side { padding: 8px 12px; border: 1px solid var(--border-color-primary); border-radius: 8px; min-width: 0; }
.text { margin: 0; font-size: 15px; line-height: 1.5; color: var(--body-text-color); white-space: pre-wrap;
  overflow-wrap: anywhere; }
.text mark { padding: 0 4px; border-radius: 4px; background: #E69F00; color: #000; }
.text .after { opacity: 0.7; }
.note { margin: 4px 0; font-size: 13px; color: var(--body-text-color-subdued); overflow-wrap: anywhere; }
@media (max-width: 640px) { .sides { grid-template-columns: 1fr; } }
"""


@dataclass(frozen=True, slots=True)
class OpenedReport:
    """A report and its verdict."""

    found: Any
    """Data of the figures; `str` of it is the report as text."""
    kind: Literal["error", "warning", "info"]
    title: str
    """Heading of the verdict."""
    verdict: str
    splits: Sequence[dict[str, Any]] = ()
    """Positions at which greedy texts part, as data for the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportKind:
    """A kind of report: how it is read and drawn, and what the page says about it."""

    id: str
    """Beginning of the ids of its components on the page."""
    name: str
    lead: str
    figures: Sequence[DataFigure]
    read: Callable[[bytes], OpenedReport]
    """Raises ValueError, with one sentence, for another file."""


class ReportView:
    """An upload, the verdict, both texts of every split, a choice of figures, and the report as text."""

    def __init__(self, site: Site, kind: ReportKind) -> None:
        self.site, self.kind = site, kind
        self.figures = {figure.name: figure for figure in kind.figures}
        self.found: Any = gr.State(None)
        gr.Markdown(kind.lead, elem_classes="lead")
        with gr.Row():
            with gr.Column(scale=1, min_width=240):
                choices = [(figure.title, figure.name) for figure in kind.figures]
                self.figure = gr.Radio(
                    choices, value=choices[0][1], label="Figure", visible=False, elem_classes="vertical"
                )
                self.upload = upload_file(f"{kind.id}-upload", f"Open a {kind.name} (.json)", ".json")
            with gr.Column(scale=4, min_width=320):
                self.verdict = notice_box(elem_id=f"{kind.id}-verdict")
                self.splits = component([], _SCRIPT, _STYLE, elem_id=f"{kind.id}-splits")
                self.panel = Panel(site, kind.id)
                label = kind.name.capitalize()
                self.text = gr.Textbox(label=label, lines=4, max_lines=20, visible=False, interactive=False)
        shown: list[Any] = [self.found, self.upload, self.figure, self.verdict, self.splits, self.text]
        parts = [*shown, *self.panel.parts]
        self.upload.upload(self.open, {self.upload, self.figure, site.look}, parts, **QUIET)
        drawing = LATEST | serialized(kind.id)
        self.figure.input(self.draw, {self.found, self.figure, site.look}, self.panel.parts, **drawing)

    def open(self, values: Update, request: gr.Request) -> Update:
        """Show a visitor's file, or what is wrong with it."""
        try:
            report = self.kind.read(values[self.upload] or b"")
        except ValueError as error:
            return {self.verdict: notice("error", str(error), f"Invalid {self.kind.name}"), self.upload: None}
        return {
            self.found: report.found,
            self.upload: None,
            self.figure: gr.update(visible=True),
            self.verdict: notice(report.kind, report.verdict, report.title),
            self.splits: report.splits,
            self.text: gr.update(value=str(report.found), visible=True),
            **self.draw({**values, self.found: report.found}, request),
        }

    def draw(self, values: Update, request: gr.Request) -> Update:
        """Draw the chosen figure."""
        if values[self.found] is None:
            return self.panel.hide("")
        figure = self.figures[values[self.figure]]
        return self.panel.show(figure, figure.draw(values[self.found]), values[self.site.look], request)


def _read_certificate(data: bytes) -> OpenedReport:
    found = read_certificate(data)
    kind: Literal["error", "info"] = "error" if found.verdict == "biased" else "info"
    return OpenedReport(found, kind, found.verdict.capitalize(), found.reason)


def _read_comparison(data: bytes) -> OpenedReport:
    found, a, b = read_divergence(data)
    kinds: dict[str, Literal["error", "warning", "info"]] = {"bug": "error", "same": "info", "tie": "info"}
    kind = kinds.get(found.worst, "warning")
    return OpenedReport(found, kind, "Greedy texts.", found.verdict, split_values(found, a, b))


CERTIFICATE: Final = ReportKind(
    id="certificate",
    name="certificate",
    lead="`draftscope certify ENGINE -o certificate.json` compares an engine with drafts, such as a server, with the "
    "exact distribution of its model. Open the file to see what was found.",
    figures=CERTIFICATE_FIGURES,
    read=_read_certificate,
)
GREEDY_TEXTS: Final = ReportKind(
    id="diff",
    name="comparison",
    lead="`draftscope diff A B --prompts FILE -o diff.json` finds the first token that differs between greedy texts of "
    "two engines, and whether rounding explains it. Open the file to see both texts.",
    figures=DIVERGENCE_FIGURES,
    read=_read_comparison,
)


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
