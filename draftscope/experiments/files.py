"""Experiments in JSON or TOML files: which methods and settings run, on which problems or prompts, checked completely.

docs/benchmarks.md describes the keys. benchmarks/grids and demo/jobs/experiment.toml have examples.
"""

import itertools
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from draftscope.analysis.groups import canonical
from draftscope.engines.methods import METHODS
from draftscope.engines.models.catalog import MODELS
from draftscope.engines.settings import ConfigError, Value, config_values, make_config
from draftscope.experiments.definition import Arm, Experiment, ProblemSet
from draftscope.experiments.problems import bundled_problems, problems_of
from draftscope.traces.errors import Problem
from draftscope.traces.files import read_bytes
from draftscope.traces.validation import ErrorTexts, adapter, record

MAX_ARMS: Final = 1000
_EXAMPLES: Final = "see benchmarks/grids for examples"
_TEXTS: Final = ErrorTexts("experiment", _EXAMPLES, f"correct it, {_EXAMPLES}", "split the experiment")
_Seed = Annotated[int, Field(ge=0, lt=2**31)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmEntry:
    """Arms as a file lists them: a list as a value gives one arm per entry."""

    label: Annotated[str, Field(pattern=r"\S")]
    method: str
    preset: str | tuple[str, ...] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    curve: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """An experiment as a file describes it."""

    model: str
    problems: Annotated[int, Field(ge=1)] | None = None
    """Number of bundled problems with known answers."""
    prompts: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Prompts; by default the example of the model."""
    seeds: Annotated[tuple[_Seed, ...], Field(min_length=1)] = (0,)
    length: Any = None
    """Setting `length` of all arms."""
    repeats: Annotated[int, Field(ge=0)] = 0
    title: str = ""
    question: str = ""
    figure: str = ""
    configurations: Annotated[tuple[ArmEntry, ...], Field(min_length=1)]


_FILE: Final = adapter(FileContent, "FileContent", "forbid")


def read_experiments(path: Path) -> dict[str, Experiment]:
    """Read a TOML file with one table per experiment; raises ConfigError as `Experiment.read` does."""
    return {name: parse_experiment(table) for name, table in load(path).items()}


def load(path: str | Path) -> Any:
    """Return the data of a JSON or TOML file; raises ConfigError for one that cannot be read."""
    try:
        data = read_bytes(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    is_toml = Path(path).suffix == ".toml"
    try:
        return tomllib.loads(data.decode()) if is_toml else json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is not {'TOML' if is_toml else 'JSON'} ({error}); {_EXAMPLES}") from None


def parse_experiment(data: object) -> Experiment:
    """Return the experiment that plain data describe.

    Raises:
        ConfigError: With field, value and remedy, for the first invalid field.
    """
    problems: list[Problem] = []
    content = record(_FILE, data, "", problems, _TEXTS)
    if content is None:
        raise ConfigError(str(problems[0]))
    prompts = _prompts(content)
    _check(len(set(content.seeds)) == len(content.seeds), "seeds", content.seeds, "give a list of different ones")
    return Experiment(
        arms=tuple(_arms(content)),
        prompts=prompts,
        seeds=content.seeds,
        model=content.model,
        repeats=content.repeats,
        title=content.title,
        question=content.question,
        figure=content.figure,
    )


def _prompts(content: FileContent) -> tuple[str, ...] | ProblemSet:
    models = [info.id for info in MODELS.values() if info.text or content.problems is None]
    _check(content.model in models, "model", content.model, f"name one of {', '.join(models)}")
    if content.problems is None:
        return content.prompts or (MODELS[content.model].default_prompt,)
    _check(content.prompts is None, "prompts", content.prompts, "give problems or prompts, not both")
    return _problems(content.model, content.problems)


def with_problems(experiment: Experiment, count: int) -> Experiment:
    """Return the experiment of a file with another number of its problems.

    Args:
        experiment: Experiment with a set of problems, not with prompts of its own.
        count: Number of problems, from the first on.

    Raises:
        ConfigError: If there are fewer, or the file has prompts.
    """
    _check(experiment.problems.answers, "problems", count, "the file has prompts; leave the number out")
    return replace(experiment, prompts=_problems(experiment.model, count))


def _problems(model: str, count: int) -> ProblemSet:
    available = len(problems_of(model))
    _check(1 <= count <= available, "problems", count, f"give a whole number from 1 to {available}")
    return bundled_problems(model, count)


def _arms(content: FileContent) -> Iterator[Arm]:
    """Yield the arms of a file; raises ConfigError for settings or labels that occur twice."""
    shared = {} if content.length is None else {"length": content.length}
    families = MODELS[content.model].families[: 1 if content.problems else None]
    methods = [method.name for method in METHODS.values() if method.family in families]
    labels: dict[str, str] = {}  # by settings
    for index, entry in enumerate(content.configurations):
        path = f"configurations[{index}]"
        _check(entry.method in methods, f"{path}.method", entry.method, f"name one of {', '.join(methods)}")
        for arm, config in _expand(path, entry, shared):
            settings = canonical({"method": arm.method, **config})
            if settings in labels:
                raise ConfigError(f"{path}: {arm.label!r} has the settings of {labels[settings]!r}; remove one of them")
            _check(arm.label not in labels.values(), f"{path}.label", arm.label, "it is used twice, give each its own")
            labels[settings] = arm.label
            if len(labels) > MAX_ARMS:
                raise ConfigError(f"configurations: they amount to more than {MAX_ARMS} arms; split the experiment")
            yield arm


def _expand(path: str, entry: ArmEntry, shared: Mapping[str, Any]) -> Iterator[tuple[Arm, Mapping[str, Value]]]:
    """Yield the arms of one entry with all their settings; labels name the values in which they differ."""
    method = METHODS[entry.method]
    axes = ({} if entry.preset is None else {"preset": entry.preset}) | dict(entry.config)
    lists = {axis: values for axis, values in axes.items() if isinstance(values, list | tuple)}
    for axis, values in lists.items():
        distinct = len({json.dumps(value) for value in values})
        _check(values and distinct == len(values), f"{path}.{axis}", values, "list different values, one at least")
    for combination in itertools.product(*lists.values()):
        chosen = dict(zip(lists, combination, strict=True))
        settings = axes | chosen
        preset = settings.pop("preset", None)
        try:
            named = {} if preset is None else method.preset(str(preset))
            settings = {**shared, **named, **settings}
            config = config_values(make_config(method.config, settings))
        except ConfigError as error:
            raise ConfigError(f"{path}.config: {error}") from None
        differences = [str(value) if axis == "preset" else f"{axis} {value}" for axis, value in chosen.items()]
        label = ", ".join([entry.label.strip(), *differences])
        yield Arm(label=label, method=method.name, settings=settings, curve=entry.curve.strip()), config


def _check(valid: object, field: str, value: object, remedy: str) -> None:
    if not valid:
        raise ConfigError(f"{field}: {value!r:.60} is not valid; {remedy}")
