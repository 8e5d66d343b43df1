"""The ways into the project that a stranger, or a damaged disk, has: what each takes, and how it may refuse."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any, Final

from benchmarks import _strange_traces
from benchmarks._attempts import Area, Case
from benchmarks._mutation import ODD, TEXTS, as_json, changed, damaged, packed
from benchmarks._rows import Rows, RowsError
from benchmarks._strange_checkpoints import RunRefused, named, pictures, texts
from engines.config import ConfigError, as_values, settings
from engines.models.errors import ModelError
from traces import TraceError, loads
from traces.results import SweepError, read_results

ROOT: Final = Path(__file__).parents[1]
PASSES: Final = 4
"""Forward passes under settings that were accepted."""
CLOSED_FORM: Final = {"discrete-ar": "toy-raster", "continuous-ar": "toy-field", "diffusion-lm": "text-target"}
"""Family -> the quickest model of it."""


def _traces() -> Callable[[Random], Case]:
    _strange_traces.sound()

    def make(chance: Random) -> Case:
        data = _strange_traces.strange(chance)
        return Case(data, lambda: loads(data, name="file"))

    return make


def _drawn() -> Callable[[Random], Case]:
    from benchmarks._shown import everything

    _strange_traces.sound()

    def make(chance: Random) -> Case:
        data = as_json(_strange_traces.twisted(chance.choice(_strange_traces.sound()), chance))
        return Case(data, lambda: everything(loads(data, name="file")))

    return make


def _settings() -> Callable[[Random], Case]:
    from engines.methods import METHODS
    from engines.models.catalog import load_model

    models = {family: load_model(name) for family, name in CLOSED_FORM.items()}
    for method in METHODS.values():  # first passes are slow, whatever the settings
        _run(method, models[method.family], "a" if method.family == "diffusion-lm" else "", {}, 0)

    def make(chance: Random) -> Case:
        method = METHODS[chance.choice(list(METHODS))]
        values = strange_settings(method.config, chance)
        if method.family == "diffusion-lm":
            values.setdefault("length", 16)
        seed = chance.choice((0, 7, 2**31 - 1)) if chance.random() < 0.9 else chance.choice(ODD)
        prompt = "" if method.family != "diffusion-lm" else chance.choice(("How many?", "a", *TEXTS))
        asked = (method, models[method.family], prompt, values, seed)
        return Case({"method": method.name, "settings": values, "seed": seed, "prompt": prompt}, lambda: _run(*asked))

    return make


def strange_settings(config: type[Any], chance: Random) -> dict[str, Any]:
    """Settings of a method, most of them allowed: at an end of what they may be, or somewhere between."""
    values: dict[str, Any] = {}
    for setting in settings(config):
        at = chance.random()
        if at < 0.5:
            continue
        if setting.kind in ("int", "float"):
            low, high = setting.knob.low or 0, setting.knob.high or 0
            number = chance.choice((low, high, low + (high - low) * chance.random()))
            values[setting.name] = int(number) if setting.kind == "int" else number
        else:
            values[setting.name] = chance.choice(setting.choices or (True, False))
    if chance.random() < 0.3:
        name = chance.choice([*(setting.name for setting in settings(config)), *TEXTS, "width"])
        values[name] = chance.choice((*ODD, *TEXTS))
    return values


def _run(method: Any, model: Any, prompt: str, values: Mapping[str, Any], seed: Any) -> None:
    """A few passes under these settings."""
    from demo.controls import read_config
    from engines.runtime.driver import Job, Run

    config = read_config(method.config, values)
    assert as_values(config)
    try:
        running = Run(Job(method, model, prompt, config, seed))
    except ConfigError:
        raise
    except ValueError as error:  # what a model refuses
        raise named(error) from error
    for _ in islice(running, PASSES):
        pass


def _addresses() -> Callable[[Random], Case]:
    from urllib.parse import urlencode

    from demo.addresses import fragment_of, read_address
    from demo.decoding import Asked
    from engines.methods import METHODS
    from engines.models.catalog import default_model

    def make(chance: Random) -> Case:
        method = METHODS[chance.choice(list(METHODS))]
        values = strange_settings(method.config, chance)
        pairs = {"method": method.name, "seed": chance.choice((0, 2**31 - 1)), "step": chance.choice((1, 12))}
        pairs |= {f"set.{name}": value for name, value in values.items()}
        for _ in range(chance.randrange(3)):
            name = chance.choice((*pairs, "model", "prompt", "gallery", "beside", "ms", "clock", "token", *TEXTS))
            pairs[name] = chance.choice((*ODD, *TEXTS))
        text = urlencode(pairs, errors="replace")
        text = damaged(text.encode(), chance).decode("latin-1") if chance.random() < 0.3 else text

        def read() -> None:
            found = read_address(text)
            if found and isinstance(found.asked, Asked):
                assert read_address(fragment_of(found.asked, found.beside)) is not None
                assert found.asked.model and default_model(method.family)

        return Case(text, read)

    return make


def _calls() -> Callable[[Random], Case]:
    from demo.pages.api import methods, refusal, validate

    sound = {"method": "scd", "prompt": "a red boot", "seed": 0, "model": None, "settings": {}, "preset": None}

    def make(chance: Random) -> Case:
        tool = chance.choice(("run", "summary", "methods", "validate", "run", "summary"))
        if tool == "validate":
            data = _strange_traces.strange(chance) if chance.random() < 0.9 else None
            return Case(data, lambda: json.dumps(validate(data)))
        given = {"method": "scd"} if tool == "methods" else sound
        arguments = changed(given, chance)
        if not isinstance(arguments, dict):
            arguments = {"method": arguments}

        def call() -> None:
            told = refusal(tool, arguments)
            if told is not None:
                raise ConfigError(told)
            if tool == "methods":
                json.dumps(methods(**arguments))

        return Case({tool: arguments}, call)

    return make


def _rows() -> Callable[[Random], Case]:
    from visualizers import SWEEP_FIGURES, SweepView

    shipped = read_results((ROOT / "benchmarks" / "results" / "text.jsonl.gz").read_bytes()).rows
    every = [json.loads(json.dumps(asdict(row))) for row in shipped[:400:8]]
    folder = Path(mkdtemp(prefix="fuzz-"))

    def make(chance: Random) -> Case:
        rows = [chance.choice(every) for _ in range(chance.choice((1, 3, 30)))]
        if chance.random() < 0.8:
            rows[-1] = changed(rows[-1], chance)
        text = b"".join(as_json(row) + b"\n" for row in rows) if chance.random() < 0.8 else as_json({"rows": rows})
        text = damaged(text, chance) if chance.random() < 0.2 else text
        data = packed(text, chance) if chance.random() < 0.3 else text

        def read() -> None:
            found = read_results(data).rows
            path = folder / f"rows.jsonl{'.gz' if data[:2] == bytes((31, 139)) else ''}"
            path.write_bytes(data)
            Rows(path)
            for figure in SWEEP_FIGURES.values():
                with suppress(SweepError):  # rows may be sound and answer another question
                    figure.draw(found, SweepView())

        return Case(data, read)

    return make


def _timings() -> Callable[[Random], Case]:
    from visualizers import TIMING_FIGURES

    results = ROOT / "benchmarks" / "results"
    files = {figure.benchmark: results / f"{figure.benchmark}.json" for figure in TIMING_FIGURES.values()}
    documents = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in files.items()}

    def make(chance: Random) -> Case:
        figure = chance.choice(list(TIMING_FIGURES.values()))
        document = documents[figure.benchmark]
        text = as_json(changed({"title": document["title"], "rows": document["rows"]}, chance))
        data = damaged(text, chance) if chance.random() < 0.2 else text

        def read() -> None:
            figure.draw_file(data)

        return Case(data, read)

    return make


AREAS: Final[Mapping[str, Area]] = {
    area.name: area
    for area in (
        Area(name="traces", errors=(TraceError,), prepare=_traces),
        Area(name="drawn", errors=(TraceError,), prepare=_drawn),
        Area(name="settings", errors=(ConfigError, RunRefused, ModelError), prepare=_settings),
        Area(name="addresses", errors=(ConfigError,), prepare=_addresses),
        Area(name="calls", errors=(ConfigError,), prepare=_calls),
        Area(name="rows", errors=(SweepError, RowsError), prepare=_rows),
        Area(name="timings", errors=(SweepError,), prepare=_timings),
        Area(name="checkpoints", errors=(ModelError, RunRefused), prepare=texts),
        Area(name="pictures", errors=(ModelError, ConfigError, RunRefused), prepare=pictures),
    )
}
