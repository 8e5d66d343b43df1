"""Discrete tokenizer of Cosmos, DV8x16x16 (arXiv 2501.03575, Sec. 4): causal in time, quantised to fixed levels.

Encoder and decoder are diffusers' classes for Cosmos's continuous tokenizers, which differ from the discrete ones only
in the quantiser: finite scalar quantisation (arXiv 2309.15505). Widths and depths follow from the tensors, the levels
from config.json.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from diffusers.models.autoencoders.autoencoder_kl_cosmos import CosmosCausalConv3d, CosmosDecoder3d, CosmosEncoder3d
from jaxtyping import Float, Int
from torch import Tensor, nn

from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.checkpoints.build import State, counted, load_state
from draftscope.engines.models.checkpoints.conversion import read_archive
from draftscope.engines.models.checkpoints.images.autoencoder import COMPVIS, native_name
from draftscope.engines.settings import format_value

LEVELS: Final = (8, 8, 8, 5, 5, 5)
"""Levels of the published tokenizer."""
_OTHER: Final = "its tensors are not those of a discrete video tokenizer of Cosmos"
_COLOURS: Final = 3
_SLACK: Final = 1e-3
"""By how much the outermost levels lie inside what the bound can reach."""
_NAMES: Final = (
    (r"\.0\.conv3d\.", ".conv_s."),
    (r"\.1\.conv3d\.", ".conv_t."),
    (r"\.conv3d\.", "."),
    (r"\.mid\.attn_1\.0\.", ".mid_block.attentions.0."),
    (r"\.mid\.attn_1\.1\.", ".mid_block.temp_attentions.0."),
    *COMPVIS,
)
"""Parts of the release's tensor names and diffusers' for them, applied in this order; levels are in `native_name`."""
_NO_WEIGHTS: Final = ("encoder.patcher3d.", "decoder.unpatcher3d.", "quantizer.", "inv_quant.")
"""Wavelets and levels, which TorchScript stores with the weights."""


@dataclass(frozen=True, slots=True)
class TokenizerSize:
    """Sizes of a tokenizer."""

    patch: int
    """Pixels, and frames, that wavelets fold into channels."""
    widths: tuple[int, ...]
    """Channels after the first convolution, then at every resolution."""
    depth: int
    """Residual blocks at a resolution of the encoder; the decoder has one more."""
    latent: int
    """Channels between encoder and quantiser."""
    halvings: tuple[int, int]
    """Halvings of space, and of time, after the wavelets."""
    levels: tuple[int, ...]

    @property
    def cell(self) -> int:
        """Pixels to a code, each way."""
        return self.patch << self.halvings[0]

    @property
    def span(self) -> int:
        """Frames to a latent frame."""
        return self.patch << self.halvings[1]

    @property
    def codes(self) -> int:
        """How many different codes there are."""
        return math.prod(self.levels)


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
    def middle(self) -> int:
        """Code at the origin."""
        return int((self.levels // 2 * self.basis).sum())

    def encode(self, clips: Float[Tensor, "B 3 F H W"]) -> Int[Tensor, "B T R C"]:
        """Codes of clips in [-1, 1]; F is 1 + span k for k + 1 latent frames."""
        latent: Tensor = self.quant_conv(self.encoder(clips)).movedim(1, -1)
        reach = (self.levels - 1) * (1 + _SLACK) / 2
        offset = torch.where(self.levels % 2 == 0, 0.5, 0.0)  # an even number of levels has none in the middle
        level = ((latent + (offset / reach).atanh()).tanh() * reach - offset).round().long() + self.levels // 2
        return (level * self.basis).sum(-1)

    def coordinates(self, codes: Int[Tensor, "*N"]) -> Float[Tensor, "*N D"]:
        """Coordinates of codes, in [-1, 1]."""
        middle = self.levels // 2
        return ((codes[..., None] // self.basis) % self.levels - middle) / middle

    def decode(self, codes: Int[Tensor, "B T R C"]) -> Float[Tensor, "B 3 F H W"]:
        """Codes to clips, clipped to [-1, 1]."""
        latent = self.post_quant_conv(self.coordinates(codes).movedim(-1, 1))
        clips: Tensor = self.decoder(latent)
        return clips.clamp(-1, 1)


def size_of(source: CheckpointDir, shapes: Mapping[str, Sequence[int]], levels: Sequence[int]) -> TokenizerSize:
    """Return the sizes of a tokenizer by the shapes of its tensors.

    Args:
        source: Folder that errors name.
        shapes: Shape of every tensor by its published name.
        levels: Number of values of each latent channel.

    Raises:
        ModelError: If they are not those of such a tokenizer.
    """
    first = "encoder.down.{}.block.0.conv1.0.conv3d.weight"
    try:
        width, folded = shapes["encoder.conv_in.0.conv3d.weight"][:2]
        widths = [shapes[first.format(i)][0] for i in range(counted(shapes, first))]
        halvings = tuple(counted(shapes, f"encoder.down.{{}}.downsample.conv{k}.conv3d.weight") for k in (1, 2))
        latent, num_levels = shapes["post_quant_conv.conv3d.weight"][:2]
    except (KeyError, ValueError, IndexError) as error:
        raise source.unsupported(f"{_OTHER}: no {error}") from None
    depth = counted(shapes, "encoder.down.0.block.{}.conv1.0.conv3d.weight")
    patch = round((folded / _COLOURS) ** (1 / 3))
    if not widths or patch not in (1, 2, 4, 8) or num_levels != len(levels):
        raise source.unsupported(f"{_OTHER} that folds 3 colours")
    return TokenizerSize(patch, (width, *widths), depth, latent, (halvings[0], halvings[1]), tuple(levels))


def size_of_folder(source: CheckpointDir) -> TokenizerSize:
    """The sizes of the tokenizer of a converted folder, by the heads of its files."""
    levels = source.read_json("config.json").get("levels")
    if not isinstance(levels, list) or not levels or not all(type(n) is int and n > 1 for n in levels):
        raise source.unsupported(
            f"config.json has {format_value(levels)} for 'levels'; it is a list of whole numbers from 2 on"
        )
    return size_of(source, {name: shape for name, (shape, _) in source.heads().items()}, levels)


def tokenizer_of(source: CheckpointDir, size: TokenizerSize, state: State) -> CosmosTokenizer:
    """Return the tokenizer that tensors make up, in float32 on the CPU.

    Args:
        source: Folder that errors name.
        size: Result of `size_of`.
        state: Tensors by their published names.

    Raises:
        ModelError: If a tensor is missing or misshapen.
    """
    try:
        tokenizer = CosmosTokenizer(size)
    except (ValueError, RuntimeError) as error:
        raise source.unsupported(f"its tensors have sizes of no tokenizer: {error}") from None
    levels = len(size.widths) - 1
    native = {native_name(name, _NAMES, levels): part for name, part in state.items()}
    return load_state(source, tokenizer, native, torch.float32)


def read_jit(source: CheckpointDir) -> tuple[dict[str, Tensor], tuple[int, ...]]:
    """The tensors of encoder and decoder in a folder's TorchScript archive, and the quantiser's levels."""
    name = "autoencoder.jit"
    if not (source.folder / name).is_file():
        raise source.incomplete(f"{name} is missing in {source.folder}")
    try:
        state = read_archive(source.folder / name)
    except ValueError as error:
        raise source.incomplete(f"{name} {error}") from None
    # They are stored where the quantiser was scripted with them.
    stored = next((part for name, part in state.items() if name.endswith("quantizer._levels")), None)
    levels = LEVELS if stored is None else tuple(int(level) for level in stored.flatten())
    return {name: part for name, part in state.items() if not name.startswith(_NO_WEIGHTS)}, levels
