"""Training goes on where it stopped, from its checkpoint."""

import json
from argparse import Namespace
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


def test_the_manifest_counts_weights_as_the_model_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    run = started(monkeypatch)
    run.model = nn.Module()  # a lean form, whose weights are buffers
    run.model.register_buffer("weight", torch.zeros(3, 3))
    export(run, "", {}, parse("", PRESETS)[0], "numbers")
    assert json.loads((loop.MODELS / "MANIFEST.json").read_text(encoding="utf-8"))["line"]["parameters"] == 12


def test_the_learning_rate_can_fall_linearly_at_the_end() -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    run = Run("line", model, [optimizer], Preset(steps=1_000, batch=1, lr=1.0, linear=0.5))
    run.resume(Namespace(at=None, fresh=True))
    rates = [optimizer.param_groups[0]["lr"] for _ in run.steps()]
    assert rates[200] == rates[500] == 1 and rates[750] == pytest.approx(0.5) and rates[-1] < 0.01
