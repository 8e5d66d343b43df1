"""The shipped studio model: its files are whole, and it draws what it is asked for."""

import json
from pathlib import Path

import pytest
import torch

from engines.config import make_config
from engines.methods import METHODS
from engines.models.catalog import load_model
from engines.models.errors import ModelError
from engines.models.studio import image
from engines.models.studio.prompts import BACKGROUNDS, GARMENTS, TINTS, Prompt, PromptError
from engines.runtime.driver import Job, Run, sample_tokens
from traces import dumps, loads

PROMPTS = [Prompt(g, g % len(TINTS), (3 * g) % len(BACKGROUNDS)) for g in range(len(GARMENTS))]


def test_pictures_show_what_the_prompt_says() -> None:
    model = image.load()
    config = make_config(METHODS["scd"].config, {"guidance": 2})
    tokens = sample_tokens([Job(METHODS["scd"], model, str(p), config, 0, i) for i, p in enumerate(PROMPTS)])
    with torch.inference_mode():
        read = [head.argmax(-1).tolist() for head in image.load_classifier()(model.pixels(torch.tensor(tokens)))]
    right = [
        sum(a == b for a, b in zip(found, wanted, strict=True))
        for found, wanted in zip(
            read, zip(*((p.garment, p.tint, p.background) for p in PROMPTS), strict=True), strict=True
        )
    ]
    assert right[0] >= 5, "garments"  # chance: 1 in 10
    assert right[1] >= 8, "tints"  # chance: 1 in 6
    assert right[2] >= 8, "backgrounds"  # chance: 1 in 8


def test_a_run_makes_a_picture_and_one_of_every_pass() -> None:
    run = Run(Job(METHODS["scd"], load_model("studio-image"), "a red boot", make_config(METHODS["scd"].config, {})))
    for _ in run:
        pass
    trace = run.trace()
    assert trace.output.image is not None
    assert [frame.step for frame in trace.legend.frames] == list(range(1, len(trace.steps) + 1))
    assert trace.model.weights.keys() == {"image-tokenizer.safetensors", "image-ar.safetensors"}
    assert len(trace.steps) < 144 / 2
    assert loads(dumps(trace)) == trace


def test_a_prompt_that_cannot_be_drawn_is_refused_before_any_work() -> None:
    with pytest.raises(PromptError, match="'car' cannot be drawn"):
        Run(Job(METHODS["ar"], load_model("studio-image"), "a red car", make_config(METHODS["ar"].config, {})))


def test_weights_that_are_not_the_shipped_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "FOLDER", tmp_path)
    (tmp_path / "MANIFEST.json").write_text(json.dumps({"image-classifier": {"sha256": "0"}}))
    with pytest.raises(ModelError, match=r"image-classifier.safetensors is missing"):
        image.load_weights(image.Classifier(), "image-classifier")
    (tmp_path / "image-classifier.safetensors").write_bytes(b"not these")
    with pytest.raises(ModelError, match=r"is not the file listed in MANIFEST"):
        image.load_weights(image.Classifier(), "image-classifier")
