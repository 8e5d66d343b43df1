"""Ratios of processor time must not fall by a quarter: a time says what a machine is, a ratio what we wrote."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import _by_hand, lean
from benchmarks._runs import decode, job
from engines.models.catalog import load_model

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.timed
def test_no_ratio_has_fallen_by_a_quarter() -> None:
    """In a process of its own: shapes are checked here, which takes time."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.ratios"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("usually") == 5


@pytest.mark.slow
def test_loops_written_by_hand_decode_what_the_engine_decodes() -> None:
    words: Any = load_model("text-target")
    one = lean.text_job(lean.ORDINARY, words, lean.held_out()[0], length=16)
    assert _by_hand.text(words, one.prompt, one.config)[:8] == list(decode([one]).tokens[0][:8])
    model: Any = load_model("studio-image")
    ordinary = job("ar", model, "an owl in the forest", 0, temperature=0.1, top_k=1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch, "multinomial", lambda probs, count, generator: probs.argmax(-1, keepdim=True))
        drawn = _by_hand.picture(model, ordinary.prompt, 0)
    assert tuple(drawn[0].tolist()) == decode([ordinary]).tokens[0]
