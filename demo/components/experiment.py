"""Experiments on the page: one panel with three views, and buttons that run the current run with one setting changed.

The views are a grid of pictures or texts, a table of results by seed, and a prepared question with its figure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any, Final, NamedTuple, Protocol

import gradio as gr
from PIL import ImageOps

from draftscope.analysis.tables import counted
from draftscope.demo.components.context import AT_ONCE, AT_ONCE_LATEST, Site, Update
from draftscope.demo.components.export import ExportPanel
from draftscope.demo.components.figure import FigureChooser, Panel
from draftscope.demo.components.prompt_help import DRAWS, EXAMPLES, vocabulary
from draftscope.demo.components.run_buttons import StartStop, progress_notice
from draftscope.demo.components.settings_form import Controls
from draftscope.demo.components.widgets import (
    Card,
    card_grid,
    choice_row,
    choices,
    chosen_index,
    data_table,
    notice,
    notice_box,
    values_of,
)
from draftscope.demo.jobs.beside import comparison_table, files, paired_table
from draftscope.demo.jobs.experiment import (
    EXPERIMENTS,
    MAX_COLUMNS,
    MAX_ROWS,
    MAX_SEEDS,
    MIN_SEEDS,
    complete_groups,
    describe_grid,
    grid_columns,
    grid_experiment,
    max_seeds,
    prepared_experiment,
    repeated_runs,
    row_titles,
    rows_file,
    run_here,
    seeds_experiment,
)
from draftscope.demo.jobs.links import PageLink, fragment_of_grid, request_from_trace
from draftscope.demo.jobs.run_selection import SelectableRun, entries_of
from draftscope.demo.jobs.variations import variations
from draftscope.demo.server.sessions import CurrentTraces, Visitor
from draftscope.engines.models.catalog import MODELS
from draftscope.engines.models.model_info import ModelInfo
from draftscope.engines.protocol import Family
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import ConfigError
from draftscope.experiments import Experiment, MemoryStore, Progress, RunOutcome
from draftscope.traces.schema import Trace
from draftscope.traces.stats import draft_forwards
from draftscope.visualizers import FIGURES
from draftscope.visualizers.picture import data_url, final_picture, moving_url, picture_of


class Results(NamedTuple):
    """The results of an experiment so far."""

    experiment: Experiment
    store: MemoryStore
    progress: Progress

    @property
    def complete(self) -> list[Trace]:
        """Traces of the prompts and seeds that all arms have completed."""
        return complete_groups(self.store, len(self.experiment.arms))


class ExperimentPanel:
    """A form, start and stop buttons, a progress notice, and a view of the results. Subclasses are the views."""

    name: str
    """Name in the log."""
    batched: bool = False
    """Whether the runs of an arm are decoded in one batch, so that times cannot be compared."""
    buttons: StartStop
    problem: gr.HTML
    """Progress and errors."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def plan(self, values: Update) -> Experiment:
        """Return what the form requests; raises ConfigError for an invalid value."""
        raise NotImplementedError

    def new_store(self, request: gr.Request) -> MemoryStore:
        """Return where results go."""
        return MemoryStore()

    def message(self, results: Results) -> Mapping[str, Any]:
        """Return the progress notice."""
        done, total = results.progress.num_done, results.progress.num_runs
        return progress_notice(results.progress, f"{done} of {total} runs are complete and are kept.")

    def show(self, results: Results, values: Update, request: gr.Request) -> Update:
        """Return updates of the view while the experiment runs."""
        raise NotImplementedError

    def show_end(self, results: Results, values: Update, request: gr.Request) -> Update:
        """Return updates of the view when the experiment has ended; completed runs are kept, however it ended."""
        return {}

    def conduct(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Run the experiment and show its results as they grow."""
        experiment, store = self.plan(values), self.new_store(request)
        stop = self.site.visitor(request).stopped
        for progress in run_here(experiment, store, stop, batched=self.batched):
            results = Results(experiment, store, progress)
            yield {self.problem: self.message(results), **self.show(results, values, request)}
        if store.outcomes and (update := self.show_end(results, values, request)):
            yield update


_FRAME_PIXELS: Final = 192
"""Maximum width and height of a clip's frame."""
_MAX_FRAMES: Final = 64
"""Frames of a clip; a longer one is subsampled evenly."""
_MAX_CHARACTERS: Final = 400
"""Characters of a text in a cell."""
_GRID_STYLE: Final = """
div { flex-direction: column; }
@media (min-width: 641px) { .cards li { flex-basis: 240px; } }
"""
"""Style of the rows, with larger images than in a strip of cards."""
_GRID_LEAD: Final = (
    f"Decodes every prompt below with the settings of every run that is selected above: a row per prompt, a column per "
    f"setting, up to {MAX_ROWS} by {MAX_COLUMNS}. The runs go one after the other. Below each result is the number of "
    "forward passes it took. Press a result to play its whole row side by side."
)
_CLIPS: Final = tuple(f"clip {number}" for number in (2, 5, 9, 14, 23, 31))
_NUM_INITIAL_PROMPTS: Final = 3
_GRID_ORIGIN: Final = "a grid of prompts and settings"
_GRID_FIGURE: Final = "pictures"
"""Figure in exported files."""
_SET_ADDRESS: Final = (
    "(link) => document.getElementById('grid-run')?.checkVisibility() && draftscopeAddress.setGrid(link)"
)
"""Script that puts the form into the page's address."""
_ADD: Final = """(index, prompts, offered) => {
  const lines = prompts.split('\\n').map((line) => line.trim());
  return lines.includes(offered[index]) ? prompts : [prompts.trim(), offered[index]].filter(Boolean).join('\\n');
}"""
"""Script that adds the example of a button to the prompts."""


class GridView(ExperimentPanel):
    """A grid of pictures, clips or texts: a row per prompt and seed, a column per setting of the selected runs."""

    name = "grid"

    def __init__(self, site: Site, tray: gr.State) -> None:
        """Lay it out and connect it; columns are the runs that are selected in `tray`."""
        super().__init__(site)
        self.tray = tray
        self.stored_runs = gr.State(CurrentTraces())
        """Completed cells, row by row."""
        self.wide = gr.State(1)
        """Number of columns."""
        self.model = gr.State("")
        """Model whose examples are offered."""
        gr.Markdown(_GRID_LEAD, elem_classes="lead")
        self.prompts = gr.Textbox(
            "", label="Prompts, one on each line", lines=3, max_lines=MAX_ROWS, elem_id="grid-prompts", visible=False
        )
        self.examples = choice_row("grid-examples", "Add an example")
        self.offered = gr.JSON(visible=False)
        """Texts of these buttons."""
        with gr.Accordion("Prompt vocabulary", open=False, visible=False) as self.words:
            gr.Markdown(vocabulary(), elem_classes="vocabulary")
        with gr.Row(elem_classes="aligned"):
            self.seeds = gr.Slider(
                1, MAX_ROWS, 1, step=1, label="Seeds for each prompt", scale=0, min_width=320, elem_id="grid-seeds"
            )
            self.buttons = StartStop(site, "grid-run", "grid-stop", "Decode the grid")
        self.size = notice_box(elem_id="grid-plan")
        self.problem = notice_box(elem_id="grid-problem")
        self.box = card_grid((), _GRID_STYLE, elem_id="grid")
        self.paired = data_table("Paired differences", elem_id="grid-paired")
        self.paired_figure = Panel(site, "grid-differences")
        self.files = Panel(site, "grid-figure", files_alone=True)
        self.export = ExportPanel(site, "grid", self.stored_runs)
        self.link = gr.Textbox(visible=False)
        """Form values from a link."""
        self._connect()

    def _connect(self) -> None:
        form: set[Any] = {self.tray, self.prompts, self.seeds, self.model}
        described = [self.size, self.examples, self.offered, self.link]
        form_changes = [*described, self.prompts, self.words, self.model]
        self.tray.change(self.offer, form, form_changes, **AT_ONCE_LATEST)
        changed = gr.on([self.prompts.change, self.seeds.input], self.describe, form, described, **AT_ONCE_LATEST)
        changed.then(None, self.link, None, js=_SET_ADDRESS, **AT_ONCE)
        self.examples.click(None, [self.examples, self.prompts, self.offered], self.prompts, js=_ADD, **AT_ONCE)
        shows = [
            self.problem,
            self.box,
            self.paired,
            *self.paired_figure.parts,
            self.wide,
            self.stored_runs,
            *self.files.parts,
            *self.export.parts,
        ]
        self.buttons.connect(self.name, self.conduct, {*form, self.site.look}, shows, self.problem)
        self.export.connect(
            set(), lambda values: (_GRID_FIGURE, None), lambda values: files(values[self.stored_runs].traces())
        )

    def offer(self, values: Update) -> Update:
        """Offer prompts that the models of the selected runs know."""
        chosen = values[self.tray].chosen
        model = next((MODELS[entry.request.model] for entry in chosen if entry.request), None)
        if model is None:
            return self.describe(values)
        known = MODELS.get(values[self.model])
        prompts = values[self.prompts] or ""
        changes = known.default_prompt != model.default_prompt if known else not prompts.strip()
        if changes:  # prompts of an address stay
            chosen_prompts = [entry.request.prompt for entry in chosen if entry.request and entry.request.prompt]
            prompts = "\n".join(list(dict.fromkeys([*chosen_prompts, *_examples(model)]))[:_NUM_INITIAL_PROMPTS])
        return {
            self.prompts: gr.update(value=prompts, visible=bool(model.default_prompt)),
            self.words: gr.update(visible=model.default_prompt == DRAWS),
            self.model: model.id,
            **self.describe(values | {self.prompts: prompts, self.model: model.id}),
        }

    def describe(self, values: Update) -> Update:
        """Show the size of the grid, or what is wrong with the form."""
        offered = _other_examples(values[self.model], values[self.prompts] or "")
        try:
            size = describe_grid(self.plan(values), grid_columns(values[self.tray].chosen))
        except ConfigError as error:
            size = str(error).partition(": ")[2].capitalize()
        lines = list(filter(None, map(str.strip, (values[self.prompts] or "").splitlines())))
        seeds = values[self.seeds] if type(values[self.seeds]) is int else 1
        return {
            self.examples: choices(offered),
            self.offered: offered,
            self.size: notice("info", size),
            self.link: fragment_of_grid(lines[:MAX_ROWS], seeds),
        }

    def fill(self, address: PageLink) -> Update:
        """Fill the form with the values of an address."""
        return {self.prompts: "\n".join(address.grid), self.seeds: address.seeds}

    def plan(self, values: Update) -> Experiment:
        """Return the grid of the form; its first seed is that of the first selected run."""
        chosen = values[self.tray].chosen
        seed = next((entry.request.seed for entry in chosen if entry.request), 0)
        return grid_experiment(grid_columns(chosen), values[self.prompts] or "", values[self.seeds], seed)

    def new_store(self, request: gr.Request) -> MemoryStore:
        """Return a store that writes each cell to a file, so that it can be played at once."""
        return _FileStore(self.site.visitor(request))

    def show(self, results: Results, values: Update, request: gr.Request) -> Update:
        """Show each cell as soon as it is complete."""
        finished = results.progress.finished or not results.progress.fraction
        update = self._cells(results, values) if finished else {}
        return update | (self.export.offered(visible=False) if not results.progress.fraction else {})

    def show_end(self, results: Results, values: Update, request: gr.Request) -> Update:
        """Offer the files of the grid. Gradio may show only the last of several messages: it contains everything."""
        figure, traces = FIGURES[_GRID_FIGURE], results.store.traces
        drawn = self.files.show(figure, figure.draw(traces), values[self.site.look], request)
        paired = {self.paired: paired_table(results.complete), **self._differences(results.complete, values, request)}
        return {**self._cells(results, values), **paired, **drawn, **self.export.offered(visible=True)}

    def _differences(self, traces: Sequence[Trace], values: Update, request: gr.Request) -> Update:
        """Draw the paired differences where there are several pairs."""
        figure = FIGURES["paired"]
        if figure.supports(traces):
            return self.paired_figure.hide("")
        return self.paired_figure.show(figure, figure.draw(traces), values[self.site.look], request)

    def _cells(self, results: Results, values: Update) -> Update:
        assert isinstance(results.store, _FileStore)
        columns, titles = grid_columns(values[self.tray].chosen), row_titles(results.experiment)
        cells = [
            preview(outcome.trace, columns[outcome.run.arm_index], titles[outcome.run.group])
            for outcome in results.store.outcomes
            if outcome.trace
        ]
        traces = CurrentTraces(results.store.paths, _GRID_ORIGIN)
        return {self.box: values_of(cells), self.wide: len(columns), self.stored_runs: traces}

    def selected_row(self, values: Update, event: gr.EventData) -> tuple[SelectableRun, ...]:
        """Return the runs of the row whose cell was pressed; raises gr.Error for a cell that is not there any more."""
        paths: tuple[Path, ...] = values[self.stored_runs].paths
        cell, wide = chosen_index(event.index, len(paths), "cell"), values[self.wide]
        row = paths[cell // wide * wide :][:wide]
        if not all(path.exists() for path in row):
            raise gr.Error("cell: its run is no longer here; decode the grid again.")
        return entries_of(row, "yours")


class _FileStore(MemoryStore):
    """Results in memory, and traces in files of a user."""

    def __init__(self, visitor: Visitor) -> None:
        super().__init__()
        self._visitor = visitor
        self._paths: dict[tuple[int, int, int], Path] = {}

    @property
    def paths(self) -> tuple[Path, ...]:
        """Trace files sorted by prompt, seed and arm."""
        return tuple(path for _, path in sorted(self._paths.items()))

    def add(self, outcome: RunOutcome) -> None:
        """Add a result and write its trace."""
        super().add(outcome)
        if outcome.trace:
            (self._paths[outcome.run.order],) = self._visitor.keep([outcome.trace], "").paths


def preview(trace: Trace, column: SelectableRun, row: str) -> Card:
    """Return the cell of a run: its picture, clip or text, the setting of its column, and its forward passes."""
    drafted = draft_forwards(trace.steps)
    passes = trace.summary.forwards - drafted
    cost = f"{passes} pass{'' if passes == 1 else 'es'}" + (f" + {drafted} of the drafter" if drafted else "")
    video = trace.output.video if trace.canvas.kind == "video" else ()
    image, still, text = final_picture(trace) or "", "", (trace.output.text or "")[:_MAX_CHARACTERS]
    if video:
        count = min(_MAX_FRAMES, len(video))
        frames = [picture_of(video[number * len(video) // count]) for number in range(count)]
        small = [ImageOps.contain(frame, (_FRAME_PIXELS, _FRAME_PIXELS)) for frame in frames]
        image, still, text = moving_url(small), data_url(small[count // 2]), ""
        cost += f", clip of {len(video)} frames"
    return Card(column.title, column.note, image=image, still=still, text=text, group=row, badge=cost)


def _examples(model: ModelInfo) -> tuple[str, ...]:
    if model.clips:
        return _CLIPS
    return EXAMPLES.get(model.default_prompt, (model.default_prompt,) if model.default_prompt else ())


def _other_examples(model: str, prompts: str) -> list[str]:
    """Return the examples that are not yet among the prompts."""
    lines = {line.strip() for line in prompts.splitlines()}
    return [example for example in _examples(MODELS[model]) if example not in lines] if model in MODELS else []


_SEEDS_LEAD: Final = (
    "Repeats the selected runs (method, model, prompt and settings) with seeds 0, 1, 2 ..., one run after the other. "
    "The first passes are timed before it starts, to estimate the duration."
)
_PROMPT_CHARACTERS: Final = 80
"""Characters of a prompt that are shown."""


class SeedTableView(ExperimentPanel):
    """The selected runs with several seeds: results by seed as a table, figures and files."""

    name = "repeat"

    def __init__(self, site: Site, tray: gr.State) -> None:
        """Lay it out and connect it; the runs that are selected in `tray` are repeated."""
        super().__init__(site)
        self.tray = tray
        self.repeated = gr.State(CurrentTraces())
        gr.Markdown(_SEEDS_LEAD, elem_classes="lead")
        self.what = notice_box(elem_id="repeat-what")
        with gr.Row(elem_classes="aligned"):
            self.seeds = gr.Slider(
                MIN_SEEDS, MAX_SEEDS, 8, step=1, label="Seeds", scale=0, min_width=280, elem_id="repeat-seeds"
            )
            self.buttons = StartStop(site, "repeat-run", "repeat-stop", "Repeat")
        self.problem = notice_box(elem_id="repeat-problem")
        self.table = data_table("Results by seed", elem_id="repeat-table")
        self.paired = data_table("Paired differences", elem_id="repeat-paired")
        self.chooser = FigureChooser(site, "repeated", self.repeated, self._files, ("paired", "seeds"))
        tray.change(self.describe, {tray}, [self.what], **AT_ONCE_LATEST)
        form = {tray, self.seeds, *self.chooser.inputs}
        changes = [self.problem, self.table, self.paired, self.repeated, *self.chooser.parts]
        self.buttons.connect(self.name, self.conduct, form, changes, self.problem)

    def describe(self, values: Update) -> Update:
        """Show which runs are repeated."""
        try:
            runs = repeated_runs(values[self.tray].chosen)
        except ConfigError as error:
            return {self.what: notice("info", str(error).partition(": ")[2].capitalize())}
        titles = "; ".join(run.title for run in runs)
        prompts = ", ".join(dict.fromkeys(f"“{shorten(run.prompt, _PROMPT_CHARACTERS)}”" for run in runs))
        return {self.what: notice("info", f"{titles}, of {prompts}", "Repeats:")}

    def plan(self, values: Update) -> Experiment:
        """Return the selected runs with the seeds of the form."""
        return seeds_experiment(repeated_runs(values[self.tray].chosen), values[self.seeds])

    def message(self, results: Results) -> Mapping[str, Any]:
        """Return the progress notice."""
        seeds = len(results.complete) // len(results.experiment.arms)
        return progress_notice(results.progress, f"{counted(seeds, 'complete seed')} kept.")

    def show(self, results: Results, values: Update, request: gr.Request) -> Update:
        """Show the table of the complete seeds."""
        traces = results.complete if results.progress.finished else []
        return {self.table: comparison_table(traces), self.paired: paired_table(traces)} if traces else {}

    def show_end(self, results: Results, values: Update, request: gr.Request) -> Update:
        """Offer the figures and the files of the complete seeds."""
        traces = results.complete
        if not traces:
            return {}
        table = comparison_table(traces)
        table["files"][f"{traces[-1].method}-seeds.jsonl"] = rows_file(traces).decode()
        return {
            self.repeated: self.site.visitor(request).keep(traces, "a run with many seeds"),
            self.table: table,
            self.paired: paired_table(traces),
            **self.chooser.offer(traces, values, request),
        }

    def _files(self, values: Update) -> dict[str, bytes]:
        traces = values[self.repeated].traces()
        return {"results.jsonl": rows_file(traces), **files(traces)}


_FIGURE_LEAD: Final = (
    "Some figures need many runs. They use the model, prompt and sampling of Watch, and seeds 0, 1, 2 ... If that "
    "model is of another kind, they use one that is available."
)
_FAMILIES: Final = tuple(dict.fromkeys(experiment.family for experiment in EXPERIMENTS.values()))


class RunForm(Protocol):
    """The run form, whose values an experiment uses."""

    model: gr.Dropdown
    prompt: gr.Textbox
    sampling: dict[Family, Controls]


class FigureView(ExperimentPanel):
    """A choice of prepared questions, and the figure that answers one."""

    name = "experiment"
    batched = True

    def __init__(self, site: Site, watch: RunForm) -> None:
        """Lay it out and connect it; the model, prompt and sampling are those of `watch`."""
        super().__init__(site)
        self.watch = watch
        gr.Markdown(_FIGURE_LEAD, elem_classes="lead")
        first = next(iter(EXPERIMENTS))
        with gr.Row(elem_classes="aligned"):
            self.experiment = gr.Radio(
                [(experiment.title, name) for name, experiment in EXPERIMENTS.items()],
                value=first,
                label="Experiment",
                scale=3,
            )
            self.seeds = gr.Slider(1, max_seeds(first), len(EXPERIMENTS[first].seeds), step=1, label="Seeds", scale=1)
            self.buttons = StartStop(site, "run-experiment", "stop-experiment", "Run experiment")
        self.question = gr.Markdown(EXPERIMENTS[first].question)
        self.problem = notice_box(elem_id="experiment-progress")
        self.figure = Panel(site, "experiment")
        form = {
            self.experiment,
            self.seeds,
            site.look,
            watch.model,
            watch.prompt,
            *(control for family in _FAMILIES for control in watch.sampling[family].of.values()),
        }
        self.experiment.change(self.choose_experiment, {self.experiment}, [self.question, self.seeds], **AT_ONCE)
        self.buttons.connect(self.name, self.conduct, form, {self.problem, *self.figure.parts}, self.problem)

    def choose_experiment(self, values: Update) -> Update:
        """Show the question that the experiment answers."""
        experiment = EXPERIMENTS[values[self.experiment]]
        seeds = gr.update(maximum=max_seeds(values[self.experiment]), value=len(experiment.seeds))
        return {self.question: experiment.question, self.seeds: seeds}

    def plan(self, values: Update) -> Experiment:
        """Return the chosen experiment with the model, prompt and sampling of the run form."""
        name = values[self.experiment]
        sampling = self.watch.sampling[EXPERIMENTS[name].family].values(values)
        model, prompt = values[self.watch.model], values[self.watch.prompt] or ""
        return prepared_experiment(name, model, prompt, int(values[self.seeds]), sampling)

    def message(self, results: Results) -> Mapping[str, Any]:
        """Return the progress notice, which names the model."""
        progress, model = results.progress, MODELS[results.experiment.model].title
        if progress.stop_reason or progress.num_done == progress.num_runs:
            return progress_notice(progress, f"{progress.num_done} of {progress.num_runs} runs were done.")
        words = f"{progress.num_done} of {progress.num_runs} runs of {model} are done."
        return notice("info", words, "Running.", progress.fraction)

    def show(self, results: Results, values: Update, request: gr.Request) -> Update:
        """Draw the figure after each arm, as soon as it can be drawn."""
        figure, traces = FIGURES[results.experiment.figure], results.store.traces
        arm_is_complete = results.progress.finished and not len(traces) % len(results.experiment.seeds)
        if not arm_is_complete or figure.supports(traces):
            return {}
        return self.figure.show(figure, figure.draw(traces), values[self.site.look], request)


@dataclass(frozen=True, slots=True)
class CurrentRuns:
    """Runs that the player of Watch shows, and the last of them with one setting changed."""

    paths: tuple[Path, ...] = ()
    variations: tuple[RunRequest, ...] = ()
    """The last run with one setting changed, or the seed."""


class VariationButtons:
    """Buttons that run the current run again with one setting changed."""

    def __init__(self) -> None:
        self.current = gr.State(CurrentRuns())
        self.compared = gr.State(())
        """Files of the runs with which the next one is compared."""
        self.row = choice_row("again", "Compare with another setting")
        self.parts: list[Any] = [self.current, self.row]
        """Components that `show` and `clear` update."""

    def show(self, traces: Sequence[Trace], paths: Sequence[Path]) -> Update:
        """Offer variations of the last of these runs."""
        request = request_from_trace(traces[-1])
        offered = variations(request) if request else ()
        changed = tuple(run for _, run in offered)
        return {self.current: CurrentRuns(tuple(paths), changed), self.row: choices([label for label, _ in offered])}

    def clear(self) -> Update:
        """Offer nothing while runs are in progress."""
        return {self.row: choices(())}

    def chosen(self, values: Update, index: object) -> RunRequest:
        """Return the run of the button that was pressed; raises gr.Error for an invalid index."""
        offered: tuple[RunRequest, ...] = values[self.current].variations
        return offered[chosen_index(index, len(offered), "setting")]
