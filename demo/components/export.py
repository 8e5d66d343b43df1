"""Export of the current runs: a zip with figures, numbers and traces, or an animation."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import Any, Final

import gradio as gr

from draftscope.demo.components.context import DARK, PRESS, QUIET, Site, Update
from draftscope.demo.components.print_form import PrintForm
from draftscope.demo.components.queued import queued
from draftscope.demo.components.widgets import notice, notice_box
from draftscope.demo.jobs.links import parse_machine
from draftscope.demo.server.limits import COMPUTE, ZIP_BYTES, server_limits
from draftscope.demo.server.log import redact_paths
from draftscope.demo.server.sessions import file_name
from draftscope.engines.runtime.deadline import Deadline
from draftscope.engines.settings import ConfigError
from draftscope.traces.schema import Trace
from draftscope.visualizers.animation import AnimationOptions, MovingError, Report, fitting, write_moving
from draftscope.visualizers.export import BrowserMissing
from draftscope.visualizers.export_zip import BundleError, ZipOptions, file_stem, write_zip
from draftscope.visualizers.figure import FigureError
from draftscope.visualizers.style import Theme

KINDS: Final = ("gif", "mp4")
_SAID_EVERY: Final = 8
"""Frames between two reports of progress."""
_CLOCK: Final = """(...values) => {
  const { clock, controls } = draftscopePlayers.viewer;
  return [...values.slice(0, -1), clock === 'computed' ? controls.hardware.written : clock];
}"""
"""Gradio passes inputs in the order in which they were made, so that the clock comes last."""
_NOTHING_MOVES: Final = "There is no run to animate yet; press Run or choose a recorded run."


class _GivenUp(Exception):
    """The client has disconnected."""


def with_progress(work: Callable[[Report], object]) -> Iterator[tuple[int, int]]:
    """Run work that reports progress, and yield the reports. Its exception is raised at the end.

    If the client disconnects, the work ends at its next report.
    """
    reported: SimpleQueue[tuple[int, int] | None] = SimpleQueue()
    given_up = Event()

    def report(done: int, count: int) -> None:
        if given_up.is_set():
            raise _GivenUp
        reported.put((done, count))

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(work, report)
        result.add_done_callback(lambda _: reported.put(None))
        try:
            yield from iter(reported.get, None)
        finally:
            given_up.set()
        result.result()


class DownloadSlot:
    """A file for the visitor, which the browser saves as soon as it is there, and its messages."""

    def __init__(self, name: str, label: str) -> None:
        """Lay it out; `name` sets its ids on the page apart from others."""
        self.name = name
        self.problem = notice_box(elem_id=f"{name}-progress")
        self.file = gr.File(label=label, visible=False, interactive=False, elem_id=f"{name}-file")
        self.parts: list[Any] = [self.file, self.problem]
        """Components that `ready` and `cleared` update."""

    def ready(self, path: Path, remark: Mapping[str, Any] | None = None) -> Update:
        """The file is there."""
        return {self.file: gr.update(value=str(path), visible=True), self.problem: remark or {}}

    def cleared(self) -> Update:
        """Remove the file, because it no longer matches the current runs."""
        return {self.file: gr.update(value=None, visible=False), self.problem: {}}

    def write(
        self, work: Callable[[Report], None], target: Path, progress: Callable[[int, int], str], remark: Update | None
    ) -> Iterator[Update]:
        """Do work that writes a file and reports how far it is, say that in words of `progress`, and offer the file."""
        yield {**self.cleared(), self.problem: notice("info", "The pictures are drawn.", "One moment.")}
        try:
            for done, count in with_progress(work):
                if words := progress(done, count):
                    yield {self.problem: notice("info", words, "Drawing.")}
            yield self.ready(target, remark)
        except (BundleError, FigureError, BrowserMissing, MovingError, OSError) as error:
            yield {**self.cleared(), self.problem: notice("error", redact_paths(in_words(error)))}
        finally:
            if not target.exists():
                shutil.rmtree(target.parent, ignore_errors=True)

    def save_after(self, event: Any) -> None:
        """Let the browser save what the event wrote."""
        event.then(None, js=f"() => ({PRESS})('#{self.name}-file a[download]')", **QUIET)


def in_words(error: Exception) -> str:
    """Return the problem without a remedy that names options which the page does not have."""
    if not isinstance(error, MovingError) or not error.remedy:
        return str(error)
    return f"{error.problem}. The page has no setting for this; the command draftscope animate has."


class AnimationExport(DownloadSlot):
    """Buttons that write a moving picture, its messages, and the file."""

    def __init__(self, site: Site, name: str) -> None:
        """Lay them out; `name` sets their ids on the page apart from others."""
        self.site = site
        with gr.Row():
            buttons = {
                kind: gr.Button(f"Export {kind.upper()}", size="sm", scale=0, min_width=130, elem_id=f"{name}-{kind}")
                for kind in KINDS
            }
        super().__init__(name, "Moving picture")
        self.clock = gr.Textbox("passes", visible=False)
        """Clock of the player: passes, milliseconds, or the hardware for which they are computed."""
        # Shares the model slot, because timings of a simultaneous run would be wrong on a busy machine.
        events: dict[str, Any] = {**COMPUTE, **QUIET}
        for kind, button in buttons.items():
            export = queued(site, self.problem, f"export-{kind}", partial(self.export, kind), stops=False)
            trigger_inputs: set[Any] = {site.shown, site.look, self.clock}
            self.save_after(button.click(export, trigger_inputs, self.parts, js=_CLOCK, **events))

    def export(self, kind: str, values: Update, request: gr.Request) -> Iterator[Update]:
        """Write the current runs as an animation, and show progress."""
        traces = values[self.site.shown].traces()
        if not traces:
            yield {**self.cleared(), self.problem: notice("error", _NOTHING_MOVES)}
            return
        target = self.site.visitor(request).file(f"{file_name(traces[-1])}.{kind}")
        deadline = Deadline(server_limits().run_seconds, lambda: False)
        theme: Theme = "dark" if DARK in values[self.site.look] else "light"
        try:
            look = fitting(traces, AnimationOptions(theme=theme, **_clocked(values[self.clock])))
        except (ConfigError, MovingError) as error:
            yield {**self.cleared(), self.problem: notice("error", in_words(error))}
            return
        sparse = notice("info", f"A frame is {look.passes_per_frame} forward passes, to keep the animation short.")

        def progress(done: int, frames: int) -> str:
            if deadline():
                raise MovingError(f"moving picture: {done} of {frames} frames were drawn. {deadline.reason}")
            return f"Frame {done} of {frames} is drawn." if done % _SAID_EVERY == 0 else ""

        def work(report: Report) -> None:
            write_moving(traces, target, look, report=report)

        yield from self.write(work, target, progress, sparse if look.passes_per_frame > 1 else None)


def _clocked(clock: str) -> dict[str, Any]:
    """Return the clock of the page as fields of an `AnimationOptions`; raises ConfigError for unknown hardware."""
    if clock in ("passes", "milliseconds"):
        return {"clock": clock}
    machine = parse_machine(clock)
    return {"clock": "computed", "machine": machine} if machine else {}


_NOTHING: Final = "There is no run to export yet; press Run, choose a recording or select runs under Compare."

Extra = Callable[[Update], Mapping[str, bytes]]
"""Further files, from the values of the page."""


class ZipDownload(DownloadSlot):
    """Download slot for a zip."""

    def __init__(self, site: Site, name: str) -> None:
        """Lay it out; `name` sets its ids on the page apart from others."""
        super().__init__(f"{name}-zip", "PDF, SVG, PNG, CSV, traces, caption, commands")
        self.site = site

    def zip(
        self,
        traces: Sequence[Trace],
        figures: Sequence[str] | None,
        step: int | None,
        options: ZipOptions,
        request: gr.Request,
    ) -> Iterator[Update]:
        """Write figures of traces to a zip, by default all that they support, and show progress."""
        if not traces:
            yield {**self.cleared(), self.problem: notice("error", _NOTHING)}
            return
        what = figures[0] if figures is not None and len(figures) == 1 else "figures"
        target = self.site.visitor(request).file(f"{file_stem(traces, what)}.zip")
        options = replace(options, max_bytes=ZIP_BYTES)

        def work(report: Report) -> None:
            write_zip(traces, target, figures=figures, step=step, options=options, report=report)

        yield from self.write(work, target, lambda done, count: f"{done} of {count} pictures are printed.", None)


class ExportPanel:
    """A button that writes a zip, its options, its messages, and the file."""

    def __init__(self, site: Site, name: str, shown: gr.State, print_form: PrintForm | None = None) -> None:
        """Lay them out.

        Args:
            site: The page.
            name: Sets the ids on the page apart from others.
            shown: The traces.
            print_form: Width, theme and letters; by default those of one column.
        """
        self.shown, self.print_form = shown, print_form
        with gr.Row(elem_classes=["aligned", "packing"], visible=False) as self.row:
            self.all_figures = gr.Checkbox(False, label="Every figure of these runs", scale=0, min_width=220)
            self.traces = gr.Checkbox(True, label="With the traces", scale=0, min_width=150)
            self.button = gr.Button(
                "Export .zip", variant="primary", size="sm", scale=0, min_width=130, elem_id=f"{name}-zip"
            )
        self.out = ZipDownload(site, name)
        self.parts: list[Any] = [self.row, *self.out.parts]
        """Components that `offered` updates."""

    def connect(self, chosen: set[Any], figure: Callable[[Update], tuple[str, int | None]], extra: Extra) -> None:
        """Export the figure, name and moment, that `figure` reads off the values of `chosen`; and further files."""
        printed = self.print_form.controls if self.print_form else ()
        inputs = {self.all_figures, self.traces, self.shown, *printed, *chosen}

        def export(values: Update, request: gr.Request) -> Iterator[Update]:
            """Write the zip and show progress."""
            name, step = figure(values)
            options = self.print_form.options(values) if self.print_form else ZipOptions(width="column")
            options = replace(options, traces=bool(values[self.traces]), extra=extra(values))
            figures = None if values[self.all_figures] else [name]
            yield from self.out.zip(values[self.shown].traces(), figures, step, options, request)

        self.out.save_after(self.button.click(export, inputs, self.out.parts, **QUIET))

    def offered(self, *, visible: bool) -> Update:
        """Show the button where there is something to export; a file that shows other runs goes."""
        return {self.row: gr.update(visible=visible), **self.out.cleared()}
