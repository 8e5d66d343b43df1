"""MAR-B, -L and -H as they were published (arXiv 2406.11838), with KL-16: a class to a picture of 256x256 pixels.

Read from a folder that `engines.models.hub.picture_convert` wrote: config.json with the sizes, model.safetensors with
the averaged weights under their published names, and `pixels/` with the autoencoder under its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import isqrt
from typing import Any, Final

import torch

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
from engines.models.hub.mar import MAR, MARModel, MARSize
from engines.models.memory import Needs
from engines.models.weights import Source, number_of, read_tensors

TITLE: Final = "MAR"
HEADS: Final = {768: 12, 1024: 16, 1280: 16}
"""Of attention, by width: tensors do not tell."""
_MOST: Final = 4096


def size_of(source: Source, shapes: Mapping[str, Sequence[int]], heads: int | None) -> MARSize:
    """The sizes that tensors have.

    Args:
        source: Where they are.
        shapes: By their published names.
        heads: Of attention; None takes those of the published models.

    Raises:
        ModelError: where they are those of no MAR.
    """
    try:
        count, width = shapes["diffusion_pos_embed_learned"][1:]
        buffer = shapes["encoder_pos_embed_learned"][1] - count
        token, head_width = shapes["z_proj.weight"][1], shapes["diffloss.net.input_proj.weight"][0]
    except (KeyError, ValueError) as error:
        raise source.lacks(f"its tensors are not those of a MAR: no {error}") from None
    depth, head_depth = (
        sum(name.startswith(start) and name.endswith(end) for name in shapes)
        for start, end in (("encoder_blocks.", ".attn.qkv.bias"), ("diffloss.net.res_blocks.", ".in_ln.bias"))
    )
    heads = heads or HEADS.get(width)
    if heads is None or width % heads:
        raise source.lacks(f"its width is {width}, and no published MAR has it; say how many heads it has by --heads")
    return MARSize(isqrt(count), token, width, depth, heads, buffer, head_width, head_depth)


def needs(source: Source, settings: Mapping[str, Any]) -> Needs:
    """What the model of a folder takes, all of it in float32; see `assembling.Measure`."""
    del settings
    return Needs(0, stored(source) + stored(folder_in(source, PIXELS), UNUSED))


def load(source: Source, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> MARModel:
    """The model of a converted folder, in float32 whatever is asked for, as `latents` says; see `assembling.Loader`."""
    del dtype
    size = MARSize(**{each.name: int(number_of(source, settings, each.name, most=_MOST)) for each in fields(MARSize)})
    if size.width % size.heads:
        raise source.lacks(f"config.json has {size.heads} for 'heads', which do not divide its 'width' {size.width}")
    network = outlined(lambda: MAR(size))
    network = filled(network, read_tensors(source, shapes_of(network), TITLE), torch.float32)
    check_whole(network)
    beside = folder_in(source, PIXELS)
    return MARModel(
        network,
        decoder_of(source, size.token),
        card_of(source, TITLE, beside, licence=licences.MAR),
        torch.device(device),
    )
