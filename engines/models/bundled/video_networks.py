"""The two networks of the studio video model: a causal VQ tokenizer and a causal transformer over its codes.

A clip is 33 frames. Its first frame is repeated eight times, so that 40 frames make five latent frames of 12x12 codes,
each of which covers eight frames: the geometry of Cosmos, 1 + 32 / 8.
"""

from typing import Final

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from transformers.cache_utils import Cache

from engines.models.bundled.networks import TransformerSize, backbone
from engines.models.networked import hidden_states

SIZE: Final = 48
PATCH: Final = 4
GRID: Final = SIZE // PATCH
SPAN: Final = 8
"""Frames to a latent frame."""
LATENTS: Final = 5
FRAMES: Final = 1 + SPAN * (LATENTS - 1)
CODES: Final = 512
PLANE: Final = GRID**2
"""Codes of a latent frame."""
LENGTH: Final = LATENTS * PLANE
GIVEN: Final = 2 * PLANE
"""Codes of the frames that are given, the first nine."""
_PIXELS: Final = 3 * SPAN * PATCH**2


class _Residual(nn.Module):
    """Two 3x3 convolutions, added to their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(8, channels),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.GroupNorm(8, channels),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.body(x)
        return out


class _Causal(nn.Module):
    """Mixes every latent frame with the one before it."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.now = nn.Conv2d(inner, outer, 3, padding=1)
        self.past = nn.Conv2d(inner, outer, 3, padding=1, bias=False)

    def forward(self, x: Float[Tensor, "B T I G G"]) -> Float[Tensor, "B T O G G"]:
        now = self.now(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        past = self.past(x[:, :-1].flatten(0, 1)).unflatten(0, (len(x), -1))
        out: Tensor = now + F.pad(past, (0, 0, 0, 0, 0, 0, 1, 0))
        return out


class VideoTokenizer(nn.Module):
    """Clips to codes and back, causally: latent frame k depends on no later one, in either direction."""

    def __init__(self, channels: int = 128, code_dim: int = 8) -> None:
        super().__init__()
        self.patches = nn.Conv2d(_PIXELS, channels, 1)
        self.encoder_mix = _Causal(channels, channels)
        self.encoder = nn.Sequential(
            _Residual(channels), nn.GroupNorm(8, channels), nn.SiLU(), nn.Conv2d(channels, code_dim, 1)
        )
        self.decoder_mix = _Causal(code_dim, channels)
        self.decoder = nn.Sequential(_Residual(channels), _Residual(channels))
        self.decoder_mix_again = _Causal(channels, channels)
        self.pixels = nn.Sequential(
            _Residual(channels), nn.GroupNorm(8, channels), nn.SiLU(), nn.Conv2d(channels, _PIXELS, 1)
        )
        self.codebook = nn.Parameter(torch.randn(CODES, code_dim))

    def features(self, clips: Float[Tensor, "B F 3 S S"]) -> Float[Tensor, "B T D G G"]:
        """What the encoder makes of clips in [-1, 1], before quantisation; F is 1 + 8 k for k + 1 latent frames."""
        hidden = self.patches(to_patches(clips).flatten(0, 1)).unflatten(0, (len(clips), -1))
        hidden = hidden + self.encoder_mix(hidden)
        out: Tensor = self.encoder(hidden.flatten(0, 1)).unflatten(0, hidden.shape[:2])
        return out

    def nearest(self, features: Float[Tensor, "B T D G G"]) -> Int[Tensor, "B T G G"]:
        """The index of the closest code at every cell."""
        book = self.codebook.float()
        flat = features.float().permute(0, 1, 3, 4, 2)
        distance = book.square().sum(-1) - 2 * flat @ book.T
        return distance.argmin(-1)

    def encode(self, clips: Float[Tensor, "B F 3 S S"]) -> Int[Tensor, "B T G G"]:
        """Clips in [-1, 1] to codes."""
        return self.nearest(self.features(clips))

    def decode_features(self, features: Float[Tensor, "B T D G G"]) -> Float[Tensor, "B T P G G"]:
        """Quantised features to patches; see `to_frames` for the frames they hold."""
        hidden = self.decoder_mix(features)
        hidden = self.decoder(hidden.flatten(0, 1)).unflatten(0, hidden.shape[:2])
        hidden = hidden + self.decoder_mix_again(hidden)
        out: Tensor = self.pixels(hidden.flatten(0, 1)).unflatten(0, hidden.shape[:2])
        return out

    def decode(self, codes: Int[Tensor, "B T G G"]) -> Float[Tensor, "B F 3 S S"]:
        """Codes to clips, clipped to [-1, 1]."""
        return to_frames(self.decode_features(self.codebook[codes].permute(0, 1, 4, 2, 3))).clamp(-1, 1)


def to_patches(clips: Float[Tensor, "B F 3 S S"]) -> Float[Tensor, "B T P G G"]:
    """Eight frames' patches in the channels; the first frame is repeated eight times."""
    whole = torch.cat([clips[:, :1].expand(-1, SPAN - 1, -1, -1, -1), clips], 1)
    spans = whole.reshape(len(clips), -1, SPAN * 3, SIZE, SIZE)
    return F.pixel_unshuffle(spans, PATCH)


def to_frames(patches: Float[Tensor, "B T P G G"]) -> Float[Tensor, "B F 3 S S"]:
    """The frames of `to_patches`; the first is the mean of its eight copies."""
    spans = F.pixel_shuffle(patches, PATCH).reshape(len(patches), -1, SPAN, 3, SIZE, SIZE)
    return torch.cat([spans[:, 0].mean(1, keepdim=True), spans[:, 1:].flatten(1, 2)], 1)


def to_floats(clips: UInt8[Tensor, "B F S S 3"]) -> Float[Tensor, "B F 3 S S"]:
    """Pixels to [-1, 1]."""
    return clips.permute(0, 1, 4, 2, 3).float() / 127.5 - 1


def to_pixels(clips: Float[Tensor, "B F 3 S S"]) -> UInt8[Tensor, "B F S S 3"]:
    """[-1, 1] to pixels."""
    return ((clips + 1) * 127.5).round().clamp(0, 255).byte().permute(0, 1, 3, 4, 2)


class VideoTransformer(nn.Module):
    """p(next code | codes so far), latent frame by latent frame, each in raster order: transformers' Qwen3Model.

    Time, row and column of the slot that is predicted are added to the input, each from a table of its own.

    Args:
        size: width and depth.
        codes: of the tokenizer.
        latents: latent frames of a clip.
    """

    def __init__(self, size: TransformerSize | None = None, codes: int = CODES, latents: int = LATENTS) -> None:
        super().__init__()
        size = size or TransformerSize(width=192, layers=5, heads=6, feed_forward=512)
        self.length = latents * PLANE
        self.backbone = backbone(codes, self.length, size)
        self.time = nn.Embedding(latents, size.width)
        self.row = nn.Embedding(GRID, size.width)
        self.column = nn.Embedding(GRID, size.width)
        self.head = nn.Linear(size.width, codes, bias=False)
        for table in (self.time, self.row, self.column, self.head):
            nn.init.normal_(table.weight, std=0.02)

    def forward(
        self,
        ids: Int[Tensor, "B N"],
        positions: Int[Tensor, "B N"],
        cache: Cache | None = None,
        mask: Float[Tensor, "B 1 N S"] | None = None,
    ) -> Float[Tensor, "B N K"]:
        """Logits of the code after each input. See `networks.Transformer.forward`."""
        slot = (positions + 1).clamp(max=self.length - 1)
        place = self.time(slot // PLANE) + self.row(slot // GRID % GRID) + self.column(slot % GRID)
        embedded = self.backbone.embed_tokens(ids) + place
        logits: Tensor = self.head(hidden_states(self.backbone, positions, cache, mask, inputs_embeds=embedded))
        return logits
