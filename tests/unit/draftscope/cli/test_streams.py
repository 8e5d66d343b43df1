"""`-` is standard input and output in every command that names a file, and a reader may go away."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from support import handmade
from support.results import row

from draftscope.cli.main import main
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.diffusion_lm import graph_calibration as calibration
from draftscope.traces import dumps
from draftscope.traces.files import ROOT

BINARY = pytest.CaptureFixture[bytes]


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that puts bytes on standard input."""

    def put(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return put


@pytest.mark.one_quick
@pytest.mark.parametrize(("command", "begins"), [(["view"], b"<!doctype html>"), (["animate"], b"GIF89a")])
def test_a_trace_or_results_from_standard_input_are_drawn_to_standard_output(
    command: list[str], begins: bytes, stdin: Any, capfdbinary: BINARY
) -> None:
    stdin(dumps(handmade.scd()))
    assert main([*command, "-", "-o", "-"]) == 0
    written, messages = capfdbinary.readouterr()
    assert written.lower().startswith(begins.lower())
    assert messages == b""
    rows = [row("ar", label, {"block": len(label)}, problem) for problem in range(3) for label in ("a", "bb")]
    stdin(json.dumps(rows).encode())
    assert main(["figure", "frontier", "--results", "-", "-o", "-"]) == 0
    assert b"frontier" in capfdbinary.readouterr().out.lower()


def test_prompts_of_calibrate(stdin: Any) -> None:
    stdin(b'["one", "two"]')
    assert calibration.prompts(Path("-"), 1) == ["two"]


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (OSError(28, "No space left", "a.json"), 74, "a.json: No space left; choose another path."),
        (OSError("no\nconfig"), 1, "no config"),
        (MemoryError(), 71, "memory: not enough is free; give a smaller file, or free memory."),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 9"), 71, "memory: not enough is free"),
    ],
)
def test_what_the_machine_lacks_is_one_line(
    error: Exception, code: int, line: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "dup2", lambda *_: None)  # what pytest reads stays open
    assert exit_code_for_pipe(Mock(side_effect=error)) == code
    message = capfd.readouterr().err
    assert message.startswith(line) and message.count("\n") == 1
    with pytest.raises(ZeroDivisionError):  # other errors are not hidden
        exit_code_for_pipe(lambda: 1 // 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        pytest.param("draftscope trace show assets/traces/speculative-juice.json.gz", marks=pytest.mark.nightly),
        pytest.param("draftscope view assets/traces/speculative-juice.json.gz -o -", marks=pytest.mark.nightly),
        "draftscope run ar --model toy-raster -o -",
        "draftscope --help",
    ],
)
def test_a_reader_may_go_away(command: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", *command.split()], cwd=ROOT, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr
