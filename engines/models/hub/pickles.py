"""Pickles of tensors to safetensors: what conversions of published checkpoints have in common.

Of a pickle nothing but tensors is read, and their storages stay on disk until they are written.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from engines.models.errors import ModelError
from engines.models.weights import Heads, Source

SHARD_BYTES: Final = 2 * 2**30
_SAID: Final = {torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32"}


def check_target(target: Path) -> None:
    """See that a folder can be written.

    Raises:
        ModelError: where something is in it.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ModelError(f"{target}: is not an empty folder. Name a new one for the converted checkpoint.")


def read_pickle(source: Source, name: str, inside: Sequence[str] = (), prefix: str = "") -> dict[str, Tensor]:
    """The tensors of a pickled state dict by name; extra states are no weights.

    Args:
        source: Whose folder it lies in.
        name: The file.
        inside: Keys under which the state dict may lie; the first that is there counts.
        prefix: Taken off names that begin with it.

    Raises:
        ModelError: for a file that is missing or holds something else than tensors.
    """
    file = source.folder / name
    if not file.is_file():
        raise source.lacks(f"{name} is missing in {source.folder}")
    try:
        # The arguments that a training was started with, which some checkpoints carry along, are plain values.
        with torch.serialization.safe_globals([argparse.Namespace]):
            found: Any = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    except Exception as error:  # what a damaged pickle makes of the reader's stack is an error of any kind
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise source.lacks(f"{name} cannot be read as tensors alone ({why:.200})") from None
    if isinstance(found, dict):
        found = next((found[key] for key in inside if key in found), found)
    if not isinstance(found, dict) or not found:
        raise source.lacks(f"{name} holds no state dict")
    kept = {str(key).removeprefix(prefix): part for key, part in found.items() if "_extra_state" not in str(key)}
    strange = next((key for key, part in kept.items() if not isinstance(part, Tensor)), None)
    if strange is not None:
        raise source.lacks(f"{name} has {strange!r}, which is no tensor")
    return kept


def heads(parts: Mapping[str, Tensor]) -> Heads:
    """Shape of every tensor, and its number format as safetensors calls it."""
    return {name: (tuple(part.shape), _SAID.get(part.dtype, str(part.dtype))) for name, part in parts.items()}


def write(parts: Mapping[str, Tensor], folder: Path) -> Iterator[Path]:
    """Write shards, and where there are several, the index that names them."""
    shards = list(_shards(parts))
    place: dict[str, str] = {}
    for i, names in enumerate(shards, 1):
        file = folder / (f"model-{i:05d}-of-{len(shards):05d}.safetensors" if len(shards) > 1 else "model.safetensors")
        # Tensors of a storage in common are refused by the format.
        apart = {name: parts[name].clone(memory_format=torch.contiguous_format) for name in names}
        try:
            save_file(apart, file)
        except SafetensorError as error:
            raise ModelError(f"{file}: cannot be written ({error}). Make room, or name another folder.") from error
        place |= dict.fromkeys(names, file.name)
        yield file
    if len(shards) > 1:
        total = sum(part.nbytes for part in parts.values())
        write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": place})


def _shards(parts: Mapping[str, Tensor]) -> Iterator[list[str]]:
    names: list[str] = []
    size = 0
    for name, part in parts.items():
        if names and size + part.nbytes > SHARD_BYTES:
            yield names
            names, size = [], 0
        names.append(name)
        size += part.nbytes
    yield names


def write_json(file: Path, value: object) -> None:
    """Write an object."""
    file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
