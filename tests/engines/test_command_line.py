"""`python -m engines`: what it writes, what it says, and how it fails."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engines.__main__ import main
from engines.methods import METHODS
from traces import read


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
    ("arguments", "code", "said"),
    [
        (["--set", "window=0"], 2, "window: '0' is not allowed"),
        (["--set", "window"], 2, "--set: 'window' must read NAME=VALUE"),
        (["--set", "speed=9"], 2, "speed: no such setting"),
        (["--set", "guidance=3"], 2, "guidance: toy-raster has no conditions"),
        (["--prompt", "a red boot"], 2, "prompt: toy-raster draws without a prompt"),
        (["--model", "none-such"], 3, "model: there is no 'none-such'"),
        (["--device", "cuda:9"], 3, "device: 'cuda:9' is not available"),
    ],
)
def test_mistakes_are_named(
    arguments: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "t.json"
    assert main(["run", "scd", "--model", "toy-raster", "--prompt", "", *arguments, "-o", str(target)]) == code
    assert said in capsys.readouterr().err
    assert not target.exists()


def presets(monkeypatch: pytest.MonkeyPatch) -> None:
    """SCD with settings that go by a name."""
    named = {"short window": {"window": 8, "coupling": "none"}, "long": {"window": 64}}
    monkeypatch.setitem(METHODS, "scd", replace(METHODS["scd"], presets=named))


def test_a_preset_names_settings_and_set_overrules_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    presets(monkeypatch)
    target = tmp_path / "t.json"
    arguments = ["run", "scd", "--model", "toy-raster", "--prompt", "", "--preset", "short window", "-o", str(target)]
    assert main(arguments) == 0
    assert (read(target).config["window"], read(target).config["coupling"]) == (8, "none")
    assert main([*arguments, "--set", "window=24"]) == 0
    assert (read(target).config["window"], read(target).config["coupling"]) == (24, "none")


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("scd", "preset: scd has no 'none such'; there are short window, long."),
        ("ar", "preset: ar has no 'none such'; it has none; leave it out."),
    ],
)
def test_an_unknown_preset_is_answered_with_those_there_are(
    method: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    presets(monkeypatch)
    assert main(["run", method, "--preset", "none such", "-o", str(tmp_path / "t.json")]) == 2
    assert capsys.readouterr().err == said + "\n"


def test_list_names_presets(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    presets(monkeypatch)
    assert main(["list"]) == 0
    assert "    --preset 'short window'  window=8 coupling=none\n" in capsys.readouterr().out
    assert main(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["methods"]["scd"]["presets"]["long"] == {"window": 64}


def test_the_target_is_checked_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "ar", "-o", str(tmp_path / "t.txt")]) == 2
    assert main(["run", "ar", "-o", str(tmp_path / "missing" / "t.json")]) == 2
    assert "make it first" in capsys.readouterr().err


def test_list_names_methods_settings_and_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    listing = json.loads(capsys.readouterr().out)
    assert {"ar", "scd", "gsd"} <= listing["methods"].keys()
    assert listing["methods"]["scd"]["settings"]["window"]["default"] == 32
    assert "studio-image" in listing["models"]
    assert main(["list"]) == 0
    assert "scd: Speculative Coupled Decoding" in capsys.readouterr().out


def test_an_interrupted_run_keeps_what_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from engines.models.toy_raster import ToySession

    proper, calls = ToySession.logits, []

    def stop(self: ToySession, requests: object) -> object:
        calls.append(1)
        if len(calls) > 4:
            raise KeyboardInterrupt
        return proper(self, requests)  # type: ignore[arg-type]

    monkeypatch.setattr(ToySession, "logits", stop)
    target = tmp_path / "t.json"
    assert main(["run", "scd", "--model", "toy-raster", "--prompt", "", "-o", str(target)]) == 130
    trace = read(target)
    assert len(trace.steps) == 4
    assert not trace.summary.complete
    assert capsys.readouterr().out.rstrip().endswith("incomplete")
