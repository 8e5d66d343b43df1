"""Bias of published variants: every way of judging drafts, live, on a distribution that is known."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import gradio as gr

from demo.panels import controls
from demo.panels.figure import Panel
from demo.panels.start_stop import StartStop
from demo.panels.widgets import data_table, notice, notice_box, table
from demo.runs.biases import TOKENS, Biases, conduct
from demo.server.limits import Deadline, current
from demo.site import Site, Update
from engines.config import settings
from engines.continuous.mixture2d import MODES, Plane, total_variation
from visualizers.figures.bias import BIAS

_TEXT: Final = Path(__file__).with_name("bias.md")
_HEADS: Final = ("Mode", "Drafts kept", "TV to target", "TV to draft", "Tries per rejection", "Out of tries")


class BiasPage:
    """The page and its handlers."""

    def __init__(self, site: Site) -> None:
        self.site = site
        dollars: list[dict[str, str | bool]] = [{"left": "$", "right": "$", "display": False}]
        gr.Markdown(_TEXT.read_text(encoding="utf-8"), latex_delimiters=dollars, elem_classes="reading")
        with gr.Row():
            self.controls = controls.build(settings(Plane))
        with gr.Row():
            buttons = StartStop(site, "run-bias", "stop-bias", "Draw tokens")
        self.progress = notice_box(elem_id="bias-progress", elem_classes="panel-problem")
        self.table = data_table("What was counted of every mode", elem_id="bias-table")
        self.panel = Panel(site, "bias")
        form: set[Any] = {site.look, *self.controls.of.values()}
        buttons.connect("bias", self.draw, form, {self.progress, self.table, *self.panel.parts}, self.progress)

    def draw(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Draw tokens of every mode, then show them."""
        plane = controls.read_config(Plane, self.controls.values(values))
        yield {self.progress: notice("info", "The distributions of target and draft are integrated.", "One moment.")}
        stopped = Deadline.within(current().run_seconds, self.site.visitor(request).stopped)
        for drawn in conduct(plane, stopped):
            if isinstance(drawn, Biases):
                figure = BIAS.draw(drawn.picture())
                panel = self.panel.show(BIAS, figure, values[self.site.look], request)
                yield {self.progress: {}, self.table: counted(drawn), **panel}
                return
            said = f"{drawn:,} of {len(MODES) * TOKENS:,} tokens are drawn."
            yield {self.progress: notice("info", said, "Drawing.", drawn / (len(MODES) * TOKENS))}
        said = "What is shown below, if anything, is from before."
        yield {self.progress: notice("info", said, stopped.said)}


def counted(biases: Biases) -> dict[str, Any]:
    """One line a mode, and one for the distribution of the draft alone, which is integrated."""
    lines: list[tuple[Any, ...]] = []
    for tally in biases.tallies:
        drafts = tally.mode != "vanilla"
        to_target, to_draft = (total_variation(tally.cells, other) for other in (biases.target, biases.draft))
        kept, capped = f"{100 * tally.kept:.1f} %", f"{100 * tally.capped:.2f} %"
        tries = None if tally.tries is None else f"{tally.tries:.1f}"
        line = (kept if drafts else None, f"{to_target:.3f}", f"{to_draft:.3f}", tries, capped if drafts else None)
        lines.append((tally.mode, *line))
    own = total_variation(biases.draft, biases.target)
    return table(_HEADS, [*lines, ("draft", None, f"{own:.3f}", None, None, None)])
