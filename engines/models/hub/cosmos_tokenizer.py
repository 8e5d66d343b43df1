"""The discrete tokenizer of Cosmos, DV8x16x16 (arXiv 2501.03575, Sec. 4): causal in time, quantised to fixed levels.

Encoder and decoder are diffusers' classes for Cosmos's continuous tokenizers, which the discrete ones differ from in
their quantiser alone: finite scalar quantisation (arXiv 2309.15505). Widths and depths are read off the tensors, the
levels off the file beside them.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from diffusers.models.autoencoders.autoencoder_kl_cosmos import CosmosCausalConv3d, CosmosDecoder3d, CosmosEncoder3d
from jaxtyping import Float, Int
from torch import Tensor, nn

from engines.models.hub.assembling import counted
from engines.models.weights import Source, read_tensors, shapes_in, tensor_heads, weight_files

LEVELS: Final = (8, 8, 8, 5, 5, 5)
"""Of the published tokenizer."""
_COLOURS: Final = 3
_SLACK: Final = 1e-3
"""By how much the outermost levels lie inside what the bound can reach."""
_NAMES: Final = (
    (r"\.conv_s\.", ".0.conv3d."),
    (r"\.conv_t\.", ".1.conv3d."),
    (r"\.conv_shortcut\.", ".nin_shortcut.conv3d."),
    (r"\.(?:down|up)samplers\.0\.(conv\d)\.", r".sampler.\1.conv3d."),
    (r"^encoder\.down_blocks\.(\d+)\.sampler\.", r"encoder.down.\1.downsample."),
    (r"^encoder\.down_blocks\.(\d+)\.resnets\.", r"encoder.down.\1.block."),
    (r"\.mid_block\.resnets\.0\.", ".mid.block_1."),
    (r"\.mid_block\.resnets\.1\.", ".mid.block_2."),
    (r"\.mid_block\.attentions\.0\.", ".mid.attn_1.0."),
    (r"\.mid_block\.temp_attentions\.0\.", ".mid.attn_1.1."),
    (r"\.to_([qkv])\.", r".\1.conv3d."),
    (r"\.to_out\.0\.", ".proj_out.conv3d."),
    (r"^(post_)?quant_conv\.", r"\1quant_conv.conv3d."),
)
"""Parts of diffusers' tensor names and what the release calls them, applied in this order; see `_original` for the
levels of the decoder, which the release counts the other way round."""


@dataclass(frozen=True, slots=True)
class TokenizerSize:
    """Sizes of a tokenizer."""

    patch: int
    """Pixels, and frames, that wavelets fold into channels."""
    widths: tuple[int, ...]
    """Channels behind the first convolution, then at every resolution."""
    depth: int
    """Residual blocks at a resolution of the encoder; the decoder has one more."""
    latent: int
    """Channels between encoder and quantiser."""
    halvings: tuple[int, int]
    """Of space, and of time, behind the wavelets."""
    levels: tuple[int, ...]

    @property
    def cell(self) -> int:
        """Pixels to a code, each way."""
        return self.patch << self.halvings[0]

    @property
    def span(self) -> int:
        """Frames to a latent frame."""
        return self.patch << self.halvings[1]


class CosmosTokenizer(nn.Module):
    """Clips to codes and back."""

    levels: Tensor
    basis: Tensor

    def __init__(self, size: TokenizerSize) -> None:
        super().__init__()
        self.size = size
        shared: dict[str, Any] = {
            "num_resnet_blocks": size.depth,
            "attention_resolutions": (),  # the only attention is between encoder or decoder and the latents
            "patch_size": size.patch,
            "spatial_compression_ratio": size.cell,
            "temporal_compression_ratio": size.span,
        }
        self.encoder = CosmosEncoder3d(_COLOURS, size.latent, size.widths, **shared)
        self.decoder = CosmosDecoder3d(size.latent, _COLOURS, (*size.widths[1:], size.widths[-1]), **shared)
        self.quant_conv = CosmosCausalConv3d(size.latent, len(size.levels), kernel_size=1, padding=0)
        self.post_quant_conv = CosmosCausalConv3d(len(size.levels), size.latent, kernel_size=1, padding=0)
        basis = [math.prod(size.levels[:i]) for i in range(len(size.levels))]
        self.register_buffer("levels", torch.tensor(size.levels), persistent=False)
        self.register_buffer("basis", torch.tensor(basis), persistent=False)

    @property
    def codes(self) -> int:
        """How many different codes there are."""
        return math.prod(self.size.levels)

    @property
    def middle(self) -> int:
        """The code that lies at the origin."""
        return int((self.levels // 2 * self.basis).sum())

    def encode(self, clips: Float[Tensor, "B 3 F H W"]) -> Int[Tensor, "B T R C"]:
        """Codes of clips in [-1, 1]; F is 1 + span k for k + 1 latent frames."""
        found: Tensor = self.quant_conv(self.encoder(clips)).movedim(1, -1)
        reach = (self.levels - 1) * (1 + _SLACK) / 2
        offset = torch.where(self.levels % 2 == 0, 0.5, 0.0)  # an even number of levels has none in the middle
        level = ((found + (offset / reach).atanh()).tanh() * reach - offset).round().long() + self.levels // 2
        return (level * self.basis).sum(-1)

    def places(self, codes: Int[Tensor, "*N"]) -> Float[Tensor, "*N D"]:
        """Where codes lie, in [-1, 1]."""
        middle = self.levels // 2
        return ((codes[..., None] // self.basis) % self.levels - middle) / middle

    def decode(self, codes: Int[Tensor, "B T R C"]) -> Float[Tensor, "B 3 F H W"]:
        """Codes to clips, clipped to [-1, 1]."""
        latent = self.post_quant_conv(self.places(codes).movedim(-1, 1))
        clips: Tensor = self.decoder(latent)
        return clips.clamp(-1, 1)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor, as the release has them."""
        return {self._original(name): tuple(tensor.shape) for name, tensor in self.state_dict().items()}

    def fill(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the weights, named as the release has them, and all of them."""
        self.load_state_dict({name: tensors[self._original(name)] for name in self.state_dict()}, assign=True)

    def _original(self, name: str) -> str:
        for native, original in _NAMES:
            name = re.sub(native, original, name)
        last, block = len(self.size.widths) - 2, re.match(r"decoder\.up_blocks\.(\d+)\.(resnets|sampler)\.", name)
        if block is None:
            return name
        part = "block" if block[2] == "resnets" else "upsample"
        return f"decoder.up.{last - int(block[1])}.{part}.{name[block.end() :]}"


def size_of(source: Source, shapes: Mapping[str, Sequence[int]], levels: Sequence[int]) -> TokenizerSize:
    """The sizes that tensors have.

    Raises:
        ModelError: where they are those of no such tokenizer.
    """
    try:
        width, folded = shapes["encoder.conv_in.0.conv3d.weight"][:2]
        resolutions = counted(shapes, "encoder.down.{}.block.0.conv1.0.conv3d.weight".format)
        widths = [shapes[f"encoder.down.{i}.block.0.conv1.0.conv3d.weight"][0] for i in range(resolutions)]
        halvings = tuple(counted(shapes, f"encoder.down.{{}}.downsample.conv{k}.conv3d.weight".format) for k in (1, 2))
        latent, kept = shapes["post_quant_conv.conv3d.weight"][:2]
    except (KeyError, ValueError) as error:
        raise source.lacks(f"its tensors are not those of a discrete video tokenizer of Cosmos: no {error}") from None
    depth = counted(shapes, "encoder.down.0.block.{}.conv1.0.conv3d.weight".format)
    patch = round((folded / _COLOURS) ** (1 / 3))
    if not widths or patch not in (1, 2, 4, 8) or kept != len(levels):
        raise source.lacks("its tensors are not those of a discrete video tokenizer of Cosmos that folds 3 colours")
    return TokenizerSize(patch, (width, *widths), depth, latent, (halvings[0], halvings[1]), tuple(levels))


def measured(source: Source) -> TokenizerSize:
    """The sizes of the tokenizer of a converted folder, by the heads of its files.

    Raises:
        ModelError: where they are those of no such tokenizer.
    """
    levels = source.read_json("config.json").get("levels")
    if not isinstance(levels, list) or not levels or not all(type(n) is int and n > 1 for n in levels):
        raise source.lacks(f"config.json has {levels!r} for 'levels'; it is a list of whole numbers from 2 on")
    return size_of(source, shapes_in(tensor_heads(source)), levels)


def load_tokenizer(source: Source) -> tuple[CosmosTokenizer, str]:
    """The tokenizer of a converted folder, in float32 on the CPU, and the name of its file.

    Raises:
        ModelError: when it is not whole.
    """
    size = measured(source)
    with torch.device("meta"):
        wanted = CosmosTokenizer(size).shapes()
    tensors = read_tensors(source, wanted, CosmosTokenizer.__name__)
    tokenizer = CosmosTokenizer(size)
    tokenizer.fill({name: tensor.float() for name, tensor in tensors.items()})
    return tokenizer.eval().requires_grad_(False), weight_files(source)[0].name
