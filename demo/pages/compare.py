"""Compare: a tray of runs; the selected ones share one clock, and every figure takes the set."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

import gradio as gr

from draftscope.analysis.tables import counted
from draftscope.demo.components.context import AT_ONCE, EACH, QUIET, Site, Update, scroll_to, serialized
from draftscope.demo.components.engine_reports import CERTIFICATE, GREEDY_TEXTS, ReportView
from draftscope.demo.components.experiment import FigureView, GridView, SeedTableView
from draftscope.demo.components.export import ZipDownload
from draftscope.demo.components.figure import FigureChooser
from draftscope.demo.components.form_choices import WAITING
from draftscope.demo.components.run_buttons import StartStop, progress_notice
from draftscope.demo.components.run_selector import dropped, run_list, selected_ids
from draftscope.demo.components.viewer import comparison_message, trace_viewer
from draftscope.demo.components.widgets import data_table, notice, notice_box
from draftscope.demo.components.workbench import runs_message, workbench_view
from draftscope.demo.jobs.beside import baseline_first, comparison_table, files
from draftscope.demo.jobs.experiment import run_here, selected_experiment
from draftscope.demo.jobs.links import COMPARE, FILE, PageLink, linked_runs, parse_machine, run_link
from draftscope.demo.jobs.projects import read_project, saved_runs
from draftscope.demo.jobs.recordings import Recording
from draftscope.demo.jobs.run_selection import (
    MAX_SELECTED,
    RunSelection,
    SelectableRun,
    comparison_error,
    comparison_warning,
    entries_of,
    listed,
    recorded_entries,
)
from draftscope.demo.pages.watch import WatchPage
from draftscope.demo.server.sessions import CurrentTraces
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import ConfigError, format_value
from draftscope.experiments import MemoryStore
from draftscope.servers.bench_files import opened_traces
from draftscope.traces import TraceError
from draftscope.visualizers import supported
from draftscope.visualizers.export_zip import ZipOptions

IN_TURN: Final[dict[str, Any]] = serialized("compared")
"""Options of events that change the selection: they run one after the other, so that none overwrites another."""
TICKED: Final = "the runs selected under Compare"
"""Origin of the current runs, in words; such runs are in the selection already."""
_SOURCES: Final = {"your last run": "yours", "the file you opened": "opened"}
_ZIPPED: Final = ("race", "comparison", "churn")
"""Figures of a zip if none are chosen."""
_FILES: Final = (
    "{} of the runs of this link came as a file, which a link cannot contain: get the file and open it here."
)
_PLAY: Final = "play"
"""Id of the tab with the player."""
_GRID: Final = "grid"
"""Id of the tab with the grid."""
_STOPPED: Final = (
    "Stopped: {} of the {} runs were not decoded, and the others are selected. The button continues with them."
)
_LEFT: Final = "Of {}, {} are in the list and not selected: at most {} runs are compared at once."
_LEFT_OUT: Final = "This address names {} runs, and {} are compared at once. Left out: {}."
_NONE: Final = "No run is selected. Select two or more to compare them."
_PRESS_RUN: Final = f"""({{ name }}) => {{
  if (name === 'variation' && !{WAITING}.length) document.getElementById('run').click();
}}"""
"""Runs what a variation has filled in, unless something else has been chosen since."""


class ComparePage:
    """The page and its handlers."""

    def __init__(self, site: Site, run: WatchPage, recordings: Sequence[Recording]) -> None:
        """Lay it out and wire it; what is repeated is what Watch asks for."""
        self.site, self.run = site, run
        self.recorded = recorded_entries(recordings)
        self._by_id = {entry.id: entry for entries in self.recorded.values() for entry in entries}
        self.tray = gr.State(RunSelection())
        self.set = gr.State(CurrentTraces())
        """Runs that are drawn: the selected ones, or without a selection the current ones."""
        self.on = gr.State("")
        """The hardware that the player's clock is computed for, as an address has it."""
        self.waits = gr.State(False)
        """Whether the page was opened before there was anything to show."""
        self.saved = gr.State(())
        """Links of runs that the project of the visitor names, and that were not decoded yet."""
        small: dict[str, Any] = {"variant": "secondary", "size": "sm", "scale": 0}
        with gr.Row(elem_id="compare-bar"):
            self.box = run_list(listed(self.recorded, RunSelection()), elem_id="tray")
            with gr.Row(elem_id="compare-buttons"):
                self.fetching = StartStop(site, "tray-fetch", "tray-halt", _button(()), **small, visible=False)
                self.fetch = self.fetching.start
                files: dict[str, Any] = {"file_types": [".json", ".gz"], "type": "binary", "file_count": "multiple"}
                self.upload = gr.UploadButton("Open traces", **files, **small, min_width=130, elem_id="tray-upload")
                self.export = gr.Button("Export .zip", **small, min_width=130, visible=False, elem_id="tray-zip")
        self.problem = notice_box(elem_id="tray-problem")
        self.wanted = gr.State(())
        """Runs that an address names, until they are there."""
        self.left_out = gr.State(())
        """Runs that it names beyond the maximum, until a notice has named them."""
        self.out = ZipDownload(site, "tray")
        with gr.Tabs(overflow_behavior="wrap") as self.views:
            with gr.Tab("Workbench", id=_PLAY):
                with gr.Row(elem_id="workbench"):
                    self.viewer = trace_viewer("compare-viewer")
                    self.bench = workbench_view("compare-viewer", elem_id="bench")
                self.costs = data_table("Cost of the selected runs", elem_id="tray-costs")
            with gr.Tab("Figures") as self.figures_tab:
                self.chooser = FigureChooser(site, "compared", self.set)
            with gr.Tab("Grid: prompts by settings", id=_GRID):
                self.grid = GridView(site, self.tray)
            with gr.Tab("Repeat with many seeds"):
                SeedTableView(site, self.tray)
            with gr.Tab("Experiments") as tab:
                FigureView(site, run).buttons.press_at(tab.select, "#experiment-plot .js-plotly-plot")
            with gr.Tab("Certificate of an engine"):
                ReportView(site, CERTIFICATE)
            with gr.Tab("Greedy texts of two engines"):
                ReportView(site, GREEDY_TEXTS)
        views = [self.viewer, self.bench, self.costs, self.export, *self.out.parts]
        self.parts: list[Any] = [self.tray, self.set, self.waits, self.box, self.problem, *views, *self.chooser.parts]
        """Components that `show` updates."""
        self.opens: list[Any] = [self.on, self.wanted, self.left_out, self.fetch, self.views]
        self.opens += [self.grid.prompts, self.grid.seeds]
        """Components that `named` updates."""
        self._connect()

    def _connect(self) -> None:
        """Connect events: current runs are added to the selection, and the selection becomes the current runs."""
        self.inputs: set[Any] = {self.tray, self.on, self.wanted, self.saved, self.site.shown, *self.chooser.inputs}
        changes = [self.site.shown, *self.parts]
        self.site.shown.change(self.take, self.inputs | {self.waits}, self.parts, **IN_TURN)
        self.box.restored(self.restore, self.inputs, [self.saved, self.fetch, *changes], **(IN_TURN | EACH))
        self.box.choose(self.choose, self.inputs, changes, **(IN_TURN | EACH))
        self.box.dropped(self.drop, self.inputs, changes, **(IN_TURN | EACH))
        self.viewer.clocked(self.update_clock, {self.set}, [self.on, self.problem, self.costs], **(IN_TURN | EACH))
        self.upload.upload(self.open, {*self.inputs, self.upload}, [self.upload, *changes], **IN_TURN)
        shows = [self.wanted, self.left_out, self.saved, self.fetch, *changes]
        self.fetching.connect("run", self.decode, self.inputs | {self.left_out}, shows, self.problem)
        self.out.save_after(self.export.click(self.zip, {self.set, self.on}, self.out.parts, **QUIET))
        self.figures_tab.select(self.draw, self.inputs, self.chooser.parts, **IN_TURN)
        row = {self.grid.stored_runs, self.grid.wide, *self.inputs}
        played = self.grid.box.choose(self.play_row, row, [self.views, *changes], **(IN_TURN | EACH))
        played.success(None, js=scroll_to("compare-viewer"), **QUIET)

    def connect_again(self, tabs: gr.Tabs) -> None:
        """Compare with another setting: a press fills the form and presses Run, and then the runs are shown here."""
        again = self.run.again
        self.tabs = tabs
        self.run.choices.add(again.row.click, "variation", self.vary, "(index) => index", again.row)
        self.run.filled.success(None, self.run.choices.answer, js=_PRESS_RUN, **AT_ONCE)
        changes = [again.compared, tabs, self.site.shown, *self.parts]
        self.run.over.then(self.show_again, {again.compared, self.site.shown, *self.inputs}, changes, **IN_TURN)

    def vary(self, values: Update) -> Update:
        """Fill the form of Watch; the runs shown now are compared with the next one."""
        again, choices = self.run.again, self.run.choices
        address = PageLink(request=again.chosen(values, choices.index(values)))
        return {again.compared: values[again.current].paths, **self.run.opened(address)}

    def show_again(self, values: Update, request: gr.Request) -> Update:
        """Select the previous runs and the one that has finished; does nothing without a new run."""
        earlier: Sequence[Path] = values[self.run.again.compared]
        latest: Sequence[Path] = values[self.site.shown].paths
        done: Update = {self.run.again.compared: ()}
        if not earlier or set(latest) & set(earlier):
            return done
        by_path = {entry.path: entry for entry in self._by_id.values()}
        first = [by_path[path] if path in by_path else entries_of([path], "yours")[0] for path in earlier]
        added = values[self.tray].with_run([entry for entry in first if entry.source == "yours"]).added
        tray = RunSelection(added, tuple(first)).with_run(entries_of(latest, "yours"))
        return {**done, **self._show_selection(tray, values, request), self.tabs: gr.Tabs(selected=COMPARE)}

    def zip(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """The figures that say most about any runs, what these took as a table, and the traces, as one zip."""
        traces = values[self.set].traces()
        names = {figure.name for figure in supported(traces)} if traces else set()
        options = ZipOptions(width="column", extra=files(traces, parse_machine(values[self.on])))
        yield from self.out.zip(traces, [name for name in _ZIPPED if name in names], None, options, request)

    def draw(self, values: Update, request: gr.Request) -> Update:
        """Draw the figures again: a figure drawn while invisible has no space for its labels."""
        return self.chooser.offer(values[self.set].traces(), values, request)

    def play_row(self, values: Update, request: gr.Request, event: gr.EventData) -> Update:
        """Play the runs of a row of the grid side by side; the selected runs have the same settings as before."""
        entries = self.grid.selected_row(values, event)
        added = values[self.tray].with_run(entries).added
        return {
            **self._show_selection(RunSelection(added, entries), values, request),
            self.views: gr.Tabs(selected=_PLAY),
        }

    def take(self, values: Update, request: gr.Request) -> Update:
        """Put a visitor's own runs and opened files into the tray; a page that was opened empty shows the runs."""
        runs: CurrentTraces = values[self.site.shown]
        source = _SOURCES.get(runs.origin)
        known = source is not None and all(path.exists() for path in runs.paths)
        tray = values[self.tray].with_run(entries_of(runs.paths, source)) if known else values[self.tray]  # type: ignore[arg-type]
        if values[self.waits] and runs.paths:
            return self.show({**values, self.tray: tray}, request)
        return {self.tray: tray, self.box: self._listed(tray, values)} if known else {self.tray: gr.skip()}

    def show(self, values: Update, request: gr.Request) -> Update:
        """Show the selection; before the first selection, the runs that the page shows."""
        tray: RunSelection = values[self.tray]
        if not tray.chosen and values[self.wanted]:
            return {self.problem: gr.skip()}  # `decode` selects them, and an answer after its own would take them away
        if not tray.chosen:
            by_path = {entry.path: entry for entry in (*tray.added, *self._by_id.values())}
            shown = [by_path[path] for path in values[self.site.shown].paths if path in by_path and path.exists()]
            tray = RunSelection(tray.added, () if comparison_error(shown) else tuple(shown))
        return self._show(tray, values, request)

    def choose(self, values: Update, request: gr.Request, event: gr.EventData) -> Update:
        """Apply a selection, or show why these runs cannot be compared and keep the previous one."""
        tray: RunSelection = values[self.tray]
        known = self._by_id | {entry.id: entry for entry in tray.added}
        wanted = selected_ids(event)
        chosen = tuple(known[one] for one in wanted if one in known and known[one].path.exists())
        missing = "A run that was selected is no longer here: run it or open its file again."
        if wrong := missing if len(chosen) < len(wanted) else comparison_error(chosen):
            box = self._listed(tray, values, asked=wanted)
            return {self.box: box, self.problem: notice("error", wrong, "Not selected.")}
        update = self._show_selection(RunSelection(tray.added, chosen), values, request)
        return update | {self.box: self._listed(update[self.tray], values, asked=wanted)}

    def restore(self, values: Update, request: gr.Request, event: gr.EventData) -> Update:
        """Show a project that the browser kept, or that was imported; a wrong one leaves the runs as they are."""
        tray: RunSelection = RunSelection() if event.afresh is True else values[self.tray]
        try:
            project = read_project(event.project)
        except ConfigError as error:
            box = self._listed(values[self.tray], values, project="")
            return {self.box: box, self.problem: notice("error", str(error), "Not opened.")}
        by_name = {entry.address: entry for entry in self._by_id.values()}
        visitor, saved = self.site.visitor(request), list[str]()
        chosen: dict[int, SelectableRun] = {}
        for each in project.runs:
            if isinstance(each.run, RunRequest):
                link = run_link(each.run, compared=True)
                saved += [] if any(entry.address == link for entry in tray.added) else [link]
                continue
            entry = by_name.get(each.run) if isinstance(each.run, str) else None
            if not isinstance(each.run, str):
                (entry,) = entries_of(visitor.keep([each.run], "the file you opened").paths, "opened")
                tray = RunSelection((*(one for one in tray.added if one.id != entry.id), entry), tray.chosen)
            if entry and each.chosen:
                chosen[each.chosen] = entry
        by_id = {entry.id: entry for entry in (*tray.chosen, *(chosen[number] for number in sorted(chosen)))}
        alike = [] if comparison_error([*by_id.values()]) else [*by_id.values()]
        values = values | {self.saved: tuple(saved)}
        return {
            **self._show(RunSelection(tray.added, tuple(alike)), values, request),
            self.box: self._listed(RunSelection(tray.added, tuple(alike)), values, project=project.name),
            self.saved: tuple(saved),
            self.fetch: gr.update(value=_decode_saved(saved), visible=bool(saved)),
        }

    def _listed(self, tray: RunSelection, values: Update, **more: Any) -> Update:
        """Return the value of the list of runs, with what the browser keeps; `more` is what it answers."""
        shown = listed(self.recorded, tray, more.get("asked"))
        return {**shown, "runs": saved_runs(tray, values[self.saved]), "project": more.get("project")}

    def update_clock(self, values: Update, event: gr.EventData) -> Update:
        """The player's clock is computed for some hardware, or not any more: so are columns of the table."""
        try:
            machine = parse_machine(str(event.on))
        except ConfigError as error:
            return {self.problem: notice("error", str(error))}
        return {self.on: str(event.on), self.costs: comparison_table(values[self.set].traces(), machine)}

    def drop(self, values: Update, request: gr.Request, event: gr.EventData) -> Update:
        """Take a run out of the tray; nothing else changes."""
        return self._show_selection(values[self.tray].without(dropped(event)), values, request)

    def named(self, address: PageLink) -> Update:
        """Make ready to show what an address names. Raises ConfigError for a recording that is not here."""
        runs = address.compare
        addresses = {entry.address for entry in self._by_id.values()}
        for run in runs:
            if isinstance(run, str) and run != FILE and run not in addresses:
                raise ConfigError(f"compare: {format_value(run)} is not available; select runs under Compare.")
        grid: Update = {self.views: gr.Tabs(selected=_GRID), **self.grid.fill(address)} if address.seeds else {}
        return {
            self.on: (address.at or {}).get("on", ""),
            self.wanted: tuple(runs),
            self.left_out: address.left_out,
            self.fetch: gr.update(value=_button(runs), visible=True),
            **grid,
        }

    def decode(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Tick the recordings that an address names, and decode its other runs again; Stop keeps what is there."""
        visitor, tray, wanted = self.site.visitor(request), values[self.tray], values[self.wanted]
        if not wanted:
            wanted = tuple(run for link in values[self.saved] for run in linked_runs(link))
        by_name = {entry.address: entry for entry in self._by_id.values()}
        runs, new_runs = [run for run in wanted if isinstance(run, RunRequest)], list[SelectableRun]()
        for now in run_here(selected_experiment(runs), MemoryStore(), visitor.stopped) if runs else ():
            trace = now.finished.trace if now.finished else None
            new_runs += entries_of(visitor.keep([trace], TICKED).paths, "yours") if trace else ()
            yield {self.problem: progress_notice(now, "")}
        left = runs[len(new_runs) :]
        decoded = iter(new_runs)
        entries = [next(decoded, None) if isinstance(run, RunRequest) else by_name.get(run) for run in wanted]
        chosen = [*{entry.id: entry for entry in (*tray.chosen, *filter(None, entries))}.values()]
        alike = tuple(entry for entry in chosen if entry.kind == chosen[0].kind)[:MAX_SELECTED]
        files = max(0, wanted.count(FILE) - sum(entry.source == "opened" for entry in tray.added))
        stopped = _STOPPED.format(len(left), len(runs)) if left else ""
        words = [
            _left_out(values[self.left_out]),
            stopped or (_FILES.format(files) if files else comparison_error(chosen)),
        ]
        message = " ".join(filter(None, words))
        wanted = (*left, *[FILE] * files) if left else ()
        found = {entry.address for entry in new_runs}
        saved = tuple(link for link in values[self.saved] if link not in found)
        values = values | {self.saved: saved}
        label = _button(wanted) if wanted or not saved else _decode_saved(saved)
        yield {
            **self._show_selection(RunSelection(tray.with_run(new_runs).added, alike), values, request),
            self.wanted: wanted,
            self.left_out: (),
            self.saved: saved,
            self.fetch: gr.update(value=label, visible=bool(wanted or saved)),
            **({self.problem: notice("info", message)} if message else {}),
        }

    def open(self, values: Update, request: gr.Request) -> Update:
        """Take files; those that are not sound are named, the others come into the tray."""
        visitor, tray = self.site.visitor(request), values[self.tray]
        paths: list[Path] = []
        wrong = []
        for number, data in enumerate(values[self.upload] or [], 1):
            try:
                paths += visitor.keep(opened_traces(data, f"file {number}"), "the file you opened").paths
            except TraceError as error:
                wrong.append(str(error))
        entries = entries_of(paths, "opened")
        again = len({entry.id for entry in entries} & {entry.id for entry in tray.added})
        update = {**self._show_selection(tray.with_run(entries), values, request), self.upload: None}
        if wrong:
            update[self.problem] = notice("error", " ".join(wrong), "Some files are not valid traces")
        elif left := len({entry.id for entry in entries} - {entry.id for entry in update[self.tray].chosen}):
            update[self.problem] = notice("info", _LEFT.format(counted(len(entries), "opened run"), left, MAX_SELECTED))
        elif again:
            update[self.problem] = notice("info", f"Already in the list: {again}.")
        return update

    def _show_selection(self, tray: RunSelection, values: Update, request: gr.Request) -> Update:
        """The tray, and the other pages use the selected runs from now on."""
        update = self._show(tray, values, request)
        return update | ({self.site.shown: update[self.set]} if update[self.set].paths else {})

    def _show(self, tray: RunSelection, values: Update, request: gr.Request) -> Update:
        tray = RunSelection(tray.added, tuple(entry for entry in tray.chosen if entry.path.exists()))
        ticked_runs = CurrentTraces(tuple(entry.path for entry in tray.chosen)).traces()
        order = baseline_first(ticked_runs)
        runs = CurrentTraces(tuple(tray.chosen[index].path for index in order), TICKED)
        traces = [ticked_runs[index] for index in order]
        drawn = runs if runs.paths else values[self.site.shown]
        words = comparison_warning(tray.chosen) if traces else _NONE
        return {
            self.tray: tray,
            self.set: drawn,
            self.waits: not drawn.paths,
            self.box: self._listed(tray, values),
            self.problem: notice("info", words) if words else {},
            self.viewer: gr.update(value=comparison_message(traces, runs.paths, values[self.on]), visible=bool(traces)),
            self.bench: runs_message(traces),
            self.costs: comparison_table(traces, parse_machine(values[self.on])),
            self.export: gr.update(visible=bool(traces)),
            **self.out.cleared(),
            **self.chooser.offer(drawn.traces(), values, request),
        }


def _decode_saved(links: Sequence[str]) -> str:
    """Return the label of the button that decodes the runs of a project."""
    return f"Decode {counted(len(links), 'run')} of this project"


def _left_out(runs: Sequence[str]) -> str:
    """Return the sentence about runs that an address names beyond the maximum; empty without any."""
    names = [format_value(dict(parse_qsl(run)).get("method", run)) for run in runs[:MAX_SELECTED]]
    more = [f"{len(runs) - MAX_SELECTED} more"] if len(runs) > MAX_SELECTED else []
    return _LEFT_OUT.format(MAX_SELECTED + len(runs), MAX_SELECTED, ", ".join(names + more)) if runs else ""


def _button(runs: Sequence[str | RunRequest]) -> str:
    """Return the label of the button that decodes these runs."""
    count = sum(isinstance(run, RunRequest) for run in runs)
    return f"Decode {counted(count, 'run')} of this address" if count else "Show these runs"
