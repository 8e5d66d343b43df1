"""What drafting gains: times of CSpD beside ordinary decoding, shipped or of the visitor's own machine."""

from pathlib import Path
from typing import Any, Final

import gradio as gr

from demo.figure_panel import Panel
from demo.limits import UPLOAD_BYTES
from demo.measured import FOLDER
from demo.site import QUIET, Site, Update
from demo.widgets import data_table, notice, notice_box, table
from traces.timings import Timings
from visualizers import TIMING_FIGURES, SweepError, read_timings

_LEAD: Final = (
    "How much faster drafts make continuous tokens, by draft length and batch, and where the time goes. Times hold for "
    "one machine: `python -m benchmarks.continuous --json FILE` measures yours, and the file can be opened here."
)
_SHIPPED: Final = "continuous.json"
_HEADS: Final = ("Draft length", "Batch", "Times as fast", "Tokens a verification", "Expected")


class TimingsPage:
    """The page and its handlers."""

    def __init__(self, site: Site, folder: Path = FOLDER) -> None:
        self.site = site
        shipped = folder / _SHIPPED
        self.path = gr.State(shipped if shipped.exists() else None)
        gr.Markdown(_LEAD, elem_classes="lead")
        with gr.Row():
            with gr.Column(scale=1, min_width=240):
                self.figure = gr.Radio(
                    [(figure.title, name) for name, figure in TIMING_FIGURES.items()],
                    value=next(iter(TIMING_FIGURES)),
                    label="Figure",
                    elem_classes="vertical",
                )
                self.upload = gr.File(
                    label="Open timings (.json)",
                    file_types=[".json"],
                    type="binary",
                    height=160,
                    elem_id="timings-upload",
                )
            with gr.Column(scale=4, min_width=320):
                self.problem = notice_box(elem_id="timings-problem", elem_classes="panel-problem")
                self.panel = Panel(site, "timings")
        self.table = data_table("Speed of every setting", elem_id="timings-table")
        self.inputs: set[Any] = {self.figure, self.path, site.dark}
        self.parts: list[Any] = [*self.panel.parts, self.table]
        self.figure.input(self.draw, self.inputs, self.parts, **QUIET)
        self.upload.upload(self.open, {self.upload}, [self.path, self.upload, self.problem], **QUIET)
        self.path.change(self.draw, self.inputs, self.parts, **QUIET)  # not after a file that was refused

    def open(self, values: Update, request: gr.Request) -> Update:
        """Take a visitor's file; what is shown stays when the file is not sound."""
        data = values[self.upload] or b""
        try:
            if len(data) > UPLOAD_BYTES:
                raise SweepError(f"file: has more than {UPLOAD_BYTES // 2**20} MB; give fewer rows")
            read_timings(data)
        except SweepError as error:
            wrong = notice("error", str(error), "These are no sound timings.")
            return {self.problem: wrong, self.upload: None, self.path: gr.skip()}
        path = self.site.visitor(request).file("timings")
        path.write_bytes(data)
        return {self.path: path, self.upload: None, self.problem: {}}

    def draw(self, values: Update, request: gr.Request) -> Update:
        """Draw the chosen figure of the timings at hand."""
        path: Path | None = values[self.path]
        if path is None:
            return self.panel.hide("No timings ship with this app; measure some and open the file.")
        if not path.exists():
            return {self.panel.problem: notice("error", "The file is no longer here; open it again.")}
        timings = read_timings(path.read_bytes())
        figure = TIMING_FIGURES[values[self.figure]]
        shown = self.panel.show(figure, figure.draw(timings), bool(values[self.site.dark]), request)
        return {self.table: told(timings), **shown}


def told(timings: Timings) -> dict[str, Any]:
    """One line a setting."""
    lines = [
        (
            row.gamma,
            row.batch,
            f"{row.faster_median:.2f}",
            f"{row.tokens_per_verification:.2f}",
            f"{row.tokens_expected:.2f}",
        )
        for row in timings.rows
    ]
    return table(_HEADS, lines)
