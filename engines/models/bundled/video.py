"""The studio video model: two frames of a clip to the seven that follow, with weights that ship in assets/models."""

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
from engines.models.bundled.image import FOLDER, load_weights
from engines.models.bundled.listing import card_of
from engines.models.bundled.manifest import entry_of, verify
from engines.models.bundled.networks import CODES, GRID, PATCH, Tokenizer
from engines.models.bundled.prompts import Prompt
from engines.models.bundled.video_networks import FRAMES, GIVEN, GIVEN_FRAMES, PLANE, VideoTransformer
from engines.models.checkpoints.clip_model import ClipModel, ClipShape, unpack
from engines.models.lean import lean
from engines.models.pictures import Pictures
from traces.schema import ModelCard

ID: Final = "studio-video"
CLIPS: Final = Path(__file__).parents[3] / "assets" / "clips" / "video.safetensors"
MOST_PICTURES: Final = 64
"""Pictures of the canvas that a trace of a run holds, spread evenly over its passes."""
MOTIONS: Final = ("crossing", "strolling", "hopping", "passed by", "rising", "sinking", "bobbing")
"""What a thing does, in the order of the labels."""
_CLIP: Final = re.compile(r"(?:clip\s*)?(\d{1,6})", re.IGNORECASE)
SHAPE: Final = ClipShape(FRAMES, GIVEN_FRAMES, 1, GRID, GRID, PATCH, CODES)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The clips that ship: codes [N, 1296] and labels [N, 3] (thing, scene, motion)."""

    codes: Int[Tensor, "N T"]
    labels: Int[Tensor, "N 3"]

    def title(self, index: int) -> str:
        """A clip in words, such as "an owl in the forest, hopping"."""
        thing, scene, motion = self.labels[index].tolist()
        return f"{Prompt(thing, scene)}, {MOTIONS[motion]}"


class StudioVideo(ClipModel):
    """Transformer over the codes that the image model's tokenizer gives the frames of a clip."""

    def __init__(
        self,
        tokenizer: Tokenizer,
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
        self.tokens = card.weights.get("image-tokenizer.safetensors", "")
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
            codes: Tensor = self._tokenizer.encode(frames.permute(0, 3, 1, 2).float() / 127.5 - 1)
        return codes.flatten()

    def decode(self, codes: Int[Tensor, "B N"]) -> UInt8[Tensor, "B F H W 3"]:
        """See `ClipModel.decode`: 1296 codes to [9, 96, 96, 3]. Equal frames are drawn once."""
        planes, place = codes.reshape(-1, PLANE).to(self.device).unique(dim=0, return_inverse=True)
        with torch.inference_mode():
            drawn: Tensor = self._tokenizer.decode(planes.unflatten(1, (GRID, GRID)))
        pixels = ((drawn + 1) * 127.5).round().clamp(0, 255).byte().permute(0, 2, 3, 1)[place]
        clips: Tensor = pixels.unflatten(0, (len(codes), -1)).cpu()
        return clips


def parse(prompt: str, clips: int) -> int | tuple[int, ...]:
    """Index of a held-out clip, from 0, or the codes [288] of a clip's first two frames.

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
    """The clips that ship; raises ModelError when their file is missing or is not the one in the manifest."""
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
    tokenizer, transformer = Tokenizer(), VideoTransformer()
    weights = load_weights(tokenizer, "image-tokenizer", ID) | load_weights(transformer, "video-ar", ID)
    held_out = _held_out(entry_of(FOLDER, "video-ar", ID))
    return StudioVideo(tokenizer, transformer, held_out, torch.device(device), card_of(model_id, weights))
