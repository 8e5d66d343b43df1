"""A grid of pictures, clips or texts: prompts by the settings of the runs that are ticked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import gradio as gr

from demo import gpu
from demo.figure_panel import Panel
from demo.limits import GPU_MOST_SECONDS
from demo.log import for_visitors, refused
from demo.outcome import as_csv, beside
from demo.pages.run import DRAWS, EXAMPLES, vocabulary
from demo.sessions import Shown
from demo.site import AT_ONCE, AT_ONCE_LATEST, Site, Update
from demo.start_stop import StartStop
from demo.widgets import bar, choice_row, choices, notice, notice_box, progress_bar
from demo.workbench.export_panel import ExportPanel
from demo.workbench.grid import (
    MOST_COLUMNS,
    MOST_ROWS,
    Column,
    Filled,
    Row,
    columns_of,
    fill,
    planned,
    rows_of,
)
from demo.workbench.grid_box import chosen_cell, grid_box, preview, told
from demo.workbench.repeating import duration
from demo.workbench.tray import Entry, Tray, entries_of
from engines.config import ConfigError
from engines.models.catalog import MODELS
from engines.models.errors import ModelError
from engines.models.model_info import ModelInfo
from traces import read
from traces.schema import Trace
from visualizers import FIGURES

_LEAD: Final = (
    f"Decodes every prompt below with the settings of every run that is ticked above: a row a prompt, a column a "
    f"setting, up to {MOST_ROWS} by {MOST_COLUMNS}. The runs go one after the other. Under each result stands how many "
    "forward passes it took. Press a result to play its whole row side by side."
)
_CLIPS: Final = tuple(f"clip {number}" for number in (2, 5, 9, 14, 23, 31))
_OFFERED: Final = 3
"""Prompts that the form opens with."""
_NAME: Final = "pictures"
"""The figure that files hold."""


@dataclass(frozen=True, slots=True)
class Grid:
    """What was asked for, and what is decoded of it."""

    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    paths: dict[int, Path] = field(default_factory=dict)
    """By cell, counted row by row."""

    @property
    def shown(self) -> Shown:
        """Its runs."""
        return Shown(tuple(self.paths.values()), "a grid of prompts and settings")

    def row_of(self, cell: int) -> tuple[Path, ...]:
        """The runs of the row in which a cell is, the cell's own being there; none otherwise."""
        width = len(self.columns)
        if cell not in self.paths:
            return ()
        first = cell // width * width
        return tuple(self.paths[one] for one in range(first, first + width) if one in self.paths)


class GridPanel:
    """Prompts, a number of seeds, a bar, the grid and its files."""

    def __init__(self, site: Site, tray: gr.State) -> None:
        """Lay it out and wire it; columns are what is ticked in `tray`."""
        self.site, self.tray = site, tray
        self.grid = gr.State(Grid())
        self.model = gr.State("")
        """The model whose examples are offered."""
        gr.Markdown(_LEAD, elem_classes="lead")
        self.prompts = gr.Textbox(
            "", label="Prompts, one on each line", lines=3, max_lines=MOST_ROWS, elem_id="grid-prompts", visible=False
        )
        self.examples = choice_row("grid-examples")
        with gr.Accordion("Prompt vocabulary", open=False, visible=False) as self.words:
            gr.Markdown(vocabulary(), elem_classes="vocabulary")
        with gr.Row(elem_classes="aligned"):
            self.seeds = gr.Slider(
                1, MOST_ROWS, 1, step=1, label="Seeds for each prompt", scale=0, min_width=320, elem_id="grid-seeds"
            )
            self.start = gr.Button("Decode the grid", variant="primary", scale=0, min_width=150, elem_id="grid-run")
            self.stop = gr.Button("Stop", variant="stop", visible=False, scale=0, min_width=130, elem_id="grid-stop")
        self.plan = notice_box(elem_id="grid-plan", elem_classes="panel-problem")
        self.problem = notice_box(elem_id="grid-problem", elem_classes="panel-problem")
        self.bar = progress_bar(elem_id="grid-progress", elem_classes="panel-progress")
        self.box = grid_box(elem_id="grid")
        self.kept = gr.State(Shown())
        self.files = Panel(site, "grid-figure", files_alone=True)
        self.export = ExportPanel(site, "grid", self.kept)
        self._connect()

    def _connect(self) -> None:
        form: set[Any] = {self.tray, self.prompts, self.seeds, self.model}
        asks = [self.plan, self.prompts, self.examples, self.words, self.model]
        self.tray.change(self.offer, form, asks, **AT_ONCE_LATEST)
        gr.on([self.prompts.change, self.seeds.input], self.say, form, [self.plan, self.examples], **AT_ONCE_LATEST)
        self.examples.choose(self.add, form, [self.prompts, self.plan, self.examples], **AT_ONCE)
        files = [*self.files.parts, *self.export.parts]
        shows = [self.problem, self.bar, self.box, self.grid, self.kept, *files]
        buttons = StartStop(self.site, self.start, self.stop, self.problem, self.bar)
        buttons.connect("grid", self.conduct, {*form, self.site.look}, shows)
        self.export.connect({self.kept}, lambda values: (_NAME, None), lambda values: _table(values[self.kept]))

    def offer(self, values: Update) -> Update:
        """Runs were ticked: offer prompts that their models know."""
        chosen = values[self.tray].chosen
        model = next((MODELS[entry.asked.model] for entry in chosen if entry.asked), None)
        if model is None:
            return self.say(values)
        known = MODELS.get(values[self.model])
        prompts = values[self.prompts] or ""
        if known is None or known.default_prompt != model.default_prompt:
            prompts = "\n".join(_first(chosen, model))
        return {
            self.prompts: gr.update(value=prompts, visible=bool(model.default_prompt)),
            self.words: gr.update(visible=model.default_prompt == DRAWS),
            self.model: model.id,
            **self.say(values | {self.prompts: prompts, self.model: model.id}),
        }

    def say(self, values: Update) -> Update:
        """Say what the form asks for, and what stands in its way."""
        offered = _others(values[self.model], values[self.prompts] or "")
        update: Update = {self.examples: choices("Add an example:", offered)}
        try:
            columns, rows = self._asked(values)
        except ConfigError as error:
            return update | {self.plan: notice("info", str(error).partition(": ")[2].capitalize())}
        return update | {self.plan: notice("info", planned(columns, rows))}

    def add(self, values: Update, event: gr.EventData) -> Update:
        """Add an example to the prompts.

        Raises:
            gr.Error: for one that there is not.
        """
        prompts = (values[self.prompts] or "").strip()
        offered, index = _others(values[self.model], prompts), event.index
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(offered):
            raise gr.Error("example: there is no such example; press one of those shown.")
        prompts = "\n".join(filter(None, [prompts, offered[index]]))
        return {self.prompts: prompts, **self.say(values | {self.prompts: prompts})}

    def conduct(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Decode the grid and show every cell as soon as it is whole; these are kept, however it ends."""
        visitor = self.site.visitor(request)
        columns, rows = self._asked(values)
        grid, there, traces, shown = Grid(columns, rows), {}, [], told(columns, rows, {}, -1)
        width = len(columns)
        try:
            for now in gpu.through(GPU_MOST_SECONDS, fill, columns, rows, visitor.stopped):
                update: Update = {self.problem: _ended(now), self.bar: _bar(now)}
                if now.trace is not None:
                    traces.append(now.trace)
                    path = visitor.keep([now.trace], "").paths[0]
                    grid = replace(grid, paths={**grid.paths, now.cell - 1: path})
                    there[divmod(now.cell - 1, width)] = preview(now.trace)
                    update[self.grid] = grid
                update[self.box] = shown = told(columns, rows, there, -1 if now.ended else now.cell)
                if not now.share:
                    update |= self.export.offered(there=False)
                yield update
        except (ValueError, ModelError) as error:
            refused("grid", error)
            shown = told(columns, rows, there, -1) if there else {}
            yield {self.problem: notice("error", for_visitors(str(error))), self.bar: {}, self.box: shown}
        if traces:  # where the page is busy, gradio shows the last of several messages alone: it has to hold all
            yield {**self._result(grid, traces, values, request), self.box: shown}

    def _result(self, grid: Grid, traces: Sequence[Trace], values: Update, request: gr.Request) -> Update:
        """The files of what was decoded."""
        figure = FIGURES[_NAME]
        drawn = self.files.show(figure, figure.draw(traces), values[self.site.look], request)
        return {self.grid: grid, self.kept: grid.shown, **drawn, **self.export.offered(there=True)}

    def opened(self, values: Update, event: gr.EventData) -> tuple[Entry, ...]:
        """The runs of the row whose cell was pressed, that one included.

        Raises:
            gr.Error: for a cell that is not there, or not any more.
        """
        grid: Grid = values[self.grid]
        paths = grid.row_of(chosen_cell(event))
        if not paths or not all(path.exists() for path in paths):
            raise gr.Error("cell: its run is no longer here; decode the grid again.")
        return entries_of(paths, "yours")

    def _asked(self, values: Update) -> tuple[tuple[Column, ...], tuple[Row, ...]]:
        tray: Tray = values[self.tray]
        columns = columns_of(tray.chosen)
        first = next((entry.asked.seed for entry in tray.chosen if entry.asked), 0)
        return columns, rows_of(values[self.prompts] or "", values[self.seeds], first, columns)


def _first(chosen: Sequence[Entry], model: ModelInfo) -> list[str]:
    """The prompts of the ticked runs, and examples."""
    own = [entry.asked.prompt for entry in chosen if entry.asked and entry.asked.prompt]
    return list(dict.fromkeys([*own, *_examples(model)]))[:_OFFERED]


def _examples(model: ModelInfo) -> tuple[str, ...]:
    if model.clips:
        return _CLIPS
    return EXAMPLES.get(model.default_prompt, (model.default_prompt,) if model.default_prompt else ())


def _others(model: str, prompts: str) -> list[str]:
    """The examples that do not stand in the prompts yet."""
    there = {line.strip() for line in prompts.splitlines()}
    return [one for one in _examples(MODELS[model]) if one not in there] if model in MODELS else []


def _table(shown: Shown) -> dict[str, bytes]:
    traces = [read(path) for path in shown.paths]
    return {"runs.csv": as_csv(beside(traces))} if len(traces) > 1 else {}


def _ended(now: Filled) -> dict[str, str]:
    if not now.ended:
        return {}
    return notice("info", f"{now.done} of {now.total} runs are whole and are kept.", now.ended)


def _bar(now: Filled) -> dict[str, Any]:
    if now.ended or now.done == now.total:
        return {}
    if not now.share:
        return bar(0.0, f"{now.total} runs will take about {duration(now.seconds_left)}.")
    return bar(now.share, f"{now.done} of {now.total} runs are done, about {duration(now.seconds_left)} left.")
