"""Repeat with N seeds: the run that the Run page asks for, beside ordinary decoding of the same seeds."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import gradio as gr

from demo import gpu
from demo.decoding import Asked
from demo.figure_chooser import FigureChooser
from demo.limits import GPU_MOST_SECONDS
from demo.log import for_visitors, refused
from demo.pages.run import RunPage
from demo.sessions import Shown
from demo.site import Site, Update
from demo.start_stop import StartStop
from demo.widgets import Fact, bar, facts, facts_row, notice, notice_box, progress_bar
from demo.workbench.repeating import FEWEST, MOST, Progress, duration, repeat, rows_of, said
from engines.models.errors import ModelError

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
            self.start = gr.Button("Repeat", variant="primary", scale=0, min_width=130, elem_id="repeat-run")
            self.stop = gr.Button("Stop", variant="stop", visible=False, scale=0, min_width=130, elem_id="repeat-stop")
        self.problem = notice_box(elem_id="repeat-problem", elem_classes="panel-problem")
        self.bar = progress_bar(elem_id="repeat-progress")
        self.facts = facts_row(elem_id="repeat-facts")
        self.rows = gr.DownloadButton("Download results (.jsonl)", size="sm", visible=False, elem_id="repeat-rows")
        self.chooser = FigureChooser(
            site, "repeated", self.repeated, lambda values: _rows(values[self.repeated]), "seeds"
        )
        self._connect()

    def _connect(self) -> None:
        form = {*self.run.form, self.seeds, *self.chooser.inputs}
        told = [self.problem, self.bar, self.facts, self.rows, self.repeated, *self.chooser.parts]
        buttons = StartStop(self.site, self.start, self.stop, self.problem, self.bar)
        buttons.connect("repeat", self.conduct, form, told)

    def conduct(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Repeat the run and show what there is as it grows; whole pairs are kept, however it ends."""
        visitor = self.site.visitor(request)
        kept: Progress | None = None
        try:
            asked = self.run.asked(values | {self.run.beside: True})
            seeds = values[self.seeds]
            for now in gpu.through(GPU_MOST_SECONDS, repeat, asked, seeds, visitor.stopped):
                kept = now if now.traces else kept
                yield {self.problem: _ended(now, asked), self.bar: _bar(now, seeds), **self._counted(now, asked)}
        except (ValueError, ModelError) as error:
            refused("repeat", error)
            yield {self.problem: notice("error", for_visitors(str(error))), self.bar: {}}
        if kept is not None:
            yield self._result(kept, values, request)

    def _counted(self, now: Progress, asked: Sequence[Asked]) -> Update:
        if not now.traces:
            return {}
        return {self.facts: facts([Fact(*one) for one in said(now.traces, len(asked))])}

    def _result(self, kept: Progress, values: Update, request: gr.Request) -> Update:
        """The figures and the files of what was decoded."""
        visitor = self.site.visitor(request)
        shown = visitor.keep(kept.traces, "a run with many seeds")
        rows = visitor.file(f"{kept.traces[-1].method}-seeds.jsonl")
        rows.write_bytes(rows_of(kept.traces))
        return {
            self.repeated: shown,
            self.rows: gr.update(value=str(rows), visible=True),
            **self.chooser.offer(kept.traces, values, request),
        }


def _rows(shown: Shown) -> dict[str, bytes]:
    return {"results.jsonl": rows_of(shown.traces())}


def _ended(now: Progress, asked: Sequence[Asked]) -> dict[str, str]:
    """Why nothing more comes, where that is not because all is done."""
    if not now.ended:
        return {}
    kept = len(now.traces) // len(asked)
    return notice("info", f"{kept} seed{'' if kept == 1 else 's'} were decoded whole and are kept.", now.ended)


def _bar(now: Progress, seeds: int) -> dict[str, Any]:
    if now.ended or now.done == now.total:
        return {}
    if not now.share:
        return bar(0.0, f"{seeds} seeds will take about {duration(now.seconds_left)}.")
    return bar(now.share, f"{now.done} of {now.total} runs are done, about {duration(now.seconds_left)} left.")
