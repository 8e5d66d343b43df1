"""Experiments of the page: grids of prompts and settings, runs with many seeds, the questions of experiment.toml."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Final

from draftscope.analysis.results import ResultRow, digest, row_of, to_line
from draftscope.analysis.tables import counted, duration
from draftscope.demo.jobs.run_selection import SelectableRun
from draftscope.demo.server.limits import EXPERIMENT_RUNS, PROMPT_CHARACTERS, server_limits
from draftscope.demo.server.log import log_rejected, redact_paths
from draftscope.engines.methods import METHODS
from draftscope.engines.models.catalog import MODELS
from draftscope.engines.models.errors import ModelError
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.sampling.random_source import parse_seed
from draftscope.engines.settings import ConfigError, Value, format_value
from draftscope.experiments import (
    Arm,
    Batched,
    Cluster,
    Executor,
    Experiment,
    MemoryStore,
    Progress,
    Serial,
    run_experiment,
)
from draftscope.experiments.cluster import VARIABLE
from draftscope.experiments.files import read_experiments
from draftscope.traces.labels import method_name
from draftscope.traces.schema import Trace

MAX_COLUMNS: Final = 4
MAX_ROWS: Final = 6
MIN_SEEDS, MAX_SEEDS = 2, 32
EXPERIMENTS: Final = read_experiments(Path(__file__).with_suffix(".toml"))


def run_here(
    experiment: Experiment, store: MemoryStore, stop: Callable[[], bool], *, batched: bool = False
) -> Iterator[Progress]:
    """Run an experiment within the time limits of this server; see `run_experiment`.

    One that is not batched runs on the cluster that the environment variable DRAFTSCOPE_CLUSTER names, if any.

    An error after the first message ends the experiment with its text as `stop_reason`.

    Args:
        experiment: What to run.
        store: Where results go.
        stop: Checked before every forward pass; returns True to stop.
        batched: Whether the runs of an arm are decoded in one batch; their times cannot be compared.
    """
    limits, progress = server_limits(), None
    address = os.environ.get(VARIABLE, "")
    alternating: Executor = Cluster(address, keep_traces=True) if address else Serial()
    executor: Executor = Batched() if batched else alternating
    seconds = limits.run_seconds if batched else limits.repeat_seconds
    try:
        for progress in run_experiment(experiment, store=store, executor=executor, stop=stop, max_seconds=seconds):
            yield progress
    except (ValueError, ModelError) as error:
        if progress is None:
            raise
        log_rejected("experiment", error)
        yield replace(progress, finished=None, stop_reason=redact_paths(str(error)))


def selected_experiment(requests: Sequence[RunRequest]) -> Experiment:
    """Return the experiment that decodes each run once, with its own prompt and seed."""
    return Experiment(arms=tuple(Arm.from_request(str(request.method), request) for request in requests))


def grid_columns(chosen: Sequence[SelectableRun]) -> tuple[SelectableRun, ...]:
    """Return the columns of a grid: the different settings of selected runs, with the first run that has them.

    The note of a column is its model if the columns have several models.

    Raises:
        ConfigError: For no run, too many settings, or a run that cannot be decoded here.
    """
    columns: dict[RunRequest, SelectableRun] = {}
    for entry in chosen:
        columns.setdefault(replace(entry.to_request("with another prompt"), prompt="", seed=0), entry)
    if not 1 <= len(columns) <= MAX_COLUMNS:
        problem = f"those that are selected have {len(columns)} different settings" if columns else "none is selected"
        raise ConfigError(f"runs: {problem}; select runs of 1 to {MAX_COLUMNS} settings.")
    several = len({request.model for request in columns}) > 1
    return tuple(
        replace(entry, note=MODELS[request.model].title if several else "") for request, entry in columns.items()
    )


def grid_experiment(columns: Sequence[SelectableRun], prompts: str, num_seeds: object, seed: int) -> Experiment:
    """Return the experiment of a grid: a row per prompt and seed, a column per setting.

    Args:
        columns: See `grid_columns`.
        prompts: One per line; ignored if no model takes prompts.
        num_seeds: Seeds per prompt.
        seed: The first of them.

    Raises:
        ConfigError: For no prompt, too many rows, or a prompt that is too long.
    """
    if type(num_seeds) is not int or not 1 <= num_seeds <= MAX_ROWS:
        raise ConfigError(f"seeds: {format_value(num_seeds)} is not allowed; use a whole number from 1 to {MAX_ROWS}.")
    has_prompt = any(column.request and MODELS[column.request.model].default_prompt for column in columns)
    lines = list(dict.fromkeys(filter(None, map(str.strip, prompts.splitlines())))) if has_prompt else [""]
    if not lines:
        raise ConfigError("prompts: there is none; write at least one, or press one of the examples.")
    for number, line in enumerate(lines, 1):
        if len(line) > PROMPT_CHARACTERS:
            raise ConfigError(
                f"prompts: number {number} has {len(line)} characters; the maximum is {PROMPT_CHARACTERS}. Shorten it."
            )
    if len(lines) * num_seeds > MAX_ROWS:
        raise ConfigError(
            f"prompts: {len(lines)} with {counted(num_seeds, 'seed')} each make {len(lines) * num_seeds} rows, "
            f"and the maximum is {MAX_ROWS}; remove prompts or use fewer seeds."
        )
    return Experiment(
        arms=tuple(
            replace(Arm.from_request(column.title, column.request), prompt=None, seed=None)
            for column in columns
            if column.request
        ),
        prompts=tuple(lines),
        seeds=[parse_seed(seed + k) for k in range(num_seeds)],
    )


def describe_grid(experiment: Experiment, columns: Sequence[SelectableRun]) -> str:
    """Return a sentence on the size of a grid, with its cost estimated from the selected runs."""
    prompts, seeds = experiment.problems.prompts, len(experiment.seeds)
    rows, has_prompt = len(prompts) * seeds, any(prompts)
    parts = [counted(len(prompts), "prompt")] if has_prompt else []
    parts += [counted(seeds, "seed")] if seeds > 1 or not has_prompt else []
    parts.append(counted(len(columns), "setting"))
    seconds = sum(column.seconds for column in columns) * rows
    estimate = f", about {duration(seconds)} if they take as long as the selected ones" if seconds else ""
    return f"{' × '.join(parts)}: {counted(len(columns) * rows, 'run')}{estimate}."


def row_titles(experiment: Experiment) -> dict[tuple[int, int], str]:
    """Return the titles of the rows of a grid by indices of prompt and seed: prompts, with seeds if these differ."""
    several = len(experiment.seeds) > 1
    return {
        (i, k): ", ".join(filter(None, (str(prompt), f"seed {seed}" if several or not prompt else "")))
        for i, prompt in enumerate(experiment.problems.prompts)
        for k, seed in enumerate(experiment.seeds)
    }


def repeated_runs(chosen: Sequence[SelectableRun]) -> tuple[SelectableRun, ...]:
    """Return the selected runs that differ in more than the seed.

    Raises:
        ConfigError: Without a run, and for one that cannot be decoded here.
    """
    runs: dict[RunRequest, SelectableRun] = {}
    for entry in chosen:
        runs.setdefault(replace(entry.to_request("again"), seed=0), entry)
    if not runs:
        raise ConfigError("runs: none is selected; select the runs to repeat.")
    return tuple(runs.values())


def seeds_experiment(runs: Sequence[SelectableRun], num_seeds: object) -> Experiment:
    """Return the experiment that repeats runs with seeds 0, 1, ...; raises ConfigError for an invalid number."""
    if type(num_seeds) is not int or not MIN_SEEDS <= num_seeds <= MAX_SEEDS:
        raise ConfigError(
            f"seeds: {format_value(num_seeds)} is not allowed; use a whole number from {MIN_SEEDS} to {MAX_SEEDS}."
        )
    arms = [Arm.from_request(run.title, run.request) for run in runs if run.request]
    return Experiment(arms=tuple(replace(arm, seed=None) for arm in arms), seeds=range(num_seeds))


def complete_groups(store: MemoryStore, num_arms: int) -> list[Trace]:
    """Return the traces of the prompts and seeds that all arms have completed."""
    groups = (tuple(group) for _, group in groupby(store.outcomes, key=lambda outcome: outcome.run.group))
    return [outcome.trace for group in groups if len(group) == num_arms for outcome in group if outcome.trace]


def rows_file(traces: Sequence[Trace]) -> bytes:
    """Return runs as JSON lines, the format of sweeps, without correctness."""
    if not traces:
        return b""
    about = {"about": {"created": traces[0].created, "commit": traces[0].environment.commit}}
    return b"".join([json.dumps(about).encode() + b"\n", *(to_line(_row(trace)) for trace in traces)])


def _row(trace: Trace) -> ResultRow:
    what = [trace.method, trace.model.id, dict(trace.config), trace.prompt, trace.seed]
    return row_of(
        trace.steps,
        key=digest(what),
        method=trace.method,
        label=method_name(trace),
        model=trace.model.id,
        weights={trace.model.id: digest(dict(trace.model.weights))},
        config=dict(trace.config),
        seed=trace.seed,
        problem=0,
        correct=None,
        tokens=trace.summary.tokens,
        seconds=round(trace.summary.seconds, 6),
        device=trace.environment.device,
    )


def prepared_experiment(
    name: str, model: str, prompt: str, num_seeds: int, sampling: Mapping[str, Value]
) -> Experiment:
    """Return an experiment of experiment.toml.

    Args:
        name: Its name.
        model: Model and prompt of the run form; the experiment uses its own if that model does not fit its methods.
        prompt: The prompt.
        num_seeds: Seeds 0, 1, ... of every arm.
        sampling: Sampling settings of all arms.
    """
    experiment = EXPERIMENTS[name]
    shifted = any(METHODS[arm.method].shifted for arm in experiment.arms)
    if experiment.family in MODELS[model].families and MODELS[model].shifted >= shifted:
        experiment = replace(experiment, model=model, prompts=(prompt,))
    return replace(experiment.with_settings(sampling), seeds=range(min(num_seeds, max_seeds(name))))


def max_seeds(name: str) -> int:
    """Return how many seeds an experiment can have."""
    return EXPERIMENT_RUNS // len(EXPERIMENTS[name].arms)
