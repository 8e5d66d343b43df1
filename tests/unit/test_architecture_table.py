"""The table "To add …" of ARCHITECTURE.md: what it tells a reader to edit is where each kind of thing is."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from typer.testing import CliRunner

from benchmarks import report
from benchmarks.claims import papers
from benchmarks.claims.__main__ import PAPERS
from draftscope import experiments
from draftscope.analysis.hardware import DEVICES, SIZES, presets
from draftscope.certificates import named as certified
from draftscope.cli.main import app, main
from draftscope.demo.components import settings_form
from draftscope.demo.components.experiment import ExperimentPanel
from draftscope.demo.jobs.experiment import EXPERIMENTS
from draftscope.engines.methods import METHODS
from draftscope.engines.models import transformers_api
from draftscope.engines.models.bundled import catalog
from draftscope.engines.models.checkpoints import families
from draftscope.engines.protocol import Decision
from draftscope.engines.settings import settings
from draftscope.traces.files import ROOT
from draftscope.traces.measures import MEASURES
from draftscope.visualizers import FIGURES, SWEEP_FIGURES, TIMING_FIGURES, lessons
from draftscope.visualizers.lessons.data import lesson_data

TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## To add …")[2].partition("\n## ")[0]
ROWS = {cells[1].strip(): cells[2] for line in TEXT.splitlines()[4:] if len(cells := line.split("|")) > 3}


def modules(folder: str) -> set[str]:
    return {path.stem for path in (ROOT / folder).glob("[a-z]*.py")}


def named(file: str, names: Iterable[str]) -> bool:
    text = (ROOT / file).read_text(encoding="utf-8")
    return [name for name in names if not re.search(rf"\b{name}\b", text)] == []


def methods() -> None:
    decoders = {method.decode.__module__.rpartition(".")[2] for method in METHODS.values()}
    assert decoders <= modules("engines/methods") and named("engines/methods/__init__.py", decoders)
    assert {path.stem for path in (ROOT / "docs" / "methods").glob("*.md")} >= METHODS.keys()


def a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """Every setting of every method has a control and is in the list of the command line."""
    assert main(["list"]) == 0
    listed = capsys.readouterr().out
    with gr.Blocks():
        for method in METHODS.values():
            of_method = settings_form.settings_for(method)
            assert {*settings_form.build(of_method).of} == {setting.name for setting in of_method}
            assert {setting.name for setting in settings(method.config)} == {
                each.name for each in fields(method.config)
            }
            assert all(re.search(rf"\b{setting.name}\b", listed) for setting in of_method), method.name


def figures() -> None:
    every_figure = {**FIGURES, **SWEEP_FIGURES, **TIMING_FIGURES}
    drawn = {figure.drawing.__module__ for figure in every_figure.values()}
    names = {module.rpartition(".")[2] for module in drawn if module.startswith("draftscope.visualizers.figures.")}
    assert len(names) > 10 and named("visualizers/__init__.py", names)
    listed = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    assert [name for name in every_figure if f"`{name}`" not in listed] == []


def checkpoints() -> None:
    assert len(families.CHECKPOINTS) > 10
    loaders = modules("engines/models/checkpoints") | modules("engines/models/checkpoints/images")
    assert {"diffusion_lm", "causal_lm", "harmon"} <= loaders


def versions_of_transformers() -> None:
    tested = (ROOT / "tests/unit/engines/models/test_transformers_api.py").read_text(encoding="utf-8")
    assert [name for name in transformers_api.__all__ if f"api.{name}" not in tested] == []


def bundled_models() -> None:
    listed = json.loads((ROOT / "assets" / "models" / "MANIFEST.json").read_text(encoding="utf-8"))
    for module in catalog.OURS:
        assert ROOT.joinpath(*module.split(".")).with_suffix(".py").is_file(), module
    commands = {entry["command"].split()[2] for entry in listed.values()}
    for module in commands:
        path = ROOT.joinpath(*module.split("."))
        assert path.with_suffix(".py").is_file() or path.is_dir(), module


def measures() -> None:
    assert {"tv", "score"} <= MEASURES.keys() and {"measures", "step_measures"} <= {
        each.name for each in fields(Decision)
    }


def experiments_of_the_page() -> None:
    assert EXPERIMENTS.keys() == tomllib.loads((ROOT / "demo/jobs/experiment.toml").read_text("utf-8")).keys()
    assert ExperimentPanel.__module__ == "draftscope.demo.components.experiment"


def schedulers() -> None:
    assert {"Executor", "Processes"} <= {*dir(experiments)} and {"ResultStore", "JsonlStore"} <= {*dir(experiments)}


def engines_to_certify() -> None:
    assert {"transformers", "llama.cpp"} <= {*certified.NAMES}
    for name in certified.NAMES:
        if name.startswith("transformers"):
            with certified.named_source(name) as source:
                assert source.name.endswith(("plain", "lookup", "assisted")) and callable(source.draw)


def commands() -> None:
    groups = {group.name: group.typer_instance for group in app.registered_groups if group.typer_instance}
    callbacks = [info.callback for part in (app, *groups.values()) for info in part.registered_commands]
    found = {callback.__module__ for callback in callbacks if callback}
    assert len(callbacks) > 15 and {module.rpartition(".")[0] for module in found} == {"draftscope.cli"}
    for name in groups:
        assert CliRunner().invoke(app, [str(name), "--help"]).exit_code == 0


def controls() -> None:
    for page in ("watch", "compare", "choose", "learn"):
        assert "from draftscope.demo.components" in (ROOT / "demo" / "pages" / f"{page}.py").read_text("utf-8"), page


def a_lesson() -> None:
    begun = (lessons.FOLDER / "begin.js").read_text("utf-8")
    for name in lessons.LESSONS:
        assert {path.suffix for path in lessons.FOLDER.glob(f"{name}.*")} == {".html", ".js"}, name
        assert lesson_data(name) and f'from "./{name}.js"' in begun, name


def devices() -> None:
    for file, function in (
        ("models/devices", "resolve"),
        ("runtime/stage_timer", "synchronize"),
        ("models/memory", "free"),
    ):
        assert function in (ROOT / "engines" / f"{file}.py").read_text("utf-8"), file


def hardware() -> None:
    assert {one["name"] for one in presets()["devices"]} == DEVICES.keys()
    assert {one["name"] for one in presets()["sizes"]} == SIZES.keys()


def conclusions() -> None:
    assert {"scd", "s2d2", "psd", "cspd"} <= {*dir(papers)} and {"SCD", "S2D2", "PSD", "SimSD", "CSpD"} == PAPERS.keys()


def benchmarks() -> None:
    sections = {name for names in report.SECTIONS.values() for name in names}
    assert modules("benchmarks") >= {name for name in sections if not name.endswith("_h100")} - {"cspd", "app_busy"}
    assert report.TABLES.keys() <= sections


CHECKS: dict[str, Callable[..., Any]] = {
    "a method": methods,
    "a setting": a_setting,
    "a figure": figures,
    "a checkpoint": checkpoints,
    "support for a version of transformers": versions_of_transformers,
    "a model that ships": bundled_models,
    "a number per token or step": measures,
    "an experiment of the page": experiments_of_the_page,
    "a way to schedule or store many runs": schedulers,
    "an engine to certify": engines_to_certify,
    "a command": commands,
    "a control of the page": controls,
    "a lesson": a_lesson,
    "a device": devices,
    "hardware to predict for": hardware,
    "a published conclusion": conclusions,
    "a benchmark": benchmarks,
}


def test_every_row_has_a_check_and_names_files() -> None:
    assert ROWS.keys() == CHECKS.keys()
    for kind, cell in ROWS.items():
        paths = [span for span in re.findall(r"`([^`]+)`", cell) if "/" in span]
        assert paths, kind
        assert [path for path in paths if not (ROOT / path.partition("NAME")[0]).exists()] == [], kind
        assert all(Path(path).suffix in (".py", ".md", ".json", ".toml", "") for path in paths)


@pytest.mark.parametrize("kind", [kind for kind in CHECKS if kind != "a setting"])
def test_the_row_is_true(kind: str) -> None:
    CHECKS[kind]()


def test_a_setting_needs_one_field(capsys: pytest.CaptureFixture[str]) -> None:
    a_setting(capsys)
