"""The two small readers of the docs say of every trace what the package says of it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import handmade

from traces import Fate, Trace, read, state_after, states, write
from traces.coarse import filled

ROOT = Path(__file__).parents[2]
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
    trace = filled(trace)
    end = state_after(trace, len(trace.steps))
    fates = [fate for step in trace.steps for fate in step.fate]
    tokens = [token if done else None for token, done in zip(end.tokens, end.final, strict=True)]
    return {
        "tokens": [list(token) if isinstance(token, tuple) else token for token in tokens],
        "decoded": [state.decoded for state in states(trace)][1:],
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


def check(command: list[str], reader: str, files: list[Path]) -> None:
    """Of every file as of `expected`; `command` runs the reader once a file, in one process."""
    command = [*command, str(EXAMPLES / reader), *map(str, files)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for path, line in zip(files, lines, strict=True):
        assert json.loads(line) == expected(read(path)), path.name


@pytest.mark.slow
def test_the_reader_in_python(files: list[Path]) -> None:
    check([sys.executable, "-I", "-c", IN_PYTHON], "read_trace.py", files)


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="needs node on the path")
def test_the_reader_in_javascript(files: list[Path]) -> None:
    check([str(NODE), "--input-type=module", "-e", IN_JAVASCRIPT], "read_trace.mjs", files)
