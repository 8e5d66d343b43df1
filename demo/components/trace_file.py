"""Trace of the current run: download it, read its details, or open another. The player shows its passes as a table."""

from collections.abc import Sequence
from typing import Any

import gradio as gr

from draftscope.analysis.summary_text import in_rows
from draftscope.demo.components.context import AT_ONCE, LATEST, Site, Update, serialized
from draftscope.demo.components.widgets import data_table, notice, notice_box, table, upload_file
from draftscope.demo.server.sessions import CurrentTraces, file_name
from draftscope.traces import TraceError, loads
from draftscope.traces.labels import labels, method_name, run_title
from draftscope.traces.schema import Trace
from draftscope.visualizers.export_zip.words import command
from draftscope.visualizers.player_page import standalone

_LEAD = (
    "The record of this run, a file called a trace. From it the run is replayed, drawn and compared without the model."
)
_EMPTY = "No trace is loaded. Press Run, choose a recorded run, or open a file here."


class TracePanel:
    """An accordion, filled once it is open."""

    def __init__(self, site: Site) -> None:
        self.site = site
        with gr.Accordion("Download or open a trace", open=False, elem_id="trace") as self.accordion:
            self._build()
        one = [self.json, self.page, self.command, self.details]
        self.parts: list[Any] = [self.lead, self.body, self.which, *one]
        """Components that `refresh` updates."""
        self.opens: list[Any] = [self.upload, self.problem]
        """Components that `read` updates."""
        self._connect(one)

    def _build(self) -> None:
        self.lead = gr.Markdown(_LEAD, elem_classes="lead")
        with gr.Column(visible=False) as self.body:
            self.which = gr.Radio([], label="Which run", type="index", visible=False)
            with gr.Row(equal_height=True):
                self.json = gr.DownloadButton("Download trace (.json.gz)", elem_id="download-trace", variant="primary")
                self.page = gr.DownloadButton("Download as a web page (.html)", elem_id="download-page")
            self.command = gr.Textbox(
                label="The command that repeats this run",
                interactive=False,
                buttons=["copy"],
                lines=2,
                elem_id="command",
            )
            self.details = data_table("What ran", elem_id="trace-details")
        self.upload = upload_file("upload", "Open a trace (.json or .json.gz)", ".json", ".gz")
        self.problem = notice_box(elem_id="upload-problem")

    def _connect(self, one: Sequence[Any]) -> None:
        shown, unfolded = self.site.shown, gr.State(False)
        self.unfolded = unfolded
        self.accordion.expand(self.unfold, {shown}, [unfolded, *self.parts], **serialized("trace"))
        self.accordion.collapse(lambda: False, None, unfolded, **AT_ONCE)
        shown.change(self.refresh, {shown, unfolded}, self.parts, **serialized("trace"))
        self.which.input(self.choose, {self.which, shown}, one, **(LATEST | serialized("trace")))

    def read(self, values: Update) -> tuple[Trace | None, Update]:
        """Return the trace of an uploaded file, None if it is invalid, and updates of the components in `opens`."""
        try:
            trace = loads(values[self.upload] or b"", name="file")
        except TraceError as error:
            return None, {self.problem: notice("error", str(error), "Invalid trace file"), self.upload: None}
        words = f"{method_name(trace)} on {trace.model.title or trace.model.id}, {len(trace.steps)} forward passes."
        return trace, {self.problem: notice("info", words, "The trace is open and shown above."), self.upload: None}

    def unfold(self, values: Update, request: gr.Request) -> Update:
        """Show the current trace, and later ones as they arrive."""
        values |= {self.unfolded: True}
        return {self.unfolded: True, **self.refresh(values, request)}

    def refresh(self, values: Update, request: gr.Request) -> Update:
        """Show the current trace, unless the panel is collapsed."""
        if not values[self.unfolded]:
            return {self.lead: gr.skip()}
        shown: CurrentTraces = values[self.site.shown]
        traces = shown.traces()
        if not traces:
            return {self.lead: _EMPTY, self.body: gr.update(visible=False)}
        last = len(traces) - 1
        names = list(labels(traces))
        return {
            self.lead: f"{_LEAD} It comes from {shown.origin}.",
            self.body: gr.update(visible=True),
            self.which: gr.update(choices=names, value=names[last], visible=last > 0),
            **self._one(shown, traces, last, request),
        }

    def choose(self, values: Update, request: gr.Request) -> Update:
        """Show one of the current traces."""
        shown: CurrentTraces = values[self.site.shown]
        traces = shown.traces()
        chosen = values[self.which]
        sound = isinstance(chosen, int) and 0 <= chosen < len(traces)
        return self._one(shown, traces, chosen if sound else len(traces) - 1, request)

    def _one(self, shown: CurrentTraces, traces: Sequence[Trace], index: int, request: gr.Request) -> Update:
        """Return all updates for one trace; its web page also shows the other traces."""
        trace = traces[index]
        page = self.site.visitor(request).file(f"{file_name(trace)}.html")
        page.write_text(standalone(traces, run_title(trace)), encoding="utf-8")
        return {
            self.json: gr.update(value=str(shown.paths[index])),
            self.page: gr.update(value=str(page)),
            self.command: command(trace),
            self.details: details_of(trace),
        }


def details_of(trace: Trace) -> dict[str, Any]:
    """Return a table of what ran, its cost and its environment."""
    environment = trace.environment
    rows: dict[str, Any] = {name.capitalize(): value for name, value in in_rows(trace).items() if name != "settings"}
    rows |= {f"Setting {name}": value for name, value in trace.config.items()}
    rows["Software"] = ", ".join(
        [f"python {environment.python}", *(f"{n} {v}" for n, v in environment.libraries.items())]
    )
    rows["Threads and precision"] = f"{environment.threads or 'unknown'}, {environment.dtype}"
    rows["Commit"] = environment.commit or "unknown"
    rows |= {f"Weights {name}": digest for name, digest in trace.model.weights.items()}
    rows |= {f"File {name}": digest for name, digest in trace.model.files.items()}
    return table(("What", "Value"), list(rows.items()))
