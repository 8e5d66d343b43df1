"""Figures: what the paper shows, from this run; experiments of many runs; results of sweeps."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from demo.pages.bias import BiasPage
from demo.pages.results import ResultsPage
from demo.pages.run import RunPage
from demo.pages.timings import TimingsPage
from demo.panels.figure import FigureChooser, Panel
from demo.panels.start_stop import StartStop
from demo.panels.widgets import notice, notice_box
from demo.runs.experiments import EXPERIMENTS, Experiment, conduct
from demo.server.limits import EXPERIMENT_RUNS, Deadline, current
from demo.site import AT_ONCE, Site, Update, in_turn
from engines.models.catalog import MODELS, load_model
from engines.models.model_info import ModelInfo
from visualizers import FIGURES

_LEAD = "Figures of this run: your last run, or the recording or trace file you opened since."
_EMPTY = "There is no run to draw yet. Press Run, choose a recording in the Gallery, or open a file under Trace."
_LEAD_EXPERIMENTS = (
    "Some figures take many runs. They use the model, prompt and sampling of the Run page, and seeds 0, 1, 2 ... Where "
    "that model is of another kind, they use one that is at hand."
)
_FAMILIES = tuple(dict.fromkeys(experiment.family for experiment in EXPERIMENTS.values()))


class FiguresPage:
    """The page and its handlers."""

    def __init__(self, site: Site, run: RunPage) -> None:
        self.site = site
        self.run = run
        with gr.Tabs(overflow_behavior="wrap"):
            with gr.Tab("This run"):
                self.lead = gr.Markdown(_LEAD, elem_classes="lead")
                self.chooser = FigureChooser(self.site, "figure")
            with gr.Tab("Experiments"):
                self._build_experiments()
            with gr.Tab("Accuracy and speed") as tab:
                results = ResultsPage(site)
            with gr.Tab("What drafting gains") as timings_tab:
                timings = TimingsPage(site)
            with gr.Tab("Bias of published variants"):
                BiasPage(site)
            self.inputs: set[Any] = self.chooser.inputs
            self.parts: list[Any] = [self.lead, *self.chooser.parts]
            timings_tab.select(timings.draw, timings.inputs, timings.parts, **in_turn("timings"))
            tab.select(results.draw, results.inputs, results.parts, **in_turn("results"))

    def _build_experiments(self) -> None:
        gr.Markdown(_LEAD_EXPERIMENTS, elem_classes="lead")
        first = next(iter(EXPERIMENTS))
        with gr.Row(elem_classes="aligned"):
            self.experiment = gr.Radio(
                [(experiment.title, name) for name, experiment in EXPERIMENTS.items()],
                value=first,
                label="Experiment",
                scale=3,
            )
            self.seeds = gr.Slider(
                1, _most_seeds(EXPERIMENTS[first]), EXPERIMENTS[first].seeds, step=1, label="Seeds", scale=1
            )
            buttons = StartStop(self.site, "run-experiment", "stop-experiment", "Run experiment")
        self.question = gr.Markdown(EXPERIMENTS[first].question)
        self.progress = notice_box(elem_id="experiment-progress")
        self.many = Panel(self.site, "experiment")
        form = {
            self.experiment,
            self.seeds,
            self.site.look,
            self.run.model,
            self.run.prompt,
            *(control for family in _FAMILIES for control in self.run.sampling[family].of.values()),
        }
        self.experiment.change(self.choose_experiment, {self.experiment}, [self.question, self.seeds], **AT_ONCE)
        changes = {self.progress, *self.many.parts}
        buttons.connect("experiment", self.conduct, form, changes, self.progress)

    def refresh(self, values: Update, request: gr.Request) -> Update:
        """Offer the figures that the traces at hand support."""
        traces = values[self.site.shown].traces()
        offered = self.chooser.offer(traces, values, request)
        return {self.lead: _LEAD if traces else _EMPTY, **offered}

    def choose_experiment(self, values: Update) -> Update:
        """Say what the experiment asks."""
        experiment = EXPERIMENTS[values[self.experiment]]
        return {
            self.question: experiment.question,
            self.seeds: gr.update(maximum=_most_seeds(experiment), value=experiment.seeds),
        }

    def conduct(self, values: Update, request: gr.Request) -> Iterator[Update]:
        """Run an experiment and draw its figure as it grows."""
        experiment = EXPERIMENTS[values[self.experiment]]
        figure = FIGURES[experiment.figure]
        seeds = min(int(values[self.seeds]), _most_seeds(experiment))
        sampling = self.run.sampling[experiment.family].values(values)
        stopped = Deadline(current().run_seconds, self.site.visitor(request).stopped)
        info, prompt = _fitting(experiment, values[self.run.model], values[self.run.prompt] or "")
        done, total = 0, len(experiment.arms) * seeds
        for traces in conduct(experiment, load_model(info.id), prompt, seeds, sampling, stopped):
            done = len(traces)
            words = f"{done} of {total} runs of {info.title} are done."
            update: Update = {self.progress: notice("info", words, "Running.", done / total)}
            if not figure.supports(traces):
                update |= self.many.show(figure, figure.draw(traces), values[self.site.look], request)
            yield update
        ended = {} if done == total else notice("info", f"{done} of {total} runs were done.", stopped.reason)
        yield {self.progress: ended}


def _most_seeds(experiment: Experiment) -> int:
    return EXPERIMENT_RUNS // len(experiment.arms)


def _fitting(experiment: Experiment, model: str, prompt: str) -> tuple[ModelInfo, str]:
    """The model of the Run page and its prompt, or the experiment's own where that one is of another family."""
    chosen, own = MODELS[model], MODELS[experiment.model]
    return (chosen, prompt) if experiment.family in chosen.families else (own, own.default_prompt)
