"""Runs at hand as a zip to take away: figures in every format, their numbers, traces, caption and commands."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import gradio as gr

from demo.limits import ZIP_BYTES
from demo.moving_panel import progress
from demo.site import QUIET, Site, Update
from demo.widgets import notice, notice_box, saved
from traces.schema import Trace
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
        with gr.Row(elem_classes=["aligned", "packing"], visible=False) as self.row:
            self.width = gr.Dropdown(
                [(preset.title, name) for name, preset in PRESETS.items()],
                value="column",
                label="Figure width",
                scale=0,
                min_width=250,
                elem_id=f"{name}-width",
            )
            self.every = gr.Checkbox(False, label="Every figure of these runs", scale=0, min_width=220)
            self.traces = gr.Checkbox(True, label="With the traces", scale=0, min_width=150)
            self.button = gr.Button(
                "Export .zip", variant="primary", size="sm", scale=0, min_width=130, elem_id=f"{name}-zip"
            )
        self.out = Output(site, name)

    def connect(self, chosen: set[Any], figure: Callable[[Update], tuple[str, int | None]], extra: Extra) -> None:
        """Export the figure, name and moment, that `figure` reads off the values of `chosen`; and further files."""
        given = {self.width, self.every, self.traces, self.shown, self.site.look, *chosen}

        def export(values: Update, request: gr.Request) -> Iterator[Update]:
            """Write the zip and say how far it is."""
            name, step = figure(values)
            options = Options(width=values[self.width], traces=bool(values[self.traces]), extra=extra(values))
            figures = None if values[self.every] else [name]
            yield from self.out.write(values[self.shown].traces(), figures, step, options, request)

        self.out.follow(self.button.click(export, given, self.out.parts, **QUIET))

    @property
    def parts(self) -> list[Any]:
        """What `offered` changes."""
        return [self.row, *self.out.parts]

    def offered(self, *, there: bool) -> Update:
        """Show the button where there is something to export; a file that shows other runs goes."""
        return {self.row: gr.update(visible=there), **self.out.cleared()}


class Output:
    """Where a zip comes out: what is said while it is made, and the file, which is saved as soon as it is there."""

    def __init__(self, site: Site, name: str) -> None:
        """Lay it out."""
        self.site = site
        self.problem = notice_box(elem_id=f"{name}-zip-progress", elem_classes="panel-problem")
        self.file = gr.File(
            label="PDF, SVG, PNG, CSV, traces, caption, commands",
            visible=False,
            interactive=False,
            elem_id=f"{name}-zip-file",
        )

    @property
    def parts(self) -> list[Any]:
        """What `write` and `cleared` change."""
        return [self.file, self.problem]

    def follow(self, event: Any) -> None:
        """Let the browser save what the event wrote."""
        event.success(None, None, None, js=saved(str(self.file.elem_id)), **QUIET)

    def cleared(self) -> Update:
        """Without a file."""
        return {self.file: gr.update(visible=False, value=None), self.problem: {}}

    def write(
        self,
        traces: Sequence[Trace],
        figures: Sequence[str] | None,
        step: int | None,
        options: Options,
        request: gr.Request,
    ) -> Iterator[Update]:
        """Write figures of traces, all that they support by default, and say how far it is."""
        if not traces:
            yield {**self.cleared(), self.problem: notice("error", _NOTHING)}
            return
        what = figures[0] if figures is not None and len(figures) == 1 else "figures"
        target = self.site.visitor(request).file(f"{stem(traces, what)}.zip")
        options = replace(options, theme="light", most_bytes=ZIP_BYTES)
        yield {**self.cleared(), self.problem: notice("info", "The figures are drawn.", "One moment.")}
        try:
            for done, count in progress(
                lambda report: write_zip(traces, target, figures=figures, step=step, options=options, report=report)
            ):
                yield {self.problem: notice("info", f"{done} of {count} pictures are printed.", "Printing.")}
        except (BundleError, FigureError, BrowserMissing, OSError) as error:
            yield {**self.cleared(), self.problem: notice("error", str(error))}
            return
        finally:
            if not target.exists():
                shutil.rmtree(target.parent, ignore_errors=True)
        yield {self.file: gr.update(value=str(target), visible=True), self.problem: {}}
