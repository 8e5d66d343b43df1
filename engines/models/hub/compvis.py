"""Decoders of CompVis's autoencoders, latents or codes to pixels: KL-16 of MAR, Chameleon's VQGAN, and MoVQGAN.

The network is diffusers' decoder; sizes are read off the tensors. Encoders lie beside them and are not read. In MoVQGAN
(arXiv 2209.09002) every normalisation is scaled and moved by the latents, and the coarsest resolution attends.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from diffusers.models.autoencoders.vae import Decoder
from jaxtyping import Float, Int
from torch import Tensor, nn

from engines.models.hub.assembling import check_whole, counted, filled, outlined, shapes_of
from engines.models.weights import Source, read_tensors, shapes_in, tensor_heads

UNUSED: Final = ("encoder.", "quant_conv.", "loss.", "ema_")
"""How names begin of what makes codes, and of what it was trained by."""
_GROUPS: Final = 32
_NAMES: Final = (
    (r"\.mid_block\.resnets\.0\.", ".mid.block_1."),
    (r"\.mid_block\.resnets\.1\.", ".mid.block_2."),
    (r"\.mid_block\.attentions\.0\.", ".mid.attn_1."),
    (r"\.(group|spatial)_norm\.", ".norm."),
    (r"\.to_([qkv])\.", r".\1."),
    (r"\.to_out\.0\.", ".proj_out."),
    (r"\.conv_shortcut\.", ".nin_shortcut."),
    (r"\.conv_norm_out\.", ".norm_out."),
)
"""Parts of diffusers' tensor names and what the releases call them; see `_published` for the levels, which these count
the other way round."""
_ATTENDS: Final = re.compile(r"\.to_(q|k|v|out\.0)\.weight$")


@dataclass(frozen=True, slots=True)
class DecoderSize:
    """Sizes of a decoder, and how its levels are counted."""

    widths: tuple[int, ...]
    """Channels at every resolution, from that of the pixels on."""
    depth: int
    """Residual blocks at a resolution."""
    latent: int
    """Channels of its input."""
    dim: int
    """Channels of a latent before they are mixed."""
    codes: int
    """Entries of the codebook; 0 for none."""
    from_coarse: bool
    """Whether levels are counted in the order of computation; CompVis counts from the pixels on."""
    spatial: bool = False
    """Whether normalisations are moved by the latents."""
    attends: bool = False
    """Whether the coarsest resolution attends."""


class PixelDecoder(nn.Module):
    """Latents to pixels, and codes where there is a codebook."""

    def __init__(self, size: DecoderSize) -> None:
        super().__init__()
        first = "AttnUpDecoderBlock2D" if size.attends else "UpDecoderBlock2D"
        blocks, dim = (first, *("UpDecoderBlock2D",) * (len(size.widths) - 1)), size.dim
        latent, codes, widths = size.latent, size.codes, size.widths
        norm = "spatial" if size.spatial else "group"
        self.decoder = Decoder(latent, 3, blocks, widths, size.depth - 1, _GROUPS, norm_type=norm)
        self._spatial = size.spatial
        self.from_coarse = size.from_coarse
        self.post_quant_conv = nn.Conv2d(dim, latent, 1)
        self.quantize = nn.ModuleDict({"embedding": nn.Embedding(codes, dim)} if codes else {})
        self.cell = 1 << (len(widths) - 1)
        self.dim = dim

    @property
    def book(self) -> Float[Tensor, "K D"]:
        """The codebook."""
        found: Any = self.quantize["embedding"].weight
        return torch.as_tensor(found)

    def forward(self, latents: Float[Tensor, "B D h w"]) -> Float[Tensor, "B 3 H W"]:
        """Pixels, nominally in [-1, 1]."""
        found: Tensor = self.decoder(self.post_quant_conv(latents), latents if self._spatial else None)
        return found

    def from_codes(self, codes: Int[Tensor, "B N"], columns: int) -> Float[Tensor, "B 3 H W"]:
        """Pixels of codes in raster order."""
        return self.forward(self.book[codes].transpose(1, 2).unflatten(2, (-1, columns)))


def decoder_of(source: Source, shapes: Mapping[str, Sequence[int]], codes: bool) -> PixelDecoder:
    """A decoder without weights of the sizes that tensors have.

    Raises:
        ModelError: where they are those of no such decoder.
    """
    first = "decoder.up.{}.block.{}.conv1.weight"
    try:
        levels, depth = counted(shapes, lambda i: first.format(i, 0)), counted(shapes, lambda i: first.format(0, i))
        widths = tuple(shapes[first.format(i, 0)][0] for i in range(levels))
        latent, dim = shapes["post_quant_conv.weight"][:2]
        book = shapes["quantize.embedding.weight"][0] if codes else 0
    except (KeyError, ValueError) as error:
        raise source.lacks(f"its tensors are not those of an autoencoder of CompVis's kind: no {error}") from None
    if not widths or depth < 2 or any(width % _GROUPS for width in widths):
        raise source.lacks("its tensors are not those of an autoencoder of CompVis's kind")
    from_coarse, spatial = widths[0] > widths[-1], "decoder.norm_out.conv_y.weight" in shapes
    if spatial and latent != dim:
        raise source.lacks(f"its latents have {latent} channels and its codes {dim}, which is no MoVQGAN")
    coarsest = f"decoder.up.{0 if from_coarse else levels - 1}.attn.0.q.weight"
    size = DecoderSize(
        widths[::-1] if from_coarse else widths, depth, latent, dim, book, from_coarse, spatial, coarsest in shapes
    )
    return outlined(lambda: PixelDecoder(size))


def read_decoder(
    source: Source, title: str, *, codes: bool, prefix: str = "", others: tuple[str, ...] = ()
) -> PixelDecoder:
    """The decoder of a folder, in float32 on the CPU.

    Args:
        source: Where it is.
        title: What messages call it.
        codes: Whether there is a codebook.
        prefix: How its names begin, where it lies among other tensors.
        others: How names of these begin.

    Raises:
        ModelError: when it is not whole.
    """
    shapes = shapes_in(tensor_heads(source))
    own = {name.removeprefix(prefix): shape for name, shape in shapes.items() if name.startswith(prefix)}
    network = decoder_of(source, own, codes)
    wanted = {f"{prefix}{name}": shape for name, shape in published_shapes(network).items()}
    found = read_tensors(source, wanted, title, ignored=(*others, *(f"{prefix}{name}" for name in UNUSED)))
    shapes = shapes_of(network)
    state = {name: found[f"{prefix}{own}"].reshape(shapes[name]) for name, own in published_names(network).items()}
    filled(network, state, torch.float32)
    check_whole(network)
    return network


def published_names(network: PixelDecoder) -> dict[str, str]:
    """What the releases call the tensors."""
    levels = network.cell.bit_length()
    return {name: _published(name, 0 if network.from_coarse else levels) for name in network.state_dict()}


def published_shapes(network: PixelDecoder) -> dict[str, tuple[int, ...]]:
    """Shapes by the releases' names: attention is written as convolutions there."""
    names = published_names(network)
    return {
        names[name]: (*shape, 1, 1) if _ATTENDS.search(name) else shape for name, shape in shapes_of(network).items()
    }


def _published(name: str, levels: int) -> str:
    """What the releases call a tensor; `levels` is 0 where they count levels as diffusers does."""
    for native, published in _NAMES:
        name = re.sub(native, published, name)
    block = re.match(r"decoder\.up_blocks\.(\d+)\.(resnets|attentions|upsamplers\.0)\.", name)
    if block is None:
        return name
    level = levels - 1 - int(block[1]) if levels else int(block[1])
    part = {"resnets": "block", "attentions": "attn"}.get(block[2], "upsample")
    return f"decoder.up.{level}.{part}.{name[block.end() :]}"
