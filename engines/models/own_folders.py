"""Checkpoints that whoever starts the program names by their folders, to be chosen like those that are listed.

DRAFTSCOPE_MODELS holds folders, separated as in PATH. A visitor chooses from what it names and never sends a path.
"""

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engines.config import shown
from engines.models.published_texts import TYPES, Kind

VARIABLE: Final = "DRAFTSCOPE_MODELS"
COSMOS: Final = "Cosmos"
"""Stands for the `model_type` that Cosmos's config.json does not have."""
DRAWING: Final[dict[str, tuple[str, Kind]]] = {
    "janus": ("Janus-Pro", "codes of texts"),
    "multi_modality": ("Janus-Pro", "codes of texts"),
    "chameleon": ("Chameleon", "codes of texts"),
    "emu3": ("Emu3-Gen", "codes of texts"),
    "llamagen": ("LlamaGen", "codes of classes"),
    "llamagen-t2i": ("LlamaGen", "codes of texts"),
    "mar": ("MAR", "vectors of classes"),
    "xar": ("xAR", "vectors of classes"),
    "harmon": ("Harmon", "vectors of texts"),
    COSMOS: ("Cosmos", "clips"),
}
"""`model_type` of config.json -> family and kind, of models that draw."""
_KNOWN: Final = TYPES | DRAWING
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """A checkpoint in a folder, as far as its config.json tells."""

    id: str
    folder: Path
    group: str
    kind: Kind
    gigabytes: float
    """Of its weights as they are stored."""


def read_folders(
    environment: Mapping[str, str], taken: Collection[str]
) -> tuple[dict[str, OwnFolder], tuple[str, ...]]:
    """The folders that can be offered, by id, and a sentence for each that cannot.

    Args:
        environment: May have `VARIABLE`.
        taken: Ids that are not free.
    """
    found: dict[str, OwnFolder] = {}
    refused: list[str] = []
    for named in filter(None, environment.get(VARIABLE, "").split(os.pathsep)):
        try:
            own = read_folder(Path(named), {*taken, *found})
            found[own.id] = own
        except ValueError as error:
            refused.append(f"{VARIABLE}: {shown(named)} {error}")
    return found, tuple(refused)


def read_folder(named: Path, taken: Collection[str]) -> OwnFolder:
    """A folder as it can be offered.

    Raises:
        ValueError: for one that cannot; the message goes on where the folder was named.
    """
    folder = named.expanduser().resolve()
    try:
        said = type_of(_settings(folder))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError("has no config.json that can be read; name the folder of a checkpoint.") from error
    if said not in _KNOWN:
        raise ValueError(f"has {shown(said)} for 'model_type' in its config.json; use one of {', '.join(_KNOWN)}.")
    if not _ID.fullmatch(folder.name) or folder.name in taken:
        raise ValueError("goes by a name that is taken or has other characters than A-Z a-z 0-9 . _ -; rename it.")
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return OwnFolder(folder.name, folder, *_KNOWN[said], size / 1e9)


def group_of(folder: Path) -> str:
    """The family of a folder, as far as its config.json tells; empty where it does not."""
    try:
        return _KNOWN.get(type_of(_settings(folder)) or "", ("",))[0]
    except (OSError, ValueError, RecursionError):
        return ""


def type_of(settings: Mapping[str, Any]) -> str | None:
    """The `model_type` of a config.json; None where it says none. Cosmos's is known by its fields."""
    if "ffn_hidden_size" in settings and "n_layers" in settings:
        return COSMOS
    said = settings.get("model_type")
    return said if isinstance(said, str) else None


def _settings(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}
