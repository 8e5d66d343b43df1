"""The wheel: its contents, and the parts that work without torch or weights."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support import handmade

from draftscope.engines import paths as assets
from draftscope.engines.models import catalog
from draftscope.engines.models.catalog import load_model
from draftscope.engines.models.errors import ModelError
from draftscope.engines.runtime.method_index import methods
from draftscope.traces import read, write
from draftscope.traces.files import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = ("analysis", "demo", "draftscope", "engines", "traces", "visualizers")
WITH_THEM = ("docs/methods/", "benchmarks/results/", "assets/problems.json")
"""Further files that the build reads; of the assets one, as all are 130 MB."""


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
@pytest.mark.nightly
def test_a_wheel_from_a_source_archive_holds_the_packages_and_the_player(tmp_path: Path) -> None:
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    source = tmp_path / "source"
    for name in listed.stdout.splitlines():
        if name.startswith((*PACKAGES, *WITH_THEM)) or "/" not in name:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    target = tmp_path / "installed"
    code = f"import setuptools.build_meta as build; build.build_sdist({str(tmp_path)!r})"
    archived = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True)
    if "No module named 'setuptools'" in archived.stderr or "setuptools>=77" in archived.stderr:
        pytest.skip("needs setuptools 77 or later in the environment")
    archive = next(tmp_path.glob("draftscope-*.tar.gz"), None)
    assert archive, archived.stderr
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation", "--quiet",
         "--target", str(target), str(archive)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    write(handmade.scd(), tmp_path / "run.json")
    code = "import sys, draftscope as ds; ds.view(ds.read(sys.argv[1]), sys.argv[2]); print(ds.__file__)"
    environment = os.environ | {"PYTHONPATH": str(target)}
    command = [sys.executable, "-c", code, "run.json", "run.html"]
    viewed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert viewed.stdout.startswith(str(target)), viewed.stderr
    assert (tmp_path / "run.html").stat().st_size > 1_000_000
    assert {path.name for path in target.iterdir() if path.suffix != ".dist-info"} <= {"bin", "draftscope"}
    assert {"engines", "traces", "demo"} <= {path.name for path in (target / "draftscope").iterdir()}
    shown = ("app.py", "docs/methods/scd.md", "benchmarks/results", "demo/jobs/tour.toml")
    assert all((target / "draftscope" / name).exists() for name in shown)
    problems = (ROOT / "assets" / "problems.json").read_bytes()
    hashes = json.loads((target / "draftscope" / "engines" / "assets.json").read_text())
    assert hashes == {"problems.json": [len(problems), sha256(problems).hexdigest()]}
    for name in ("traces", "engines", "visualizers"):  # such as the packages of these names on PyPI
        (tmp_path / "others" / name).mkdir(parents=True)
        (tmp_path / "others" / name / "__init__.py").write_text(f"raise ImportError({name!r})\n", encoding="utf-8")
    environment["PYTHONPATH"] = os.pathsep.join((str(tmp_path / "others"), str(target)))
    code = "import sys; sys.modules['torch'] = None; from draftscope.cli.main import main; "
    code += "main(['list', 'methods', '--json'])"
    environment["DRAFTSCOPE_CACHE"] = str(tmp_path / "unused")
    listed = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert json.loads(listed.stdout)["methods"] == json.loads(json.dumps(methods())), listed.stderr
    assert not (tmp_path / "unused").exists()
    assert read(tmp_path / "run.json") == handmade.scd()


CODE = """
import sys
import draftscope as ds
heavy = [name for name in ("torch", "transformers", "plotly", "pandas", "draftscope.engines") if name in sys.modules]
assert not heavy, heavy
assert not hasattr(ds, "nonsense")
assert "run" in dir(ds)
for name in ("torch", "transformers", "diffusers", "gradio", "safetensors", "jaxtyping"):
    sys.modules[name] = None
trace = ds.read(sys.argv[1])
assert repr(trace).startswith("<Trace speculative on "), repr(trace)
from draftscope import traces
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
assert not [name for name in sys.modules if name.startswith("draftscope.engines")]
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
