"""Runs at hand as a zip to take away: figures in every format, their numbers, traces, caption and commands."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import gradio as gr

from demo.limits import ZIP_BYTES
from demo.moving_panel import progress
from demo.site import QUIET, Site, Update
from demo.widgets import notice, notice_box
from visualizers.bundle import PRESETS, BundleError, Options, stem, write_zip
from visualizers.export import BrowserMissing
from visualizers.figure import FigureError

_NOTHING: Final = "There is no run to export yet; press Run, choose a recording or tick runs under Compare."

Extra = Callable[[Update], Mapping[str, bytes]]


class ExportPanel:
    """A choice of width, a button, what is said meanwhile, and the file."""

    def __init__(self, site: Site, name: str, shown: gr.State) -> None:
        """Lay them out; `name` sets their ids on the page apart from others."""
        self.site = site
        self.shown = shown
        with gr.Row(elem_classes="aligned", visible=False) as self.row:
            self.width = gr.Dropdown(
                [(preset.title, name) for name, preset in PRESETS.items()],
                value="column",
                label="Figure width",
                scale=0,
                min_width=200,
                elem_id=f"{name}-width",
            )
            self.every = gr.Checkbox(False, label="Every figure of these runs", scale=0, min_width=220)
            self.traces = gr.Checkbox(True, label="With the traces", scale=0, min_width=150)
            self.button = gr.Button(
                "Export .zip", variant="primary", size="sm", scale=0, min_width=130, elem_id=f"{name}-zip"
            )
        self.problem = notice_box(elem_id=f"{name}-zip-progress", elem_classes="panel-problem")
        self.file = gr.File(
            label="PDF, SVG, PNG, CSV, traces, caption, commands",
            visible=False,
            interactive=False,
            elem_id=f"{name}-zip-file",
        )

    def connect(self, chosen: set[Any], figure: Callable[[Update], tuple[str, int | None]], extra: Extra) -> None:
        """Export the figure, name and moment, that `figure` reads off the values of `chosen`; and further files."""
        given = {self.width, self.every, self.traces, self.shown, self.site.dark, *chosen}

        def export(values: Update, request: gr.Request) -> Iterator[Update]:
            """Write the zip and say how far it is."""
            yield from self._export(values, figure(values), extra(values), request)

        self.button.click(export, given, [self.file, self.problem], **QUIET)

    @property
    def parts(self) -> list[Any]:
        """What `offered` changes."""
        return [self.row, self.file, self.problem]

    def offered(self, *, there: bool) -> Update:
        """Show the button where there is something to export; a file that shows other runs goes."""
        return {
            self.row: gr.update(visible=there),
            self.file: gr.update(visible=False, value=None),
            self.problem: {},
        }

    def _export(
        self, values: Update, figure: tuple[str, int | None], extra: Mapping[str, bytes], request: gr.Request
    ) -> Iterator[Update]:
        cleared = {self.file: gr.update(visible=False, value=None)}
        traces = values[self.shown].traces()
        if not traces:
            yield {**cleared, self.problem: notice("error", _NOTHING)}
            return
        name, step = figure
        figures = None if values[self.every] else [name]
        target = self.site.visitor(request).file(f"{stem(traces, 'figures' if values[self.every] else name)}.zip")
        options = Options(
            width=values[self.width],
            theme="light",
            traces=bool(values[self.traces]),
            most_bytes=ZIP_BYTES,
            extra=extra,
        )
        yield {**cleared, self.problem: notice("info", "The figures are drawn.", "One moment.")}
        try:
            for done, count in progress(
                lambda report: write_zip(traces, target, figures=figures, step=step, options=options, report=report)
            ):
                yield {self.problem: notice("info", f"{done} of {count} pictures are printed.", "Printing.")}
        except (BundleError, FigureError, BrowserMissing, OSError) as error:
            yield {**cleared, self.problem: notice("error", str(error))}
            return
        finally:
            if not target.exists():
                shutil.rmtree(target.parent, ignore_errors=True)
        yield {self.file: gr.update(value=str(target), visible=True), self.problem: {}}
