"""Training goes on where it stopped: from its checkpoint, or where that is gone from what was exported."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from training import loop
from training.loop import Preset, Run, export, parse

PRESETS = {"cpu": Preset(steps=4, batch=2, lr=0.1)}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MODELS", tmp_path / "models")
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))


def started(monkeypatch: pytest.MonkeyPatch, *flags: str, steps: int = 4) -> Run:
    """A run with this command line, which has trained up to so many steps."""
    monkeypatch.setattr("sys.argv", ["train", "--preset", "cpu", *flags])
    options, _ = parse("", PRESETS)
    model = nn.Linear(3, 3)
    run = Run("line", model, [torch.optim.SGD(model.parameters(), 0.1)], Preset(steps=steps, batch=2, lr=0.1))
    run.resume(options)
    for _ in run.steps():
        run.update(model(torch.ones(2, 3)).square().mean())
    export(run, "A line", {}, options, "numbers")
    return run


def weight(run: Run) -> torch.Tensor:
    return run.model.get_parameter("weight")


def test_a_finished_run_is_kept_unless_it_is_asked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    first = started(monkeypatch)
    again = started(monkeypatch)
    assert again.step == 4 and torch.equal(weight(first), weight(again))
    assert not torch.equal(weight(started(monkeypatch, "--fresh", "--seed", "1")), weight(first))


def test_without_a_checkpoint_it_goes_on_from_what_was_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    first = started(monkeypatch)
    assert torch.equal(weight(first), weight(started(monkeypatch, "--from-exported")))  # its checkpoint goes before
    assert not torch.equal(weight(first), weight(first).half().float())
    other = started(monkeypatch, "--from-exported", "--fresh", "--seed", "1")
    assert not torch.equal(weight(other), weight(first))
    first = started(monkeypatch, "--fresh")
    first.path.unlink()
    again = started(monkeypatch, "--from-exported")
    assert again.step == 4 and again.seconds == pytest.approx(
        first.seconds, abs=4
    )  # the manifest rounds to 0.1 minutes
    exported = weight(first).half().float()
    assert torch.equal(weight(again), exported)
    again.path.unlink()
    longer = started(monkeypatch, "--from-exported", steps=6)
    assert longer.step == 6 and not torch.equal(weight(longer), exported)
    assert "--from-exported" in (loop.MODELS / "MANIFEST.json").read_text(encoding="utf-8")


def test_the_manifest_counts_weights_as_the_model_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    run = started(monkeypatch)
    run.model = nn.Module()  # a lean form, whose weights are buffers
    run.model.register_buffer("weight", torch.zeros(3, 3))
    export(run, "", {}, parse("", PRESETS)[0], "numbers")
    assert json.loads((loop.MODELS / "MANIFEST.json").read_text(encoding="utf-8"))["line"]["parameters"] == 12
