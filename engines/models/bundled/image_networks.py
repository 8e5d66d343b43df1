"""The two networks of the studio image model: a VQ tokenizer and a causal transformer over its codes."""

from dataclasses import dataclass
from typing import Final, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3Model

from draftscope.engines.models.bundled.prompts import SCENES, THINGS
from draftscope.engines.models.torch_model import hidden_states
from draftscope.engines.models.transformers_api import Cache

SIZE: Final = 96
PATCH: Final = 8
GRID: Final = SIZE // PATCH
CODES: Final = 1024
CONDITIONS: Final = (len(THINGS), len(SCENES))


class _Residual(nn.Module):
    """Two convolutions without norms; starts as the identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(cast(Tensor, self.second.bias))

    def forward(self, hidden: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        return hidden + cast(Tensor, self.second(F.silu(self.first(F.silu(hidden)))))


class Tokenizer(nn.Module):
    """Pictures of 96x96 pixels to 12x12 codes and back, without norms; resolution changes by pixel-(un)shuffles."""

    def __init__(self, codes: int = CODES, code_dim: int = 12) -> None:
        super().__init__()
        fine, coarse = 64, 128  # widths at 4 and at 8 pixels a position
        into = [nn.PixelUnshuffle(4), nn.Conv2d(48, fine, 3, padding=1), _Residual(fine)]
        into += [nn.PixelUnshuffle(2), nn.Conv2d(4 * fine, coarse, 1), _Residual(coarse)]
        self.encoder = nn.Sequential(*into, nn.SiLU(), nn.Conv2d(coarse, code_dim, 1))
        coarse, middle, fine = 192, 96, 32  # at 8, 4 and 2 pixels; drawing is the harder half
        out = [nn.Conv2d(code_dim, coarse, 3, padding=1), _Residual(coarse), _Residual(coarse)]
        out += [nn.SiLU(), nn.Conv2d(coarse, 4 * middle, 1), nn.PixelShuffle(2), _Residual(middle), _Residual(middle)]
        out += [nn.SiLU(), nn.Conv2d(middle, 4 * fine, 1), nn.PixelShuffle(2), _Residual(fine)]
        self.decoder = nn.Sequential(*out, nn.SiLU(), nn.Conv2d(fine, 12, 3, padding=1), nn.PixelShuffle(2))
        self.register_buffer("vectors", torch.randn(codes, code_dim))

    @property
    def codebook(self) -> Float[Tensor, "K D"]:
        """The code vectors."""
        return cast(Tensor, self.vectors)

    def nearest(self, features: Float[Tensor, "B D G G"]) -> Int[Tensor, "B G G"]:
        """The index of the closest code at every grid cell."""
        flat = features.permute(0, 2, 3, 1).float()  # [B, G, G, D]
        distance = (flat.square().sum(-1, keepdim=True) - 2 * flat @ self.codebook.T) + self.codebook.square().sum(-1)
        return distance.argmin(-1)

    def encode(self, image: Float[Tensor, "B 3 S S"]) -> Int[Tensor, "B G G"]:
        """Images in [-1, 1] to codes."""
        return self.nearest(self.encoder(image))

    def decode(self, codes: Int[Tensor, "B G G"]) -> Float[Tensor, "B 3 S S"]:
        """Codes to images, clipped to [-1, 1]."""
        return cast(Tensor, self.decoder(self.codebook[codes].permute(0, 3, 1, 2))).clamp(-1, 1)


@dataclass(frozen=True, slots=True)
class TransformerSize:
    """Width and depth of the transformer."""

    width: int = 256
    layers: int = 6
    heads: int = 8
    feed_forward: int = 640


DRAFTER: Final = TransformerSize(width=256, layers=1)
"""Size of the small transformer that drafts for the one of the default size."""


def backbone(vocabulary: int, length: int, size: TransformerSize) -> Qwen3Model:
    """Return transformers' Qwen3Model of this size, untrained and without a padding token.

    Args:
        vocabulary: Input ids: codes, and values of the conditions.
        length: Maximum number of positions.
        size: Width, layers and heads; every head has keys and values of its own.
    """
    return Qwen3Model(
        Qwen3Config(
            vocab_size=vocabulary,
            hidden_size=size.width,
            intermediate_size=size.feed_forward,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            num_key_value_heads=size.heads,
            head_dim=size.width // size.heads,
            max_position_embeddings=length,
            attn_implementation="sdpa",
            pad_token_id=None,
        )
    )


class Transformer(nn.Module):
    """p(next code | condition, codes so far): transformers' Qwen3Model with learned positions.

    The input is one id a condition (thing, scene; the last id of each table means "not said") and then
    the codes in raster order. Output slot i is the distribution of the code that follows input slot i, so slots before
    the last condition's are unused.
    """

    prefix = len(CONDITIONS)

    def __init__(self, size: TransformerSize | None = None) -> None:
        super().__init__()
        size = size or TransformerSize()
        length = self.prefix + GRID**2
        self.backbone = backbone(CODES + sum(n + 1 for n in CONDITIONS), length, size)
        self.position = nn.Embedding(length, size.width)
        self.head = nn.Linear(size.width, CODES, bias=False)
        nn.init.normal_(self.position.weight, std=0.02)
        nn.init.normal_(self.head.weight, std=0.02)

    def forward(
        self,
        ids: Int[Tensor, "B T"],
        positions: Int[Tensor, "B T"],
        cache: Cache | None = None,
        mask: Float[Tensor, "B 1 T S"] | None = None,
    ) -> Float[Tensor, "B T K"]:
        """Return the logits of the code after each input.

        Args:
            ids: Ids of `condition_ids`, then codes; after a cache, those that are not in it.
            positions: Positions of the inputs, from 0 for the first condition.
            cache: KV cache of earlier inputs, which the pass extends.
            mask: Additive attention mask over cached inputs and these; causal by default.
        """
        embedded = self.backbone.embed_tokens(ids) + self.position(positions)
        return cast(Tensor, self.head(hidden_states(self.backbone, positions, cache, mask, inputs_embeds=embedded)))


def condition_ids(
    values: Int[Tensor, "B C"], conditions: tuple[int, ...] = CONDITIONS, codes: int = CODES
) -> Int[Tensor, "B C"]:
    """Return the input ids of the values of the conditions.

    Args:
        values: Value of each condition, such as the indices of thing and scene; -1 is "not specified".
        conditions: Number of values of each condition.
        codes: Size of the codebook, whose ids come first.
    """
    counts = torch.tensor(conditions, device=values.device)
    starts = codes + torch.cumsum(counts + 1, 0) - (counts + 1)
    return starts + torch.where(values < 0, counts, values)
