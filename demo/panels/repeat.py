"""Repeat with N seeds: the run that the Run page asks for, beside ordinary decoding of the same seeds."""

from collections.abc import Iterator, Sequence
from typing import Final

import gradio as gr

from demo.pages.run import RunPage
from demo.panels.figure import FigureChooser
from demo.panels.start_stop import StartStop, progress
from demo.panels.widgets import facts, facts_row, notice_box
from demo.runs.repeating import FEWEST, MOST, repeat, rows_of, summarized, whole_seeds
from demo.runs.series import counted
from demo.server.sessions import Shown
from demo.site import Site, Update
from traces.schema import Trace

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
        self.chooser = FigureChooser(
            site, "repeated", self.repeated, lambda values: _files(values[self.repeated]), "seeds"
        )
        form = {*self.run.form, self.seeds, *self.chooser.inputs}
        changes = [self.problem, self.facts, self.rows, self.repeated, *self.chooser.parts]
        buttons.connect("repeat", self.conduct, form, changes, self.problem)

    def conduct(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Repeat the run and show what there is as it grows; seeds that are whole are kept, however it ends."""
        visitor = self.site.visitor(request)
        decoded: list[Trace] = []
        asked = self.run.asked(values | {self.run.beside: True})
        arms = len(asked)
        for now in repeat(asked, values[self.seeds], visitor.stopped):
            decoded += [now.trace] if now.trace else []
            whole = whole_seeds(decoded, arms)
            kept = f"{counted(len(whole) // arms, 'seed')} were decoded whole and are kept."
            update: Update = {self.problem: progress(now, kept)}
            if now.trace and whole:
                update[self.facts] = facts(summarized(whole, arms))
            yield update
        if whole := whole_seeds(decoded, arms):
            yield self._result(whole, values, request)

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


def _files(shown: Shown) -> dict[str, bytes]:
    return {"results.jsonl": rows_of(shown.traces())}
