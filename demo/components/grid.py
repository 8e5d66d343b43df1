"""A grid of pictures, clips or texts: a row a prompt, a column a setting of the runs that are ticked."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import gradio as gr
from PIL import ImageOps

from demo.components.context import AT_ONCE, AT_ONCE_LATEST, Site, Update
from demo.components.export import ExportPanel
from demo.components.figure import Panel
from demo.components.prompt_help import DRAWS, EXAMPLES, vocabulary
from demo.components.run_buttons import StartStop, progress
from demo.components.widgets import Card, card_grid, choice_row, choices, chosen_index, notice, notice_box, values_of
from demo.jobs.beside import files
from demo.jobs.grid import MOST_COLUMNS, MOST_ROWS, Row, columns_of, fill, planned, rows_of
from demo.jobs.links import PageLink, fragment_of_grid
from demo.jobs.run_selection import RunSelection, SelectableRun, entries_of
from demo.server.sessions import CurrentTraces
from engines.models.catalog import MODELS
from engines.models.model_info import ModelInfo
from engines.settings import ConfigError
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

_STYLE: Final = """
div { flex-direction: column; }
@media (min-width: 641px) { .cards li { flex-basis: 240px; } }
"""
"""Style of the rows, with larger images than in a strip of cards."""


def preview(trace: Trace, column: SelectableRun, row: str) -> Card:
    """The cell of a run: its picture, clip or text, the setting of its column, and what it took."""
    drafted = draft_forwards(trace.steps)
    own = trace.summary.forwards - drafted
    cost = f"{own} pass{'' if own == 1 else 'es'}" + (f" + {drafted} of the drafter" if drafted else "")
    video = trace.output.video if trace.canvas.kind == "video" else ()
    image, still, text = final_picture(trace) or "", "", (trace.output.text or "")[:_TEXT]
    if video:
        shown = min(_FRAMES, len(video))
        frames = [picture_of(video[number * len(video) // shown]) for number in range(shown)]
        small = [ImageOps.contain(frame, (_EDGE, _EDGE)) for frame in frames]
        image, still, text = moving_url(small), data_url(small[shown // 2]), ""
        cost += f", clip of {len(video)} frames"
    return Card(column.title, column.note, image=image, still=still, text=text, group=row, badge=cost)


_LEAD: Final = (
    f"Decodes every prompt below with the settings of every run that is ticked above: a row a prompt, a column a "
    f"setting, up to {MOST_ROWS} by {MOST_COLUMNS}. The runs go one after the other. Under each result stands how many "
    "forward passes it took. Press a result to play its whole row side by side."
)
_CLIPS: Final = tuple(f"clip {number}" for number in (2, 5, 9, 14, 23, 31))
_OFFERED: Final = 3
"""Prompts that the form opens with."""
_ORIGIN: Final = "a grid of prompts and settings"
_FIGURE: Final = "pictures"
"""The figure that files hold."""
_NAME: Final = "(link) => document.getElementById('grid-run')?.checkVisibility() && draftscopeAddress.grid(link)"
"""Script that puts the form into the page's address."""


class GridPanel:
    """Prompts, a number of seeds, a bar, the grid and its files."""

    def __init__(self, site: Site, tray: gr.State) -> None:
        """Lay it out and wire it; columns are what is ticked in `tray`."""
        self.site, self.tray = site, tray
        self.kept = gr.State(CurrentTraces())
        """The cells that are whole, row by row."""
        self.wide = gr.State(1)
        """Columns of the grid."""
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
        self.box = card_grid((), _STYLE, elem_id="grid")
        self.files = Panel(site, "grid-figure", files_alone=True)
        self.export = ExportPanel(site, "grid", self.kept)
        self.link = gr.Textbox(visible=False)
        """Form values from a link."""
        self._connect()

    def _connect(self) -> None:
        form: set[Any] = {self.tray, self.prompts, self.seeds, self.model}
        says = [self.plan, self.examples, self.link]
        self.tray.change(self.offer, form, [*says, self.prompts, self.words, self.model], **AT_ONCE_LATEST)
        said = gr.on([self.prompts.change, self.seeds.input], self.say, form, says, **AT_ONCE_LATEST)
        said.then(None, self.link, None, js=_NAME, **AT_ONCE)
        self.examples.select(self.add, form, [self.prompts, *says], **AT_ONCE)
        shows = [self.problem, self.box, self.wide, self.kept, *self.files.parts, *self.export.parts]
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
        """Show what the form requests, and what prevents it."""
        offered = _others(values[self.model], values[self.prompts] or "")
        try:
            plan = planned(*self._asked(values))
        except ConfigError as error:
            plan = str(error).partition(": ")[2].capitalize()
        lines = list(filter(None, map(str.strip, (values[self.prompts] or "").splitlines())))
        seeds = values[self.seeds] if type(values[self.seeds]) is int else 1
        told = {self.examples: choices(offered), self.plan: notice("info", plan)}
        return told | {self.link: fragment_of_grid(lines[:MOST_ROWS], seeds)}

    def asked(self, address: PageLink) -> Update:
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
        (columns, rows), cells, traces, kept = (
            self._asked(values),
            list[Card](),
            list[Trace](),
            CurrentTraces((), _ORIGIN),
        )
        heads = _heads(rows)
        for now in fill(columns, rows, visitor.stopped):
            update: Update = {self.problem: progress(now, f"{now.done} of {now.total} runs are whole and are kept.")}
            if now.trace is not None:
                traces.append(now.trace)
                row, column = divmod(len(cells), len(columns))
                cells.append(preview(now.trace, columns[column], heads[row]))
                update[self.kept] = kept = CurrentTraces((*kept.paths, *visitor.keep([now.trace], "").paths), _ORIGIN)
            if not now.share:
                update |= {self.wide: len(columns), self.kept: kept, **self.export.offered(there=False)}
            yield {**update, self.box: values_of(cells)}
        if traces:  # where the page is busy, gradio shows the last of several messages alone: it has to hold all
            figure = FIGURES[_FIGURE]
            drawn = self.files.show(figure, figure.draw(traces), values[self.site.look], request)
            state = {self.box: values_of(cells), self.wide: len(columns), self.kept: kept}
            yield {**state, **drawn, **self.export.offered(there=True)}

    def opened(self, values: Update, event: gr.EventData) -> tuple[SelectableRun, ...]:
        """The runs of the row whose cell was pressed, that one included.

        Raises gr.Error for a cell that is not there, or not any more.
        """
        every: tuple[Path, ...] = values[self.kept].paths
        cell, wide = chosen_index(event, len(every), "cell"), values[self.wide]
        paths = every[cell // wide * wide :][:wide]
        if not all(path.exists() for path in paths):
            raise gr.Error("cell: its run is no longer here; decode the grid again.")
        return entries_of(paths, "yours")

    def _asked(self, values: Update) -> tuple[tuple[SelectableRun, ...], tuple[Row, ...]]:
        tray: RunSelection = values[self.tray]
        columns = columns_of(tray.chosen)
        first = next((entry.request.seed for entry in tray.chosen if entry.request), 0)
        return columns, rows_of(values[self.prompts] or "", values[self.seeds], first, columns)


def _heads(rows: Sequence[Row]) -> list[str]:
    """Return the headings of the rows: their prompts, with seeds if these differ."""
    seeds = len({row.seed for row in rows}) > 1
    return [
        ", ".join(filter(None, (row.prompt, f"seed {row.seed}" if seeds or not row.prompt else ""))) for row in rows
    ]


def _examples(model: ModelInfo) -> tuple[str, ...]:
    if model.clips:
        return _CLIPS
    return EXAMPLES.get(model.default_prompt, (model.default_prompt,) if model.default_prompt else ())


def _others(model: str, prompts: str) -> list[str]:
    """Return the examples that are not yet among the prompts."""
    there = {line.strip() for line in prompts.splitlines()}
    return [one for one in _examples(MODELS[model]) if one not in there] if model in MODELS else []
