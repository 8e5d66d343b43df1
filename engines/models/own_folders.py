"""Checkpoints that whoever starts the program names by their folders, to be chosen like those that are listed.

DRAFTSCOPE_MODELS holds folders, separated as in PATH. A visitor chooses from what it names and never sends a path.
"""

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engines.config import shown
from engines.models.published_texts import TYPES, Kind

VARIABLE: Final = "DRAFTSCOPE_MODELS"
DRAWING: Final[dict[str, tuple[str, Kind]]] = {
    "janus": ("Janus-Pro", "drawing"),
    "multi_modality": ("Janus-Pro", "drawing"),
    "chameleon": ("Chameleon", "drawing"),
    "emu3": ("Emu3-Gen", "drawing"),
    "llamagen": ("LlamaGen", "classes"),
    "llamagen-t2i": ("LlamaGen", "drawing"),
    "mar": ("MAR", "vectors"),
}
"""`model_type` of config.json -> family and kind, of models that draw."""
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
            own = _read(Path(named), {*taken, *found})
            found[own.id] = own
        except ValueError as error:
            refused.append(f"{VARIABLE}: {shown(named)} {error}")
    return found, tuple(refused)


def _read(named: Path, taken: Collection[str]) -> OwnFolder:
    folder = named.expanduser().resolve()
    try:
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError("has no config.json that can be read; name the folder of a checkpoint.") from error
    said = settings.get("model_type") if isinstance(settings, dict) else None
    known = TYPES | DRAWING
    if not isinstance(said, str) or said not in known:
        raise ValueError(f"has {shown(said)} for 'model_type' in its config.json; use one of {', '.join(known)}.")
    if not _ID.fullmatch(folder.name) or folder.name in taken:
        raise ValueError("goes by a name that is taken or has other characters than A-Z a-z 0-9 . _ -; rename it.")
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return OwnFolder(folder.name, folder, *known[said], size / 1e9)


def read_folder(named: Path, taken: Collection[str]) -> OwnFolder:
    """A folder as it can be offered.

    Raises:
        ValueError: for one that cannot; the message goes on where the folder was named.
    """
    return _read(named, taken)


def group_of(folder: Path) -> str:
    """The family of a folder, as far as its config.json tells; empty where it does not."""
    try:
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    said = settings.get("model_type") if isinstance(settings, dict) else None
    return (TYPES | DRAWING).get(said, ("",))[0] if isinstance(said, str) else ""
