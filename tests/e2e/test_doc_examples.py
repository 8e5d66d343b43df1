"""Code of the documentation: snippets of docs/python.md in one namespace, notebooks, and two readers of traces."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from support import handmade
from support.tiny_llama import Letters, llama, noisy
from transformers import AutoModelForCausalLM, AutoTokenizer, BatchEncoding

import draftscope as ds
from draftscope.traces import Fate, Trace, canvas_states, check, read, state_after, write
from draftscope.traces.count_only import expand_counts
from draftscope.traces.files import ROOT
from tools.notebooks import MAX_FILE_BYTES

DOCS = ROOT / "docs"
PAGE = (DOCS / "python.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NOTEBOOKS = sorted((DOCS / "examples").glob("*.ipynb"))


class Tokenizer(Letters):
    """Reads letters and blanks, as a tokenizer of the hub would be called."""

    def __call__(self, text: str, return_tensors: str = "") -> Any:
        ids = torch.tensor([[ord(letter) % 64 for letter in text]])
        return BatchEncoding({"input_ids": ids, "attention_mask": torch.ones_like(ids)})


@pytest.fixture
def namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An empty namespace in an empty folder, with tiny models in place of those of the hub."""
    monkeypatch.chdir(tmp_path)
    models = {"OWNER/LARGE": llama(), "OWNER/SMALL": noisy(llama(), 0.1)}
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda name: models[name])
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda name: Tokenizer())
    return {"__name__": "page"}


@pytest.mark.slow
def test_the_snippets_run(namespace: dict[str, Any]) -> None:
    assert len(SNIPPETS) >= 6
    for number, snippet in enumerate(SNIPPETS):
        exec(compile(snippet, f"snippet {number}", "exec"), namespace)
    traces = {name: value for name, value in namespace.items() if isinstance(value, ds.Trace)}
    served = {"coarse", "vllm", "sglang", "llama_cpp"}
    assert {"trace", "plain", "jacobi", "lookup", "early", "built", *served} <= traces.keys()
    for name, trace in traces.items():
        check(trace)
        assert trace.summary.tokens, name
    assert traces["coarse"].summary.accepted == 7
    assert sorted(path.name for path in Path().iterdir()) == ["bench.json", "both.html", "run.html", "run.json.gz"]
    assert namespace["race"].data


def test_what_the_page_names_is_there() -> None:
    for name in set(re.findall(r"\bds\.(\w+)", PAGE)):
        assert hasattr(ds, name), name
    for extra in re.findall(r"'\.\[(\w+)\]'", PAGE):
        assert f"\n{extra} = [" in (DOCS.parent / "pyproject.toml").read_text()


NO_PICTURES = r"""
import plotly.graph_objects as go
from draftscope.visualizers import export_zip
go.Figure.to_image = lambda *_, **__: b"\x89PNG\r\n\x1a\n"
export_zip.render_images = lambda jobs, *_: [b"" for _ in jobs]
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelManager]:
    """One Jupyter kernel for all notebooks, which imports torch once, in an empty folder."""
    manager = KernelManager()
    folder = tmp_path_factory.mktemp("notebooks")
    manager.start_kernel(cwd=str(folder), env=os.environ | {"PYTHONPATH": str(ROOT)})
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
@pytest.mark.nightly
def test_jupyter_runs_a_notebook_and_its_cells_print_what_is_stored(path: Path, kernel: KernelManager) -> None:
    """Pictures are not drawn, and engines are certified by fewer tokens, so that their verdict is another."""
    assert path.stat().st_size <= MAX_FILE_BYTES
    stored = nbformat.read(path, as_version=4)
    nbformat.validate(stored)
    notebook = deepcopy(stored)
    for cell in notebook.cells:
        cell.source = cell.source.replace("tokens=4000", "tokens=100")
    notebook.cells[:0] = [nbformat.v4.new_code_cell("%reset -f"), nbformat.v4.new_code_cell(NO_PICTURES)]
    client = NotebookClient(notebook, km=kernel, timeout=120)
    try:
        client.execute()
    finally:
        client.kc.stop_channels()
    for before, after in zip(stored.cells, notebook.cells[2:], strict=True):
        if before.cell_type == "code":
            assert before.execution_count and (printed(before) == printed(after) or "=4000" in before.source), (
                "run make notebooks"
            )
    assert any(each for cell in stored.cells for each in cell.get("outputs", ()))


def printed(cell: nbformat.NotebookNode) -> str:
    return "".join(each.text for each in cell.outputs if each.output_type == "stream" and each.name == "stdout")


EXAMPLES = ROOT / "docs" / "examples"
RECORDED = sorted((ROOT / "assets" / "traces").glob("*.json.gz")) + sorted((ROOT / "tests" / "data").rglob("*.json.gz"))
NODE = shutil.which("node")
IN_PYTHON = """
import runpy, sys
reader, *paths = sys.argv[1:]
for path in paths:
    sys.argv = [reader, path]
    runpy.run_path(reader)
"""
IN_JAVASCRIPT = """
const [reader, ...paths] = process.argv.slice(1);
for (const path of paths) {
  process.argv[2] = path;
  await import(`file://${reader}?${encodeURIComponent(path)}`);
}
"""

COUNTS = ({"accepted": 3, "window": 3, "committed": 4}, {"accepted": 1, "window": 3, "committed": 2}, {"accepted": 1})


def expected(trace: Trace) -> dict[str, Any]:
    trace = expand_counts(trace)
    end = state_after(trace, len(trace.steps))
    fates = [fate for step in trace.steps for fate in step.fate]
    tokens = [token if done else None for token, done in zip(end.tokens, end.final, strict=True)]
    return {
        "tokens": [list(token) if isinstance(token, tuple) else token for token in tokens],
        "decoded": [state.decoded for state in canvas_states(trace)][1:],
        "judged": sum(fate.judged for fate in fates),
        "accepted": fates.count(Fate.ACCEPTED),
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All recordings, traces of every kind, and a coarse one."""
    folder = tmp_path_factory.mktemp("traces")
    (folder / "coarse.json").write_bytes(handmade.coarse(COUNTS, 7, output={"tokens": [*range(4, 11)]}))
    for name, maker in handmade.ALL.items():
        write(maker(), folder / f"{name}.json")
    return RECORDED + sorted(folder.iterdir())


def agree(command: list[str], reader: str, files: list[Path]) -> None:
    """Check that a reader agrees with `expected` for every file; `command` runs it once per file, in one process."""
    command = [*command, str(EXAMPLES / reader), *map(str, files)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for path, line in zip(files, lines, strict=True):
        assert json.loads(line) == expected(read(path)), path.name


@pytest.mark.slow
def test_the_reader_in_python(files: list[Path]) -> None:
    agree([sys.executable, "-I", "-c", IN_PYTHON], "read_trace.py", files)


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="needs node on the path")
def test_the_reader_in_javascript(files: list[Path]) -> None:
    agree([str(NODE), "--input-type=module", "-e", IN_JAVASCRIPT], "read_trace.mjs", files)
