"""Every block of code in README and docs: Python and commands run, data is read, exemptions have a reason.

A block of `text` is what the block of `python` before it prints. Two blanks separate a command from a remark.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from support import handmade, results

from draftscope.cli.main import main
from draftscope.experiments import Experiment
from draftscope.traces import write
from draftscope.traces.files import ROOT
from draftscope.visualizers import export_zip

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON_ELSEWHERE = {
    "docs/python.md": "test_doc_examples.py runs its snippets with tiny models in place of those of the hub",
    "docs/engines.md": "needs sequential-speculative-decoding, whose bias it shows",
    "docs/benchmarks.md": "its scripts start jobs and pods; test_cluster.py runs them with a worker of its own",
    "docs/api.md": "needs a running app; test_http_api.py calls the same endpoints of one",
}
# What a line of a shell block holds -> why it is not run here.
NOT_RUN = {
    r"^(helm|dask) ": "needs a cluster; test_cluster.py starts one, and runs the scripts of the page",
    r"^(git|make|docker|pip|hf|python3?|cd|mkdir|\.|\.venv/bin/\S+|build/\S+) ": "sets up a machine, or measures",
    r"^DRAFTSCOPE_ROBUSTNESS=": "takes a quarter of an hour; CI runs a part of it",
    r"^(curl|id=|-d) ": "needs a running app; test_http_api.py calls the same endpoints of one",
    r"^(for .*; do|done|found = |made = |ds\.|run = |trace)|\$": "a loop, or Python that needs a server or an account",
    r"(prompt_lookup|my_module):METHOD|lookup\.json": "test_custom_method.py runs it",
    r"https?://": "needs a running server; tests/unit/draftscope has one for each command",
    r"\b[A-Z]{2,}\b(?!\.)|\*": "a form with names in capitals or a pattern; test_docs.py looks its options up",
    r"\.(pdf|svg|png|zip)\b": "Chromium draws it; test_export_zip.py draws such files",
    r"draftscope (app|certify|bench|dev|model|experiment)\b|rows\.jsonl": "serves, downloads, or takes minutes",
    r"draftscope hardware calibrate|here\.json": "takes half a minute; its test has a fixed machine",
    r"--model (\S+/|bd3lm)|smollm2": "needs published weights",
    r"\bowl\b|studio-": "takes seconds; its like is run from Python",
    r"assets/| [|>] ": "reads the checkout, or a pipe, which test_streams.py has",
    r"^\S+ INFO |^window: |^<Trace": "a line of a log, or an error",
}


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *kinds: str) -> Iterator[tuple[str, str]]:
    return ((kind, code) for kind, code in BLOCK.findall(page.read_text(encoding="utf-8")) if kind in kinds)


@pytest.fixture(autouse=True)
def _reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the files that pages expect of the reader; Chromium draws nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(go.Figure, "write_image", lambda figure, path: Path(path).touch())
    monkeypatch.setattr(export_zip, "render_images", lambda jobs, *_, **__: [b"" for _ in jobs])
    for stem, maker in (("run", handmade.psd), ("ar", handmade.ar), ("scd", handmade.scd)):
        write(maker(), tmp_path / f"{stem}.json.gz")
    (tmp_path / "results.jsonl.gz").write_text("\n".join(map(json.dumps, results.sweep())))


PYTHON = [page for page in PAGES if any(blocks(page, "python")) and name(page) not in PYTHON_ELSEWHERE]


@pytest.mark.slow
@pytest.mark.parametrize("page", PYTHON, ids=name)
def test_the_python_of_a_page_runs_and_prints_what_the_page_shows(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace: dict[str, Any] = {"__name__": "page"}
    printed = ""
    for kind, code in blocks(page, "python", "text"):
        if kind == "python":
            exec(compile(code, name(page), "exec"), namespace)
            printed = capsys.readouterr().out
        else:
            assert printed == code


def commands(page: Path) -> list[str]:
    code = "\n".join(code for _, code in blocks(page, "", "sh")).replace("\\\n", " ")
    lines = (re.split(r"\s{2,}(?=\S)", line.strip(), maxsplit=1)[0] for line in code.splitlines())
    return [line for line in lines if line and not any(re.search(pattern, line) for pattern in NOT_RUN)]


RUN = [page for page in PAGES if commands(page)]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=name)
def test_the_commands_of_a_page_run(page: Path) -> None:
    for line in commands(page):
        program, *words = shlex.split(line)
        assert program == "draftscope", f"{line}: neither a command of this project, nor exempt"
        assert main(words) == 0, line


def test_exemptions_are_needed() -> None:
    lines = [line.strip() for page in PAGES for _, code in blocks(page, "", "sh") for line in code.splitlines()]
    for pattern, reason in NOT_RUN.items():
        assert reason and any(re.search(pattern, line) for line in lines), f"{pattern}: exempts nothing"


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page, "json", "js"))], ids=name)
def test_the_data_of_a_page_is_json(page: Path) -> None:
    for kind, code in blocks(page, "json", "js"):
        document = json.loads(code if kind == "json" else code if code.startswith("{") else f"{{{code}}}")
        if "configurations" in document:
            Path("grid.json").write_text(code)
            assert Experiment.read("grid.json").arms
