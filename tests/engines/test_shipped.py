"""Files of shipped models are hashed before use, and what is wrong is said; the studio model draws what is asked."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks._pictures import as_asked
from engines.ar.request import Forward
from engines.models.bundled import image, language
from engines.models.bundled import prompts as studio
from engines.models.catalog import MODELS, default_model, drafter_of, load_model
from engines.models.errors import ModelError
from engines.models.weights import Source, other_hashes, sampled, sha256, weight_hashes
from engines.runtime.driver import sample_tokens
from engines.runtime.request import Request
from engines.testing.conformance import finish
from traces import dumps, loads
from training.loop import with_reads

NAME = "text-draft"
Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smallest language model, with the manifest, where it may be damaged."""
    folder = tmp_path_factory.mktemp("models")
    shutil.copytree(image.FOLDER / NAME, folder / NAME)
    for name in ("MANIFEST.json", "text-tokenizer.json"):
        shutil.copy(image.FOLDER / name, folder)
    return folder


def rewritten(name: str, before: str, after: str) -> Damage:
    def damage(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert before in text
        (folder / name).write_text(text.replace(before, after, 1), encoding="utf-8")

    return damage


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (
            rewritten(f"{NAME}/config.json", '"rope_theta": 10000.0', '"rope_theta": 500.0'),
            "config.json is not the file",
        ),
        (lambda folder: (folder / "text-tokenizer.json").unlink(), "text-tokenizer.json is missing"),
        (lambda folder: (folder / NAME / "model.safetensors").write_bytes(b"x"), "model.safetensors is not the file"),
        (lambda folder: (folder / NAME / "model.safetensors").unlink(), "model.safetensors is missing"),
        (lambda folder: (folder / "MANIFEST.json").unlink(), "MANIFEST.json is missing in"),
        (lambda folder: (folder / "MANIFEST.json").write_text('{"text-draft": {'), "MANIFEST.json is not JSON"),
        (lambda folder: (folder / "MANIFEST.json").write_text("{}"), "MANIFEST.json has no config.json of it"),
    ],
)
def test_a_damaged_file_is_named_before_anything_is_loaded(
    damage: Damage, told: str, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models"
    shutil.copytree(models, folder)
    damage(folder)
    monkeypatch.setattr(language, "FOLDER", folder)
    with pytest.raises(ModelError, match=rf"^{NAME}: .*{told}.*[Rr]estore assets/models"):
        language.load.__wrapped__(NAME, "cpu")


def test_the_card_names_every_file_that_the_model_was_made_from() -> None:
    card = language.load(NAME).card
    assert card.files == {file: sha256(image.FOLDER / file) for file in (f"{NAME}/config.json", "text-tokenizer.json")}
    assert card.weights == {"model.safetensors": sha256(image.FOLDER / NAME / "model.safetensors")}


def test_no_file_that_ships_with_a_model_is_left_out_of_the_manifest() -> None:
    listed = json.loads((image.FOLDER / "MANIFEST.json").read_text())
    assert {name: with_reads(image.FOLDER, name, listed) for name in listed} == listed
    covered = {file for name, entry in listed.items() for file in entry.get("reads", {})}
    others = {path.relative_to(image.FOLDER).as_posix() for path in image.FOLDER.rglob("*") if path.is_file()}
    assert {file for file in others if not file.endswith(".safetensors")} - covered == {"MANIFEST.json"}


def test_a_large_file_of_a_checkpoint_is_sampled_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(image.FOLDER / NAME / "model.safetensors", tmp_path)
    (tmp_path / "config.json").write_text("{}")
    source, file = Source("mine", tmp_path, "Fetch it."), tmp_path / "model.safetensors"
    assert weight_hashes(source) == {"model.safetensors": sha256(file)}
    assert other_hashes(source) == {"config.json": sha256(tmp_path / "config.json")}
    monkeypatch.setattr("engines.models.weights._WHOLE_BYTES", 1000)
    monkeypatch.setattr("engines.models.weights._SAMPLE_EVERY", 2**20)
    monkeypatch.setattr("engines.models.weights._SAMPLE_BYTES", 2**10)
    (name, digest), *none = weight_hashes(source).items()
    assert (name, none) == ("model.safetensors (samples)", []) and digest == sampled(file) != sha256(file)
    data = bytearray(file.read_bytes())
    for place in (9, 8 + int.from_bytes(data[:8], "little") + 5, len(data) - 1):  # head, first sample, last sample
        changed = bytearray(data)
        changed[place] ^= 1
        file.write_bytes(changed)
        assert sampled(file) != digest, place
    file.write_bytes(data + b"\0")
    assert sampled(file) != digest


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
