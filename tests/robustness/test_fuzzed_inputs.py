"""Settings, addresses, calls, rows and timings of strangers are taken or refused in a line, and stall nothing."""

import json
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from robustness.strategies import (
    TEXTS,
    as_json,
    changed,
    damaged,
    documents,
    examples,
    names_field,
    odd,
    one_line,
    within,
)

from draftscope.analysis.results import SweepError, read_results
from draftscope.demo.components.settings_form import read_config
from draftscope.demo.jobs.links import parse_link, run_link
from draftscope.engines.methods import METHODS
from draftscope.engines.models.catalog import load_model
from draftscope.engines.models.errors import ModelError
from draftscope.engines.runtime.driver import Job, Run
from draftscope.engines.sampling.random_source import parse_seed
from draftscope.engines.settings import ConfigError, settings
from draftscope.experiments import JsonlStore
from draftscope.traces.files import ROOT
from draftscope.visualizers import SWEEP_FIGURES, SweepView

pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")
RESULTS = ROOT / "benchmarks" / "results"
QUICKEST = {"discrete-ar": "toy-raster", "continuous-ar": "toy-field", "diffusion-lm": "text-target"}
"""Family -> the quickest model of it."""
SETTINGS = {name: settings(method.config) for name, method in METHODS.items()}
PASSES = 4
"""Forward passes under settings that were accepted."""
RUN_SECONDS = 20.0
"""Processor seconds for those passes at the largest settings."""


@st.composite
def values(draw: st.DrawFn, method: str) -> dict[str, Any]:
    """Settings of a method, most of them allowed: at an end of what they may be, or somewhere between."""
    known = {setting.name: setting for setting in SETTINGS[method]}
    chosen: dict[str, Any] = {}
    for name in draw(st.sets(st.sampled_from([*known]))) if known else ():
        setting = known[name]
        low, high = setting.knob.low or 0, setting.knob.high or 0
        kinds = {"int": st.integers(int(low), int(high)), "float": st.floats(low, high)}
        chosen[name] = draw(kinds.get(setting.kind, st.sampled_from(setting.choices or (True, False))))
    if draw(st.integers(0, 3)) == 0:
        chosen[draw(st.sampled_from([*known, *TEXTS, "width"]))] = draw(odd)
    return chosen


@pytest.mark.slow
@examples(25, 1000)
@given(st.data())
def test_settings_are_run_or_refused(data: st.DataObject) -> None:
    method = METHODS[data.draw(st.sampled_from(sorted(METHODS)))]
    setting_values = data.draw(values(method.name))
    text = method.family == "diffusion-lm"
    setting_values |= {"length": setting_values.get("length", 16)} if text else {}
    prompt = data.draw(st.sampled_from(("How many?", "a", *TEXTS))) if text else ""
    seed: Any = data.draw(st.sampled_from((0, 7, 2**31 - 1)) | odd)
    with within(RUN_SECONDS):
        try:
            config = read_config(method.config, setting_values)
            job = Job(method, load_model(QUICKEST[method.family]), prompt, config, parse_seed(seed))
            for _ in islice(Run(job), PASSES):
                pass
        except (ConfigError, ModelError) as error:
            one_line(error)
        except ValueError as error:  # what a model refuses
            names_field(error)


@pytest.mark.slow
@examples(20, 1000)
@given(st.data())
def test_addresses_are_read_or_refused(data: st.DataObject) -> None:
    method = METHODS[data.draw(st.sampled_from(sorted(METHODS)))]
    pairs: dict[str, Any] = {"method": method.name, "seed": data.draw(st.sampled_from((0, 2**31 - 1))), "step": 12}
    pairs |= {f"set.{name}": value for name, value in data.draw(values(method.name)).items()}
    names = (*pairs, "model", "prompt", "gallery", "beside", "compare", "ms", "clock", "token", *TEXTS)
    pairs |= data.draw(st.dictionaries(st.sampled_from(names), odd, max_size=2))
    address = urlencode(pairs, errors="replace")
    if data.draw(st.booleans()):
        address = data.draw(damaged(address.encode())).decode("latin-1")
    with within(5.0):
        try:
            opened = parse_link(address)
        except ConfigError as error:
            one_line(error)
            return
        if opened and opened.request is not None:
            assert parse_link(run_link(opened.request, opened.compared)) is not None


ROWS = [
    json.loads(json.dumps(asdict(row)))
    for row in read_results((RESULTS / "text-pair.jsonl.gz").read_bytes()).rows[:400:8]
]


@st.composite
def row_files(draw: st.DrawFn) -> bytes:
    """Rows of a sweep, the last of them changed, as lines or as one document."""
    rows = draw(st.lists(st.sampled_from(ROWS), min_size=1, max_size=5))
    if draw(st.booleans()):
        return draw(documents({"rows": rows}))
    return b"".join(as_json(row) + b"\n" for row in [*rows[:-1], draw(changed(rows[-1]))])


@pytest.mark.slow
@examples(15, 1000)
@given(row_files())
def test_rows_are_drawn_or_refused(data: bytes) -> None:
    with within(5.0):
        with TemporaryDirectory() as folder, suppress(SweepError):
            path = Path(folder, f"rows.jsonl{'.gz' if data[:2] == bytes((31, 139)) else ''}")
            path.write_bytes(data)
            JsonlStore(path)
        try:
            rows = read_results(data).rows
        except SweepError as error:
            one_line(error)
            return
        for figure in SWEEP_FIGURES.values():
            with suppress(SweepError):  # rows may be sound and answer another question
                figure.draw(rows, SweepView())
