"""The picture tokenizer of LlamaGen, VQ-16 (arXiv 2406.06525), which Janus took over: transformers has it as Janus's.

Sizes are read off the tensors: how wide and how deep it is, and how often it halves.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from transformers.models.janus.configuration_janus import JanusVQVAEConfig

from engines.models.hub.assembling import counted
from engines.models.picture_model import Codebook
from engines.models.weights import Source

NAMES: Final = (
    ("encoder.down.", "encoder.conv_blocks."),
    ("decoder.up.", "decoder.conv_blocks."),
    (".block.", ".res."),
    (".mid.block_1.", ".mid.0."),
    (".mid.attn_1.", ".mid.1."),
    (".mid.block_2.", ".mid.2."),
)
"""Parts of transformers' tensor names and what the release calls them, applied in this order."""
UNUSED: Final = "quantize.codebook_used"
"""A count that training kept beside the codebook."""


def size_of(source: Source, shapes: Mapping[str, Sequence[int]], named: Callable[[str], str]) -> JanusVQVAEConfig:
    """The config that tensors ask for, but for the size of pictures.

    Args:
        source: Where they are.
        shapes: Of every tensor.
        named: What a tensor is called there that transformers calls so.

    Raises:
        ModelError: where they are those of no such tokenizer.
    """
    conv = "encoder.down.{}.block.{}.conv1.weight"
    try:
        codes, dim = shapes[named("quantize.embedding.weight")]
        base, colours = shapes[named("encoder.conv_in.weight")][:2]
        latent = shapes[named("encoder.conv_out.weight")][0]
        levels = counted(shapes, lambda i: named(conv.format(i, 0)))
        widths = [shapes[named(conv.format(i, 0))][0] for i in range(levels)]
    except (KeyError, ValueError) as error:
        raise source.lacks(f"its tensors are not those of a VQ-16 tokenizer: no {error}") from None
    if not levels or colours != 3 or base < 32 or any(width % base for width in widths) or base % 32:
        raise source.lacks("its tensors are not those of a VQ-16 tokenizer of 3 colours")
    return JanusVQVAEConfig(
        embed_dim=dim,
        num_embeddings=codes,
        latent_channels=latent,
        base_channels=base,
        channel_multiplier=[width // base for width in widths],
        num_res_blocks=counted(shapes, lambda i: named(conv.format(0, i))),
    )


def cell_of(config: JanusVQVAEConfig) -> int:
    """Pixels to a code, each way."""
    cell: int = 1 << (len(config.channel_multiplier) - 1)
    return cell


def codebook(book: Float[Tensor, "K D"]) -> Codebook:
    """The codes of VQ-16, which lie on the unit sphere."""
    return Codebook(F.normalize(book.double(), dim=-1), digest(book))


def digest(book: Float[Tensor, "K D"]) -> str:
    """Names a codebook, whatever number format it was stored in."""
    data = book.detach().cpu().to(torch.bfloat16).view(torch.int16).numpy().tobytes()
    return hashlib.sha256(str(tuple(book.shape)).encode() + data).hexdigest()
