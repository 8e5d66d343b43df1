"""A grid of pictures, clips or texts: a row a prompt, a column a setting of the runs that are ticked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import gradio as gr
from PIL import ImageOps

from demo.addresses import Address, fragment_of_grid
from demo.pages.watch import DRAWS, EXAMPLES, vocabulary
from demo.panels.export import ExportPanel
from demo.panels.figure import Panel
from demo.panels.start_stop import StartStop, progress
from demo.panels.widgets import choice_row, choices, chosen_index, component, notice, notice_box
from demo.runs.beside import files
from demo.runs.grid import MOST_COLUMNS, MOST_ROWS, Row, columns_of, fill, planned, rows_of
from demo.runs.tray import Entry, Tray, entries_of
from demo.server.sessions import Shown
from demo.site import AT_ONCE, AT_ONCE_LATEST, Site, Update
from engines.config import ConfigError
from engines.models.catalog import MODELS
from engines.models.model_info import ModelInfo
from traces.schema import Trace
from traces.stats import draft_forwards
from visualizers import FIGURES
from visualizers.picture import data_url, final_picture, moving_url, picture_of

_EDGE: Final = 192
"""Most pixels of a clip's frame."""
_FRAMES: Final = 64
"""Most frames of a clip; of a longer one as many are shown, evenly spread."""
_TEXT: Final = 400
"""Letters of a text that a cell has room for."""

Preview = Mapping[str, str | int]

_SCRIPT: Final = """
const grid = build('div', {});
place.append(grid);
const drawn = ({ image = '', still = '', text = '' }) => {
  const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
  const src = (calm && still) || image;
  return PICTURE.test(src) ? build('img', { src, alt: '' }) : build('span', { class: 'text' }, text || '(empty)');
};
const blank = (now) => build('span', { class: now ? 'blank now' : 'blank' }, now ? 'being decoded' : '');
const cell = (made, at, row, column, now) => {
  if (!made) return build('td', {}, blank(now));
  const clip = made.length ? `clip of ${made.length} frames` : '';
  const name = [`${made.cost}: ${column.title}`, column.note, row.prompt, row.seed, clip].filter(Boolean).join(', ');
  const button = build('button', { type: 'button', 'data-index': at, 'aria-label': name }, drawn(made),
    build('span', { class: 'cost' }, made.cost));
  return build('td', {}, button);
};
const show = () => {
  const { columns = [], rows = [], cells = [], now = -1 } = props.value || {};
  const focused = grid.contains(document.activeElement) ? document.activeElement.dataset.index : null;
  if (!rows.length) return grid.replaceChildren();
  const heads = columns.map(({ title, note }) => build('th', { scope: 'col' }, title, build('small', {}, note)));
  const table = build('table', { style: `--columns: ${columns.length}` },
    build('thead', {}, build('tr', {}, build('td', { class: 'corner' }), ...heads)),
    build('tbody', {}, ...rows.map((row, r) => build('tr', {},
      build('th', { scope: 'row' }, row.prompt, build('small', {}, row.seed)),
      ...columns.map((column, c) => {
        const at = r * columns.length + c;
        return cell(cells[at], at, row, column, at === now);
      })))));
  grid.replaceChildren(table);
  if (focused !== null) grid.querySelector(`[data-index="${focused}"]`)?.focus();
};
chooses();
"""

_STYLE: Final = """
table { border-collapse: separate; border-spacing: 10px 8px; margin: 0 -10px; max-width: 100%; table-layout: fixed;
  width: min(100%, calc(190px + 250px * var(--columns))); color: var(--body-text-color); }
th { padding: 0; font-size: 14px; font-weight: 600; line-height: 1.35; text-align: left; vertical-align: top;
  overflow-wrap: anywhere; }
thead th { vertical-align: bottom; }
.corner, tbody th { width: 150px; }
td { padding: 0; vertical-align: top; }
small { display: block; font-size: 12px; font-weight: 400; color: var(--body-text-color-subdued); }
td button { display: grid; gap: 4px; width: 100%; padding: 0; border: 0; background: none; text-align: left; }
img, .blank, .text { box-sizing: border-box; display: block; width: 100%; aspect-ratio: 1; border-radius: 8px;
  background: var(--background-fill-secondary); }
img { object-fit: contain; image-rendering: pixelated; }
td button:hover :is(img, .text) { outline: 2px solid var(--color-accent); }
td button:focus-visible { border-radius: 8px; }
.text { padding: 10px; overflow: hidden; white-space: pre-wrap; overflow-wrap: anywhere; font-family: var(--font-mono);
  font-size: 12px; line-height: 1.45; border: 1px solid var(--border-color-primary); }
.blank { display: grid; place-items: center; font-size: 13px; color: var(--body-text-color-subdued); }
.now { outline: 2px dashed var(--color-accent); outline-offset: -2px; }
.cost { font-size: 13px; font-variant-numeric: tabular-nums; }
@media (max-width: 640px) {
  table { display: block; width: 100%; margin: 0; }
  thead, tbody { display: block; }
  tr { display: grid; grid-template-columns: repeat(var(--columns), minmax(0, 1fr)); gap: 8px; margin: 0 0 14px; }
  .corner { display: none; }
  tbody th { grid-column: 1 / -1; width: auto; }
  thead th { font-size: 12px; }
  .text { padding: 5px; font-size: 9px; }
}
"""


def grid_box(**options: Any) -> gr.HTML:
    """The component; the event `choose` carries the number of a cell, counted row by row."""
    return component({}, _SCRIPT, _STYLE, **options)


def grid_value(
    columns: Sequence[Entry], rows: Sequence[Row], cells: Sequence[Preview], *, decoding: bool
) -> dict[str, Any]:
    """Its value; `cells` are whole, row by row, and the next one is `decoding`."""
    several = len({row.seed for row in rows}) > 1
    bare = not any(row.prompt for row in rows)
    return {
        "columns": [{"title": column.title, "note": column.note} for column in columns],
        "rows": [{"prompt": row.prompt, "seed": f"seed {row.seed}" if several or bare else ""} for row in rows],
        "cells": list(cells),
        "now": len(cells) if decoding else -1,
    }


def preview(trace: Trace) -> dict[str, str | int]:
    """What a cell shows of a run: a picture, a clip or a text; and what it took."""
    drafted = draft_forwards(trace.steps)
    own = trace.summary.forwards - drafted
    cost = f"{own} pass{'' if own == 1 else 'es'}" + (f" + {drafted} of the drafter" if drafted else "")
    if trace.canvas.kind == "video" and trace.output.video:
        video = trace.output.video
        shown = min(_FRAMES, len(video))
        frames = [picture_of(video[number * len(video) // shown]) for number in range(shown)]
        small = [ImageOps.contain(frame, (_EDGE, _EDGE)) for frame in frames]
        still = data_url(small[shown // 2])
        return {"image": moving_url(small), "still": still, "length": len(video), "cost": cost}
    return {"image": final_picture(trace) or "", "text": (trace.output.text or "")[:_TEXT], "cost": cost}


_LEAD: Final = (
    f"Decodes every prompt below with the settings of every run that is ticked above: a row a prompt, a column a "
    f"setting, up to {MOST_ROWS} by {MOST_COLUMNS}. The runs go one after the other. Under each result stands how many "
    "forward passes it took. Press a result to play its whole row side by side."
)
_CLIPS: Final = tuple(f"clip {number}" for number in (2, 5, 9, 14, 23, 31))
_OFFERED: Final = 3
"""Prompts that the form opens with."""
_FIGURE: Final = "pictures"
"""The figure that files hold."""
_NAME: Final = "(link) => document.getElementById('grid-run')?.checkVisibility() && draftscopeAddress.grid(link)"
"""Script that puts the form into the page's address."""


@dataclass(frozen=True, slots=True)
class Grid:
    """What was asked for, and what is decoded of it."""

    columns: tuple[Entry, ...] = ()
    rows: tuple[Row, ...] = ()
    paths: tuple[Path, ...] = ()
    """Of the cells that are whole, row by row."""


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
        self.examples = choice_row("grid-examples", "Add an example")
        with gr.Accordion("Prompt vocabulary", open=False, visible=False) as self.words:
            gr.Markdown(vocabulary(), elem_classes="vocabulary")
        with gr.Row(elem_classes="aligned"):
            self.seeds = gr.Slider(
                1, MOST_ROWS, 1, step=1, label="Seeds for each prompt", scale=0, min_width=320, elem_id="grid-seeds"
            )
            self.buttons = StartStop(site, "grid-run", "grid-stop", "Decode the grid")
        self.plan = notice_box(elem_id="grid-plan")
        self.problem = notice_box(elem_id="grid-problem")
        self.box = grid_box(elem_id="grid")
        self.kept = gr.State(Shown())
        self.files = Panel(site, "grid-figure", files_alone=True)
        self.export = ExportPanel(site, "grid", self.kept)
        self.link = gr.Textbox(visible=False)
        """What addresses say of the form."""
        self._connect()

    def _connect(self) -> None:
        form: set[Any] = {self.tray, self.prompts, self.seeds, self.model}
        says = [self.plan, self.examples, self.link]
        self.tray.change(self.offer, form, [*says, self.prompts, self.words, self.model], **AT_ONCE_LATEST)
        said = gr.on([self.prompts.change, self.seeds.input], self.say, form, says, **AT_ONCE_LATEST)
        said.then(None, self.link, None, js=_NAME, **AT_ONCE)
        self.examples.select(self.add, form, [self.prompts, *says], **AT_ONCE)
        shows = [self.problem, self.box, self.grid, self.kept, *self.files.parts, *self.export.parts]
        self.buttons.connect("grid", self.conduct, {*form, self.site.look}, shows, self.problem)
        self.export.connect(set(), lambda values: (_FIGURE, None), lambda values: files(values[self.kept].traces()))

    def offer(self, values: Update) -> Update:
        """Runs were ticked: offer prompts that their models know."""
        chosen = values[self.tray].chosen
        model = next((MODELS[entry.request.model] for entry in chosen if entry.request), None)
        if model is None:
            return self.say(values)
        known = MODELS.get(values[self.model])
        prompts = values[self.prompts] or ""
        if known.default_prompt != model.default_prompt if known else not prompts.strip():  # or an address gave some
            own = [entry.request.prompt for entry in chosen if entry.request and entry.request.prompt]
            prompts = "\n".join(list(dict.fromkeys([*own, *_examples(model)]))[:_OFFERED])
        return {
            self.prompts: gr.update(value=prompts, visible=bool(model.default_prompt)),
            self.words: gr.update(visible=model.default_prompt == DRAWS),
            self.model: model.id,
            **self.say(values | {self.prompts: prompts, self.model: model.id}),
        }

    def say(self, values: Update) -> Update:
        """Say what the form asks for, and what stands in its way."""
        offered = _others(values[self.model], values[self.prompts] or "")
        try:
            plan = planned(*self._asked(values))
        except ConfigError as error:
            plan = str(error).partition(": ")[2].capitalize()
        lines = list(filter(None, map(str.strip, (values[self.prompts] or "").splitlines())))
        seeds = values[self.seeds] if type(values[self.seeds]) is int else 1
        told = {self.examples: choices(offered), self.plan: notice("info", plan)}
        return told | {self.link: fragment_of_grid(lines[:MOST_ROWS], seeds)}

    def asked(self, address: Address) -> Update:
        """Fill the form with what an address says."""
        return {self.prompts: "\n".join(address.grid), self.seeds: address.seeds}

    def add(self, values: Update, event: gr.EventData) -> Update:
        """Add an example to the prompts. Raises gr.Error for one that there is not."""
        prompts = (values[self.prompts] or "").strip()
        offered = _others(values[self.model], prompts)
        added = offered[chosen_index(event, len(offered), "example")]
        prompts = "\n".join(filter(None, [prompts, added]))
        return {self.prompts: prompts, **self.say(values | {self.prompts: prompts})}

    def conduct(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Decode the grid and show every cell as soon as it is whole; these are kept, however it ends."""
        visitor = self.site.visitor(request)
        grid, cells, traces = Grid(*self._asked(values)), [], list[Trace]()
        for now in fill(grid.columns, grid.rows, visitor.stopped):
            update: Update = {self.problem: progress(now, f"{now.done} of {now.total} runs are whole and are kept.")}
            if now.trace is not None:
                traces.append(now.trace)
                cells.append(preview(now.trace))
                update[self.grid] = grid = replace(grid, paths=(*grid.paths, *visitor.keep([now.trace], "").paths))
            if not now.share:
                update |= self.export.offered(there=False)
            yield {**update, self.box: grid_value(grid.columns, grid.rows, cells, decoding=not now.ended)}
        if traces:  # where the page is busy, gradio shows the last of several messages alone: it has to hold all
            box = grid_value(grid.columns, grid.rows, cells, decoding=False)
            yield {self.box: box, self.grid: grid, **self._result(grid, traces, values, request)}

    def _result(self, grid: Grid, traces: Sequence[Trace], values: Update, request: gr.Request) -> Update:
        """The files of what was decoded."""
        figure = FIGURES[_FIGURE]
        drawn = self.files.show(figure, figure.draw(traces), values[self.site.look], request)
        kept = Shown(grid.paths, "a grid of prompts and settings")
        return {self.kept: kept, **drawn, **self.export.offered(there=True)}

    def opened(self, values: Update, event: gr.EventData) -> tuple[Entry, ...]:
        """The runs of the row whose cell was pressed, that one included.

        Raises gr.Error for a cell that is not there, or not any more.
        """
        grid: Grid = values[self.grid]
        cell, wide = chosen_index(event, len(grid.paths), "cell"), len(grid.columns)
        paths = grid.paths[cell // wide * wide :][:wide]
        if not all(path.exists() for path in paths):
            raise gr.Error("cell: its run is no longer here; decode the grid again.")
        return entries_of(paths, "yours")

    def _asked(self, values: Update) -> tuple[tuple[Entry, ...], tuple[Row, ...]]:
        tray: Tray = values[self.tray]
        columns = columns_of(tray.chosen)
        first = next((entry.request.seed for entry in tray.chosen if entry.request), 0)
        return columns, rows_of(values[self.prompts] or "", values[self.seeds], first, columns)


def _examples(model: ModelInfo) -> tuple[str, ...]:
    if model.clips:
        return _CLIPS
    return EXAMPLES.get(model.default_prompt, (model.default_prompt,) if model.default_prompt else ())


def _others(model: str, prompts: str) -> list[str]:
    """The examples that do not stand in the prompts yet."""
    there = {line.strip() for line in prompts.splitlines()}
    return [one for one in _examples(MODELS[model]) if one not in there] if model in MODELS else []
