"""Manifest of the bundled models: the files of each model and their hashes.

A model is its weights and everything else that determines its output: its config, its tokenizer, the index of its
shards. All of them are hashed before any is used, and the hashes are part of the trace.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from draftscope.engines.models.checkpoint_files import CheckpointDir, sha256
from draftscope.engines.models.errors import ModelError
from draftscope.engines.paths import REMEDY

MANIFEST: Final = "MANIFEST.json"
READS: Final = "reads"
"""Key of an entry for the files in addition to the weights: path below the folder of models -> SHA-256. Written by
the command that trains the model."""
_RESTORE: Final = "Restore assets/models from the repository: git checkout -- assets/models"


def entry_of(folder: Path, name: str, owner: str) -> dict[str, Any]:
    """Return the manifest entry of a model, empty if there is none.

    Args:
        folder: Folder of the manifest.
        name: Key of the entry.
        owner: Model that errors begin with.

    Raises:
        ModelError: If the entry is damaged.
    """
    source = CheckpointDir(owner, folder, _RESTORE if folder.is_dir() else REMEDY)
    entry: object = source.read_json(MANIFEST).get(name, {})
    parts = (entry.get("files", {}), entry.get(READS, {})) if isinstance(entry, dict) else (None,)
    if not isinstance(entry, dict) or not all(isinstance(part, dict) for part in parts):
        raise source.incomplete(f"{MANIFEST} is damaged: its entry {name!r} holds no object")
    return entry


def verify(folder: Path, files: Mapping[str, str], owner: str, remedy: str) -> dict[str, str]:
    """Check the files of a model, and return them.

    Args:
        folder: Folder that their paths start from.
        files: Path -> SHA-256 in the manifest.
        owner: Model that errors begin with.
        remedy: Sentence that errors end with.

    Raises:
        ModelError: For the first file that is missing, unreadable, or not the one in the manifest.
    """
    for file, digest in files.items():
        try:
            actual = sha256(folder / file)
        except FileNotFoundError:
            raise ModelError(f"{owner}: {file} is missing. {remedy}") from None
        except OSError as error:
            raise ModelError(f"{owner}: {file} cannot be read ({error.strerror}). {remedy}") from error
        if actual != digest:
            raise ModelError(f"{owner}: {file} is not the file listed in {MANIFEST}. {remedy}")
    return dict(files)
