"""The shipped studio model: its files are whole, and it draws what it is asked for."""

import json
from typing import Any

import pytest
import torch

from benchmarks._pictures import as_asked
from engines.ar.request import Forward
from engines.models.bundled import image
from engines.models.bundled import prompts as studio
from engines.models.catalog import MODELS, default_model, drafter_of, load_model
from engines.runtime.driver import sample_tokens
from engines.runtime.request import Request
from engines.testing.conformance import finish
from traces import dumps, loads

PROMPTS = studio.PROMPTS[:: len(studio.PROMPTS) // 16][:16]
SHARED = {"image-tokenizer.safetensors"}


@pytest.mark.slow
def test_pictures_show_what_the_prompt_says() -> None:
    model, prompts = image.load(), [str(prompt) for prompt in PROMPTS]
    opens = dict(MODELS["studio-image"].opens)
    jobs = [Request("scd", model, prompt, settings=opens, sample=i).job() for i, prompt in enumerate(prompts)]
    tokens = sample_tokens(jobs)
    right = as_asked(model.pixels(torch.tensor(tokens)), prompts).sum(0).tolist()
    assert right[0] >= 14 and right[1] >= 15, "things and scenes of 16; by chance 1 in 81, 1 in 8"


@pytest.mark.slow
def test_a_run_makes_a_picture_and_one_of_every_pass() -> None:
    trace = finish(Request("scd", "studio-image", "an owl at night").job())
    assert trace.output.image is not None
    assert [frame.step for frame in trace.legend.frames] == list(range(1, len(trace.steps) + 1))
    assert trace.model.weights.keys() == SHARED | {"image-ar.safetensors"}
    assert len(trace.steps) < 144 / 2
    assert loads(dumps(trace)) == trace


def test_the_drafter_is_the_small_model_of_the_target_and_nobodys_first_choice() -> None:
    target, drafter = load_model("studio-image"), load_model("studio-image-draft")
    assert drafter_of("studio-image") == drafter.card.id == "studio-image-draft"
    assert drafter.card.title == MODELS[drafter.card.id].title
    assert default_model("discrete-ar") == "studio-image"
    manifest = json.loads((image.FOLDER / "MANIFEST.json").read_text())
    assert drafter.card.weights == {
        f"{name}.safetensors": manifest[name]["sha256"] for name in ("image-tokenizer", "image-draft")
    }
    assert drafter.card.weights.keys() & target.card.weights.keys() == SHARED


@pytest.mark.slow
def test_the_drafter_agrees_with_the_target_as_far_as_the_manifest_says() -> None:
    target, drafter = load_model("studio-image"), load_model("studio-image-draft")
    jobs = [Request("ar", target, str(p), seed=4_321, sample=i).job() for i, p in enumerate(PROMPTS[:6])]
    accepted = []
    for one, tokens in zip(jobs, sample_tokens(jobs), strict=True):
        whole = {0: Forward(torch.tensor(tokens)[:-1], 0, 0)}
        sessions: list[Any] = [model.start([one.task], guided=False) for model in (target, drafter)]
        p, q = (session.logits(whole)[0, 0].double().softmax(-1) for session in sessions)
        accepted.append(torch.minimum(p, q).sum(-1))
    manifest = json.loads((image.FOLDER / "MANIFEST.json").read_text())
    mean = float(torch.cat(accepted).mean())
    assert mean > 0.65  # 0.698 on average, a few hundredths more or less from picture to picture
    assert mean == pytest.approx(manifest["image-draft"]["metrics"]["acceptance"], abs=0.05)
