"""Experiments: one model and prompt, many runs, one figure; experiments.toml lists them. Knows nothing of the page."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

from engines.methods import METHODS
from engines.protocol import Family, Model
from engines.runtime.driver import RunningSequence, make_trace, open_session, run_passes
from engines.runtime.run_request import RunRequest
from engines.settings import Value
from traces.schema import Trace

Settings = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A question that takes many runs."""

    title: str
    question: str
    figure: str
    """Name of the figure that answers it."""
    arms: tuple[tuple[str, Settings], ...]
    """Methods with settings; every one is run with every seed."""
    seeds: int
    """Seeds it takes to see the answer."""
    model: str
    """Model that is used if the selected one is of another family."""

    @property
    def family(self) -> Family:
        """The models it is about."""
        return METHODS[self.arms[0][0]].family


def _experiment(
    *, method: str, vary: Mapping[str, Sequence[Value]], fixed: Settings | None = None, **about: Any
) -> Experiment:
    """An experiment as the file describes it."""
    usual: tuple[tuple[str, Settings], ...] = (("ar", {}),) if about.pop("ordinary", False) else ()
    arms = tuple((method, {**(fixed or {}), **dict(zip(vary, one, strict=True))}) for one in product(*vary.values()))
    return Experiment(arms=arms + usual, **{"model": "studio-image", **about})


EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    name: _experiment(**entry)
    for name, entry in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}


def conduct(
    experiment: Experiment,
    model: Model,
    prompt: str,
    seeds: int,
    shared: Settings,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Trace, ...]]:
    """Run every arm with seeds 0, 1, ...; the seeds of an arm are decoded as one batch.

    Args:
        experiment: What to run.
        model: Target model.
        prompt: Prompt of all runs.
        seeds: Number of seeds.
        shared: Sampling settings of all arms.
        stopped: Checked before every forward pass; returns True to stop early.

    Yields:
        All runs so far, after every arm.
    """
    traces: list[Trace] = []
    for name, own in experiment.arms:
        settings = {**shared, **own}
        jobs = [RunRequest(name, model, prompt, seed=seed, settings=settings).job() for seed in range(seeds)]
        sequences = [RunningSequence(job.decoder()) for job in jobs]
        for _ in run_passes(sequences, open_session(jobs), jobs[0].config):
            if stopped():
                return
        traces += [make_trace(job, sequence) for job, sequence in zip(jobs, sequences, strict=True)]
        yield tuple(traces)
