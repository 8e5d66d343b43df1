"""Folders that whoever starts the program names are offered like listed checkpoints; others are told why not."""

import json
import os
from pathlib import Path

import pytest
from support.checkpoints import LAYOUTS, write

from engines.models import catalog
from engines.models.catalog import MODELS, at_hand, load_model, models_for, open_model
from engines.models.hub.causal_families import CAUSAL_FAMILIES
from engines.models.hub.families import FAMILIES
from engines.models.hub.published import _DRAWING
from engines.models.own_folders import COSMOS, DRAWING, VARIABLE, read_folders
from engines.models.published_texts import TYPES


def test_every_family_that_is_read_can_be_named(tmp_path: Path) -> None:
    known = FAMILIES | CAUSAL_FAMILIES
    assert set(TYPES) == set(known) == set(LAYOUTS)
    for name, (group, kind) in TYPES.items():
        assert group == known[name].title
        family = known[name]
        assert kind == ("bidirectional" if family.full else "blocks" if family.mask else "causal")
    folders = [write(tmp_path / f"my-{name}", name) for name in known]
    found, refused = read_folders({VARIABLE: os.pathsep.join(map(str, folders))}, MODELS)
    assert [own.id for own in found.values()] == [folder.name for folder in folders] and not refused
    assert all(own.gigabytes > 0 for own in found.values())
    assert read_folders({}, MODELS) == ({}, ())


def test_every_family_that_draws_can_be_named(tmp_path: Path) -> None:
    assert set(DRAWING) == set(_DRAWING)
    for name in DRAWING:
        (tmp_path / f"my-{name}").mkdir()
        said = {"ffn_hidden_size": 8, "n_layers": 1} if name == COSMOS else {"model_type": name}
        (tmp_path / f"my-{name}" / "config.json").write_text(json.dumps(said), encoding="utf-8")
    found, refused = read_folders({VARIABLE: os.pathsep.join(map(str, sorted(tmp_path.iterdir())))}, MODELS)
    assert len(found) == len(DRAWING) and not refused
    infos = {name: catalog.own_info(found[f"my-{name}"]) for name in DRAWING}
    assert not any(info.text for info in infos.values())
    assert [name for name, info in infos.items() if info.clips] == [COSMOS]
    continuous = {"mar": "207", "xar": "207", "harmon": "A red ankle boot on green grass."}
    for name, info in infos.items():
        assert (info.families == ("continuous-ar",)) == (name in continuous)
        assert info.default_prompt == continuous.get(name, info.default_prompt)
    assert infos["llamagen"].default_prompt == "207" and infos["xar"].terms


def test_a_folder_that_cannot_be_offered_is_told_why(tmp_path: Path) -> None:
    names = ("empty", "bert", "toy-raster", "a b", "<b>")
    for name in names:
        (tmp_path / name).mkdir()
        kind = "bert" if name == "bert" else "qwen3"
        (tmp_path / name / "config.json").write_text("[" if name == "empty" else json.dumps({"model_type": kind}))
    named = os.pathsep.join(str(tmp_path / name) for name in names)
    found, refused = read_folders({VARIABLE: named}, MODELS)
    assert not found and len(refused) == len(names)
    assert all(said.startswith(f"{VARIABLE}: ") and said.endswith(".") for said in refused)
    assert "has no config.json that can be read; name the folder of a checkpoint." in refused[0]
    assert "has 'bert' for 'model_type' in its config.json; use one of qwen2, qwen3" in refused[1]
    assert all("goes by a name that is taken or has other characters" in said for said in refused[2:])


def test_a_folder_of_ones_own_is_a_model_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = read_folders({VARIABLE: str(write(tmp_path / "mine", "qwen3"))}, MODELS)
    info = catalog.own_info(found["mine"])
    monkeypatch.setitem(MODELS, "mine", info)
    monkeypatch.setitem(catalog._OWN, "mine", found["mine"])
    assert info.text and at_hand("mine") and "mine" in models_for("discrete-ar")
    assert load_model("mine", "cpu").card.id == open_model("mine", "cpu").card.id == "mine"
    assert (info.label, str(tmp_path) in info.needs) == ("Qwen3: mine (0.0 GB)", False)


def test_a_published_checkpoint_is_shown_with_family_size_and_licence() -> None:
    assert MODELS["Qwen/Qwen3-8B"].label == "Qwen3 8B (16.4 GB, Apache-2.0)"
    assert MODELS["JetLM/SDAR-4B-Chat"].label == "SDAR 4B Chat (8.8 GB, Apache-2.0)"
    assert MODELS["text-target"].label == "Studio language model"
