"""The studio video model: nine frames of a clip to the 24 that follow, with weights that ship in assets/models."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch
from jaxtyping import Int, UInt8
from safetensors.torch import load_file
from torch import Tensor

from engines.config import ConfigError
from engines.models.bundled.garment_prompts import BACKGROUNDS, GARMENTS, TINTS
from engines.models.bundled.image import FOLDER, load_weights
from engines.models.bundled.listing import card_of
from engines.models.bundled.manifest import entry_of, verify
from engines.models.bundled.video_networks import (
    CODES,
    FRAMES,
    GIVEN,
    GRID,
    PATCH,
    SPAN,
    VideoTokenizer,
    VideoTransformer,
    to_floats,
    to_pixels,
)
from engines.models.checkpoints.clip_model import ClipModel, ClipShape, unpack
from engines.models.lean import lean
from engines.models.pictures import Pictures
from traces.schema import ModelCard

ID: Final = "studio-video"
CLIPS: Final = Path(__file__).parents[3] / "assets" / "clips" / "video.safetensors"
GIVEN_FRAMES: Final = 1 + SPAN
MOST_PICTURES: Final = 64
"""Pictures of the canvas that a trace of a run holds, spread evenly over its passes."""
MOTIONS: Final = ("drifting", "turning", "bouncing")
"""How garments move, in the order of the labels."""
_CLIP: Final = re.compile(r"(?:clip\s*)?(\d{1,6})", re.IGNORECASE)
SHAPE: Final = ClipShape(FRAMES, GIVEN_FRAMES, SPAN, GRID, GRID, PATCH, CODES)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The clips that ship: codes [N, 720] and labels [N, 4] (garment, tint, background, motion)."""

    codes: Int[Tensor, "N T"]
    labels: Int[Tensor, "N 4"]

    def title(self, index: int) -> str:
        """A clip in words, such as "red coat turning over wood"."""
        garment, tint, background, motion = self.labels[index].tolist()
        tables = (list(TINTS)[tint], list(GARMENTS)[garment], MOTIONS[motion], list(BACKGROUNDS)[background])
        return "{} {} {} over {}".format(*tables)


class StudioVideo(ClipModel):
    """Causal VQ tokenizer and transformer over its codes; two latent frames are given and three are decoded."""

    def __init__(
        self,
        tokenizer: VideoTokenizer,
        transformer: VideoTransformer,
        held_out: HeldOut,
        device: torch.device,
        card: ModelCard,
    ) -> None:
        super().__init__(transformer, card, device, SHAPE, Pictures(MOST_PICTURES, together=16))
        self.held_out = held_out
        self._tokenizer = tokenizer.to(device).eval()
        transformer.backbone = lean(transformer.backbone)
        self.layers = len(transformer.backbone.layers)
        self.tokens = card.weights.get("video-tokenizer.safetensors", "")
        book = tokenizer.codebook.detach()
        self.embedding, self.blank = book.double(), int((book - book.mean(0)).square().sum(-1).argmin())

    def given_by(self, prompt: str) -> tuple[int, ...]:
        """See `ClipModel.given_by`; the prompt names a clip that ships or holds codes."""
        given = parse(prompt, len(self.held_out.codes))
        return tuple(self.held_out.codes[given, :GIVEN].tolist()) if isinstance(given, int) else given

    def examples(self, count: int) -> Sequence[tuple[str, str]]:
        """See `ClipModel.examples`: the first of the held-out clips."""
        return tuple((f"clip {i + 1}", self.held_out.title(i)) for i in range(min(count, len(self.held_out.codes))))

    def encode(self, frames: UInt8[Tensor, "F H W 3"]) -> Int[Tensor, " N"]:
        """See `ClipModel.encode`."""
        with torch.inference_mode():
            return self._tokenizer.encode(to_floats(frames[None])).flatten()

    def decode(self, codes: Int[Tensor, "B N"]) -> UInt8[Tensor, "B F H W 3"]:
        """See `ClipModel.decode`: 720 codes to [33, 48, 48, 3]."""
        with torch.inference_mode():
            return to_pixels(self._tokenizer.decode(codes.reshape(len(codes), -1, GRID, GRID).to(self.device))).cpu()


def parse(prompt: str, clips: int) -> int | tuple[int, ...]:
    """Index of a held-out clip, from 0, or the codes [288] of a clip's first nine frames.

    Raises:
        ConfigError: for anything else.
    """
    text = prompt.strip()
    if match := _CLIP.fullmatch(text):
        number = int(match[1])
        if not 1 <= number <= clips:
            raise ConfigError(f"prompt: there is no clip {number}; say clip 1 to clip {clips}.")
        return number - 1
    codes = unpack(text, GIVEN, CODES)
    if codes is None:
        raise ConfigError(f"prompt: {text!r:.60} names no clip; say clip 1 to clip {clips}.")
    return codes


def _held_out(entry: Mapping[str, Any]) -> HeldOut:
    """The clips that ship.

    Raises:
        ModelError: when their file is missing or is not the one in the manifest.
    """
    remedy = "Restore assets/clips from the repository, or make it anew with: python -m training.video_ar --export-only"
    verify(CLIPS.parent, {CLIPS.name: entry.get("clips", {}).get("sha256", "")}, ID, remedy)
    tensors = load_file(CLIPS)
    return HeldOut(tensors["codes"].long(), tensors["labels"].long())


@cache
def load(model_id: str = ID, device: str = "cpu") -> StudioVideo:
    """The studio video model, loaded once per device and shared.

    Raises:
        ModelError: when files are missing or are not those in the manifest.
    """
    tokenizer, transformer = VideoTokenizer(), VideoTransformer()
    weights = load_weights(tokenizer, "video-tokenizer") | load_weights(transformer, "video-ar")
    held_out = _held_out(entry_of(FOLDER, "video-ar", ID))
    return StudioVideo(tokenizer, transformer, held_out, torch.device(device), card_of(model_id, weights))
