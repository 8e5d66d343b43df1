"""The repository as a Hugging Face Space: its front matter, its packages, and an app that starts there."""

import ast
import json
import re
import subprocess
import time
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import httpx
import pytest
import yaml
from gradio_client import Client
from gradio_client.utils import Status
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks._app_process import served
from draftscope.traces import loads
from draftscope.traces.files import ROOT


def test_the_front_matter_and_the_packages_of_the_system_are_what_the_hub_takes() -> None:
    head, between, _ = (ROOT / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    front = yaml.safe_load(between)
    assert head == ""
    assert front["sdk"] == "gradio"
    assert (ROOT / front["app_file"]).is_file()
    colours = ("red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray")
    assert {front["colorFrom"], front["colorTo"]} <= set(colours)
    assert len(front["short_description"]) <= 60
    assert front["license"] == "apache-2.0"
    assert f"gradio=={front['sdk_version']}\n" in (ROOT / "requirements.txt").read_text(encoding="utf-8")
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'requires-python = ">={front["python_version"]}' in pyproject
    assert isinstance(front["python_version"], str), "unquoted, 3.10 would be 3.1"
    assert all(re.fullmatch(r"[a-z-]+", tag) for tag in front["tags"])
    lines = (ROOT / "packages.txt").read_text(encoding="utf-8").splitlines()
    assert "chromium" in lines, "PDF and SVG figures are drawn by Chromium"
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9.+-]+", line)] == []


def distributions(file: str) -> set[str]:
    """Return the distributions that a requirements file installs, dependencies included."""
    text = (ROOT / file).read_text(encoding="utf-8")
    waiting = re.findall(r"^([\w.-]+)==", text, re.MULTILINE)
    names: set[str] = set()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in names:
            continue
        names.add(name)
        try:
            wanted = map(Requirement, requires(name) or ())
        except PackageNotFoundError:
            continue  # for another system
        waiting += [each.name for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})]
    return names


@pytest.mark.one_quick
@pytest.mark.parametrize("package", ["app.py", "demo", "engines", "traces", "visualizers"])
def test_the_requirements_bring_what_is_imported(package: str) -> None:
    brought, packages = distributions("requirements.txt") | {"draftscope"}, packages_distributions()
    files = [ROOT / package] if package.endswith(".py") else sorted((ROOT / package).rglob("*.py"))
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            for name in names:
                sources = {canonicalize_name(each) for each in packages.get(name.partition(".")[0], ())}
                assert not sources or sources & brought, f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.slow
def test_the_app_starts_where_a_space_starts_it_and_writes_nothing_to_the_checkout(tmp_path: Path) -> None:
    def changes() -> bytes:
        return subprocess.check_output(["git", "-c", "safe.directory=*", "status", "--short"], cwd=ROOT)

    space = {"SYSTEM": "spaces", "SPACE_ID": "somebody/draftscope", "SPACE_HOST": "somebody-draftscope.hf.space"}
    before = changes()
    with served(space | {"TMPDIR": str(tmp_path)}) as (address, _, process):
        assert "Draftscope" in httpx.get(address).text
        tools = {tool["name"] for tool in httpx.get(f"{address}/gradio_api/mcp/schema").json()}
        assert tools == {"draftscope_run", "draftscope_methods", "draftscope_validate"}
        client = Client(address, verbose=False, download_files=str(tmp_path))
        run = client.predict("scd", model="toy-raster", settings={"window": 64}, api_name="/run")
        assert loads(json.dumps(run).encode()).method == "scd"
        under_way = client.submit("cspd", model="toy-field", settings={"steps": 100, "gamma": 32}, api_name="/run")
        while under_way.status().code is not Status.PROCESSING:
            time.sleep(0.05)
        assert process.poll() is None and len(list(tmp_path.glob("draftscope-*"))) == 2
    assert process.returncode == 0  # though a thread is decoding
    assert not list(tmp_path.glob("draftscope-*"))  # what visitors left goes with it
    assert changes() == before
