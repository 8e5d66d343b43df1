"""The Python interface takes names that users of transformers know, or explains in a sentence what is meant."""

import inspect
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support import handmade
from support.tiny_llama import PROMPT, Letters, greedy, llama

import draftscope as ds
from draftscope.engines.settings import ConfigError, from_transformers
from draftscope.trace import displayable
from draftscope.traces.schema import VERSION
from draftscope.viewer import THEMES
from draftscope.visualizers import FigureError


def run(method: str = "ar", **settings: Any) -> Any:
    return ds.run(method, target=llama(), ids=PROMPT, **settings)


@pytest.mark.parametrize(
    "options",
    [
        {"max_new_tokens": 16, "do_sample": False},
        {"max_new_tokens": 16, "temperature": 0},
        {"length": 16, "temperature": 0.0},
        {"length": 16, "top_k": 1, "do_sample": True},
        {"length": 16, "temperature": 0, "do_sample": True},
    ],
)
def test_options_of_generate_are_known(options: dict[str, Any]) -> None:
    trace = run(**options)
    assert list(trace.output.tokens) == greedy(llama(), PROMPT, 16)
    assert (trace.config["length"], trace.config["top_k"]) == (16, 1)


def test_draft_lengths_of_generate_are_known() -> None:
    trace = run("speculative", drafter="lookup", num_assistant_tokens=2, max_new_tokens=8)
    assert (trace.config["gamma"], trace.config["length"]) == (2, 8)
    measured = ds.bench(llama(), ["59B5"], tokenizer=Letters(), max_new_tokens=8, temperature=0)
    assert {row.config["length"] for row in measured.rows} == {8} and measured.same


def test_do_sample_alone_changes_nothing() -> None:
    assert from_transformers({"do_sample": True, "top_k": 5}) == {"top_k": 5}
    assert from_transformers({"do_sample": "false"}) == {"top_k": 1}
    assert from_transformers({"temperature": 0.5}) == {"temperature": 0.5}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_new_tokens": 8, "length": 8}, "max_new_tokens: is another name of length; give one of them."),
        ({"max_new_tokens": -1}, "length: -1 is not allowed; use a whole number from 1 to 65536."),
        ({"do_sample": "maybe"}, "do_sample: 'maybe' is not allowed; use true or false."),
        ({"max_tokens": 8}, "What other libraries call max_tokens is length here."),
        ({"assistant_model": None}, "What other libraries call assistant_model is draft here."),
        ({"prompt_lookup_num_tokens": 3}, "is drafter=lookup with gamma here."),
        ({"enable_thinking": False}, 'is template={"enable_thinking": ...} here.'),
        ({"config": "an owl"}, "config: is a text; give a prompt by name: prompt='an owl'."),
    ],
    ids=str,
)
def test_other_names_are_explained(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        run(**options)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_a_prompt_in_second_place_is_explained() -> None:
    with pytest.raises(ConfigError, match=r"give a prompt by name: prompt='an owl'"):
        ds.run("scd", "an owl", window=8)


def test_common_options_are_typed_and_the_packages_have_types() -> None:
    named = inspect.signature(ds.run).parameters
    common = {"target", "draft", "tokenizer", "ids", "chat", "messages", "system", "template", "preset", "device"}
    assert common | {"dtype", "likely", "on_step", "progress"} <= named.keys()
    assert all(parameter.annotation is not inspect.Parameter.empty for parameter in named.values())
    for package in ("analysis", "draftscope", "engines", "traces", "visualizers"):
        assert Path(str(import_module(package).__file__)).with_name("py.typed").is_file()


def test_results_are_shown_in_a_line() -> None:
    trace = run("speculative", drafter="lookup", length=16, top_k=1)
    predicted = ds.predict(trace, "H100", 7e9)
    assert repr(predicted).startswith("<Prediction: 16 tokens in ") and len(repr(predicted)) < 120
    measured = ds.bench(llama(), ["59B5", "1234"], tokenizer=Letters(), length=8)
    assert repr(measured).startswith("<BenchResult of 2 prompts with 4 methods: the fastest is ")
    store = ds.MemoryStore()
    experiment = ds.Experiment(arms=(ds.Arm(label="one", method="ar", settings={"length": 8}),), model="toy-raster")
    with pytest.raises(ConfigError):  # pictures have a size of their own
        list(ds.run_experiment(ds.Experiment(arms=(ds.Arm(label="one", method="none"),)), store=store))
    list(ds.run_experiment(experiment, store=store))
    assert repr(store.outcomes[0]).startswith("<RunOutcome of 'one', problem 0: ")


def test_wrong_arguments_of_figures_are_explained() -> None:
    trace = displayable(handmade.scd())
    with pytest.raises(FigureError, match=r'a Trace is not the name of a figure; .* ds.figure\("churn", trace\)'):
        ds.figure(trace, "churn")  # type: ignore[arg-type]
    with pytest.raises(FigureError, match=r"theme: 'blue' is not allowed; use one of light, dark"):
        ds.figure("churn", trace, theme="blue")  # type: ignore[arg-type]
    with pytest.raises(FigureError, match=r"figure: 'run.json' is not a trace; give traces after the name"):
        ds.figure("churn", "run.json")  # type: ignore[arg-type]
    assert all(ds.figure("churn", trace, theme=theme) for theme in THEMES)


def test_ids_are_whole_numbers_in_tables() -> None:
    pandas = pytest.importorskip("pandas")
    trace = run("speculative", drafter="lookup", length=16, likely=2)
    frame = displayable(trace).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert {str(frame[name].dtype) for name in ("step", "position", "token", "draft")} == {"Int64"}
    assert frame["draft"].isna().any() and frame["likely"].notna().any()
    for make in handmade.ALL.values():
        displayable(make()).to_pandas()


def test_parquet_keeps_ids_likely_and_the_version(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    trace = run("speculative", drafter="lookup", length=16, likely=2)
    trace.to_parquet(tmp_path / "run.parquet")
    table = import_module("pyarrow.parquet").read_table(tmp_path / "run.parquet")
    assert {table.schema.field(name).type for name in ("step", "position", "token", "draft")} == {pyarrow.int64()}
    metadata = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert (metadata["schema"], metadata["version"], metadata["method"]) == (trace.schema, VERSION, "speculative")
    columns = trace.to_columns()
    assert table.column("token").to_pylist() == columns["token"]
    likely = [
        None if each is None else [tuple(entry.values()) for entry in each] for each in table["likely"].to_pylist()
    ]
    assert json.loads(json.dumps(likely)) == json.loads(json.dumps(columns["likely"]))
    for make in handmade.ALL.values():
        displayable(make()).to_parquet(tmp_path / "other.parquet")
