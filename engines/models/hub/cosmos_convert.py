"""The one-time conversion of a Cosmos-1.0-Autoregressive checkpoint: pickle and TorchScript to safetensors.

    python -m engines convert-cosmos SOURCE TOKENIZER TARGET

SOURCE has config.json and model.pt as they were published, TOKENIZER autoencoder.jit, or encoder.jit and decoder.jit.
Of model.pt nothing but tensors is unpickled, and they stay on disk until they are written; of the archives the tensors
are read, and nothing in them is run. Names, shapes and number formats are compared with config.json before anything is
written. TARGET gets config.json last: a conversion that was interrupted is not taken for a whole one.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from engines.models.hub.cosmos import TOKENIZER, shape_of
from engines.models.hub.cosmos_layout import TITLE, read_layout, refuse_conditioned
from engines.models.hub.cosmos_tokenizer import LEVELS, CosmosTokenizer, size_of
from engines.models.hub.pickles import check_target, heads, read_pickle, write, write_json
from engines.models.hub.torchscript import read_archive
from engines.models.own_folders import COSMOS, type_of
from engines.models.weights import Source, check_tensors

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
    check_target(target)
    model = Source(source.resolve().name, source, "Give the folder of hf download nvidia/Cosmos-1.0-Autoregressive-4B.")
    codes = Source(
        tokenizer.resolve().name, tokenizer, "Give the folder of hf download nvidia/Cosmos-1.0-Tokenizer-DV8x16x16."
    )
    settings = model.read_json("config.json")
    if type_of(settings) != COSMOS:
        raise model.lacks(f"config.json is not that of a {TITLE} model")
    layout = read_layout(model, settings)
    weights = read_pickle(model, "model.pt", ("model",), "model.")
    refuse_conditioned(model, {}, weights)
    check_tensors(model, heads(weights), layout.shapes, TITLE)
    parts = _archived(codes)
    levels, found = _levels(parts), {n: part for n, part in parts.items() if not n.startswith(_NO_WEIGHTS)}
    size = size_of(codes, {name: tuple(part.shape) for name, part in found.items()}, levels)
    with torch.device("meta"):
        wanted = CosmosTokenizer(size).shapes()
    check_tensors(codes, heads(found), wanted, CosmosTokenizer.__name__)
    shape_of(model, layout, CosmosTokenizer(size))
    (target / TOKENIZER).mkdir(parents=True, exist_ok=True)
    for file in (*write(weights, target), *write(found, target / TOKENIZER)):
        say(f"{file} written")
    write_json(target / TOKENIZER / "config.json", {"levels": list(levels)})
    write_json(target / "config.json", settings)


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
