"""Bias of published variants: every way of judging drafts, live, on a distribution that is known."""

from collections.abc import Iterator
from typing import Any, Final

import gradio as gr

from demo import controls
from demo.biases import Biases, conduct
from demo.copy_text import copy
from demo.figure_panel import Panel
from demo.limits import Deadline, current
from demo.site import Site, Update
from demo.start_stop import StartStop
from demo.widgets import data_table, notice, notice_box, table
from engines.config import settings
from engines.continuous.mixture2d import Plane
from visualizers.figures.bias import BIAS

_HEADS: Final = ("Mode", "Drafts kept", "TV to target", "TV to draft", "Tries per rejection", "Out of tries")
_WAITING: Final = notice(
    "info", "The server computes one thing at a time; where another is under way, this waits.", "Starting."
)


class BiasPage:
    """The page and its handlers."""

    def __init__(self, site: Site) -> None:
        self.site = site
        dollars: list[dict[str, str | bool]] = [{"left": "$", "right": "$", "display": False}]
        gr.Markdown(copy("bias"), latex_delimiters=dollars, elem_classes="reading")
        with gr.Row():
            self.controls = controls.build(settings(Plane))
        with gr.Row():
            start = gr.Button("Draw tokens", variant="primary", scale=0, min_width=160, elem_id="run-bias")
            stop = gr.Button("Stop", variant="stop", visible=False, scale=0, min_width=160, elem_id="stop-bias")
        self.progress = notice_box(elem_id="bias-progress", elem_classes="panel-problem")
        self.table = data_table("What was counted of every mode", elem_id="bias-table")
        self.panel = Panel(site, "bias")
        self.drawing = StartStop(site, start, stop, self.progress, waiting=_WAITING)
        form: set[Any] = {site.look, *self.controls.of.values()}
        self.drawing.connect("bias", self.draw, form, {self.progress, self.table, *self.panel.parts})

    def draw(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Draw tokens of every mode, then show them."""
        plane = controls.read_config(Plane, self.controls.values(values))
        yield {self.progress: notice("info", "The distributions of target and draft are integrated.", "One moment.")}
        biases = None
        stopped = Deadline.within(current().run_seconds, self.site.visitor(request).stopped)
        for progress in conduct(plane, stopped):
            biases = progress.biases
            said = f"{progress.done:,} of {progress.total:,} tokens are drawn."
            yield {self.progress: notice("info", said, "Drawing.")}
        if biases is None:
            said = "What is shown below, if anything, is from before."
            yield {self.progress: notice("info", said, stopped.said)}
            return
        shown = self.panel.show(BIAS, BIAS.draw(biases.picture()), values[self.site.look], request)
        yield {self.progress: {}, self.table: counted(biases), **shown}


def counted(biases: Biases) -> dict[str, Any]:
    """One line a mode, and one for the distribution of the draft alone, which is integrated."""
    lines: list[tuple[Any, ...]] = [
        (
            tally.mode,
            None if tally.mode == "vanilla" else f"{100 * tally.kept:.1f} %",
            f"{tally.to_target:.3f}",
            f"{tally.to_draft:.3f}",
            None if tally.tries is None else f"{tally.tries:.1f}",
            None if tally.mode == "vanilla" else f"{100 * tally.capped:.2f} %",
        )
        for tally in biases.tallies
    ]
    return table(_HEADS, [*lines, ("draft", None, f"{biases.draft_to_target:.3f}", None, None, None)])
