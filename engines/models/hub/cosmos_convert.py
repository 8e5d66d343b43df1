"""The one-time conversion of a Cosmos-1.0-Autoregressive checkpoint: pickle and TorchScript to safetensors.

    python -m engines convert-cosmos SOURCE TOKENIZER TARGET

SOURCE has config.json and model.pt as they were published, TOKENIZER autoencoder.jit, or encoder.jit and decoder.jit.
Of model.pt nothing but tensors is unpickled, and they stay on disk until they are written; of the archives the tensors
are read, and nothing in them is run. Names, shapes and number formats are compared with config.json before anything is
written. TARGET gets config.json last: a conversion that was interrupted is not taken for a whole one.
"""

import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from engines.models.errors import ModelError
from engines.models.hub.cosmos import TOKENIZER, shape_of
from engines.models.hub.cosmos_layout import TITLE, claims, read_layout, refuse_conditioned
from engines.models.hub.cosmos_tokenizer import LEVELS, CosmosTokenizer, size_of
from engines.models.hub.torchscript import read_archive
from engines.models.weights import Source, check_tensors

SHARD_BYTES: Final = 2 * 2**30
_SAID: Final = {torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32"}
_NO_WEIGHTS: Final = ("encoder.patcher3d.", "decoder.unpatcher3d.", "quantizer.", "inv_quant.")
"""Wavelets and levels, which TorchScript stores beside the weights."""


def convert(source: Path, tokenizer: Path, target: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Write a folder that `engines.models.hub.published.load_folder` reads.

    Args:
        source: folder of the checkpoint.
        tokenizer: folder of the tokenizer.
        target: folder to write; it is made, or empty.
        say: is told of every file that was written.

    Raises:
        ModelError: for what is missing, misshapen, of another model, or in the way; nothing was written then. Also
            for a disk that is full.
        OSError: for a folder that cannot be made.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ModelError(f"{target}: is not an empty folder. Name a new one for the converted checkpoint.")
    model = Source(source.resolve().name, source, "Give the folder of hf download nvidia/Cosmos-1.0-Autoregressive-4B.")
    codes = Source(
        tokenizer.resolve().name, tokenizer, "Give the folder of hf download nvidia/Cosmos-1.0-Tokenizer-DV8x16x16."
    )
    settings = model.read_json("config.json")
    if not claims(settings):
        raise model.lacks(f"config.json is not that of a {TITLE} model")
    layout = read_layout(model, settings)
    weights = _pickled(model)
    refuse_conditioned(model, {}, weights)
    check_tensors(model, _heads(weights), layout.shapes, TITLE)
    parts = _archived(codes)
    levels, found = _levels(parts), {n: part for n, part in parts.items() if not n.startswith(_NO_WEIGHTS)}
    size = size_of(codes, {name: tuple(part.shape) for name, part in found.items()}, levels)
    with torch.device("meta"):
        wanted = CosmosTokenizer(size).shapes()
    check_tensors(codes, _heads(found), wanted, CosmosTokenizer.__name__)
    shape_of(model, layout, CosmosTokenizer(size))
    (target / TOKENIZER).mkdir(parents=True, exist_ok=True)
    for file in (*_write(weights, target), *_write(found, target / TOKENIZER)):
        say(f"{file} written")
    _write_json(target / TOKENIZER / "config.json", {"levels": list(levels)})
    _write_json(target / "config.json", settings)


def _pickled(source: Source) -> dict[str, Tensor]:
    """The tensors of model.pt by name, without the prefix that some have; extra states are no weights."""
    file = source.folder / "model.pt"
    if not file.is_file():
        raise source.lacks(f"model.pt is missing in {source.folder}")
    try:
        found: Any = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
        raise source.lacks(f"model.pt cannot be read as tensors alone ({str(error).splitlines()[0]:.200})") from None
    found = found.get("model", found) if isinstance(found, dict) else found
    if not isinstance(found, dict) or not found:
        raise source.lacks("model.pt holds no state dict")
    kept = {str(name).removeprefix("model."): part for name, part in found.items() if "_extra_state" not in str(name)}
    strange = next((name for name, part in kept.items() if not isinstance(part, Tensor)), None)
    if strange is not None:
        raise source.lacks(f"model.pt has {strange!r}, which is no tensor")
    return kept


def _archived(source: Source) -> dict[str, Tensor]:
    """The tensors of encoder and decoder by name."""
    whole, halves = "autoencoder.jit", ("encoder.jit", "decoder.jit")
    names = (whole,) if (source.folder / whole).is_file() else halves
    found: dict[str, Tensor] = {}
    for name in names:
        if not (source.folder / name).is_file():
            raise source.lacks(f"{name} is missing in {source.folder}, and so is {whole}")
        try:
            found |= read_archive(source.folder / name)
        except ValueError as error:
            raise source.lacks(f"{name} {error}") from None
    return found


def _levels(parts: Mapping[str, Tensor]) -> tuple[int, ...]:
    """The quantiser's levels, which TorchScript stores where it was scripted with them; else the published ones."""
    stored = next((part for name, part in parts.items() if name.endswith("quantizer._levels")), None)
    return LEVELS if stored is None else tuple(int(level) for level in stored.flatten())


def _heads(parts: Mapping[str, Tensor]) -> dict[str, tuple[tuple[int, ...], str]]:
    return {name: (tuple(part.shape), _SAID.get(part.dtype, str(part.dtype))) for name, part in parts.items()}


def _write(parts: Mapping[str, Tensor], folder: Path) -> Iterator[Path]:
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
        _write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": place})


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


def _write_json(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
