"""The networks of the studio patch models: an autoencoder, and transformers over its continuous tokens."""

import math
from dataclasses import dataclass
from typing import Final, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers.cache_utils import Cache

from engines.models.bundled.networks import CONDITIONS, GRID, Tokenizer, TransformerSize, backbone, condition_ids
from engines.models.heads import MixtureHead, ResidualHead
from engines.models.networked import hidden_states

WIDTH: Final = 8
"""Components of a token."""
NOISE: Final = 0.1
"""Share of a token's variance that is noise."""
PREFIX: Final = len(CONDITIONS)


class PatchTokenizer(nn.Module):
    """Images to 12x12 tokens of 8 numbers and back: the image model's convolutions, without its codebook.

    A token is an encoder's output, normalized, and noise of a fixed share, which the decoder learns to ignore (as in
    LatentLM, arXiv 2412.08635): a distribution over tokens is never narrower than that noise.
    """

    def __init__(self) -> None:
        super().__init__()
        convolutions = Tokenizer(1, WIDTH)
        self.encoder, self.decoder = convolutions.encoder, convolutions.decoder
        self.norm = nn.BatchNorm2d(WIDTH, affine=False)

    def means(self, image: Float[Tensor, "B 3 S S"]) -> Float[Tensor, "B N D"]:
        """Tokens of images in [-1, 1] in raster order, before noise is added."""
        latent: Tensor = self.norm(self.encoder(image).float())
        return math.sqrt(1 - NOISE) * latent.flatten(2).transpose(1, 2)

    def reconstruct(self, tokens: Float[Tensor, "B N D"]) -> Float[Tensor, "B 3 S S"]:
        """Tokens in raster order to images, nominally in [-1, 1]."""
        return cast(Tensor, self.decoder(tokens.transpose(1, 2).unflatten(2, (GRID, GRID))))

    def decode(self, tokens: Float[Tensor, "B N D"]) -> Float[Tensor, "B 3 S S"]:
        """Tokens in raster order to images, clipped to [-1, 1]."""
        return self.reconstruct(tokens).clamp(-1, 1)


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
    "target": PatchSize("Studio patch model", TransformerSize(layers=18), 256),
    "draft": PatchSize("Small studio patch model", TransformerSize(layers=2), 128, 2),
    "mixture": PatchSize("Small studio patch model, GMM head", TransformerSize(layers=2), 256, components=8),
    "masked": PatchSize("Studio patch model, masked", TransformerSize(layers=4), 256),
}


class PatchNetwork(nn.Module):
    """Transformers' Qwen3Model with learned positions over two condition ids and 144 tokens, and a head.

    The conditions are thing and scene; the last id of each table means "not said".
    """

    def __init__(self, size: PatchSize) -> None:
        super().__init__()
        length = PREFIX + GRID**2
        self.backbone = backbone(sum(n + 1 for n in CONDITIONS), length, size.trunk)
        self.position = nn.Embedding(length, size.trunk.width)
        width = size.trunk.width
        self.project = nn.Sequential(nn.Linear(WIDTH, width), nn.SiLU(), nn.Linear(width, width))
        self.head: ResidualHead | MixtureHead = (
            MixtureHead(WIDTH, size.trunk.width, size.head_width, size.components)
            if size.components
            else ResidualHead(WIDTH, size.trunk.width, size.head_width, size.head_depth)
        )
        nn.init.normal_(self.position.weight, std=0.02)


class PatchTransformer(PatchNetwork):
    """Causal: what follows tokens under a condition.

    A condition id is the first component of a vector; tokens in raster order follow. Output slot i is the head's
    condition for the token that follows input slot i, so slot 0 is unused.
    """

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


class MaskedPatchTransformer(PatchNetwork):
    """Bidirectional: any token given any others, as in masked generation (MAR, arXiv 2406.11838)."""

    def __init__(self, size: PatchSize) -> None:
        super().__init__(size)
        self.mask = nn.Parameter(torch.zeros(size.trunk.width))

    def forward(
        self, tokens: Float[Tensor, "B N D"], visible: Bool[Tensor, "B N"], labels: Int[Tensor, "B 2"]
    ) -> Float[Tensor, "B N H"]:
        """The head's condition for every token.

        Args:
            tokens: in raster order; what is not visible may hold anything.
            visible: which of them may be seen.
            labels: thing and scene; -1 for "not said".
        """
        seen = torch.where(visible[..., None], self.project(tokens), self.mask)
        embedded = torch.cat([self.backbone.embed_tokens(condition_ids(labels, CONDITIONS, codes=0)), seen], 1)
        embedded = embedded + self.position.weight
        positions = torch.arange(embedded.shape[1], device=embedded.device).expand(len(embedded), -1)
        both_ways = embedded.new_zeros(()).expand(len(embedded), 1, positions.shape[1], positions.shape[1])
        return hidden_states(self.backbone, positions, None, both_ways, inputs_embeds=embedded)[:, PREFIX:]


def condition_vectors(values: Int[Tensor, "B 2"]) -> Float[Tensor, "B 2 D"]:
    """Inputs that say (thing, scene); -1 stands for "not said"."""
    return F.pad(condition_ids(values, CONDITIONS, codes=0)[..., None].float(), (0, WIDTH - 1))
