"""Every file of a shipped model is hashed before it is used; whatever is wrong with one is a sentence that says so."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engines.models.bundled import image, language
from engines.models.errors import ModelError
from engines.models.weights import Source, other_hashes, sampled, sha256, weight_hashes
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
