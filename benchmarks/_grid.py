"""Grids: which methods and settings a sweep runs, on how many problems, read from JSON and checked as a whole.

A grid is an object with `model`, `problems` (the first so many held-out ones) and `configurations`, a list of objects
with `label`, `method` and, where wanted, `preset`, `config` and `curve`. `seeds` and `length` may be left out. A list
in place of a value, in `config` or as `preset`, stands for one configuration an entry; several lists, for all
combinations.
"""

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks._problems import exam
from engines.config import ConfigError, Value, as_values, make_config
from engines.methods import METHODS
from engines.models.catalog import MODELS, load_model
from engines.runtime.driver import Job, open_session
from engines.runtime.request import Request
from engines.sampling.chance import read_seed
from traces.streams import bytes_of

_FIELDS: Final = ("model", "problems", "seeds", "length", "configurations")
_OF_ONE: Final = ("label", "method", "preset", "config", "curve")
MOST_CONFIGURATIONS: Final = 1000


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
        data = json.loads(bytes_of(path))
    except OSError as error:
        raise GridError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except (ValueError, RecursionError) as error:
        raise GridError(f"{path}: is no JSON ({error}); see benchmarks/grids for examples") from None
    return expand(data)


def expand(data: object) -> Grid:
    """The grid that plain JSON data describe.

    Raises:
        GridError: for the first thing that is wrong.
    """
    grid = _object("grid", data, _FIELDS)
    model: Any
    problems: Any
    listed: Any
    model, problems, listed = (grid.get(name) for name in ("model", "problems", "configurations"))
    texts = [info.id for info in MODELS.values() if info.text]
    _expect(model in texts, "model", model, f"name one of {', '.join(texts)}")
    most = len(exam(str(model)).problems)
    _expect(_whole(problems) and 1 <= problems <= most, "problems", problems, f"give a whole number from 1 to {most}")
    seeds = grid.get("seeds", [0])
    _expect(isinstance(seeds, list) and seeds, "seeds", seeds, "give a list of seeds")
    try:
        seeds = [read_seed(seed) for seed in seeds]
    except ConfigError as error:
        raise GridError(str(error)) from None
    _expect(len(set(seeds)) == len(seeds), "seeds", seeds, "give a list of different ones")
    _expect(isinstance(listed, list) and listed, "configurations", listed, "give a list with at least one")
    shared = {"length": grid["length"]} if "length" in grid else {}
    found: list[Configuration] = []
    for index, entry in enumerate(listed):
        for one in _expanded(f"configurations[{index}]", entry, shared):
            _add(one, found, f"configurations[{index}]")
    return Grid(model, problems, tuple(seeds), tuple(found))


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
                Request(one.method, model, problem.question, settings=one.config).job()
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
    return _hash([model, configuration.method, dict(configuration.config), [asked.question, asked.answer], seed])


def weights_of(job: Job) -> dict[str, str]:
    """Model -> one hash of all its weights, for the model of a job and the one that drafts for it."""
    cards = [job.model.card, *([job.draft.card] if job.draft else [])]
    return {card.id: _hash(dict(card.weights)) for card in cards}


def _expanded(path: str, data: object, shared: Mapping[str, Any]) -> Iterator[Configuration]:
    """The configurations of one entry; their labels say the values in which they differ."""
    entry = _object(path, data, _OF_ONE)
    label, name = entry.get("label"), entry.get("method")
    _expect(isinstance(label, str) and label.strip(), f"{path}.label", label, "say what figures shall call it")
    curve: Any = entry.get("curve", "")
    _expect(isinstance(curve, str), f"{path}.curve", curve, "say what figures shall join it to others under")
    fits = [method.name for method in METHODS.values() if method.family == "diffusion-lm"]
    _expect(name in fits, f"{path}.method", name, f"name one of {', '.join(fits)}")
    method = METHODS[str(name)]
    own = _object(f"{path}.config", entry.get("config", {}), None)
    axes: dict[str, Any] = ({"preset": entry["preset"]} if "preset" in entry else {}) | own
    lists = {axis: values for axis, values in axes.items() if isinstance(values, list)}
    for axis, listed in lists.items():
        distinct = len({json.dumps(value) for value in listed})
        _expect(listed and distinct == len(listed), f"{path}.{axis}", listed, "list different values, one at least")
    for choice in itertools.product(*lists.values()):
        chosen = dict(zip(lists, choice, strict=True))
        values: dict[str, Any] = axes | chosen
        preset = values.pop("preset", None) if "preset" in entry else None
        try:
            settings = {} if preset is None else method.preset(str(preset))
            config = make_config(method.config, {**shared, **settings, **values})
        except ConfigError as error:
            raise GridError(f"{path}.config: {error}") from None
        said = [str(value) if axis == "preset" else f"{axis} {value}" for axis, value in chosen.items()]
        yield Configuration(", ".join([str(label).strip(), *said]), method.name, as_values(config), curve.strip())


def _add(one: Configuration, found: list[Configuration], path: str) -> None:
    for other in found:
        if (other.method, other.config) == (one.method, one.config):
            raise GridError(f"{path}: {one.label!r} has the settings of {other.label!r}; remove one of them")
        if other.label == one.label:
            raise GridError(f"{path}.label: {one.label!r} is used twice; give each its own")
    found.append(one)
    if len(found) > MOST_CONFIGURATIONS:
        raise GridError(f"configurations: they come to more than {MOST_CONFIGURATIONS}; split the grid")


def _object(path: str, data: object, fields: tuple[str, ...] | None) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise GridError(f"{path}: {data!r:.60} is no object; see benchmarks/grids for examples")
    for name in data:
        if fields is not None and name not in fields:
            raise GridError(f"{path}.{name}: there is no such field; there are {', '.join(fields)}")
    return data


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _expect(sound: object, field: str, value: object, remedy: str) -> None:
    if not sound:
        raise GridError(f"{field}: {value!r:.60} is not valid; {remedy}")


def _hash(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:32]
