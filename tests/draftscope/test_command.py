"""The command `draftscope`, and what pip installs."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from support import handmade

from draftscope.__main__ import main
from engines import assets
from engines.models import catalog
from engines.models.catalog import load_model
from engines.models.errors import ModelError
from engines.runtime.environment import commit
from traces import read, write

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = ("draftscope", "engines", "traces", "visualizers")


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
    assert main(["app", "--port", "1"]) == 2
    assert "takes no '--port'; GRADIO_SERVER_PORT" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["app", "sweep"])
def test_outside_a_checkout_some_commands_are_absent(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("draftscope.__main__._ROOT", tmp_path)
    assert main([name]) == 2
    assert capsys.readouterr().err == (
        f"draftscope {name}: is no part of the package; run it in a checkout of the repository\n"
    )


@pytest.mark.slow
def test_sweep_is_the_command_of_the_checkout() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "draftscope", "sweep", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "grid" in done.stdout


def test_without_torch_run_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from draftscope.__main__ import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, "run", "ar"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "draftscope run: needs torch, which is not installed; pip install 'draftscope[engines]'\n"


def test_a_reader_may_leave_early() -> None:
    listing = subprocess.Popen(
        [sys.executable, "-m", "draftscope", "list"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert listing.stdout is not None and listing.stderr is not None
    listing.stdout.close()
    assert listing.stderr.read() == b""
    listing.stderr.close()
    assert listing.wait() == 0


def test_weights_are_found_where_the_variable_says(tmp_path: Path) -> None:
    code = "from engines.assets import ASSETS; print(ASSETS)"
    for value, expected in ((str(tmp_path), tmp_path), ("", ROOT / "assets")):
        environment = os.environ | {"DRAFTSCOPE_ASSETS": value}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == str(expected)


@pytest.mark.parametrize("model", ["studio-image", "patch-target", "text-draft"])
def test_without_weights_the_error_says_where_they_are(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "ASSETS", tmp_path / "assets")
    with pytest.raises(ModelError, match=rf"{model}: its weights are missing, there is no folder .* DRAFTSCOPE_ASSETS"):
        load_model(model)
    assert load_model("toy-raster").card.id == "toy-raster"
    assert assets.VARIABLE == "DRAFTSCOPE_ASSETS"


def test_an_installed_package_does_not_take_somebody_elses_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment often lies in a project that is a checkout itself."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    package = tmp_path / "lib" / "engines" / "runtime"
    package.mkdir(parents=True)
    monkeypatch.setattr("engines.runtime.environment.__file__", str(package / "environment.py"))
    asked: list[object] = []
    monkeypatch.setattr(subprocess, "run", lambda *rest, **_: asked.append(rest))
    assert commit.__wrapped__() == ""
    assert asked == []


def pinned() -> dict[str, Version]:
    found = re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    return {name.lower(): Version(version) for name, version in found}


def wanted() -> dict[str, Requirement]:
    extras = PROJECT["project"]["optional-dependencies"]
    lines = [*PROJECT["project"]["dependencies"], *extras["engines"], *extras["app"]]
    found = map(Requirement, lines)
    return {each.name.lower(): each for each in found if each.name != "draftscope"}


def test_the_ranges_take_the_versions_that_are_tested() -> None:
    for name, range_ in wanted().items():
        if name != "typing_extensions":  # comes with pydantic
            assert pinned()[name] in range_.specifier, name


def imported(packages: tuple[str, ...]) -> set[str]:
    found: set[str] = set()
    for package in packages:
        for path in (ROOT / package).rglob("*.py"):
            found |= set(re.findall(r"^(?:from|import) (\w+)", path.read_text(), re.MULTILINE))
    return found - set(sys.stdlib_module_names) - set(PACKAGES)


def test_what_reads_and_draws_imports_only_what_is_installed_with_it() -> None:
    core = {Requirement(line).name for line in PROJECT["project"]["dependencies"]}
    names = {
        "PIL": "pillow",
        "pydantic_core": "pydantic",
        "choreographer": "kaleido",
        "imageio_ffmpeg": "imageio-ffmpeg",
    }
    names["imageio_ffmpeg"] = "imageio-ffmpeg"
    light = imported(("traces", "visualizers")) | {"plotly"}
    assert {names.get(name, name) for name in light} <= core
    for name in ("pydantic-core",):
        assert any(line.startswith(name) for line in requires("pydantic") or [])


def test_every_file_of_the_player_is_packaged() -> None:
    endings = {pattern.rpartition("*")[2] for pattern in PROJECT["tool"]["setuptools"]["package-data"]["visualizers"]}
    for package in PACKAGES:
        other = {
            path.suffix
            for path in (ROOT / package).rglob("*.*")
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".py"
        }
        assert other <= (endings if package == "visualizers" else set()), package


def test_packages_are_packages() -> None:
    for package in PACKAGES:
        for folder in {path.parent for path in (ROOT / package).rglob("*.py")}:
            assert (folder / "__init__.py").is_file(), folder


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
    made = subprocess.run(
        [sys.executable, "-c", code, "run.json", "run.html"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert made.stdout.startswith(str(target)), made.stderr
    assert (tmp_path / "run.html").stat().st_size > 1_000_000
    assert not (target / "tests").exists()
    assert read(tmp_path / "run.json") == handmade.scd()
