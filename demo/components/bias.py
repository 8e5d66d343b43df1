"""Bias of published variants: every verification rule, sampled live on a known distribution."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import gradio as gr
import torch

from draftscope.demo.components import settings_form as controls
from draftscope.demo.components.context import Site, Update
from draftscope.demo.components.figure import Panel
from draftscope.demo.components.run_buttons import StartStop
from draftscope.demo.components.widgets import data_table, formulas, notice, notice_box, table
from draftscope.demo.server.limits import server_limits
from draftscope.engines.continuous.toy_mixture_2d import (
    MODES,
    ToyMixtureConfig,
    count_cells,
    distribution,
    edges,
    sample,
    total_variation,
)
from draftscope.engines.runtime.deadline import Deadline
from draftscope.engines.sampling.random_source import SeededRandom
from draftscope.engines.settings import settings
from draftscope.visualizers.figures.bias import Bias, Density, bias_figure

TOKENS: Final = 40_000
"""Tokens sampled for each mode."""
_AT_ONCE: Final = 8_000
_TEXT: Final = Path(__file__).with_name("bias.md")
_HEADS: Final = ("Mode", "Drafts kept", "TV to target", "TV to draft", "Tries per rejection", "Out of tries")


class BiasPanel:
    """The settings of the distribution, buttons, and what was drawn."""

    def __init__(self, site: Site) -> None:
        self.site = site
        formulas(_TEXT.read_text(encoding="utf-8"))
        with gr.Row():
            self.controls = controls.build(settings(ToyMixtureConfig))
        with gr.Row():
            self.buttons = StartStop(site, "run-bias", "stop-bias", "Draw tokens")
        self.progress = notice_box(elem_id="bias-progress")
        self.table = data_table("What was counted of every mode", elem_id="bias-table")
        self.panel = Panel(site, "bias")
        form: set[Any] = {site.look, *self.controls.of.values()}
        self.buttons.connect("bias", self.draw, form, {self.progress, self.table, *self.panel.parts}, self.progress)

    def draw(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Draw tokens of every mode, then show them."""
        plane = controls.read_config(ToyMixtureConfig, self.controls.values(values))
        yield {self.progress: notice("info", "The distributions of target and draft are integrated.", "One moment.")}
        stopped = Deadline(server_limits().run_seconds, self.site.visitor(request).stopped)
        total = len(MODES) * TOKENS
        for drawn in sample_modes(plane, stopped):
            if isinstance(drawn, int):
                progress = notice("info", f"{drawn:,} of {total:,} tokens are drawn.", "Drawing.", drawn / total)
                yield {self.progress: progress}
            else:
                bias, counts = drawn
                panel = self.panel.show(bias_figure, bias_figure.draw(bias), values[self.site.look], request)
                yield {self.progress: {}, self.table: counts, **panel}
                return
        yield {self.progress: notice("info", "Results below, if any, are from an earlier run.", stopped.reason)}


def sample_modes(
    plane: ToyMixtureConfig, stopped: Callable[[], bool] = lambda: False
) -> Iterator[int | tuple[Bias, dict[str, Any]]]:
    """Sample tokens under every mode.

    Args:
        plane: Distributions of target and draft.
        stopped: Checked every 8,000 tokens; returns True to stop early.

    Yields:
        The number of tokens sampled so far; finally the data of the figure and a table.
    """
    target, draft = (distribution(head, plane.sampling) for head in (plane.target, plane.draft))
    cells, lines = {"draft": draft}, list[tuple[Any, ...]]()
    rng, off = SeededRandom(0), "" if plane.same_noise_paths else "not "
    for k, mode in enumerate(MODES):
        counts, sums = torch.zeros_like(target), torch.zeros(3, dtype=torch.float64)
        for first in range(0, TOKENS, _AT_ONCE):
            if stopped():
                return
            drawn = sample(mode, plane, torch.arange(first, first + _AT_ONCE), rng)
            counts = counts + count_cells(drawn.token)
            sums += torch.stack([part.sum().double() for part in (drawn.accepted, drawn.tries, drawn.capped)])
            yield k * TOKENS + first + _AT_ONCE
        cells[mode] = counts / TOKENS
        num_kept, tries, capped = sums.tolist()
        rejected = TOKENS - num_kept
        distances = [f"{total_variation(cells[mode], other):.3f}" for other in (target, draft)]
        line: list[Any] = [mode, f"{100 * num_kept / TOKENS:.1f} %", *distances]
        line += [f"{tries / rejected:.1f}" if rejected else None, f"{100 * capped / TOKENS:.2f} %"]
        lines.append(tuple(line) if mode != "vanilla" else (mode, None, *distances, None, None))
    judged = {
        name: Density(name=name, cells=share.tolist(), total_variation=total_variation(share, target))
        for name, share in cells.items()
    }
    bias = Bias(
        edges=edges().tolist(),
        target=target.tolist(),
        draft=judged["draft"],
        drawn=[judged[mode] for mode in MODES],
        message=f"draft's variances {plane.variance:g} times the true ones, means {plane.shift:g} to the right, "
        f"{plane.steps} steps, {off}aligned; {TOKENS:,} tokens each",
    )
    lines.append(("draft", None, f"{judged['draft'].total_variation:.3f}", None, None, None))
    yield bias, table(_HEADS, lines)
