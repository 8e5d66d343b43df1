"""The networks of the studio patch models: a KL autoencoder and causal transformers over its continuous tokens."""

from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers.cache_utils import Cache

from engines.models.bundled.garment_prompts import BACKGROUNDS, GARMENTS, TINTS
from engines.models.bundled.networks import TransformerSize, backbone, condition_ids
from engines.models.heads import MixtureHead, ResidualHead
from engines.models.networked import hidden_states

SIZE: Final = 48
PATCH: Final = 4
GRID: Final = SIZE // PATCH
CONDITIONS: Final = (len(GARMENTS), len(TINTS), len(BACKGROUNDS))
WIDTH: Final = 8
"""Components of a token."""
PREFIX: Final = len(CONDITIONS)


class PatchTokenizer(nn.Module):
    """Images to 12x12 tokens of 8 numbers and back: diffusers' AutoencoderKL behind a pixel-unshuffle.

    `scale` brings the tokens to unit variance; it is measured after training.
    """

    scale: Tensor

    def __init__(self, channels: int = 80) -> None:
        super().__init__()
        self.vae = AutoencoderKL(
            in_channels=3 * PATCH**2,
            out_channels=3 * PATCH**2,
            block_out_channels=(channels,),
            layers_per_block=1,
            latent_channels=WIDTH,
            norm_num_groups=16,
            mid_block_add_attention=False,
            use_quant_conv=False,
            use_post_quant_conv=False,
        )
        self.register_buffer("scale", torch.ones(()))

    def posterior(self, image: Float[Tensor, "B 3 S S"]) -> tuple[Float[Tensor, "B D G G"], Float[Tensor, "B D G G"]]:
        """Mean and log variance of the latents of images in [-1, 1], unscaled."""
        latent = self.vae.encode(F.pixel_unshuffle(image, PATCH)).latent_dist
        return latent.mean, latent.logvar

    def reconstruct(self, latent: Float[Tensor, "B D G G"]) -> Float[Tensor, "B 3 S S"]:
        """Unscaled latents to images, nominally in [-1, 1]."""
        hidden: Tensor = self.vae.decode(latent).sample
        return F.pixel_shuffle(hidden, PATCH)

    def tokens(self, latent: Float[Tensor, "B D G G"]) -> Float[Tensor, "B N D"]:
        """Unscaled latents to tokens in raster order."""
        return (latent / self.scale).flatten(2).transpose(1, 2)

    def decode(self, tokens: Float[Tensor, "B N D"]) -> Float[Tensor, "B 3 S S"]:
        """Tokens in raster order to images, clipped to [-1, 1]."""
        latent = tokens.transpose(1, 2).unflatten(2, (GRID, GRID)) * self.scale
        return self.reconstruct(latent).clamp(-1, 1)


@dataclass(frozen=True, slots=True)
class PatchSize:
    """Width and depth of a transformer and its head."""

    title: str
    trunk: TransformerSize
    head_width: int
    head_depth: int = 3
    components: int = 0
    """Gaussians of a GMM head; 0 is a diffusion head."""


SIZES: Final = {
    "target": PatchSize("Studio patch model", TransformerSize(288, 6, 8, 544), 256),
    "draft": PatchSize("Small studio patch model", TransformerSize(144, 4, 4, 352), 192, 2),
    "mixture": PatchSize("Small studio patch model, GMM head", TransformerSize(144, 4, 4, 352), 256, components=8),
}


class PatchTransformer(nn.Module):
    """What follows tokens under a condition: transformers' Qwen3Model with learned positions, and a head.

    The input is three condition ids (garment, tint, background; the last id of each table means "not said"), each as
    the first component of a vector, and then the tokens in raster order. Output slot i is the condition of the token
    that follows input slot i, so slots 0 and 1 are unused.
    """

    def __init__(self, size: PatchSize) -> None:
        super().__init__()
        length = PREFIX + GRID**2
        self.backbone = backbone(sum(n + 1 for n in CONDITIONS), length, size.trunk)
        self.position = nn.Embedding(length, size.trunk.width)
        self.project = nn.Linear(WIDTH, size.trunk.width)
        self.head: ResidualHead | MixtureHead = (
            MixtureHead(WIDTH, size.trunk.width, size.head_width, size.components)
            if size.components
            else ResidualHead(WIDTH, size.trunk.width, size.head_width, size.head_depth)
        )
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(
        self,
        inputs: Float[Tensor, "B T D"],
        positions: Int[Tensor, "B T"],
        cache: Cache | None = None,
        mask: Float[Tensor, "B 1 T S"] | None = None,
    ) -> Float[Tensor, "B T H"]:
        """What the head is conditioned on for the token after each input. See `networks.Transformer.forward`."""
        condition = positions < PREFIX
        ids = torch.where(condition, inputs[..., 0].round().long(), 0)
        inputs = torch.where(condition[..., None], 0.0, inputs)
        embedded = torch.where(condition[..., None], self.backbone.embed_tokens(ids), self.project(inputs))
        embedded = embedded + self.position(positions)
        return hidden_states(self.backbone, positions, cache, mask, inputs_embeds=embedded)


def condition_vectors(values: Int[Tensor, "B 3"]) -> Float[Tensor, "B 3 D"]:
    """Inputs that say (garment, tint, background); -1 stands for "not said"."""
    return F.pad(condition_ids(values, CONDITIONS, codes=0)[..., None].float(), (0, WIDTH - 1))
