"""Figures: a plot with its words and its downloads, and a choice among those that some runs support."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Final

import gradio as gr
import plotly.graph_objects as go
import plotly.io

from draftscope.demo.components.context import DARK, EACH, LATEST, NARROW, QUIET, Site, Update, serialized, unread
from draftscope.demo.components.export import DownloadSlot, ExportPanel, Extra
from draftscope.demo.components.print_form import PrintForm
from draftscope.demo.components.widgets import notice
from draftscope.engines.settings import ConfigError
from draftscope.traces.schema import Trace
from draftscope.visualizers import FIGURES, Figure, supported, themed
from draftscope.visualizers.export import FORMATS, BrowserMissing, write_job
from draftscope.visualizers.export_zip import ZipOptions, image_job
from draftscope.visualizers.export_zip.widths import narrowed
from draftscope.visualizers.figure import FigureText


class Panel:
    """A plot with its words and its downloads."""

    def __init__(
        self, site: Site, name: str, *, files_alone: bool = False, print_form: PrintForm | None = None
    ) -> None:
        """Lay it out.

        Args:
            site: The page.
            name: Sets the ids on the page apart from others.
            files_alone: Whether only the downloads show, where the page draws the same in its own way.
            print_form: Width, theme and letters of the files; by default those of the page.
        """
        self.site = site
        self.print_form = print_form
        self.name = name
        self.files_alone = files_alone
        self.plot = gr.Plot(show_label=False, elem_id=f"{name}-plot", visible=False)
        self.words = gr.Markdown(elem_classes="lead")
        with gr.Row(visible=False) as self.row:
            buttons = {kind: gr.Button(f"Export {kind.upper()}", size="sm") for kind in FORMATS}
        self.out = DownloadSlot(f"{name}-image", "Figure")
        self.problem = self.out.problem
        self.parts: list[Any] = [self.plot, self.words, self.row, *self.out.parts]
        """Components that `show` and `hide` update."""
        for kind, button in buttons.items():
            chosen = {*print_form.controls} if print_form else None
            self.out.save_after(button.click(self._exporter(kind), chosen or {site.look}, self.out.parts, **QUIET))
        if site.turned is not None and not files_alone:
            site.turned.turned(self.relayout, {site.look}, [self.plot], **EACH)

    def show(
        self, figure: FigureText, drawn: go.Figure, look: str, request: gr.Request, options: ZipOptions | None = None
    ) -> Update:
        """Show a figure, as it is printed with `options`; it is kept in light colours for export."""
        self._path(request).write_text(drawn.to_json(), encoding="utf-8")
        update: Update = {self.row: gr.update(visible=True), **self.out.cleared()}
        if self.files_alone:
            return update
        reproduces = f" *Reproduces {figure.paper}.*" if figure.paper else ""
        plot = gr.update(value=_preview(drawn, look, options), visible=True)
        return {**update, self.plot: plot, self.words: figure.caption + reproduces}

    def hide(self, words: str) -> Update:
        """Show words alone."""
        hidden = gr.update(visible=False)
        return {self.plot: hidden, self.words: words, self.row: hidden, **self.out.cleared()}

    def relayout(self, values: Update, request: gr.Request, event: gr.EventData) -> Update:
        """Lay out the figure again after the page has become narrow or wide. Does nothing without a figure."""
        path = self._path(request)
        if not path.exists():
            return {self.plot: gr.skip()}
        look = f"{DARK * (DARK in values[self.site.look])} {NARROW * (event.narrow is True)}"
        return {self.plot: gr.update(value=_fitting(plotly.io.read_json(path), look))}

    def _exporter(self, kind: str) -> Any:
        def export(values: Update, request: gr.Request) -> Update:
            """Write the figure that is shown as a file."""
            path = self._path(request)
            if not path.exists():
                return {self.problem: notice("error", "The figure is no longer here; draw it again.")}
            figure = plotly.io.read_json(path)
            name = (figure.layout.meta or {}).get("figure", self.name)
            target = self.site.visitor(request).file(f"{name}.{kind}")
            try:
                options = self.print_form.options(values) if self.print_form else ZipOptions()
                write_job(image_job(figure, kind, options.preset, options.theme), target)
            except (BrowserMissing, OSError, ConfigError) as error:
                return {self.problem: notice("error", str(error))}
            return self.out.ready(target)

        return export

    def _path(self, request: gr.Request) -> Path:
        return self.site.visitor(request).folder / f"{self.name}.json"


def _preview(drawn: go.Figure, look: str, options: ZipOptions | None) -> go.Figure:
    """A figure as it is printed; with the page's width, as it is shown on a page that looks so."""
    if options is None or options.width == "screen":
        return _fitting(drawn, look)
    job = image_job(drawn, "svg", options.preset, options.theme)
    return job.figure.update_layout(width=job.width, autosize=False)


def _fitting(drawn: go.Figure, look: str) -> go.Figure:
    """A figure in light colours as it is shown on a page that looks so."""
    shown = narrowed(drawn) if NARROW in look else drawn
    return themed(shown, "dark") if DARK in look else shown


_CANNOT: Final = "This figure cannot be drawn from these runs; choose another."
_WHOLE, _ONE = "Whole run", "One pass"


class FigureChooser:
    """List of figures, a slider if the figure takes a step, and the figure of the current traces."""

    def __init__(
        self, site: Site, name: str, shown: gr.State, extra: Extra = lambda values: {}, first: Sequence[str] = ()
    ) -> None:
        """Lay them out; `name` sets their ids on the page apart from others.

        They draw the traces of `shown`; a zip holds `extra` files, too. Where none was chosen yet, the first of `first`
        is drawn that the traces support.
        """
        self.site = site
        self.shown = shown
        self.first = first
        with gr.Row():
            with gr.Column(scale=1, min_width=240):
                self.name = gr.Radio([], label="Figure", visible=False, elem_id=f"{name}-name", elem_classes="vertical")
                self.scope = gr.Radio([_WHOLE, _ONE], value=_WHOLE, label="Of", visible=False, elem_id=f"{name}-scope")
                self.step = gr.Slider(0, 1, step=1, label="After forward pass", visible=False, elem_id=f"{name}-step")
            with gr.Column(scale=4, min_width=320):
                self.print_form = PrintForm(name)
                self.panel = Panel(site, name, print_form=self.print_form)
                self.export = ExportPanel(site, name, self.shown, self.print_form)
        printed = self.print_form.controls
        self.inputs: set[Any] = {self.name, self.scope, self.step, self.shown, site.look, *printed}
        outputs = [self.scope, self.step, *self.print_form.parts, *self.panel.parts]
        self.parts: list[Any] = [self.name, *outputs, *self.export.parts]
        self.export.connect({self.name, self.scope, self.step}, self.chosen, extra)
        # `input` hears the mouse, the keys and a typed number, and nothing that a handler sets.
        for control in (self.name, self.scope, self.step, self.print_form.theme, self.print_form.font_size):
            control.input(self.choose, self.inputs, outputs, **(LATEST | serialized(name)))
        self.print_form.width.input(self.change_width, self.inputs, outputs, **(LATEST | serialized(name)))

    def offer(self, traces: Sequence[Trace], values: Update, request: gr.Request) -> Update:
        """Offer the figures that the traces support, and draw the one that was chosen where it is among them."""
        figures = supported(traces) if traces else ()
        if not figures:
            hidden = {
                part: gr.update(visible=False) for part in (self.name, self.scope, self.step, self.print_form.row)
            }
            return {**hidden, **self.panel.hide(""), **self.export.offered(visible=False)}
        names = [figure.name for figure in figures]
        name = next((one for one in (values[self.name], *self.first) if one in names), names[0])
        offered = gr.update(choices=[(figure.title, figure.name) for figure in figures], value=name, visible=True)
        at = values | {self.step: min(len(trace.steps) for trace in traces) // 2}
        drawn = self._draw(FIGURES[name], traces, at, request)
        return unread(values, {self.name: offered, **drawn, **self.export.offered(visible=True)})

    def chosen(self, values: Update) -> tuple[str, int | None]:
        """The figure that is chosen, and the moment it shows; None for its own choice."""
        name = str(values[self.name])
        figure = FIGURES.get(name)
        last = max((len(trace.steps) for trace in values[self.shown].traces()), default=0)
        moment = figure is not None and figure.takes_step and not (figure.whole_run and values[self.scope] != _ONE)
        return name, _moment(values[self.step], last) if moment else None

    def change_width(self, values: Update, request: gr.Request) -> Update:
        """Draw the chosen figure for another width, with the letters that belong to it."""
        sized = self.print_form.letters_of(values)
        return {**self.choose(values | sized, request), **self.print_form.changed(values)}

    def choose(self, values: Update, request: gr.Request) -> Update:
        """Draw the chosen figure."""
        traces = values[self.shown].traces()
        figure = FIGURES.get(values[self.name])
        if figure is None or not traces or figure.supports(traces):
            return self.panel.hide(_CANNOT)
        return unread(values, self._draw(figure, traces, values, request))

    def _draw(self, figure: Figure, traces: Sequence[Trace], values: Update, request: gr.Request) -> Update:
        last = max(len(trace.steps) for trace in traces)
        at = _moment(values[self.step], last)
        whole_figure = figure.whole_run and values[self.scope] != _ONE
        drawn = figure.draw(traces, step=at if figure.takes_step and not whole_figure else None)
        slider = gr.update(visible=figure.takes_step and not whole_figure, maximum=max(last, 1), value=at)
        return {
            self.scope: gr.update(visible=figure.takes_step and figure.whole_run),
            self.step: slider,
            **self.print_form.shown(values),
            **self.panel.show(figure, drawn, values[self.site.look], request, self.print_form.options(values)),
        }


def _moment(value: Any, last: int) -> int:
    """Return the step of the slider, clamped to the run; 0 is before the first pass."""
    sound = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return min(max(int(value), 0), last) if sound else last
