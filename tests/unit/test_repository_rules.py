"""The house rules that a command can check, shapes and types too. Who may import whom is checked by import-linter."""

import ast
import doctest
import gzip
import json
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch
from jaxtyping import TypeCheckError
from support import shapes

from draftscope.engines.assets import SOURCE
from draftscope.engines.methods import METHODS
from draftscope.engines.sampling.coupling import residual
from draftscope.traces.files import ROOT
from draftscope.traces.json_schema import SCHEMA_ID
from draftscope.traces.schema import VERSION
from draftscope.traces.version import __version__

PACKAGES = ("analysis", "demo", "draftscope", "engines", "traces", "visualizers")
NO_METHODS = ("__init__", "method", "explanations")
METHOD_FILES = sorted(p for p in (ROOT / "engines" / "methods").glob("*.py") if p.stem not in NO_METHODS)
SOURCES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))

WITH_EXAMPLES = [p for p in SOURCES if ">>> " in p.read_text(encoding="utf-8")]

MAX_FUNCTION_LINES = 80
MAX_ASSET_BYTES = 140_000_000
MAX_FILE_BYTES = 10 * 2**20  # what a repository of Hugging Face's hub takes through plain git

MACHINE_PATH = re.compile(rb"(?<![\w.~}/-])/(?:home|root|Users|mnt|work|tmp)/[\w.]")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [path for line in listed.stdout.split("\0") if line and (path := ROOT / line).is_file()]


def test_functions_are_short() -> None:
    sizes = {
        f"{name(path)}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {function: size for function, size in sizes.items() if size > MAX_FUNCTION_LINES} == {}


def test_no_module_needs_one_operating_system() -> None:
    unix = {
        "crypt",
        "curses",
        "fcntl",
        "grp",
        "posix",
        "pty",
        "pwd",
        "resource",
        "readline",
        "syslog",
        "termios",
        "tty",
    }
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = (
                    [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
                )
                found += [f"{name(path)}:{node.lineno}: {each}" for each in modules if each in unix]
            elif isinstance(node, ast.Call) and (call := ast.unparse(node.func)) != "formatter.write_text":
                num_positional = {"read_text": 1, "write_text": 2}.get(call.rpartition(".")[2], 0)
                if len(node.args) < num_positional and all(keyword.arg != "encoding" for keyword in node.keywords):
                    found.append(f"{name(path)}:{node.lineno}: {call} without encoding")  # Windows has no UTF-8
    assert found == []


def test_every_method_file_is_registered() -> None:
    registered = {method.decode.__module__.rpartition(".")[2] for method in METHODS.values()}
    assert {path.stem for path in METHOD_FILES} == registered


def test_unit_tests_are_named_after_their_module_or_are_for_a_whole_package() -> None:
    unit = ROOT / "tests" / "unit"
    for path in unit.rglob("test_*.py"):
        package = path.parent.relative_to(unit)
        subject = path.stem.removeprefix("test_")
        if package.parts and not subject.startswith("all_"):
            tested = ROOT / package / subject
            assert tested.with_suffix(".py").is_file() or tested.is_dir(), name(path)
        assert (ROOT / package).is_dir(), name(path)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_described(method: str) -> None:
    page = ROOT / "docs" / "methods" / f"{method}.md"
    assert page.is_file(), f"{name(page)} is missing"
    for part in page.read_text(encoding="utf-8").split("\n## In the code\n"):
        assert len(part.split()) > 50, f"{name(page)} says too little"
    assert page.read_text(encoding="utf-8").count("\n## In the code\n") == 1


def test_the_image_has_every_package_and_the_texts_that_the_page_shows() -> None:
    patterns = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {
        f"!{part}" for part in ("docs/methods", "analysis", "demo", "draftscope", "engines", "traces", "visualizers")
    } <= {*patterns}


def test_the_manifest_names_all_weights_and_says_how_each_was_made() -> None:
    """Its hashes are checked by tests/unit/engines/models/bundled/test_manifest.py."""
    models = ROOT / "assets" / "models"
    manifest = json.loads((models / "MANIFEST.json").read_text(encoding="utf-8"))
    recorded = {entry["file"] for entry in manifest.values() if "file" in entry}
    recorded |= {f"{folder}/{file}" for folder, entry in manifest.items() for file in entry.get("files", {})}
    assert {path.relative_to(models).as_posix() for path in models.rglob("*.safetensors")} == recorded
    needed = ("data", "command", "metrics", "seed")
    assert [(key, one) for key, entry in manifest.items() for one in needed if entry.get(one) in (None, "", {})] == []


def test_assets_stay_small_and_no_file_is_larger_than_a_space_takes() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "assets").rglob("*") if path.is_file()) < MAX_ASSET_BYTES
    large = {name(path): path.stat().st_size for path in tracked() if path.stat().st_size > MAX_FILE_BYTES}
    assert large == {}


@pytest.mark.slow
def test_no_file_names_a_path_of_somebodys_machine() -> None:
    paths = []
    for path in tracked():
        if path.suffix in (".safetensors", ".png", ".webp", ".pdf"):
            continue
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        paths += [f"{name(path)}: {match.group().decode()}" for match in MACHINE_PATH.finditer(content)]
    assert paths == []


def test_the_projects_address_is_that_of_pyproject_everywhere() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    project = urls["Repository"].removeprefix("https://github.com/")
    assert f"https://raw.githubusercontent.com/{project}/v{__version__}/assets" == SOURCE
    assert f"{urls['Documentation']}schema/{VERSION}/trace.schema.json" == SCHEMA_ID
    found = subprocess.run(
        ["git", "-c", "safe.directory=*", "grep", "-IlF", "-e", project, "-e", urls["Documentation"]],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    others = {"docs/trace.schema.json"}  # which the command writes
    assert {*found.stdout.split()} - others == {"pyproject.toml", "engines/assets.py", "traces/json_schema.py"}


def test_requirements_are_pinned_and_come_from_no_particular_index() -> None:
    for file in ("requirements.txt", "requirements-dev.txt", "requirements-docs.txt", "requirements-tools.txt"):
        text = (ROOT / file).read_text(encoding="utf-8")
        wanted = [line for line in text.splitlines() if line and not line.startswith(("#", "-r "))]
        assert wanted, file
        assert [line for line in wanted if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == [], file


def test_actions_are_pinned_by_the_hash_of_a_commit_with_its_version() -> None:
    used = [line for path in (ROOT / ".github" / "workflows").glob("*.yml") for line in path.read_text().splitlines()]
    used = [line.partition("uses:")[2].strip() for line in used if "uses:" in line]
    assert len(used) > 10
    assert [line for line in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", line)] == []


@pytest.mark.parametrize(
    ("lock", "file"),
    [("app", "requirements"), ("dev", "requirements-dev"), ("dev", "requirements-docs"), ("gpu", "requirements")],
)
def test_locks_hold_what_is_required_by_hash_and_name_no_index(lock: str, file: str) -> None:
    text = (ROOT / "locks" / f"{lock}.txt").read_text(encoding="utf-8")
    assert "://" not in text and "index-url" not in text and "find-links" not in text
    entries = [entry for entry in text.replace("\\\n", " ").splitlines() if entry and entry.lstrip()[0] != "#"]
    locked = set()
    for entry in entries:
        pin = re.match(r"([\w.-]+)==([\w.]+) ", entry)
        assert pin and re.search(r" --hash=sha256:[0-9a-f]{64}", entry), entry
        locked.add(pin.group(0).strip())
    wanted = re.findall(r"^[\w.-]+==[\w.]+$", (ROOT / f"{file}.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert {one for one in wanted if lock == "gpu" or not one.startswith("torch==")} - locked == set(), "run make lock"


def test_no_width_changes_a_colour_of_the_page() -> None:
    """So contrast is compared at one of several widths."""
    for path in (ROOT / "demo").rglob("*.py"):
        for block in re.findall(r"@media \((?:max|min)-width[^{]*\{((?:[^{}]*\{[^{}]*\})*)", path.read_text("utf-8")):
            assert not re.search(r"\b(color|background|fill)[\w-]*:", block), path.name


TWO, THREE = torch.full((1, 2), 0.5), torch.full((1, 3), 0.3)


def test_the_first_calls_of_a_function_are_checked_anew_in_every_test() -> None:
    for _ in range(shapes.CALLS):
        residual(TWO, TWO)
    with pytest.raises(RuntimeError, match="size of tensor"):  # torch's own, since nothing checks any more
        residual(TWO, THREE)
    shapes.begin()
    with pytest.raises(TypeCheckError, match="residual"):
        residual(TWO, THREE)


DEFINED = """
from dataclasses import dataclass
from functools import cache, cached_property

@dataclass(frozen=True)
class A:
    number: int
    def method(self) -> int:
        class Local:
            def never(self) -> None: ...
        def inner() -> int: ...
        return inner
    @property
    def read(self) -> int: ...
    @cached_property
    def once(self) -> int: ...
    @classmethod
    def build(cls) -> "A": ...
    @staticmethod
    def apart() -> None: ...

@cache
def kept(number: int) -> int: ...
"""


def test_what_a_module_and_its_classes_define_is_checked_and_no_function_within_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = ModuleType("defined")
    monkeypatch.setitem(sys.modules, "defined", module)
    exec(DEFINED, vars(module))
    names = {function.__qualname__ for function in shapes.functions(module)}
    assert names == {"A.__init__", "A.method", "A.read", "A.once", "A.build", "A.apart", "kept"}


@pytest.mark.parametrize("uv", ["", "/tools/uv"])
def test_make_app_says_what_it_installs_and_by_what(uv: str, tmp_path: Path) -> None:
    command = ["make", "-n", "app", "PYTHON=python3.13", f"VENV={tmp_path}/venv", f"UV={uv}"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    installs = [line for line in shown if " install " in line]
    assert len(installs) == 4 and not any("--quiet" in line for line in installs)
    by_pip = [line for line in installs if not (line.startswith("/tools/uv pip install ") and " || " in line)]
    assert len(by_pip) == (1 if uv else 4) and "--no-deps" in by_pip[0]  # torch
    assert all("-m pip install " in line for line in installs)
    assert sum(line.startswith('echo "Installing ') for line in shown) == 3
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o700)
    refused = subprocess.run(
        ["make", f"{tmp_path}/venv/bin/python", f"PYTHON={python}", f"VENV={tmp_path}/venv"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode != 0 and "Draftscope needs Python 3.11 to 3.13 and" in refused.stderr


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.stem)
def test_examples_in_docstrings_give_what_they_show(path: Path) -> None:
    parts = path.relative_to(ROOT).with_suffix("").parts
    module = import_module(".".join(parts if parts[0] == "draftscope" else ("draftscope", *parts)))
    results = doctest.testmod(module)
    assert not results.failed
