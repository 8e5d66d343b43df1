"""Folders that whoever starts the program names are offered like listed checkpoints; others are told why not."""

import json
import os
from pathlib import Path

import pytest
from support.checkpoints import NETWORKS

from engines.models import catalog
from engines.models.catalog import MODELS, VARIABLE, offer_folders
from engines.models.checkpoints.table import CHECKPOINTS, COSMOS

CONTINUOUS = ("mar", "xar", "harmon")
WRITES = {"causal": ("discrete-ar",), "blocks": ("diffusion-lm", "discrete-ar"), "bidirectional": ("diffusion-lm",)}


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is offered here is offered in this module alone."""
    for name in ("MODELS", "_OWN"):
        monkeypatch.setattr(catalog, name, dict(getattr(catalog, name)))


def offered(*folders: Path) -> tuple[str, ...]:
    """The problems with folders that the variable names."""
    return offer_folders({VARIABLE: os.pathsep.join(map(str, folders))})


def test_every_family_that_is_read_can_be_named(tmp_path: Path) -> None:
    rows = {kind: row for row in CHECKPOINTS if row.module for kind in row.types}
    kinds = {*rows, *NETWORKS, "gemma3_text"}
    for kind in kinds:
        (tmp_path / f"my-{kind}").mkdir()
        settings = {"ffn_hidden_size": 8, "n_layers": 1} if kind == COSMOS else {"model_type": kind}
        (tmp_path / f"my-{kind}" / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert not offered(*tmp_path.iterdir()) and not offered()
    for kind in kinds:
        info, writes = catalog.MODELS[f"my-{kind}"], rows[kind].kind if kind in rows else "causal"
        drawn = ("continuous-ar",) if kind in CONTINUOUS else ("discrete-ar",)
        assert info.families == WRITES.get(writes, drawn) and info.text == (writes in WRITES)
        assert info.clips == (kind == COSMOS) and not info.terms, "a licence is that of a name, not of an architecture"
        assert (info.default_prompt == "207") == (kind in ("mar", "xar"))


def test_a_folder_that_cannot_be_offered_is_told_why(tmp_path: Path) -> None:
    names = ("empty", "mine", "toy-raster", "a b", "<b>")
    for name in names:
        (tmp_path / name).mkdir()
        kind = "mine" if name == "mine" else "qwen3"
        (tmp_path / name / "config.json").write_text("[" if name == "empty" else json.dumps({"model_type": kind}))
    problems = offered(*(tmp_path / name for name in names))
    assert catalog.MODELS == MODELS and len(problems) == len(names)
    assert all(problem.startswith(f"{VARIABLE}: ") for problem in problems)
    assert "config.json is not JSON" in problems[0] and "Fetch it again" in problems[0]
    assert "has 'mine' for 'model_type', which is no causal language model" in problems[1]
    assert all("goes by a name that is taken or has other characters" in problem for problem in problems[2:])
