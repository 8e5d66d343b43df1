"""Measured speed-ups: passes and times compared with the baseline, shipped or from the user's own machine."""

from pathlib import Path
from typing import Any, Final

import gradio as gr

from draftscope.analysis.shipped_results import FOLDER
from draftscope.analysis.timings import Timings, Window, Windows
from draftscope.demo.components.context import LATEST, QUIET, Site, Update, serialized
from draftscope.demo.components.figure import Panel
from draftscope.demo.components.widgets import data_table, notice, notice_box, table, upload_file
from draftscope.visualizers import TIMING_FIGURES, SweepError
from draftscope.visualizers.tables import table_files

_LEAD: Final = (
    "How many passes and how much time drafts save: for videos and pictures by window, for continuous tokens by draft "
    "length and batch. Times hold for one machine: `python -m benchmarks.video --json FILE` and `python -m "
    "benchmarks.continuous --json FILE` measure yours, and either file can be opened here."
)
_HEADS: Final = ("Draft length", "Batch", "Times as fast", "Tokens a verification", "Expected")
_WINDOW_HEADS: Final = ("Decoded", "Decoder", "Window", "Times fewer passes", "Times as fast")


class TimingsPanel:
    """A choice of figures, the table of one, and an upload."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.opened = gr.State({})
        """Benchmark -> file of a visitor's own."""
        gr.Markdown(_LEAD, elem_classes="lead")
        with gr.Row():
            with gr.Column(scale=1, min_width=240):
                figures = [(figure.title, name) for name, figure in TIMING_FIGURES.items()]
                self.figure = gr.Radio(figures, value=figures[0][1], label="Figure", elem_classes="vertical")
                self.upload = upload_file("timings-upload", "Open timings (.json)", ".json")
            with gr.Column(scale=4, min_width=320):
                self.problem = notice_box(elem_id="timings-problem")
                self.panel = Panel(site, "timings")
        self.table = data_table("Every setting", elem_id="timings-table")
        self.inputs: set[Any] = {self.figure, self.opened, site.look}
        self.parts: list[Any] = [*self.panel.parts, self.table]
        self.figure.input(self.draw, self.inputs, self.parts, **(LATEST | serialized("timings")))
        changes = [self.opened, self.figure, self.upload, self.problem]
        self.upload.upload(self.open, {self.upload, self.opened, self.figure}, changes, **QUIET)
        # not after a file that was refused
        self.opened.change(self.draw, self.inputs, self.parts, **serialized("timings"))

    def open(self, values: Update, request: gr.Request) -> Update:
        """Take a visitor's file; what is shown stays when the file is not sound."""
        data = values[self.upload] or b""
        try:
            chosen = TIMING_FIGURES[values[self.figure]]  # or the first whose column the file has
            fit = [one for one in (chosen, *TIMING_FIGURES.values()) if f'"{one.column}"'.encode() in data]
            figure = (fit or [chosen])[0]
            figure.read(data)
        except SweepError as error:
            return {self.problem: notice("error", str(error), "Invalid timings file"), self.upload: None}
        path = self.site.visitor(request).file("timings")
        path.write_bytes(data)
        opened = {**values[self.opened], figure.benchmark: path}
        return {self.opened: opened, self.figure: figure.name, self.upload: None, self.problem: {}}

    def draw(self, values: Update, request: gr.Request) -> Update:
        """Draw the chosen figure of the opened or shipped timings."""
        figure = TIMING_FIGURES[values[self.figure]]
        shipped = FOLDER / f"{figure.benchmark}.json"
        path: Path = values[self.opened].get(figure.benchmark, shipped)
        if path == shipped and not path.exists():
            return self.panel.hide("No timings ship with this app; measure some and open the file.")
        if not path.exists():
            return {self.panel.problem: notice("error", "The file is no longer here; open it again.")}
        timings = figure.read(path.read_bytes())
        shown = self.panel.show(figure, figure.draw(timings), values[self.site.look], request)
        return {self.table: as_table(timings), **shown}


def as_table(measured: Timings | Windows) -> dict[str, Any]:
    """One line a setting."""
    windows, timings = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for row in measured.rows:
        if isinstance(row, Window):
            fewer = f"{row.nfe_ratio:.2f} ± {row.nfe_ratio_error:.2f}"
            faster = f"{row.time_ratio:.2f} ± {row.time_ratio_error:.2f}"
            windows.append((row.kind, row.decoder, row.window, fewer, faster))
        else:
            numbers = (row.faster_median, row.tokens_per_verification, row.tokens_expected)
            timings.append((row.gamma, row.batch, *(f"{number:.2f}" for number in numbers)))
    heads, rows = (_WINDOW_HEADS, windows) if windows else (_HEADS, timings)
    return table(heads, rows) | {"files": table_files("timings", heads, rows)}
