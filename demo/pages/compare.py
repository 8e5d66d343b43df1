"""Compare: a tray of runs; those that are ticked share one clock, and every figure takes the set."""

import time
from collections.abc import Callable, Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

import gradio as gr

from demo.addresses import FILE
from demo.decoding import Asked, Ended, Opened
from demo.figure_chooser import FigureChooser
from demo.outcome import as_csv, beside
from demo.pages.run import RunPage, titles
from demo.recordings import Recording
from demo.sessions import Shown
from demo.site import QUIET, Site, Update, in_turn
from demo.start_stop import StartStop
from demo.turns import decoded
from demo.viewer import compared, trace_viewer
from demo.widgets import bar, data_table, notice, notice_box, progress_bar
from demo.workbench.export_panel import Output
from demo.workbench.grid_panel import GridPanel
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
from demo.workbench.tray_box import dropped, ticked, tray_box
from engines.config import ConfigError, shown
from traces import TraceError, loads
from visualizers import supported
from visualizers.bundle import Options

IN_TURN: Final[dict[str, Any]] = in_turn("tray")
"""What changes the tray is done one after the other, as asked: none writes over what another has just done."""
TICKED: Final = "the runs that are ticked under Compare"
"""Where what is at hand comes from, in words; such runs are in the tray already."""
_LEAD: Final = (
    f"Tick 2 to {MOST} runs: they share one clock, and the figures below draw all of them. Your own runs and the "
    "files you open come here by themselves; others stand under Recorded runs."
)
_SOURCES: Final = {"your last run": "yours", "the file you opened": "opened"}
_TAKEN: Final = ("race", "comparison", "churn")
"""Figures of a zip that is asked for without choosing any."""
_FILES: Final = "Of the runs of this address, {} came as a file, which no address holds: ask for it and open it here."
_PLAY: Final = "play"
"""Id of the tab with the player."""
_GO_THERE: Final = """() => document.getElementById('compare-viewer').scrollIntoView({
  behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'instant' : 'smooth' })"""
_STOPPED: Final = (
    "Stopped: {} of the {} runs were not decoded, and the others are ticked. The button goes on with them."
)
_SAID_SECONDS: Final = 0.4
"""Between two words of progress."""
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
        self.wanted = gr.State(())
        """Runs that an address names, until they are there."""
        self.bar = progress_bar(elem_id="tray-progress")
        with gr.Row():
            self.fetch = gr.Button("Decode the runs of this address", size="sm", visible=False, elem_id="tray-fetch")
            halt = gr.Button("Stop", variant="stop", size="sm", visible=False, scale=0, elem_id="tray-halt")
        self.fetching = StartStop(site, self.fetch, halt, self.problem, self.bar)
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
            self.export = gr.Button(
                "Export .zip: figures and data",
                variant="primary",
                size="sm",
                scale=0,
                min_width=220,
                visible=False,
                elem_id="tray-zip",
            )
        self.out = Output(site, "tray")
        with gr.Tabs(overflow_behavior="wrap") as self.views:
            with gr.Tab("Play", id=_PLAY):
                self.viewer = trace_viewer("compare-viewer", methods=titles(), address=False, visible=False)
                self.costs = data_table("What the ticked runs took", elem_id="tray-costs")
            with gr.Tab("Figures of the ticked runs") as self.figures_tab:
                self.chooser = FigureChooser(site, "compared", self.set)
            with gr.Tab("Grid: prompts by settings") as self.grid_tab:
                self.grid = GridPanel(site, self.tray)
            with gr.Tab("Repeat with many seeds"):
                self.repeat = RepeatPanel(site, run)
        self._connect()

    @property
    def parts(self) -> list[Any]:
        """What `show` changes."""
        own = [self.tray, self.set, self.box, self.problem, self.viewer, self.costs, self.export, *self.out.parts]
        return [*own, *self.chooser.parts]

    def _connect(self) -> None:
        """Whatever is at hand comes into the tray; a tick changes what is at hand."""
        self.inputs: set[Any] = {self.tray, *self.chooser.inputs}
        told = [self.site.shown, *self.parts]
        self.site.shown.change(self.take, {self.site.shown, self.tray}, [self.tray], **IN_TURN)
        self.box.choose(self.choose, self.inputs, told, trigger_mode="multiple", **IN_TURN)
        self.upload.upload(self.open, {*self.inputs, self.upload}, [self.upload, *told], **IN_TURN)
        self.box.dropped(self.drop, self.inputs, told, trigger_mode="multiple", **IN_TURN)
        shows = [self.wanted, self.fetch, self.bar, *told]
        self.fetching.connect("run", self.decode, {self.wanted, *self.inputs}, shows)
        self.out.follow(self.export.click(self.take_away, {self.set}, self.out.parts, **QUIET))
        self.figures_tab.select(self.draw, self.inputs, self.chooser.parts, **QUIET)
        played = self.grid.box.choose(self.play_row, {self.grid.grid, *self.inputs}, [self.views, *told], **IN_TURN)
        played.success(None, js=_GO_THERE, **QUIET)

    def take_away(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """The figures that say most about any runs, what these took as a table, and the traces, as one zip."""
        traces = values[self.set].traces()
        there = {figure.name for figure in supported(traces)} if traces else set()
        options = Options(width="column", extra={"runs.csv": as_csv(beside(traces))} if len(traces) > 1 else {})
        figures = [name for name in _TAKEN if name in there]
        yield from self.out.write(traces, figures, None, options, request)

    def beside(self, earlier: Sequence[Path], latest: Sequence[Path], values: Update, request: gr.Request) -> Update:
        """Tick earlier runs and the latest ones, own or recorded, and nothing else."""
        by_path = {entry.path: entry for entry in self._by_id.values()}
        first = [by_path[path] if path in by_path else entries_of([path], "yours")[0] for path in earlier]
        tray: Tray = values[self.tray]
        added = tray.with_run([entry for entry in first if entry.source == "yours"]).added
        return self._told(Tray(added, tuple(first)).with_run(entries_of(latest, "yours")), values, request)

    def draw(self, values: Update, request: gr.Request) -> Update:
        """The figures, laid out anew: what is drawn where nobody sees it has no room for its words."""
        return self.chooser.offer(values[self.set].traces(), values, request)

    def play_row(self, values: Update, request: gr.Request, event: gr.EventData) -> Update:
        """Play the runs of a row of the grid side by side; what is ticked has the same settings as before."""
        entries = self.grid.opened(values, event)
        added = values[self.tray].with_run(entries).added
        return {**self._told(Tray(added, entries), values, request), self.views: gr.Tabs(selected=_PLAY)}

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

    def drop(self, values: Update, request: gr.Request, event: gr.EventData) -> Update:
        """Take a run out of the tray; nothing else changes."""
        return self._told(values[self.tray].without(dropped(event)), values, request)

    def named(self, runs: Sequence[str | Asked]) -> Update:
        """Make ready to show the runs that an address names.

        Raises:
            ConfigError: for a recording that is not here.
        """
        there = {entry.address for entry in self._by_id.values()}
        for run in runs:
            if isinstance(run, str) and run != FILE and run not in there:
                raise ConfigError(f"compare: {shown(run)} is not here, or not any more; tick runs under Compare.")
        count = _asked(runs)
        return {self.wanted: tuple(runs), self.fetch: gr.update(value=_fetching(count), visible=True)}

    def decode(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Tick the recordings that an address names, and decode its other runs again; Stop keeps what is there."""
        visitor, tray, wanted = self.site.visitor(request), values[self.tray], values[self.wanted]
        by_name = {entry.address: entry for entry in self._by_id.values()}
        count = _asked(wanted)
        chosen = list(tray.chosen)
        done, left = 0, wanted[:0]
        for number, run in enumerate(wanted):
            if isinstance(run, str):
                chosen += [by_name[run]] if run in by_name else []
                continue
            ended = Ended(())
            for told in _decoded_again(run, visitor.stopped):
                if isinstance(told, Ended):
                    ended = told
                    continue
                said = f"Run {done + 1} of {count} is being decoded again: {run.method}, seed {run.seed}."
                yield {self.problem: {}, self.bar: bar((done + told) / count, said)}
            if ended.ended and visitor.stopped():  # half a run is not kept: the button goes on with it
                left = wanted[number:]
                break
            new = entries_of(visitor.keep(ended.traces, TICKED).paths, "yours")
            tray, chosen, done = tray.with_run(new), [*chosen, *new], done + 1
        alike = tuple(entry for entry in chosen if entry.kind == chosen[0].kind)
        missing = _asked(left)
        files = sum(run == FILE for run in wanted)
        words = _STOPPED.format(missing, count) if missing else _FILES.format(files) if files else refusal(chosen)
        yield {
            **self._told(Tray(tray.added, alike), values, request),
            self.wanted: left if missing else (),
            self.fetch: gr.update(value=_fetching(missing), visible=bool(missing)),
            **({self.problem: notice("info", words)} if words else {}),
        }

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
            self.export: gr.update(visible=bool(paths)),
            **self.out.cleared(),
            **self.chooser.offer(traces, values, request),
        }


def _asked(runs: Sequence[str | Asked]) -> int:
    """How many of them are decoded again."""
    return sum(isinstance(run, Asked) for run in runs)


def _fetching(count: int) -> str:
    """What the button says that decodes so many runs."""
    return f"Decode {count} run{'' if count == 1 else 's'} of this address" if count else "Show these runs"


def _decoded_again(run: Asked, stopped: Callable[[], bool]) -> Iterator[float | Ended]:
    """The run's share that is done, from 0 to 1 and now and then, and at last its trace."""
    length, passes, said = 1, 0, -_SAID_SECONDS
    for told in decoded([run], stopped, "page"):
        if isinstance(told, Ended):
            yield told
        elif isinstance(told, Opened):
            length = prod(told.heads[0]["canvas"]["shape"])
            yield 0.0
        else:
            passes += 1
            if time.monotonic() - said > _SAID_SECONDS:
                said = time.monotonic()
                yield min(0.95, passes / length)
