"""A request becomes a job: names, defaults and seeds; what cannot be is refused before loading."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import draftscope as ds
from benchmarks._toy_runs import MODEL
from draftscope.cli.main import main
from draftscope.demo.pages.api import tool_call_error
from draftscope.engines.methods import METHODS
from draftscope.engines.models.catalog import load_model
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.sampling.random_source import MAX_SEED, parse_seed
from draftscope.engines.settings import ConfigError


def test_names_become_a_job_with_defaults() -> None:
    job = RunRequest("scd", "toy-raster", seed=3, settings={"window": 8}, sample=2).job()
    assert (job.method, job.model, job.prompt) == (METHODS["scd"], load_model("toy-raster"), "")
    assert (job.config.window, job.seed, job.sample) == (8, 3, 2)
    assert RunRequest("scd").resolve().model == "studio-image"


def test_settings_overrule_a_preset() -> None:
    request = RunRequest("scd", "toy-raster", settings={"window": 4}, preset="Cosmos").resolve()
    assert (request.config.top_p, request.config.window) == (0.8, 4)
    assert request.resolve() == request


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("method", {"method": "scdd"}),
        ("model", {"model": "none-such"}),
        ("model", {"model": "/etc"}),
        ("preset", {"preset": "none such"}),
        ("settings", {"settings": [1]}),
        ("window", {"settings": {"window": 0}}),
        ("config", {"config": "toy-raster"}),
        ("config", {"config": {"window": 8}}),
        ("window", {"config": METHODS["scd"].config(), "settings": {"window": 8}}),
        ("seed", {"seed": -1}),
        ("seed", {"seed": "three", "local": True}),
        ("prompt", {"prompt": 3}),
        ("prompt", {"prompt": "\ud800"}),
        ("dtype", {"dtype": "int4"}),
        ("ids", {"ids": [1]}),
    ],
)
def test_what_cannot_be_names_its_field(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        RunRequest(**{"method": "scd", **options}).resolve()
    assert str(refused.value).startswith(f"{field}: ")


def test_a_drafter_stands_where_the_method_has_one() -> None:
    with pytest.raises(ConfigError, match="draft: scd has no other model draft"):
        RunRequest("scd", "toy-raster", draft="toy-raster-small").job()
    job = RunRequest("speculative", "toy-raster", draft=load_model("toy-raster-small")).job()
    assert job.load_drafter() is load_model("toy-raster-small")


def python(seed: Any, folder: Path) -> str:
    with pytest.raises(ValueError) as caught:
        ds.run("ar", model=MODEL, seed=seed)
    return str(caught.value)


def programs(seed: Any, folder: Path) -> str:
    return tool_call_error("draftscope_run", {"method": "ar", "prompt": "", "model": MODEL, "seed": seed}) or ""


@pytest.mark.parametrize("seed", [-1, MAX_SEED + 1, 1.5, "7", True, None])
@pytest.mark.parametrize("way", [python, programs])
def test_what_is_no_seed(seed: Any, way: Callable[[Any, Path], str], tmp_path: Path) -> None:
    problem = "is empty" if seed is None else f"{seed!r} is not allowed"
    assert way(seed, tmp_path) == f"seed: {problem}; use a whole number from 0 to 2147483647."


@pytest.mark.parametrize(
    ("seed", "problem"), [("-1", "-1"), ("2147483648", "2147483648"), ("1.5", "'1.5'"), ("x", "'x'")]
)
def test_on_the_command_line(seed: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "ar", "--model", MODEL, "--seed", seed, "-o", str(tmp_path / "a.json")]) == 2
    message = f"seed: {problem} is not allowed; use a whole number from 0 to 2147483647."
    assert capsys.readouterr().err == f"draftscope run: {message}\n"


def test_the_last_seed() -> None:
    assert parse_seed(MAX_SEED) == 2147483647
