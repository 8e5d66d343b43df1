"""The figures that some runs support: choose one, the moment it shows, and see it."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, Final

import gradio as gr

from demo.figure_panel import Panel
from demo.site import LATEST, Site, Update
from demo.workbench.export_panel import ExportPanel, Extra
from traces.schema import Trace
from visualizers import FIGURES, Figure, supported

_CANNOT: Final = "This figure cannot be drawn from these runs; choose another."
_WHOLE, _ONE = "Whole run", "One pass"


class FigureChooser:
    """A list of figures, a choice of the moment where the figure has one, and the figure of the traces at hand."""

    def __init__(
        self,
        site: Site,
        name: str,
        shown: gr.State | None = None,
        extra: Extra = lambda values: {},
        first: str = "",
    ) -> None:
        """Lay them out; `name` sets their ids on the page apart from others.

        They draw the traces of `shown`, by default those that all pages speak of; a zip holds `extra` files, too. The
        figure `first` is drawn where none was chosen yet.
        """
        self.site = site
        self.shown = shown or site.shown
        self.first = first
        with gr.Row():
            with gr.Column(scale=1, min_width=240):
                self.name = gr.Radio([], label="Figure", visible=False, elem_id=f"{name}-name", elem_classes="vertical")
                self.scope = gr.Radio([_WHOLE, _ONE], value=_WHOLE, label="Of", visible=False, elem_id=f"{name}-scope")
                self.step = gr.Slider(0, 1, step=1, label="After forward pass", visible=False, elem_id=f"{name}-step")
            with gr.Column(scale=4, min_width=320):
                self.panel = Panel(site, name)
                self.export = ExportPanel(site, name, self.shown)
        self.inputs: set[Any] = {self.name, self.scope, self.step, self.shown, site.dark}
        outputs = [self.scope, self.step, *self.panel.parts]
        self.parts: list[Any] = [self.name, *outputs, *self.export.parts]
        self.export.connect({self.name, self.scope, self.step, self.shown}, self.chosen, extra)
        # `input` hears the mouse, the keys and a typed number, and nothing that a handler sets.
        for control in (self.name, self.scope, self.step):
            control.input(self.choose, self.inputs, outputs, **LATEST)

    def offer(self, traces: Sequence[Trace], values: Update, request: gr.Request) -> Update:
        """Offer the figures that the traces support, and draw the one that was chosen where it is among them."""
        figures = supported(traces) if traces else ()
        if not figures:
            hidden = {part: gr.update(visible=False) for part in (self.name, self.scope, self.step)}
            return {**hidden, **self.panel.hide(""), **self.export.offered(there=False)}
        names = [figure.name for figure in figures]
        wanted = values[self.name] or self.first
        name = wanted if wanted in names else names[0]
        offered = gr.update(choices=[(figure.title, figure.name) for figure in figures], value=name, visible=True)
        at = values | {self.step: min(len(trace.steps) for trace in traces) // 2}
        drawn = self._draw(FIGURES[name], traces, at, request)
        return {self.name: offered, **drawn, **self.export.offered(there=True)}

    def chosen(self, values: Update) -> tuple[str, int | None]:
        """The figure that is chosen, and the moment it shows; None for its own choice."""
        name = str(values[self.name])
        figure = FIGURES.get(name)
        last = max((len(trace.steps) for trace in values[self.shown].traces()), default=0)
        moment = figure is not None and figure.stepped and not (figure.whole and values[self.scope] != _ONE)
        return name, _moment(values[self.step], last) if moment else None

    def choose(self, values: Update, request: gr.Request) -> Update:
        """Draw the chosen figure."""
        traces = values[self.shown].traces()
        figure = FIGURES.get(values[self.name])
        if figure is None or not traces or figure.supports(traces):
            return self.panel.hide(_CANNOT)
        return self._draw(figure, traces, values, request)

    def _draw(self, figure: Figure, traces: Sequence[Trace], values: Update, request: gr.Request) -> Update:
        last = max(len(trace.steps) for trace in traces)
        at = _moment(values[self.step], last)
        whole = figure.whole and values[self.scope] != _ONE
        drawn = figure.draw(traces, step=at if figure.stepped and not whole else None)
        slider = gr.update(visible=figure.stepped and not whole, maximum=max(last, 1), value=at)
        return {
            self.scope: gr.update(visible=figure.stepped and figure.whole),
            self.step: slider,
            **self.panel.show(figure, drawn, bool(values[self.site.dark]), request),
        }


def _moment(value: Any, last: int) -> int:
    """What the slider says, within the run; 0 is before the first pass."""
    sound = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return min(max(int(value), 0), last) if sound else last
