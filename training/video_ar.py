"""Train the transformer that continues clips of scenes, on the codes of the studio image model's tokenizer.

    python -m training.video_ar [--preset cpu|gpu] [--minutes M]

It starts from the transformer of pictures. The loss leaves out the first frame, which is always given.
"""

import math
from typing import Final, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor
from transformers import AttentionInterface

from draftscope.engines.models.bundled.image_networks import CODES, SIZE, Tokenizer, Transformer
from draftscope.engines.models.bundled.prompts import PROMPTS, SCENES, THINGS, Place
from draftscope.engines.models.bundled.video import CLIPS, FRAMES, GIVEN, LENGTH, MOTIONS, PLANE, VideoTransformer
from draftscope.engines.models.checkpoint_files import sha256
from training.image_ar import float32_attention
from training.image_tokenizer import as_images
from training.scenes import GROUNDS
from training.scenes_data import BACKGROUNDS, FEET, LOWEST_FLIGHT, SIZES, STEP, TEST, TRAIN, background, paste, sprite
from training.trainer import SCENES_LICENCE, Preset, Run, device, export, load_exported, muon, parse

CAN: Final[dict[Place, tuple[str, ...]]] = {
    "land": ("crossing", "strolling", "hopping", "passed by"),
    "air": ("crossing", "strolling", "rising", "sinking", "passed by"),
    "sea": ("crossing", "strolling", "bobbing", "passed by"),
}
"""Motions by scene: crossing moves one patch per frame to the left, strolling one every other frame."""


def path(motion: str, start: tuple[int, int]) -> list[tuple[int, int]]:
    """Left and bottom of a thing in every frame, in pixels."""
    left, bottom = start
    time = range(FRAMES)
    steps: dict[str, list[tuple[int, int]]] = {
        "crossing": [(-t, 0) for t in time],
        "strolling": [(-(t // 2), 0) for t in time],
        "hopping": [(-(t // 2), -(t % 2)) for t in time],
        "bobbing": [(0, t // 2 % 2) for t in time],
        "rising": [(0, -t) for t in time],
        "sinking": [(0, t) for t in time],
        "passed by": [(0, 0) for _ in time],
    }
    return [(left + STEP * x, bottom + STEP * y) for x, y in steps[motion]]


def compose(thing: str, scene: str, motion: str, split: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """One clip [9, 96, 96, 3]; place, size and background are drawn at random."""
    text, kind = THINGS[thing]
    ground = str(rng.choice([ground for ground in GROUNDS[scene] if kind in (ground, "air")]))
    still = background(scene, ground, split, int(rng.integers(BACKGROUNDS)))[:, :: rng.choice((1, -1))]
    wide = np.concatenate([still, still[:, ::-1]], 1).astype(np.float32) / 255
    shape = sprite(text, int(rng.choice(SIZES[kind])), kind)
    low, high = len(shape), SIZE if scene == "sky" else LOWEST_FLIGHT
    bottom = int(rng.choice(FEET[:1] if motion == "bobbing" else FEET))
    if kind == "air":
        bottom = {"rising": high, "sinking": low}.get(motion, low + STEP * int(rng.integers((high - low) // STEP + 1)))
    right = (SIZE - len(shape)) // STEP
    first = {"crossing": 3, "strolling": 3, "hopping": 3}.get(motion, 0)
    left = STEP * int(rng.integers(first, right + (5 if motion == "crossing" else 1)))
    frames = np.empty((FRAMES, SIZE, SIZE, 3), np.float32)
    for t, (x, y) in enumerate(path(motion, (left, bottom))):
        shift = SIZE - STEP * t if motion == "passed by" else 0
        frames[t] = wide[:, shift : shift + SIZE]
        paste(frames[t], shape, x, min(max(y, low), SIZE))
    return (frames.clip(0, 1) * 255).round().astype(np.uint8)


def build(count: int, split: int, *seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Clips [N, 9, 96, 96, 3] and labels [N, 3], indices into THINGS, SCENES and MOTIONS."""
    rng = np.random.default_rng((split, *seed))
    clips, labels = [], []
    for i in rng.integers(len(PROMPTS), size=count):
        thing, scene = list(THINGS)[PROMPTS[i].thing], list(SCENES)[PROMPTS[i].scene]
        motion = str(rng.choice(CAN[THINGS[thing][1]]))
        clips.append(compose(thing, scene, motion, split, rng))
        labels.append((*PROMPTS[i], MOTIONS.index(motion)))
    return np.stack(clips), np.array(labels, np.int64)


PRESETS = {
    "cpu": Preset(steps=8_000, batch=2, lr=2e-3, minutes=75, linear=0.7),
    "gpu": Preset(steps=20_000, batch=32, lr=2e-3, linear=0.7),
}
SHIPPED = 48


def inherit(model: VideoTransformer, pictures: Transformer) -> None:
    """Start from the transformer of pictures: its codes' embeddings, layers, last norm and head."""
    theirs = pictures.backbone.state_dict()
    theirs["embed_tokens.weight"] = theirs["embed_tokens.weight"][:CODES]
    model.backbone.load_state_dict(theirs)
    model.head.load_state_dict(pictures.head.state_dict())


@torch.no_grad()
def encoded(tokenizer: Tokenizer, count: int, *seed: int) -> tuple[Tensor, Tensor]:
    """Codes [N, 1296] and labels [N, 3] of the clips that `build` returns for these arguments."""
    clips, labels = build(count, *seed)
    codes = [tokenizer.encode(as_images(torch.from_numpy(clip))).flatten() for clip in clips]
    return torch.stack(codes), torch.from_numpy(labels)


def logits_behind_first(model: VideoTransformer, codes: Tensor) -> Tensor:
    """Logits [B, 1152, K] of every code after the first frame, given those before it."""
    positions = torch.arange(LENGTH - 1, device=codes.device).expand(len(codes), -1)
    return cast(Tensor, model(codes[:, :-1], positions)[:, PLANE - 1 :])


def train(run: Run, model: VideoTransformer, tokenizer: Tokenizer, seed: int) -> None:
    """Train until the budget is used up."""
    AttentionInterface.register("float32", float32_attention)
    model.backbone.set_attn_implementation("float32")
    model.compile()
    for step in run.steps():
        codes = encoded(tokenizer, run.preset.batch, TRAIN, seed, step)[0]
        with torch.autocast(device().type, torch.bfloat16):
            logits = logits_behind_first(model, codes)
        run.update(F.cross_entropy(logits.flatten(0, 1).float(), codes[:, PLANE:].flatten()))
    model.backbone.set_attn_implementation("sdpa")


@torch.no_grad()
def measure(model: VideoTransformer, codes: Tensor) -> dict[str, float | int]:
    """Bits per predicted code on held-out clips, how peaked predictions are, and how many codes repeat."""
    bits = peaked = right = 0.0
    for chunk in codes.split(4):
        log_probs = logits_behind_first(model, chunk)[:, GIVEN - PLANE :].float().log_softmax(-1)
        wanted = chunk[:, GIVEN:]
        bits -= float(log_probs.gather(-1, wanted[..., None]).sum()) / math.log(2)
        peaked += float((log_probs.amax(-1).exp() > 0.9).sum())
        right += float((log_probs.argmax(-1) == wanted).sum())
    count = codes[:, GIVEN:].numel()
    return {
        "validation_bits_per_token": round(bits / count, 4),
        "likeliest_code_is_right": round(right / count, 4),
        "share_of_positions_above_0.9": round(peaked / count, 4),
        "codes_of_the_frame_before": round(float((codes[:, PLANE:] == codes[:, :-PLANE]).double().mean()), 4),
        "held_out_clips": len(codes),
    }


def main() -> None:
    """Train, measure and export."""
    options, preset = parse(__doc__ or "", PRESETS)
    tokenizer = load_exported(Tokenizer(), "image-tokenizer").eval()
    model = VideoTransformer().to(device())
    inherit(model, load_exported(Transformer(), "image-ar"))
    run = Run("video-ar", model, muon(model, model.backbone.layers, preset.lr), preset)
    run.carry_out(options, lambda: train(run, model, tokenizer, options.seed))
    codes, labels = encoded(tokenizer, 200, TEST, 0)
    title = "Autoregressive transformer over the codes of clips, frame by frame"
    shipped = {"codes": codes[:SHIPPED].short().contiguous(), "labels": labels[:SHIPPED].byte().contiguous()}
    save_file(shipped, CLIPS, metadata={"licence": SCENES_LICENCE})
    clips = {"file": f"{CLIPS.parent.name}/{CLIPS.name}", "sha256": sha256(CLIPS), "data": SCENES_LICENCE}
    export(run, title, measure(model, codes), options, SCENES_LICENCE, clips=clips)


if __name__ == "__main__":
    main()
