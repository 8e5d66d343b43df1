"""Compare: a tray of runs; those that are ticked share one clock, and every figure takes the set."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import gradio as gr

from demo.figure_chooser import FigureChooser
from demo.outcome import beside
from demo.pages.run import RunPage, titles
from demo.recordings import Recording
from demo.sessions import Shown
from demo.site import QUIET, Site, Update
from demo.viewer import compared, trace_viewer
from demo.widgets import data_table, notice, notice_box
from demo.workbench.repeat_panel import RepeatPanel
from demo.workbench.tray import (
    MOST,
    Tray,
    chips,
    entries_of,
    recorded_entries,
    refusal,
    remark,
)
from demo.workbench.tray_box import ticked, tray_box
from traces import TraceError, loads

IN_TURN: Final[dict[str, Any]] = {"concurrency_id": "tray", **QUIET}
"""What changes the tray is done one after the other, as asked: none writes over what another has just done."""
TICKED: Final = "the runs that are ticked under Compare"
"""Where what is at hand comes from, in words; such runs are in the tray already."""
_LEAD: Final = (
    f"Tick two to {MOST} runs: they share one clock, and the figures below draw all of them. Your own runs and the "
    "files you open come here by themselves; recorded ones are in the drawer."
)
_SOURCES: Final = {"your last run": "yours", "the file you opened": "opened"}
_NONE: Final = "No run is ticked. Tick two or more to compare them."


class ComparePage:
    """The page and its handlers."""

    def __init__(self, site: Site, run: RunPage, recordings: Sequence[Recording]) -> None:
        """Lay it out and wire it; what is repeated is what the Run page asks for."""
        self.site = site
        self.recorded = recorded_entries(recordings)
        self._by_id = {entry.id: entry for entries in self.recorded.values() for entry in entries}
        self.tray = gr.State(Tray())
        self.set = gr.State(Shown())
        gr.Markdown(_LEAD, elem_classes="lead")
        self.box = tray_box(chips(self.recorded, Tray()), elem_id="tray")
        self.problem = notice_box(elem_id="tray-problem", elem_classes="panel-problem")
        with gr.Row():
            self.upload = gr.UploadButton(
                "Open traces (.json, .json.gz)",
                file_types=[".json", ".gz"],
                type="binary",
                file_count="multiple",
                size="sm",
                scale=0,
                min_width=240,
                elem_id="tray-upload",
            )
        with gr.Tabs(overflow_behavior="wrap"):
            with gr.Tab("Play"):
                self.viewer = trace_viewer("compare-viewer", methods=titles(), address=False, visible=False)
                self.costs = data_table("What the ticked runs took", elem_id="tray-costs")
            with gr.Tab("Figures of the ticked runs") as self.figures_tab:
                self.chooser = FigureChooser(site, "compared", self.set)
            with gr.Tab("Repeat with many seeds"):
                self.repeat = RepeatPanel(site, run)
        self._connect()

    @property
    def parts(self) -> list[Any]:
        """What `show` changes."""
        return [self.tray, self.set, self.box, self.problem, self.viewer, self.costs, *self.chooser.parts]

    def _connect(self) -> None:
        """Whatever is at hand comes into the tray; a tick changes what is at hand."""
        self.inputs: set[Any] = {self.tray, *self.chooser.inputs}
        told = [self.site.shown, *self.parts]
        self.site.shown.change(self.take, {self.site.shown, self.tray}, [self.tray], **IN_TURN)
        self.box.choose(self.choose, self.inputs, told, trigger_mode="multiple", **IN_TURN)
        self.upload.upload(self.open, {*self.inputs, self.upload}, [self.upload, *told], **IN_TURN)
        self.figures_tab.select(self.draw, self.inputs, self.chooser.parts, **QUIET)

    def draw(self, values: Update, request: gr.Request) -> Update:
        """The figures, laid out anew: what is drawn where nobody sees it has no room for its words."""
        return self.chooser.offer(values[self.set].traces(), values, request)

    def take(self, values: Update) -> Update:
        """Put a visitor's own runs and opened files into the tray."""
        shown: Shown = values[self.site.shown]
        source = _SOURCES.get(shown.origin)
        if source is None or not all(path.exists() for path in shown.paths):
            return {self.tray: gr.skip()}
        return {self.tray: values[self.tray].with_run(entries_of(shown.paths, source))}  # type: ignore[arg-type]

    def show(self, values: Update, request: gr.Request) -> Update:
        """The tray as it stands."""
        return self._show(values[self.tray], values, request)

    def choose(self, values: Update, request: gr.Request, event: gr.EventData) -> Update:
        """Take what is ticked, or say why it cannot stand together; then what was ticked before stays."""
        tray: Tray = values[self.tray]
        known = self._by_id | {entry.id: entry for entry in tray.added}
        wanted = ticked(event)
        chosen = tuple(known[one] for one in wanted if one in known and known[one].path.exists())
        if len(chosen) < len(wanted):
            return self._refused(
                tray, wanted, "A run that was ticked is no longer here: run it or open its file again."
            )
        if wrong := refusal(chosen):
            return self._refused(tray, wanted, wrong)
        told = self._told(Tray(tray.added, chosen), values, request)
        return told | {self.box: chips(self.recorded, told[self.tray], wanted)}

    def open(self, values: Update, request: gr.Request) -> Update:
        """Take files; those that are not sound are named, the others come into the tray."""
        data = values[self.upload] or []
        visitor, tray = self.site.visitor(request), values[self.tray]
        paths: list[Path] = []
        wrong = []
        for number, one in enumerate(data, 1):
            try:
                paths += visitor.keep([loads(one, name=f"file {number}")], "the file you opened").paths
            except TraceError as error:
                wrong.append(str(error))
        entries = entries_of(paths, "opened")
        again = len({entry.id for entry in entries} & {entry.id for entry in tray.added})
        update = {**self._told(tray.with_run(entries), values, request), self.upload: None}
        if wrong:
            update[self.problem] = notice("error", " ".join(wrong), "Not every file is a sound trace.")
        elif again:
            update[self.problem] = notice("info", f"In the tray already, of these runs: {again}.")
        return update

    def _told(self, tray: Tray, values: Update, request: gr.Request) -> Update:
        """The same, and the other pages speak of the ticked runs from now on."""
        update = self._show(tray, values, request)
        return update | ({self.site.shown: update[self.set]} if update[self.set].paths else {})

    def _refused(self, tray: Tray, wanted: Sequence[str], words: str) -> Update:
        """The sentence, with the ticks as they were before."""
        return {self.box: chips(self.recorded, tray, wanted), self.problem: notice("error", words, "Not ticked.")}

    def _show(self, tray: Tray, values: Update, request: gr.Request) -> Update:
        tray = Tray(tray.added, tuple(entry for entry in tray.chosen if entry.path.exists()))
        paths = tuple(entry.path for entry in tray.chosen)
        shown = Shown(paths, TICKED)
        traces = shown.traces()
        words = remark(tray.chosen) if paths else _NONE
        return {
            self.tray: tray,
            self.set: shown,
            self.box: chips(self.recorded, tray),
            self.problem: notice("info", words) if words else {},
            self.viewer: gr.update(value=compared(paths), visible=bool(paths)),
            self.costs: beside(traces),
            **self.chooser.offer(traces, values, request),
        }
