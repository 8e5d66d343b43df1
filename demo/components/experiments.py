"""Experiments: figures that take many runs, decoded here."""

from collections.abc import Iterator
from typing import Final, Protocol

import gradio as gr

from demo.components.context import AT_ONCE, Site, Update
from demo.components.figure import Panel
from demo.components.run_buttons import StartStop
from demo.components.settings_form import Controls
from demo.components.widgets import notice, notice_box
from demo.jobs.experiments import EXPERIMENTS, Experiment, conduct
from demo.server.limits import EXPERIMENT_RUNS, Deadline, server_limits
from engines.models.catalog import MODELS, load_model
from engines.protocol import Family
from visualizers import FIGURES

_LEAD: Final = (
    "Some figures need many runs. They use the model, prompt and sampling of Watch, and seeds 0, 1, 2 ... If that "
    "model is of another kind, they use one that is available."
)
_FAMILIES: Final = tuple(dict.fromkeys(experiment.family for experiment in EXPERIMENTS.values()))


class RunForm(Protocol):
    """The run form, whose values an experiment uses."""

    model: gr.Dropdown
    prompt: gr.Textbox
    sampling: dict[Family, Controls]


class ExperimentsPanel:
    """A choice of experiments, and the figure of one."""

    def __init__(self, site: Site, watch: "RunForm") -> None:
        """Lay it out; the model, prompt and sampling are those of `watch`."""
        self.site, self.watch = site, watch
        gr.Markdown(_LEAD, elem_classes="lead")
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
            self.buttons = StartStop(self.site, "run-experiment", "stop-experiment", "Run experiment")
        self.question = gr.Markdown(EXPERIMENTS[first].question)
        self.progress = notice_box(elem_id="experiment-progress")
        self.many = Panel(self.site, "experiment")
        form = {
            self.experiment,
            self.seeds,
            self.site.look,
            self.watch.model,
            self.watch.prompt,
            *(control for family in _FAMILIES for control in self.watch.sampling[family].of.values()),
        }
        self.experiment.change(self.choose_experiment, {self.experiment}, [self.question, self.seeds], **AT_ONCE)
        self.buttons.connect("experiment", self.conduct, form, {self.progress, *self.many.parts}, self.progress)

    def choose_experiment(self, values: Update) -> Update:
        """Show the question that the experiment answers."""
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
        sampling = self.watch.sampling[experiment.family].values(values)
        stopped = Deadline(server_limits().run_seconds, self.site.visitor(request).stopped)
        info, prompt = MODELS[values[self.watch.model]], values[self.watch.prompt] or ""
        if experiment.family not in info.families:
            info = MODELS[experiment.model]
            prompt = info.default_prompt
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
