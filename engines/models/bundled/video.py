"""The studio video model: two frames of a clip to the seven that follow, with weights that ship in assets/models."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, cast

import torch
from jaxtyping import Float, Int, UInt8
from safetensors.torch import load_file
from torch import Tensor, nn
from typing_extensions import override

from draftscope.engines.models.bundled.catalog import card_of
from draftscope.engines.models.bundled.image import FOLDER, load_weights
from draftscope.engines.models.bundled.image_networks import CODES, GRID, PATCH, Tokenizer, TransformerSize, backbone
from draftscope.engines.models.bundled.manifest import entry_of, verify
from draftscope.engines.models.bundled.prompts import Prompt
from draftscope.engines.models.checkpoints.images.video_model import ClipModel, ClipShape, unpack
from draftscope.engines.models.fast_decoder import lean
from draftscope.engines.models.image_rendering import ImageLimits
from draftscope.engines.models.torch_model import hidden_states
from draftscope.engines.models.transformers_api import Cache
from draftscope.engines.settings import ConfigError
from draftscope.traces.files import ASSETS
from draftscope.traces.schema import ModelCard

FRAMES: Final = 9
GIVEN_FRAMES: Final = 2
"""From two frames on, one sees what moves and where to."""
PLANE: Final = GRID**2
LENGTH: Final = FRAMES * PLANE
GIVEN: Final = GIVEN_FRAMES * PLANE


class VideoTransformer(nn.Module):
    """p(next code | codes so far), frame by frame, each in raster order: transformers' Qwen3Model.

    Time, row and column of the slot that is predicted are added to the input, each from a table of its own.
    """

    def __init__(self, size: TransformerSize | None = None) -> None:
        super().__init__()
        size = size or TransformerSize()
        self.backbone = backbone(CODES, LENGTH, size)
        self.time = nn.Embedding(FRAMES, size.width)
        self.row = nn.Embedding(GRID, size.width)
        self.column = nn.Embedding(GRID, size.width)
        self.head = nn.Linear(size.width, CODES, bias=False)
        for table in (self.time, self.row, self.column, self.head):
            nn.init.normal_(table.weight, std=0.02)

    def forward(
        self,
        ids: Int[Tensor, "B N"],
        positions: Int[Tensor, "B N"],
        cache: Cache | None = None,
        mask: Float[Tensor, "B 1 N S"] | None = None,
    ) -> Float[Tensor, "B N K"]:
        """Return the logits of the code after each input.

        Args:
            ids: Codes in the order of decoding; after a cache, those that are not in it.
            positions: Positions of the inputs, from 0.
            cache: KV cache of earlier inputs, which the pass extends.
            mask: Additive attention mask over cached inputs and these; causal by default.
        """
        slot = (positions + 1).clamp(max=LENGTH - 1)
        embedding = self.time(slot // PLANE) + self.row(slot // GRID % GRID) + self.column(slot % GRID)
        embedded = self.backbone.embed_tokens(ids) + embedding
        return cast(Tensor, self.head(hidden_states(self.backbone, positions, cache, mask, inputs_embeds=embedded)))


ID: Final = "studio-video"
CLIPS: Final = ASSETS / "clips" / "video.safetensors"
MAX_PICTURES: Final = 64
"""Pictures of the canvas that a trace of a run holds, spread evenly over its passes."""
MOTIONS: Final = ("crossing", "strolling", "hopping", "passed by", "rising", "sinking", "bobbing")
"""Motions of a thing, in the order of the labels."""
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
        self, tokenizer: Tokenizer, transformer: VideoTransformer, held_out: HeldOut, device: str, card: ModelCard
    ) -> None:
        super().__init__(transformer, card, torch.device(device), SHAPE, ImageLimits(MAX_PICTURES, together=16))
        self.held_out = held_out
        self._tokenizer = tokenizer.to(device).eval()
        self._drawn = dict[tuple[int, ...], Tensor]()
        transformer.backbone = lean(transformer.backbone)
        self.layers = len(transformer.backbone.layers)
        self.token_space = card.weights.get("image-tokenizer.safetensors", "")
        book = tokenizer.codebook.detach()
        self.embedding, self.placeholder_code = book.double(), int((book - book.mean(0)).square().sum(-1).argmin())

    def parse_prompt(self, prompt: str) -> tuple[int, ...]:
        """Parse a prompt that names a bundled clip or holds codes."""
        clips = self.held_out.codes
        if match := _CLIP.fullmatch(prompt.strip()):
            number = int(match[1])
            if not 1 <= number <= len(clips):
                raise ConfigError(f"prompt: there is no clip {number}; say clip 1 to clip {len(clips)}.")
            return tuple(clips[number - 1, :GIVEN].tolist())
        codes = unpack(prompt, GIVEN, CODES)
        if codes is None:
            raise ConfigError(f"prompt: {prompt.strip()!r:.60} names no clip; say clip 1 to clip {len(clips)}.")
        return codes

    def examples(self, count: int) -> Sequence[tuple[str, str]]:
        """Return the first of the held-out clips."""
        return tuple((f"clip {i + 1}", self.held_out.title(i)) for i in range(min(count, len(self.held_out.codes))))

    @override
    def encode(self, frames: UInt8[Tensor, "F H W 3"]) -> Int[Tensor, " N"]:
        with torch.inference_mode():
            codes: Tensor = self._tokenizer.encode(frames.permute(0, 3, 1, 2).float() / 127.5 - 1)
        return codes.flatten()

    def decode(self, codes: Int[Tensor, "B N"]) -> UInt8[Tensor, "B F H W 3"]:
        """Decode 1296 codes to [9, 96, 96, 3]. Equal frames are drawn once, also for later clips."""
        planes, cached = [tuple(plane) for plane in codes.reshape(-1, PLANE).tolist()], self._drawn
        if new := [plane for plane in dict.fromkeys(planes) if plane not in cached]:
            with torch.inference_mode():
                drawn = self._tokenizer.decode(torch.tensor(new, device=self.device).unflatten(1, (GRID, GRID)))
            pixels = ((drawn + 1) * 127.5).round().clamp(0, 255).byte().permute(0, 2, 3, 1)
            cached = cached | dict(zip(new, pixels.cpu(), strict=True))
        self._drawn = dict(list(cached.items())[-MAX_PICTURES:])
        clips: Tensor = torch.stack([cached[plane] for plane in planes]).unflatten(0, (len(codes), -1))
        return clips


@cache
def load(model_id: str = ID, device: str = "cpu") -> StudioVideo:
    """Return the studio video model, loaded once per device and shared.

    Args:
        model_id: Id that its card has.
        device: A single device, such as "cpu" or "cuda:0".

    Raises:
        ModelError: If weights or clips are missing or are not those in the manifest.
    """
    tokenizer, transformer = Tokenizer(), VideoTransformer()
    weights = load_weights(tokenizer, "image-tokenizer", ID) | load_weights(transformer, "video-ar", ID)
    remedy = "Restore assets/clips from the repository, or make it with: python -m training.video_ar --export-only"
    clips = entry_of(FOLDER, "video-ar", ID).get("clips", {})
    verify(CLIPS.parent, {CLIPS.name: clips.get("sha256", "")}, ID, remedy)
    held_out = HeldOut(**{name: tensor.long() for name, tensor in load_file(CLIPS).items()})
    return StudioVideo(tokenizer, transformer, held_out, device, card_of(model_id, weights))
