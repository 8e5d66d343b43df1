"""Checkpoints in folders that whoever starts the program names, to be chosen like those that are listed.

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
from engines.models.checkpoints.table import CHECKPOINTS, Kind, row_of, type_of

VARIABLE: Final = "DRAFTSCOPE_MODELS"
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """A checkpoint in a folder, as far as its config.json tells."""

    id: str
    folder: Path
    group: str
    kind: Kind
    gigabytes: float
    """Size of its weights as they are stored."""


def read_folders(
    environment: Mapping[str, str], taken: Collection[str]
) -> tuple[dict[str, OwnFolder], tuple[str, ...]]:
    """The folders that can be offered, by id, and a sentence for each that cannot.

    Args:
        environment: May have `VARIABLE`.
        taken: Ids that are not free.
    """
    offered: dict[str, OwnFolder] = {}
    problems: list[str] = []
    for name in filter(None, environment.get(VARIABLE, "").split(os.pathsep)):
        try:
            own = read_folder(Path(name), {*taken, *offered})
            offered[own.id] = own
        except ValueError as error:
            problems.append(f"{VARIABLE}: {shown(name)} {error}")
    return offered, tuple(problems)


def read_folder(path: Path, taken: Collection[str]) -> OwnFolder:
    """A folder as it can be offered.

    Raises:
        ValueError: for one that cannot; the message goes on where the folder was named.
    """
    folder = path.expanduser().resolve()
    try:
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError("has no config.json that can be read; name the folder of a checkpoint.") from error
    settings = settings if isinstance(settings, dict) else {}
    row, model_type = row_of(settings), type_of(settings)
    if not (row.module if row else _is_causal(model_type)):
        drawn = ", ".join(kind for one in CHECKPOINTS if one.module for kind in one.types)
        raise ValueError(
            f"has {shown(model_type)} for 'model_type' in its config.json; use a causal language model of transformers "
            f"or one of {drawn}."
        )
    if not _ID.fullmatch(folder.name) or folder.name in taken:
        raise ValueError("goes by a name that is taken or has other characters than A-Z a-z 0-9 . _ -; rename it.")
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    group = row.name if row and row.examples else str(model_type)
    return OwnFolder(folder.name, folder, group, row.kind if row else "causal", size / 1e9)


def _is_causal(model_type: str | None) -> bool:
    from engines.models.checkpoints.causal_lm import is_causal  # brings transformers

    return is_causal(model_type)
