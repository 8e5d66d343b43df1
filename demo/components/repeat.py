"""Repeat with N seeds: the runs that are ticked, each with the same seeds."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from textwrap import shorten
from typing import Final, TypeVar

import gradio as gr

from analysis.results import ResultRow, digest, row_of, to_line
from demo.components.context import AT_ONCE_LATEST, Site, Update
from demo.components.figure import FigureChooser
from demo.components.run_buttons import StartStop, progress
from demo.components.widgets import data_table, notice, notice_box
from demo.jobs.beside import comparison_table, files
from demo.jobs.run_selection import SelectableRun
from demo.jobs.series import Progress, counted, decode_all
from demo.server.sessions import CurrentTraces
from engines.runtime.run_request import RunRequest
from engines.settings import ConfigError
from traces.labels import method_name
from traces.schema import Trace

T = TypeVar("T")
_PROMPT: Final = 80
"""Characters of a prompt that are shown."""

FEWEST, MOST = 2, 32
"""Seeds."""
_LEAD: Final = (
    "Repeats the selected runs (method, model, prompt and settings) with seeds 0, 1, 2 ..., one run after the other. "
    "The first passes are timed before it starts, to estimate the duration."
)


class RepeatPanel:
    """Number of seeds, a progress bar, and the results by seed with figures and files."""

    def __init__(self, site: Site, tray: gr.State) -> None:
        """Lay it out and wire it; what is repeated is what is ticked in `tray`."""
        self.site, self.tray = site, tray
        self.repeated = gr.State(CurrentTraces())
        gr.Markdown(_LEAD, elem_classes="lead")
        self.what = notice_box(elem_id="repeat-what")
        with gr.Row(elem_classes="aligned"):
            self.seeds = gr.Slider(
                FEWEST, MOST, 8, step=1, label="Seeds", scale=0, min_width=280, elem_id="repeat-seeds"
            )
            buttons = StartStop(site, "repeat-run", "repeat-stop", "Repeat")
        self.problem = notice_box(elem_id="repeat-problem")
        self.table = data_table("Results by seed", elem_id="repeat-table")
        self.chooser = FigureChooser(site, "repeated", self.repeated, self._files, "seeds")
        tray.change(self.say, {tray}, [self.what], **AT_ONCE_LATEST)
        form = {tray, self.seeds, *self.chooser.inputs}
        changes = [self.problem, self.table, self.repeated, *self.chooser.parts]
        buttons.connect("repeat", self.conduct, form, changes, self.problem)

    def say(self, values: Update) -> Update:
        """Show which runs are repeated."""
        try:
            runs = repeated(values[self.tray].chosen).values()
        except ConfigError as error:
            return {self.what: notice("info", str(error).partition(": ")[2].capitalize())}
        words = "; ".join(title for title, _ in runs)
        prompts = ", ".join(dict.fromkeys(f"“{shorten(prompt, _PROMPT)}”" for _, prompt in runs))
        return {self.what: notice("info", f"{words}, of {prompts}", "Repeats:")}

    def conduct(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Repeat the run and show what there is as it grows; seeds that are whole are kept, however it ends."""
        visitor = self.site.visitor(request)
        decoded: list[Trace] = []
        requests = list(repeated(values[self.tray].chosen))
        arms = len(requests)
        for now in repeat(requests, values[self.seeds], visitor.stopped):
            decoded += [now.trace] if now.trace else []
            whole = whole_seeds(decoded, arms)
            kept = f"{counted(len(whole) // arms, 'seed')} were decoded whole and are kept."
            update: Update = {self.problem: progress(now, kept)}
            if now.trace and whole:
                update[self.table] = comparison_table(whole)
            yield update
        if whole := whole_seeds(decoded, arms):
            yield self._result(whole, values, request)

    def _files(self, values: Update) -> dict[str, bytes]:
        traces = values[self.repeated].traces()
        return {"results.jsonl": rows_of(traces), **files(traces)}

    def _result(self, traces: Sequence[Trace], values: Update, request: gr.Request) -> Update:
        """The figures and the files of what was decoded."""
        told = comparison_table(traces)
        told["files"][f"{traces[-1].method}-seeds.jsonl"] = rows_of(traces).decode()
        return {
            self.repeated: self.site.visitor(request).keep(traces, "a run with many seeds"),
            self.table: told,
            **self.chooser.offer(traces, values, request),
        }


def repeated(chosen: Sequence[SelectableRun]) -> dict[RunRequest, tuple[str, str]]:
    """The requests of runs, each once, whatever their seeds, and what they are called: title and prompt.

    Raises ConfigError without a run, and for one that cannot be decoded here.
    """
    requests: dict[RunRequest, tuple[str, str]] = {}
    for entry in chosen:
        requests.setdefault(replace(entry.to_request("again"), seed=0), (entry.title, entry.prompt))
    if not requests:
        raise ConfigError("runs: none is selected; select the runs to repeat.")
    return requests


def repeat(requests: Sequence[RunRequest], seeds: int, stopped: Callable[[], bool]) -> Iterator[Progress]:
    """Decode runs with seeds 0, 1, ...; see `decode_all`.

    None always goes first. Raises ConfigError for a number of seeds that is not allowed or takes too long.
    """
    if type(seeds) is not int or not FEWEST <= seeds <= MOST:
        raise ConfigError(f"seeds: {seeds!r} is not allowed; use a whole number from {FEWEST} to {MOST}.")
    groups = [_in_turn([replace(one, seed=seed) for one in requests], seed) for seed in range(seeds)]
    yield from decode_all(groups, f"seeds: {seeds}", stopped)


def whole_seeds(traces: Sequence[Trace], arms: int) -> list[Trace]:
    """Return the runs of all seeds that are complete for every one of `arms` settings, in the requested order."""
    groups = [traces[first : first + arms] for first in range(0, len(traces) - arms + 1, arms)]
    return [trace for seed, group in enumerate(groups) for trace in _in_turn(list(group), seed)]


def _in_turn(group: list[T], seed: int) -> list[T]:
    return group if seed % 2 == 0 else group[::-1]


def rows_of(traces: Sequence[Trace]) -> bytes:
    """Return the runs as JSONL rows of results, the format of `benchmarks.sweep`, without correctness."""
    about = {"about": {"created": traces[0].created, "commit": traces[0].environment.commit}} if traces else {}
    head = [json.dumps(about).encode() + b"\n"] if about else []
    return b"".join(chain(head, map(to_line, map(_row, traces))))


def _row(trace: Trace) -> ResultRow:
    made = trace.summary
    known = [trace.method, trace.model.id, dict(trace.config), trace.prompt, trace.seed]
    return row_of(
        trace.steps,
        key=digest(known),
        method=trace.method,
        label=method_name(trace),
        model=trace.model.id,
        weights={trace.model.id: digest(dict(trace.model.weights))},
        config=dict(trace.config),
        seed=trace.seed,
        problem=0,
        correct=None,
        tokens=made.tokens,
        seconds=round(made.seconds, 6),
        device=trace.environment.device,
    )
