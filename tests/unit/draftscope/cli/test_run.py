"""`draftscope list`, `run` and `check`: files, printed lines and errors."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jaxtyping
import pytest

from draftscope.cli.main import main
from draftscope.engines.methods import METHODS
from draftscope.engines.runtime import method_index
from draftscope.engines.sampling import coupling
from draftscope.engines.testing.conformance import CHECKS
from draftscope.traces import loads, read
from draftscope.traces.files import ROOT


def test_run_writes_a_sound_trace_and_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "t.json.gz"
    arguments = ["run", "scd", "--model", "toy-raster", "--prompt", "", "--seed", "3", "--set", "window=24"]
    assert main([*arguments, "-o", str(target)]) == 0
    trace = read(target)
    assert (trace.method, trace.seed, trace.config["window"]) == ("scd", 3, 24)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(
        f"method scd, model toy-raster, tokens 256, forwards {len(trace.steps)}, tokens per forward "
    )


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["--set", "window=0"], 2, "window: '0' is not allowed"),
        (["--set", "window"], 2, "--set: 'window' must read NAME=VALUE"),
        (["--set", "guidance=3"], 2, "guidance: toy-raster draws without a prompt"),
        (["--model", "none-such"], 3, "model: there is no 'none-such'"),
        (["--device", "cuda:9"], 3, "device: 'cuda:9' is not available"),
    ],
)
def test_mistakes_are_named(
    arguments: list[str], code: int, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "t.json"
    assert main(["run", "scd", "--model", "toy-raster", "--prompt", "", *arguments, "-o", str(target)]) == code
    assert problem in capsys.readouterr().err
    assert not target.exists()


def test_the_target_is_checked_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "ar", "-o", str(tmp_path / "t.txt")]) == 2
    assert main(["run", "ar", "-o", str(tmp_path / "missing" / "t.json")]) == 2
    assert "make it first" in capsys.readouterr().err


def test_list_names_methods_settings_presets_and_models(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {"short window": {"window": 8, "coupling": "none"}, "long": {"window": 64}}
    monkeypatch.setitem(METHODS, "scd", replace(METHODS["scd"], presets=named))
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"ar", "scd", "gsd"} <= listed["methods"].keys()
    assert listed["methods"]["scd"]["settings"]["window"]["default"] == 32
    assert listed["methods"]["scd"]["presets"]["long"] == {"window": 64}
    assert "studio-image" in listed["models"]
    assert "Dream" in {family["name"] for family in listed["families"]}
    monkeypatch.setenv("DRAFTSCOPE_MODELS", "/gone")
    problems = ("DRAFTSCOPE_MODELS: '/gone' has no config.json.",)
    monkeypatch.setattr("draftscope.engines.models.catalog.registered_folders", lambda: problems)
    assert main(["list"]) == 0
    output = capsys.readouterr()
    assert "scd: MC-SJD, GS-SJD, SJD, Speculative Coupled Decoding" in output.out and "\n    window=32  " in output.out
    assert "    --preset 'short window'  window=8 coupling=none\n" in output.out
    assert "\nstudio-image: " in output.out and "\n  Dream: " in output.out
    assert output.err == "DRAFTSCOPE_MODELS: '/gone' has no config.json.\n"


def test_parts_of_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    for what, parts in (("methods", ["methods"]), ("models", ["models", "families"])):
        assert main(["list", what, "--json"]) == 0
        assert [*json.loads(capsys.readouterr().out)] == parts
        assert main(["list", what]) == 0
        printed = capsys.readouterr().out
        assert ("scd: MC-SJD" in printed) == (what == "methods")
        assert ("studio-image: " in printed) == (what == "models")


def test_a_list_loads_no_torch_and_matches_the_modules(tmp_path: Path) -> None:
    code = "import sys, time; from draftscope.cli.main import main; assert main(['list', '--json']) == 0; "
    code += "assert not {'torch', 'transformers', 'numpy'} & {*sys.modules}; assert time.process_time() < 1"
    environment = {name: value for name, value in os.environ.items() if name != "DRAFTSCOPE_MODELS"}
    environment["DRAFTSCOPE_CACHE"] = str(tmp_path)
    first = [sys.executable, "-m", "draftscope", "list", "--json"]  # computes the index, which imports torch
    printed = subprocess.run(first, capture_output=True, text=True, env=environment, cwd=ROOT, check=True).stdout
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
    assert json.loads(printed) == json.loads(json.dumps(method_index.method_index()))  # torch is imported here


def test_an_interrupted_run_keeps_what_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from draftscope.engines.models.toys.toy_raster import ToySession

    proper, calls = ToySession.logits, []

    def stop(self: ToySession, requests: object) -> object:
        calls.append(1)
        if len(calls) > 4:
            raise KeyboardInterrupt
        return proper(self, requests)

    monkeypatch.setattr(ToySession, "logits", stop)
    target = tmp_path / "t.json"
    assert main(["run", "scd", "--model", "toy-raster", "--prompt", "", "-o", str(target)]) == 130
    trace = read(target)
    assert len(trace.steps) == 4
    assert not trace.summary.complete
    assert capsys.readouterr().out.rstrip().endswith("incomplete")


MINE = """
from dataclasses import replace
from draftscope.engines.methods import METHODS

GOOD = replace(METHODS["ar"], name="good")
NEITHER = 3
ODD = replace(METHODS["ar"], family="continuous")
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A custom module in the working directory, without checks of types."""
    name = f"mine_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MINE, encoding="utf-8")
    (tmp_path / "broken_module.py").write_text("import none_such", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    jaxtyping.config.update("jaxtyping_disable", True)
    yield name
    jaxtyping.config.update("jaxtyping_disable", False)


def test_check_says_what_holds(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{mine}:GOOD"]) == 0
    claim, power, enumerated, sampled, *promises = capsys.readouterr().out.splitlines()
    assert promises == [f"{name}: yes" for name in CHECKS]
    pattern = r"output distribution equals ordinary decoding's: largest error [0-9e-]+ over \d+ outcomes .* samples .*"
    assert re.fullmatch(pattern, claim)
    assert power == "smallest bias that would have been found:"
    assert enumerated.startswith("  enumerated: a total variation of ") and sampled.startswith("  sampled: ")


@pytest.mark.slow
def test_check_of_a_method_that_says_it_is_lossy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "blockwise"]) == 0
    differing = r"lossy, as declared: [1-8] of 8 texts of likeliest tokens are not those of one token a pass\n"
    assert re.search(differing, capsys.readouterr().out)
    assert main(["check", "blockwise", "--set", "block=1"]) == 0
    assert "8 of 8 texts of likeliest tokens are those of one token a pass" in capsys.readouterr().out


@pytest.mark.slow
def test_check_fails_where_a_claim_does(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coupling, "residual", lambda q, p: p)
    assert main(["check", "scd", "--set", "coupling=none"]) == 1
    out = capsys.readouterr().out
    assert "ordinary decoding's: no, although the method claims so: TV 0." in out
    assert out.count(": yes") == 7


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["none_such_module:A"], "the module 'none_such_module' cannot be imported (ModuleNotFoundError"),
        (["MINE:BAD"], "BAD is not an engines.methods.method.Method; those of the module are GOOD, ODD, and "),
        (["MINE:NEITHER"], "NEITHER is not an engines.methods.method.Method; those of the module are GOOD, ODD, and "),
        (["MINE:ODD"], "family: 'continuous' is none; use discrete-ar, diffusion-lm, continuous-ar."),
        (
            ["continuous", "--set", "guidance=3"],
            "guidance: target draws without a prompt, so there is nothing to guide; use 1.",
        ),
    ],
)
def test_what_cannot_be_checked_is_named(
    arguments: list[str], problem: str, mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *(argument.replace("MINE", mine) for argument in arguments)]) == 2
    printed = capsys.readouterr()
    assert problem in printed.err
    assert len(printed.err.splitlines()) == 1
    assert printed.out == ""


TOY = ["run", "ar", "--model", "toy-raster", "--prompt", ""]


def test_the_trace_goes_to_standard_output_and_into_the_next_command(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([*TOY, "-o", "-"]) == 0
    written, messages = capfdbinary.readouterr()
    assert loads(written).method == "ar"
    assert messages.startswith(b"method ar, model toy-raster, tokens 256")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(written)))
    assert main(["trace", "show", "-"]) == 0
    shown, messages = capfdbinary.readouterr()
    assert b"toy-raster" in shown and messages == b""


@pytest.mark.slow
def test_a_prompt_comes_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("an owl\n"))
    arguments = ["run", "scd", "--model", "studio-image", "--prompt", "-", "-o", str(tmp_path / "t.json")]
    assert main(arguments) == 0
    assert read(tmp_path / "t.json").prompt == "an owl"


def test_what_cannot_be_written_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TOY, "-o", "/proc/t.json"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"draftscope run: -o: '/proc/t\.json' cannot be written \([^)]+\); choose another path\.", line)
