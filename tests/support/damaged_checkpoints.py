"""Damaged checkpoint folders: changes of a valid checkpoint, each a function of its folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from torch import Tensor

from draftscope.engines.models import loading
from draftscope.engines.models.errors import ModelError

Change = Callable[[Path], None]


class Evil:
    """Prints where it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return print, ("run",)


def refused(folder: Path, change: Change, problem: str) -> str:
    """Return the message for a folder after a change: one line."""
    change(folder)
    with pytest.raises(ModelError, match=problem) as caught:
        loading.load(folder)
    assert str(caught.value).count("\n") == 0
    return str(caught.value)


def weighted(name: str, tensor: Tensor | None, file: str = "model.safetensors") -> Change:
    """Put a tensor into a folder's file, or take it out."""

    def change(folder: Path) -> None:
        tensors = load_file(folder / file)
        tensors.pop(name, None)
        save_file(tensors | ({} if tensor is None else {name: tensor}), folder / file)

    return change


def merged(settings: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    config = settings | {
        name: merged(settings.get(name, {}), value) if isinstance(value, dict) else value
        for name, value in fields.items()
    }
    return {name: value for name, value in config.items() if value is not None or name not in fields}


def configured(**fields: Any) -> Change:
    """Give fields of a folder's config.json, or of its parts, other values; None takes one away."""

    def change(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(merged(json.loads(file.read_text()), fields)))

    return change


def removed(*names: str) -> Change:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return change
