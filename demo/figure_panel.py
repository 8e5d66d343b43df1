"""A plot with its words and its downloads."""

from pathlib import Path
from typing import Any

import gradio as gr
import plotly.graph_objects as go
import plotly.io

from demo.site import DARK, LATEST, NARROW, QUIET, Site, Update
from demo.widgets import notice, notice_box, saved
from visualizers import themed
from visualizers.bundle.widths import narrowed
from visualizers.export import FORMATS, BrowserMissing, write_image
from visualizers.sheet import Described


class Panel:
    """A plot with its words and its downloads."""

    def __init__(self, site: Site, name: str, *, files_alone: bool = False) -> None:
        """Lay it out; with `files_alone` only the downloads show, where the page draws the same in its own way."""
        self.site = site
        self.name = name
        self.files_alone = files_alone
        self.plot = gr.Plot(show_label=False, elem_id=f"{name}-plot", visible=False)
        self.words = gr.Markdown(elem_classes="lead")
        with gr.Row(visible=False) as self.row:
            buttons = [(kind, gr.Button(f"Export {kind.upper()}", size="sm")) for kind in FORMATS]
        self.problem = notice_box(elem_classes="panel-problem")
        self.file = gr.File(label="Figure", visible=False, interactive=False, elem_id=f"{name}-file")
        for kind, button in buttons:
            exported = button.click(self._exporter(kind), None, [self.file, self.problem], **QUIET)
            exported.then(None, None, None, js=saved(f"{name}-file"), **QUIET)
        if site.turned is not None and not files_alone:
            site.turned.turned(self.turn, {site.look}, [self.plot], **LATEST)

    @property
    def parts(self) -> list[Any]:
        """What `show` and `hide` change."""
        return [self.plot, self.words, self.row, self.file, self.problem]

    def show(self, figure: Described, drawn: go.Figure, look: str, request: gr.Request) -> Update:
        """Show a figure; it is kept in light colours for export."""
        self._path(request).write_text(drawn.to_json(), encoding="utf-8")
        if self.files_alone:
            no_file = gr.update(visible=False, value=None)
            return {self.row: gr.update(visible=True), self.file: no_file, self.problem: {}}
        answers = f" *Reproduces {figure.paper}.*" if figure.paper else ""
        return {
            self.plot: gr.update(value=_fitting(drawn, look), visible=True),
            self.words: figure.caption + answers,
            self.row: gr.update(visible=True),
            self.file: gr.update(visible=False, value=None),
            self.problem: {},
        }

    def hide(self, words: str) -> Update:
        """Show words alone."""
        return {
            self.plot: gr.update(visible=False),
            self.words: words,
            self.row: gr.update(visible=False),
            self.file: gr.update(visible=False, value=None),
            self.problem: {},
        }

    def turn(self, values: Update, request: gr.Request, event: gr.EventData) -> Update:
        """Lay the figure out anew for a page that has become narrow or wide; where there is none nothing happens."""
        path = self._path(request)
        if not path.exists():
            return {self.plot: gr.skip()}
        look = f"{DARK * (DARK in values[self.site.look])} {NARROW * (event.narrow is True)}"
        return {self.plot: gr.update(value=_fitting(plotly.io.read_json(path), look))}

    def _path(self, request: gr.Request) -> Path:
        visitor = self.site.visitor(request)
        visitor.folder.mkdir(parents=True, exist_ok=True)
        return visitor.folder / f"{self.name}.json"

    def _exporter(self, kind: str) -> Any:
        def export(request: gr.Request) -> Update:
            """Write the figure that is shown as a file."""
            path = self._path(request)
            if not path.exists():
                return {self.problem: notice("error", "The figure is no longer here; draw it again.")}
            target = self.site.visitor(request).file(f"{self.name}.{kind}")
            try:
                write_image(plotly.io.read_json(path), target)
            except (BrowserMissing, OSError) as error:
                return {self.problem: notice("error", str(error))}
            return {self.file: gr.update(value=str(target), visible=True), self.problem: {}}

        return export


def _fitting(drawn: go.Figure, look: str) -> go.Figure:
    """A figure in light colours as it is shown on a page that looks so."""
    shown = narrowed(drawn) if NARROW in look else drawn
    return themed(shown, "dark") if DARK in look else shown
