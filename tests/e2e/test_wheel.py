"""The command `draftscope`, what pip installs, and what works where there is no torch."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support import handmade

import draftscope as ds
from draftscope.__main__ import main
from engines import paths as assets
from engines.models import catalog
from engines.models.catalog import load_model
from engines.models.errors import ModelError
from traces import read, write
from traces.files import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = ("analysis", "cli", "draftscope", "engines", "traces", "visualizers")


def test_run_validate_and_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "run.json"
    assert main(["run", "scd", "--model", "toy-raster", "--set", "window=8", "-o", str(trace)]) == 0
    assert "method scd, model toy-raster, tokens 256" in capsys.readouterr().out
    assert main(["validate", str(trace)]) == 0
    assert main(["view", str(trace), "--figure", "race", "-o", str(tmp_path / "race.html")]) == 0
    assert (tmp_path / "race.html").stat().st_size > 1_000_000
    trace.write_text("{}")
    assert main(["validate", str(trace)]) == 1


def test_what_it_says_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "draftscope run METHOD -o FILE" in capsys.readouterr().out
    assert main([]) == 2
    assert main(["rnu"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("draftscope: a command is missing; use one of run, ")
    assert said[1].startswith("draftscope: there is no command 'rnu'; use one of run, ")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"draftscope {ds.__version__}\n"
    assert main(["app", "--port", "1"]) == 2
    assert "takes no '--port'; GRADIO_SERVER_PORT" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["app", "sweep"])
def test_outside_a_checkout_some_commands_are_absent(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("draftscope.__main__.ROOT", tmp_path)
    assert main([name]) == 2
    assert capsys.readouterr().err == (
        f"draftscope {name}: is no part of the package; run it in a checkout of the repository\n"
    )


def test_without_torch_run_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from draftscope.__main__ import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, "run", "ar"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "draftscope run: needs torch, which is not installed; pip install 'draftscope[engines]'\n"


@pytest.mark.parametrize("model", ["studio-image", "patch-target", "text-draft"])
def test_missing_weights_are_said_with_their_folder(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "ASSETS", tmp_path / "assets")
    with pytest.raises(ModelError, match=rf"{model}: its weights are missing, there is no folder .* DRAFTSCOPE_ASSETS"):
        load_model(model)
    assert load_model("toy-raster").card.id == "toy-raster"
    assert assets.ASSETS_VARIABLE == "DRAFTSCOPE_ASSETS"


def test_what_reads_and_draws_imports_only_what_is_installed_with_it() -> None:
    core = {Requirement(line).name for line in PROJECT["project"]["dependencies"]}
    names = {"PIL": "pillow", "choreographer": "kaleido", "imageio_ffmpeg": "imageio-ffmpeg"}
    names |= {"pydantic_core": "pydantic"}  # which requires it
    paths = [path for package in ("traces", "visualizers") for path in (ROOT / package).rglob("*.py")]
    light = {name for p in paths for name in re.findall(r"^(?:from|import) (\w+)", p.read_text(), re.MULTILINE)}
    light = (light - set(sys.stdlib_module_names) - set(PACKAGES)) | {"plotly"}
    assert {names.get(name, name) for name in light} <= core


@pytest.mark.slow
def test_a_wheel_holds_the_packages_and_the_player(tmp_path: Path) -> None:
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    source = tmp_path / "source"
    for name in listed.stdout.splitlines():
        if name.startswith(PACKAGES) or "/" not in name:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    target = tmp_path / "installed"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation", "--quiet",
         "--target", str(target), str(source)],
        capture_output=True, text=True,
    )  # fmt: skip
    if "No module named 'setuptools'" in done.stderr or "setuptools>=77" in done.stderr:
        pytest.skip("needs setuptools 77 or later in the environment")
    assert done.returncode == 0, done.stderr
    write(handmade.scd(), tmp_path / "run.json")
    code = "import sys, draftscope as ds; ds.view(ds.read(sys.argv[1]), sys.argv[2]); print(ds.__file__)"
    environment = os.environ | {"PYTHONPATH": str(target)}
    command = [sys.executable, "-c", code, "run.json", "run.html"]
    made = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert made.stdout.startswith(str(target)), made.stderr
    assert (tmp_path / "run.html").stat().st_size > 1_000_000
    assert not (target / "tests").exists()
    assert read(tmp_path / "run.json") == handmade.scd()


CODE = """
import sys
import draftscope as ds
heavy = [name for name in ("torch", "transformers", "plotly", "pandas", "engines") if name in sys.modules]
assert not heavy, heavy
assert not hasattr(ds, "nonsense")
assert "run" in dir(ds)
for name in ("torch", "transformers", "diffusers", "gradio", "safetensors", "jaxtyping"):
    sys.modules[name] = None
trace = ds.read(sys.argv[1])
assert repr(trace).startswith("<Trace speculative on "), repr(trace)
import traces
assert traces.state_after(trace, len(trace.steps)).decoded
assert "churn" in ds.figures(trace)
for name in ds.figures(trace):
    assert ds.figure(name, trace).data
page = ds.view(trace, sys.argv[2] + "/run.html")
assert page.stat().st_size > 100_000
ds.write(trace, sys.argv[2] + "/copy.json.gz")
assert ds.read(sys.argv[2] + "/copy.json.gz") == trace
assert "srcdoc" in trace._repr_html_()
builder = ds.TraceBuilder("mine", "a/b")
builder.count(3, 4, 4)
assert builder.trace().summary.tokens == 4
assert not [name for name in sys.modules if name.split(".")[0] == "engines"]
for name in ("run", "record", "methods"):
    try:
        getattr(ds, name)
    except ImportError as error:
        assert str(error).startswith(f"ds.{name} runs models and needs "), error
        assert "pip install 'draftscope[engines]'" in str(error)
    else:
        raise AssertionError(name)
"""


@pytest.mark.slow
def test_reading_replaying_and_drawing_need_no_torch_and_importing_loads_nothing_heavy(tmp_path: Path) -> None:
    trace = ROOT / "assets" / "traces" / "speculative-juice.json.gz"
    command = [sys.executable, "-c", CODE, str(trace), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
