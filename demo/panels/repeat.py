"""Repeat with N seeds: the run that the Run page asks for, beside ordinary decoding of the same seeds."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, TypeVar

import gradio as gr

from demo.pages.run import RunPage
from demo.panels.figure import FigureChooser
from demo.panels.start_stop import StartStop, progress
from demo.panels.widgets import Fact, facts, facts_row, notice_box
from demo.runs.series import Progress, counted, decode_all
from demo.server.sessions import Shown
from demo.site import Site, Update
from engines.config import ConfigError
from engines.runtime.request import Request
from traces.naming import name_of
from traces.pairing import estimate, of_seeds, paired, seconds, target_forwards
from traces.results import ResultRow, digest, row_of, written
from traces.schema import Trace

T = TypeVar("T")

FEWEST, MOST = 2, 32
"""Seeds."""
_LEAD: Final = (
    "Decodes what the Run page asks for (method, model, prompt and settings) with seeds 0, 1, 2 ..., one run after the "
    "other, each beside ordinary decoding of the same seed. Before it starts, the first passes are tried to say how "
    "long it will take."
)


class RepeatPanel:
    """A number of seeds, a bar, and what the seeds came to, with figures and files."""

    def __init__(self, site: Site, run: RunPage) -> None:
        """Lay it out and wire it."""
        self.site, self.run = site, run
        self.repeated = gr.State(Shown())
        gr.Markdown(_LEAD, elem_classes="lead")
        with gr.Row(elem_classes="aligned"):
            self.seeds = gr.Slider(
                FEWEST, MOST, 8, step=1, label="Seeds", scale=0, min_width=280, elem_id="repeat-seeds"
            )
            buttons = StartStop(site, "repeat-run", "repeat-stop", "Repeat")
        self.problem = notice_box(elem_id="repeat-problem", elem_classes="panel-problem")
        self.facts = facts_row(elem_id="repeat-facts")
        self.rows = gr.DownloadButton("Download results (.jsonl)", size="sm", visible=False, elem_id="repeat-rows")
        self.chooser = FigureChooser(site, "repeated", self.repeated, self._files, "seeds")
        form = {*self.run.form, self.seeds, *self.chooser.inputs}
        changes = [self.problem, self.facts, self.rows, self.repeated, *self.chooser.parts]
        buttons.connect("repeat", self.conduct, form, changes, self.problem)

    def conduct(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Repeat the run and show what there is as it grows; seeds that are whole are kept, however it ends."""
        visitor = self.site.visitor(request)
        decoded: list[Trace] = []
        requests = self.run.requests(values | {self.run.beside: True})
        arms = len(requests)
        for now in repeat(requests, values[self.seeds], visitor.stopped):
            decoded += [now.trace] if now.trace else []
            whole = whole_seeds(decoded, arms)
            kept = f"{counted(len(whole) // arms, 'seed')} were decoded whole and are kept."
            update: Update = {self.problem: progress(now, kept)}
            if now.trace and whole:
                update[self.facts] = facts(summarized(whole, arms))
            yield update
        if whole := whole_seeds(decoded, arms):
            yield self._result(whole, values, request)

    def _files(self, values: Update) -> dict[str, bytes]:
        return {"results.jsonl": rows_of(values[self.repeated].traces())}

    def _result(self, traces: Sequence[Trace], values: Update, request: gr.Request) -> Update:
        """The figures and the files of what was decoded."""
        visitor = self.site.visitor(request)
        rows = visitor.file(f"{traces[-1].method}-seeds.jsonl")
        rows.write_bytes(rows_of(traces))
        return {
            self.repeated: visitor.keep(traces, "a run with many seeds"),
            self.rows: gr.update(value=str(rows), visible=True),
            **self.chooser.offer(traces, values, request),
        }


def repeat(requests: Sequence[Request], seeds: int, stopped: Callable[[], bool]) -> Iterator[Progress]:
    """Decode a run, with its baseline before it where there is one, with seeds 0, 1, ...; see `decode_all`.

    Neither of a pair always runs first. Raises ConfigError for a number of seeds that is not allowed or takes too long.
    """
    if type(seeds) is not int or not FEWEST <= seeds <= MOST:
        raise ConfigError(f"seeds: {seeds!r} is not allowed; use a whole number from {FEWEST} to {MOST}.")
    groups = [_in_turn([replace(one, seed=seed) for one in requests], seed) for seed in range(seeds)]
    yield from decode_all(groups, f"seeds: {seeds}", stopped)


def whole_seeds(traces: Sequence[Trace], arms: int) -> list[Trace]:
    """The runs of the seeds that were decoded with all of so many settings, in the order in which these were asked."""
    groups = [traces[first : first + arms] for first in range(0, len(traces) - arms + 1, arms)]
    return [trace for seed, group in enumerate(groups) for trace in _in_turn(list(group), seed)]


def _in_turn(group: list[T], seed: int) -> list[T]:
    return group if seed % 2 == 0 else group[::-1]


def rows_of(traces: Sequence[Trace]) -> bytes:
    """The runs as rows of results, the format of `benchmarks.sweep`; nothing says whether an answer was right."""
    about = {"about": {"created": traces[0].created, "commit": traces[0].environment.commit}} if traces else {}
    head = [json.dumps(about).encode() + b"\n"] if about else []
    return b"".join(chain(head, map(written, map(_row, traces))))


def _row(trace: Trace) -> ResultRow:
    made = trace.summary
    known = [trace.method, trace.model.id, dict(trace.config), trace.prompt, trace.seed]
    return row_of(
        trace.steps,
        key=digest(known),
        method=trace.method,
        label=name_of(trace),
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


def summarized(traces: Sequence[Trace], arms: int) -> list[Fact]:
    """What the seeds came to: means with standard errors, beside ordinary decoding where there is one."""
    groups = [traces[index::arms] for index in range(arms)]
    made = groups[-1]
    usual = f"ordinary: {estimate([target_forwards(t) for t in groups[0]])}, " if arms > 1 else ""
    passes = str(estimate([target_forwards(t) for t in made]))
    facts = [Fact("Target passes", passes, f"{usual}{len(of_seeds(made))} seeds")]
    for name, of in (("Ratio of target passes", target_forwards), ("Speed", seconds)) if arms > 1 else ():
        ratios = [a / b for a, b in paired(groups[0], made, of).values() if b]
        if ratios:
            facts.append(
                Fact(name, f"{estimate(ratios)} ×", "mean of ordinary over this run, seed by seed; above 1 is better")
            )
    times = [value for t in made if (value := seconds(t)) is not None]
    if times:
        facts.append(Fact("Decoding time", f"{estimate(times)} s", "of single runs on this machine"))
    accepted = [t.summary.acceptance for t in made if t.summary.acceptance is not None]
    if accepted:
        facts.append(Fact("Acceptance", str(estimate(accepted)), "of judged drafts"))
    return facts
