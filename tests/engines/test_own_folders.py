"""Folders that whoever starts the program names are offered like listed checkpoints; others are told why not."""

import json
import os
from pathlib import Path

import pytest
from support.checkpoints import NETWORKS, write

from engines.models import catalog
from engines.models.catalog import MODELS, at_hand, load_model, models_for, open_model, own_info, terms_of
from engines.models.checkpoints.own_folders import VARIABLE, read_folders
from engines.models.checkpoints.table import CHECKPOINTS, COSMOS

CONTINUOUS = ("mar", "xar", "harmon")
WRITES = {"causal": ("discrete-ar",), "blocks": ("diffusion-lm", "discrete-ar"), "bidirectional": ("diffusion-lm",)}


def test_every_family_that_is_read_can_be_named(tmp_path: Path) -> None:
    rows = {kind: row for row in CHECKPOINTS if row.module for kind in row.types}
    kinds = {*rows, *NETWORKS, "gemma3_text"}
    for kind in kinds:
        (tmp_path / f"my-{kind}").mkdir()
        settings = {"ffn_hidden_size": 8, "n_layers": 1} if kind == COSMOS else {"model_type": kind}
        (tmp_path / f"my-{kind}" / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    folders, problems = read_folders({VARIABLE: os.pathsep.join(map(str, tmp_path.iterdir()))}, MODELS)
    assert len(folders) == len(kinds) and not problems
    for kind in kinds:
        info, writes = own_info(folders[f"my-{kind}"]), rows[kind].kind if kind in rows else "causal"
        drawn = ("continuous-ar",) if kind in CONTINUOUS else ("discrete-ar",)
        assert info.families == WRITES.get(writes, drawn) and info.text == (writes in WRITES)
        assert info.clips == (kind == COSMOS) and not info.terms, "a licence is that of a name, not of an architecture"
        assert (info.default_prompt == "207") == (kind in ("mar", "xar"))
    assert read_folders({}, MODELS) == ({}, ())


def test_a_folder_that_cannot_be_offered_is_told_why(tmp_path: Path) -> None:
    names = ("empty", "mine", "toy-raster", "a b", "<b>")
    for name in names:
        (tmp_path / name).mkdir()
        kind = "mine" if name == "mine" else "qwen3"
        (tmp_path / name / "config.json").write_text("[" if name == "empty" else json.dumps({"model_type": kind}))
    folders, problems = read_folders({VARIABLE: os.pathsep.join(str(tmp_path / name) for name in names)}, MODELS)
    assert not folders and len(problems) == len(names)
    assert all(problem.startswith(f"{VARIABLE}: ") and problem.endswith(".") for problem in problems)
    assert "has no config.json that can be read; name the folder of a checkpoint." in problems[0]
    assert "has 'mine' for 'model_type' in its config.json; use a causal language model of transf" in problems[1]
    assert all("goes by a name that is taken or has other characters" in problem for problem in problems[2:])


def test_a_folder_of_ones_own_is_a_model_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders, _ = read_folders({VARIABLE: str(write(tmp_path / "mine", "qwen3"))}, MODELS)
    info = own_info(folders["mine"])
    monkeypatch.setitem(MODELS, "mine", info)
    monkeypatch.setitem(catalog._OWN, "mine", folders["mine"])
    assert info.text and at_hand("mine") and "mine" in models_for("discrete-ar")
    assert load_model("mine", "cpu").card.id == open_model("mine", "cpu").card.id == "mine"
    assert (info.label, str(tmp_path) in info.needs) == ("qwen3: mine (0.0 GB)", False)


def test_a_licence_is_told_by_the_name_of_a_repository() -> None:
    for name in ("meta-llama/Llama-3.2-1B-Instruct", "models/Llama-3.2-1B-Instruct/", "Llama-3.2-1B-Instruct"):
        assert "Built with Llama" in terms_of(name)
    assert not terms_of("my-llama") and not terms_of("Qwen/Qwen3-8B") and not terms_of("text-target")
