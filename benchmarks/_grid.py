"""Grids of docs/benchmarks.md: which methods and settings a sweep runs, on how many problems, checked as a whole.

`solve` is the work of one process, which imports it by this module: it decodes problems together with one configuration
and judges the answers.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import torch
from pydantic import Field
from transformers.utils import logging

from analysis.results import ResultRow, digest, row_of
from benchmarks._problems import exam
from benchmarks._timing import decode
from engines.diffusion_lm.block_sequence import TextTask
from engines.methods import METHODS
from engines.models.catalog import MODELS, load_model
from engines.protocol import Model
from engines.runtime.driver import Job, open_session
from engines.runtime.environment import environment
from engines.runtime.run_request import RunRequest
from engines.settings import ConfigError, Value, config_values, make_config
from traces.errors import Problem
from traces.files import read_bytes
from traces.schema import Step
from traces.validation import ErrorTexts, adapter, record

MOST_CONFIGURATIONS: Final = 1000
ANSWER_CHARACTERS: Final = 100
_EXAMPLES: Final = "see benchmarks/grids for examples"
_WORDS: Final = ErrorTexts("grid", _EXAMPLES, f"correct it, {_EXAMPLES}", "split the grid")


class GridError(ValueError):
    """A grid that cannot be run; the message names field, value and remedy."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A method with all its settings, and what figures call it."""

    label: str
    method: str
    config: Mapping[str, Value]
    curve: str = ""
    """What figures join its point to others under, where that is not the method."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Configurations as a file lists them."""

    label: Annotated[str, Field(pattern=r"\S")]
    method: str
    preset: str | tuple[str, ...] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    curve: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A grid as a file describes it."""

    model: str
    problems: Annotated[int, Field(ge=1)]
    seeds: Annotated[tuple[Annotated[int, Field(ge=0, lt=2**31)], ...], Field(min_length=1)] = (0,)
    length: Any = None
    configurations: Annotated[tuple[Entry, ...], Field(min_length=1)]


_FILE: Final = adapter(File, "File", "forbid")


@dataclass(frozen=True, slots=True)
class Grid:
    """Every configuration runs on every problem with every seed."""

    model: str
    problems: int
    seeds: tuple[int, ...]
    configurations: tuple[Configuration, ...]


def read_grid(path: Path) -> Grid:
    """Read a grid.

    Raises:
        GridError: for the first thing that is wrong.
    """
    try:
        data = json.loads(read_bytes(path))
    except OSError as error:
        raise GridError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except (ValueError, RecursionError) as error:
        raise GridError(f"{path}: is no JSON ({error}); {_EXAMPLES}") from None
    return expand(data)


def expand(data: object) -> Grid:
    """The grid that plain JSON data describe.

    Raises:
        GridError: for the first thing that is wrong.
    """
    problems: list[Problem] = []
    file = record(_FILE, data, "", problems, _WORDS)
    if file is None:
        raise GridError(str(problems[0]))
    texts = [info.id for info in MODELS.values() if info.text]
    _expect(file.model in texts, "model", file.model, f"name one of {', '.join(texts)}")
    most = len(exam(file.model).problems)
    _expect(file.problems <= most, "problems", file.problems, f"give a whole number from 1 to {most}")
    _expect(len(set(file.seeds)) == len(file.seeds), "seeds", file.seeds, "give a list of different ones")
    shared = {} if file.length is None else {"length": file.length}
    configurations: list[Configuration] = []
    for index, entry in enumerate(file.configurations):
        path = f"configurations[{index}]"
        for one in _expanded(path, entry, shared):
            for other in configurations:
                if (other.method, other.config) == (one.method, one.config):
                    raise GridError(f"{path}: {one.label!r} has the settings of {other.label!r}; remove one of them")
                _expect(other.label != one.label, f"{path}.label", one.label, "it is used twice, give each its own")
            configurations.append(one)
            if len(configurations) > MOST_CONFIGURATIONS:
                raise GridError(f"configurations: they come to more than {MOST_CONFIGURATIONS}; split the grid")
    return Grid(file.model, file.problems, file.seeds, tuple(configurations))


def _expanded(path: str, entry: Entry, shared: Mapping[str, object]) -> Iterator[Configuration]:
    """The configurations of one entry; their labels say the values in which they differ."""
    fits = [method.name for method in METHODS.values() if method.family == "diffusion-lm"]
    _expect(entry.method in fits, f"{path}.method", entry.method, f"name one of {', '.join(fits)}")
    method = METHODS[entry.method]
    axes = ({} if entry.preset is None else {"preset": entry.preset}) | dict(entry.config)
    lists = {axis: values for axis, values in axes.items() if isinstance(values, list | tuple)}
    for axis, listed in lists.items():
        distinct = len({json.dumps(value) for value in listed})
        _expect(listed and distinct == len(listed), f"{path}.{axis}", listed, "list different values, one at least")
    for choice in itertools.product(*lists.values()):
        chosen = dict(zip(lists, choice, strict=True))
        values = axes | chosen
        preset = values.pop("preset", None)
        try:
            settings = {} if preset is None else method.preset(str(preset))
            config = make_config(method.config, {**shared, **settings, **values})
        except ConfigError as error:
            raise GridError(f"{path}.config: {error}") from None
        differences = [str(value) if axis == "preset" else f"{axis} {value}" for axis, value in chosen.items()]
        label = ", ".join([entry.label.strip(), *differences])
        yield Configuration(label, method.name, config_values(config), entry.curve.strip())


def _expect(sound: object, field: str, value: object, remedy: str) -> None:
    if not sound:
        raise GridError(f"{field}: {value!r:.60} is not valid; {remedy}")


def try_out(grid: Grid, device: str) -> dict[str, str]:
    """Pose every problem under every configuration and open a session, so that nothing is refused halfway.

    Returns:
        Model -> hash of its weights, for all models that take part.

    Raises:
        GridError: when the model refuses a configuration or a problem.
        ModelError: when a model cannot be had.
    """
    model, weights = load_model(grid.model, device), dict[str, str]()
    for one in grid.configurations:
        try:
            jobs = [
                RunRequest(one.method, model, problem.question, settings=one.config).job()
                for problem in exam(grid.model).problems[: grid.problems]
            ]
            for job in jobs:
                job.decoder()
            open_session(jobs[:1])
            weights |= weights_of(jobs[0])
        except ValueError as error:
            raise GridError(f"configurations, {one.label!r}: {error}") from None
    return weights


def key(model: str, configuration: Configuration, problem: int, seed: int) -> str:
    """What a row is known by, as a hash: model, method and settings, problem, seed."""
    asked = exam(model).problems[problem]
    return digest([model, configuration.method, dict(configuration.config), [asked.question, asked.answer], seed])


def weights_of(job: Job) -> dict[str, str]:
    """Model -> one hash of all its weights, for the model of a job and the one that drafts for it."""
    drafter = job.load_drafter()
    cards = [job.model.card, *([drafter.card] if drafter else [])]
    return {card.id: digest(dict(card.weights)) for card in cards}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Problems that one process decodes in lockstep."""

    model: str
    device: str
    configuration: Configuration
    seed: int
    problems: tuple[int, ...]
    """Places in the list of held-out problems."""


def solve(chunk: Chunk) -> list[ResultRow]:
    """The rows of a chunk."""
    torch.set_num_threads(1)
    model, one = ready(chunk.model, chunk.device), chunk.configuration
    problems = exam(chunk.model).problems
    jobs = [
        RunRequest(one.method, model, problems[i].question, seed=chunk.seed, settings=one.config, sample=i).job()
        for i in chunk.problems
    ]
    run = decode(jobs, record=True)
    return [
        _row(chunk, place, job, tokens, steps)
        for place, (job, tokens, steps) in enumerate(zip(jobs, run.tokens, run.steps, strict=True))
    ]


@cache
def ready(model_id: str, device: str) -> Model:
    """A model that has decoded once, so that no row is charged with loading kernels and growing memory pools."""
    logging.disable_progress_bar()
    model = load_model(model_id, device)
    decode([RunRequest("blockwise", model, exam(model_id).problems[0].question, settings={"length": 8}).job()])
    return model


def _row(chunk: Chunk, place: int, job: Job, tokens: Sequence[int], steps: Sequence[Step]) -> ResultRow:
    one, index, task = chunk.configuration, chunk.problems[place], job.task
    assert isinstance(task, TextTask)
    text, judge = job.model.render_output(tokens).text or "", exam(chunk.model)
    counted = next((i + 1 for i, token in enumerate(tokens) if token in task.eos_token_ids), len(tokens))
    seconds = sum(step.call.milliseconds.total / step.call.batch for step in steps) / 1000
    return row_of(
        steps,
        key=key(chunk.model, one, index, chunk.seed),
        method=one.method,
        label=one.label,
        curve=one.curve,
        model=chunk.model,
        weights=weights_of(job),
        config=dict(one.config),
        seed=chunk.seed,
        problem=index,
        correct=judge.solved(text, judge.problems[index].answer),
        answer=judge.given(text)[:ANSWER_CHARACTERS],
        tokens=counted,
        seconds=round(seconds, 6),
        batch=len(chunk.problems),
        device=environment(job.model.device, torch.float32).device,
    )
