"""Experiments: one model and prompt, many runs, one figure. Knows nothing of the page."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engines.config import Value, make_config
from engines.methods import METHODS
from engines.models.catalog import load_model
from engines.protocol import Family, Model
from engines.runtime.driver import Job, Lane, drive, make_trace, open_session
from traces.schema import Trace

Settings = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Arm:
    """A method with settings; an experiment runs every arm with every seed."""

    method: str
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A question that takes many runs."""

    title: str
    question: str
    figure: str
    """Name of the figure that answers it."""
    arms: tuple[Arm, ...]
    seeds: int
    """Seeds it takes to see the answer."""
    model: str = "studio-image"
    """What it runs on where no model of its family is chosen."""

    @property
    def family(self) -> Family:
        """The models it is about."""
        return METHODS[self.arms[0].method].family


_COUPLINGS: Final = ("none", "gumbel", "maximal")

_FIELD: Final = "toy-field"

EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    "difference": Experiment(
        title="Token changes and forward passes",
        question="Do runs whose drafts change less from one iteration to the next need fewer forward passes?",
        figure="difference",
        arms=tuple(Arm("scd", {"coupling": coupling}) for coupling in _COUPLINGS),
        seeds=8,
    ),
    "strength": Experiment(
        title="Coupling strength",
        question="How far does tying new drafts to the old ones bring the number of forward passes down?",
        figure="strength",
        arms=tuple(
            Arm("scd", {"coupling": coupling, "alpha": alpha})
            for coupling in ("maximal", "gumbel")
            for alpha in (0.0, 0.25, 0.5, 0.75, 1.0)
        ),
        seeds=4,
    ),
    "window": Experiment(
        title="Window",
        question="What does a longer window bring, with and without coupling?",
        figure="window",
        arms=(
            *(Arm("scd", {"coupling": c, "window": w}) for c in _COUPLINGS for w in (4, 8, 16, 32, 64)),
            Arm("ar", {}),
        ),
        seeds=4,
    ),
    "gamma": Experiment(
        title="Draft length",
        question="How many drafts pass when more of them are made at once, and what does a replacement take?",
        figure="by-setting",
        arms=tuple(Arm("cspd-block", {"gamma": gamma}) for gamma in (2, 4, 8, 16, 32)),
        seeds=2,
        model=_FIELD,
    ),
    "prefill": Experiment(
        title="Pre-filling",
        question="Where in the sequence do drafts pass, and does it help to let the target draw the first tokens?",
        figure="along",
        arms=tuple(Arm("cspd-block", {"prefill": share}) for share in (0.0, 0.05, 0.15)),
        seeds=4,
        model=_FIELD,
    ),
    "temperature": Experiment(
        title="Temperature of the steps",
        question="Do more drafts pass when every denoising step draws wider or narrower?",
        figure="by-setting",
        arms=tuple(Arm("cspd-block", {"temperature": temperature}) for temperature in (0.6, 0.8, 1.0, 1.2, 1.4)),
        seeds=2,
        model=_FIELD,
    ),
    "guidance": Experiment(
        title="Guidance",
        question="Do drafts pass more or less often when both models are guided towards the prompt?",
        figure="by-setting",
        arms=tuple(Arm("cspd-block", {"guidance": guidance}) for guidance in (1.0, 1.5, 2.0, 3.0)),
        seeds=1,
        model="patch-target",
    ),
    "ddim": Experiment(
        title="DDIM",
        question="How random do DDIM's steps have to be for drafts to pass? Both models have the same variances then.",
        figure="by-setting",
        arms=tuple(Arm("cspd-block", {"sampler": "ddim", "eta": eta}) for eta in (0.25, 0.5, 0.75, 1.0)),
        seeds=2,
        model=_FIELD,
    ),
    "ratio": Experiment(
        title="Ratio and alignment",
        question="Is the ratio 1 on average, as that of two densities must be? The last step is kept wide here.",
        figure="ratio-means",
        arms=tuple(
            Arm("cspd", {"mode": mode, "align": align, "tied": 0, "last": 150})
            for mode, align in (("exact", True), ("exact", False), ("paper", True), ("paper", False))
        ),
        seeds=4,
        model=_FIELD,
    ),
}


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an experiment has come."""

    done: int
    total: int
    traces: tuple[Trace, ...]


def conduct(
    experiment: Experiment,
    model: Model,
    prompt: str,
    seeds: int,
    shared: Settings,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Progress]:
    """Run every arm with seeds 0, 1, ...; the seeds of an arm are decoded in lockstep.

    Yields progress after every arm and ends early, before the next forward pass, once `stopped` says so.
    """
    traces: list[Trace] = []
    total = len(experiment.arms) * seeds
    for arm in experiment.arms:
        method = METHODS[arm.method]
        config = make_config(method.config, {**shared, **arm.settings})
        jobs = [Job(method, model, prompt, config, seed) for seed in range(seeds)]
        finished = _lockstep(jobs, stopped)
        if finished is None:
            return
        traces += finished
        yield Progress(len(traces), total, tuple(traces))


def conduct_on(
    model: str,
    experiment: Experiment,
    prompt: str,
    seeds: int,
    shared: Settings,
    stopped: Callable[[], bool],
) -> Iterator[Progress]:
    """`conduct` by the name of the model.

    Raises:
        ModelError: when it cannot be had.
    """
    yield from conduct(experiment, load_model(model), prompt, seeds, shared, stopped)


def _lockstep(jobs: Sequence[Job], stopped: Callable[[], bool]) -> list[Trace] | None:
    """The traces of jobs of one model and config; None when stopped before they were done."""
    first = jobs[0]
    lanes = [Lane(job.decoder()) for job in jobs]
    session = open_session(jobs)
    for _ in drive(lanes, session, first.config):
        if stopped():
            return None
    return [make_trace(job, lane) for job, lane in zip(jobs, lanes, strict=True)]
