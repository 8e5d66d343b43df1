"""xAR-B, -L and -H as they were published (arXiv 2502.20388), with KL-16: a class to a picture of 256x256 pixels.

Read from a folder that `engines.models.hub.picture_convert` wrote: config.json with the sizes, model.safetensors with
the weights, the tables of rotary positions and the mask under their published names, and `pixels/` with the
autoencoder. Which cells it was trained on is told by the mask, and where tokens lie by the tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from math import isqrt
from typing import Any, Final

import torch
from torch import Tensor

from engines.models import licences
from engines.models.hub.assembling import (
    PIXELS,
    card_of,
    check_whole,
    filled,
    folder_in,
    outlined,
    shapes_of,
    stored,
)
from engines.models.hub.compvis import UNUSED
from engines.models.hub.latents import decoder_of
from engines.models.hub.xar import XAR, XARSize
from engines.models.hub.xar_pictures import XARModel, sequence
from engines.models.memory import Needs
from engines.models.weights import Source, number_of, read_tensors

TITLE: Final = "xAR"
PUBLISHED: Final = f"published {TITLE}"
"""What messages call one."""
CELL: Final = "cell"
"""In config.json: tokens per side of the cells to draw."""
_MOST: Final = 4096
_TABLE: Final = "encoder_blocks.0.attn.rope.freqs_cos"
_BASE: Final = 10_000
_CLOSE: Final = 2e-3
"""Half precision is as exact as that."""


def size_of(source: Source, shapes: Mapping[str, Sequence[int]]) -> XARSize:
    """The sizes that tensors have.

    Args:
        source: Where they are.
        shapes: By their published names.

    Raises:
        ModelError: where they are those of no xAR.
    """
    try:
        count, width = shapes["encoder_pos_embed_learned"][1:]
        token, head = shapes["z_proj.weight"][1], shapes[_TABLE][1]
    except (KeyError, ValueError, IndexError) as error:
        raise source.lacks(f"its tensors are not those of an xAR: no {error}") from None
    depth = sum(name.startswith("encoder_blocks.") and name.endswith(".attn.qkv.bias") for name in shapes)
    if not head or width % head:
        raise source.lacks(f"its rotary positions are {head} wide, which does not divide its width {width}")
    return XARSize(isqrt(count), token, width, depth, width // head)


def trained_cell(source: Source, mask: Tensor, side: int) -> int:
    """Tokens per side of the cells that a network was trained on: the first token sees those of its own cell.

    Raises:
        ModelError: for a mask that shows no cells.
    """
    count = int((mask[0, 0, 0] == 0).sum())
    cell = isqrt(count)
    if not cell or cell**2 != count or side % cell:
        raise source.lacks(f"its mask lets the first token see {count} of {side * side}, which are no cell")
    ends = (torch.arange(side * side) // count + 1) * count
    if not (mask[0, 0] == 0).equal(torch.arange(side * side) < ends[:, None]):
        raise source.lacks("its mask is not that of cells of which each sees those before it")
    return cell


def settings_of(source: Source, parts: Mapping[str, Tensor], size: XARSize, cell: int | None) -> dict[str, Any]:
    """What config.json is to hold for tensors; `cell` is the side of the cells to draw, None that of training.

    Raises:
        ModelError: for cells that cannot be drawn.
    """
    trained = trained_cell(source, parts["mask"], size.side)
    return {"model_type": "xar", **asdict(size), CELL: _cell(source, trained, trained if cell is None else cell)}


def load(source: Source, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> XARModel:
    """The model of a converted folder, in float32 whatever is asked for, as `latents` says; see `assembling.Loader`."""
    del dtype
    size = XARSize(**{each.name: int(number_of(source, settings, each.name, most=_MOST)) for each in fields(XARSize)})
    if size.width % (4 * size.heads):
        raise source.lacks(f"config.json has {size.heads} for 'heads', whose rotary pairs do not divide {size.width}")
    network = outlined(lambda: XAR(size))
    network = filled(network, read_tensors(source, shapes_of(network), PUBLISHED), torch.float32)
    check_whole(network)
    trained = trained_cell(source, network.get_buffer("mask"), size.side)
    _check_tables(source, network, size, trained)
    cell = _cell(source, trained, int(number_of(source, settings, CELL, most=_MOST)))
    beside = folder_in(source, PIXELS)
    card = card_of(source, TITLE, beside, licence=licences.XAR)
    return XARModel(network, decoder_of(source, size.token), card, torch.device(device), (trained, cell))


def needs(source: Source, settings: Mapping[str, Any]) -> Needs:
    """What the model of a folder takes, all of it in float32; see `assembling.Measure`."""
    del settings
    tables = ("mask", *(f".rope.{name}" for name in ("freqs", "freqs_cos", "freqs_sin")))
    return Needs(0, stored(source, tables=tables) + stored(folder_in(source, PIXELS), UNUSED))


def _cell(source: Source, trained: int, wanted: int) -> int:
    if wanted not in (1, trained):
        raise source.lacks(f"it cannot draw cells of {wanted}x{wanted}; it was trained on {trained}x{trained}, or 1x1")
    return wanted


def _check_tables(source: Source, network: XAR, size: XARSize, trained: int) -> None:
    """See that rotary positions are those of rows and columns, in the order of cells."""
    quarter = size.width // size.heads // 4
    speed = _BASE ** -(torch.arange(quarter, dtype=torch.float64) / quarter)
    at = sequence(size.side, trained)
    angle = torch.cat(
        [(place[:, None] * speed).repeat_interleave(2, 1) for place in (at // size.side, at % size.side)], 1
    )
    for name, table in network.named_buffers():
        expected = {"freqs_cos": angle.cos(), "freqs_sin": angle.sin(), "freqs": speed}.get(name.rpartition(".")[2])
        if expected is not None and not torch.allclose(table.double(), expected, atol=_CLOSE, rtol=0):
            raise source.lacks(f"{name!r} holds other rotary positions than those of cells of {trained}x{trained}")
