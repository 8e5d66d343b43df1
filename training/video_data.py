"""The studio clips: a tinted Fashion-MNIST garment that moves over a photograph that pans and zooms.

    python -m training.video_data [--count N]

33 frames of 48x48 pixels. The garment drifts in a straight line, turns while it drifts, or bounces off the borders; it
moves by fractions of a pixel. The photograph pans linearly and zooms log-linearly. Half the clips are mirrored. Held
out are the garments of the t10k split and one photograph, which no training clip shows and every fourth held-out clip
does.
"""

import argparse
import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from engines.assets import cache_dir
from engines.models.bundled.garment_prompts import BACKGROUNDS, TINTS
from engines.models.bundled.video import MOTIONS
from engines.models.bundled.video_networks import FRAMES, SIZE
from training.data import PACKAGES, RGB, enlarged, fetch, load_garments, load_photos, silhouette

HELD_OUT_PHOTO: Final = list(BACKGROUNDS).index("dusk")
TRAIN_CLIPS: Final = 30_000
HELD_OUT_CLIPS: Final = 400
_MARGIN: Final = 13.0
"""How near the garment's centre comes to the border, in pixels."""


@dataclass(frozen=True, slots=True)
class Clips:
    """Clips [N, 33, 48, 48, 3] uint8 and labels [N, 4] (garment, tint, background, motion)."""

    frames: NDArray[np.uint8]
    labels: NDArray[np.int64]


def sample(picture: Tensor, centre: Tensor, scale: Tensor, angle: Tensor) -> Tensor:
    """Windows on a picture, bilinear.

    Args:
        picture: [C, H, W].
        centre: [F, 2], x and y of the window's centre in pixels of the picture.
        scale: [F], pixels of the picture to a pixel of the window.
        angle: [F], by how much the window is turned, in radians.

    Returns:
        [F, C, 48, 48], zero where a window leaves the picture.
    """
    offset = torch.arange(SIZE) - (SIZE - 1) / 2
    x, y = offset[None, None, :] * scale[:, None, None], offset[None, :, None] * scale[:, None, None]
    cos, sin = angle.cos()[:, None, None], angle.sin()[:, None, None]
    across = centre[:, 0, None, None] + x * cos - y * sin
    down = centre[:, 1, None, None] + x * sin + y * cos
    height, width = picture.shape[1:]
    grid = torch.stack([(2 * across + 1) / width - 1, (2 * down + 1) / height - 1], -1)
    return F.grid_sample(picture.expand(len(grid), -1, -1, -1), grid, align_corners=False)


def scenery(photo: Tensor, rng: np.random.Generator) -> Tensor:
    """The panning, zooming photograph [33, 3, 48, 48] out of one [3, H, W]."""
    progress = torch.linspace(0, 1, FRAMES)
    zoom = rng.uniform(-0.3, 0.3)
    scale = rng.uniform(0.75, 1.35) * torch.exp(zoom * (progress - 0.5))
    travel = torch.tensor(rng.uniform(-14, 14, 2), dtype=torch.float32)  # in pixels of the clip
    path = (progress[:, None] - 0.5) * travel * scale.mean()
    reach = (scale * SIZE / 2)[:, None] + 1
    low = (reach - path).amax(0)
    high = torch.tensor([photo.shape[2], photo.shape[1]]) - (reach + path).amax(0)
    start = low + (high - low).clamp(min=0) * torch.tensor(rng.random(2), dtype=torch.float32)
    return sample(photo, start + path, scale, torch.zeros(FRAMES))


def motion(kind: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Where a garment's centre is in every frame [33, 2] and how it is turned [33]."""
    time = torch.arange(FRAMES, dtype=torch.float32)
    room = SIZE - 2 * _MARGIN
    start = torch.tensor(rng.uniform(0, room, 2), dtype=torch.float32)
    angle = torch.full((FRAMES,), rng.uniform(-0.2, 0.2))
    if MOTIONS[kind] == "bouncing":
        speed = torch.tensor(rng.uniform(0.4, 1.1, 2) * rng.choice([-1, 1], 2), dtype=torch.float32)
        folded = torch.remainder(start + speed * time[:, None], 2 * room)
        return _MARGIN + torch.minimum(folded, 2 * room - folded), angle
    end = torch.tensor(rng.uniform(0, room, 2), dtype=torch.float32)
    if MOTIONS[kind] == "turning":
        angle = angle + rng.choice([-1, 1]) * rng.uniform(0.3, 0.7) * math.pi * time / (FRAMES - 1)
    return _MARGIN + start + (end - start) * time[:, None] / (FRAMES - 1), angle


def garment(grey: NDArray[np.uint8], tint: int) -> Tensor:
    """Colour times opacity, and opacity, of a garment: [4, 56, 56] in 0 to 1."""
    shade, alpha = (enlarged(part, 56) for part in (grey, silhouette(grey)))
    colour = np.array(list(RGB.values())[tint], np.float32)[:, None, None] / 255 * (0.3 + 0.7 * shade)
    return torch.from_numpy(np.concatenate([colour * alpha, alpha[None]]))


def compose(grey: NDArray[np.uint8], label: NDArray[np.int64], photo: Tensor, rng: np.random.Generator) -> Tensor:
    """One clip [33, 48, 48, 3] uint8; `label` has garment, tint, background and motion."""
    centre, angle = motion(int(label[3]), rng)
    scale = 56 / rng.uniform(24, 34)
    # The window on the garment's own picture moves and turns against the garment.
    from_centre = (SIZE - 1) / 2 - centre
    cos, sin = angle.cos(), angle.sin()
    turned = torch.stack(
        [from_centre[:, 0] * cos - from_centre[:, 1] * sin, from_centre[:, 0] * sin + from_centre[:, 1] * cos], 1
    )
    layer = sample(garment(grey, int(label[1])), 27.5 + turned * scale, torch.full((FRAMES,), scale), angle)
    clip = scenery(photo, rng) * (1 - layer[:, 3:]) + layer[:, :3]
    if rng.random() < 0.5:
        clip = clip.flip(-1)
    return (clip * 255).round().clamp(0, 255).byte().permute(0, 2, 3, 1)


def build(split: str, count: int, seed: int) -> Clips:
    """`count` clips of a split, "train" or "t10k"; garments are taken in turn, the rest at random."""
    root = fetch(*PACKAGES)
    grey, kind = load_garments(root, split)
    photos = [
        F.avg_pool2d(torch.from_numpy(photo.copy()).permute(2, 0, 1).float() / 255, 2) for photo in load_photos(root)
    ]
    rng = np.random.default_rng([seed, split == "train"])
    order = np.concatenate([rng.permutation(len(grey)) for _ in range(-(-count // len(grey)))])[:count]
    seen = [i for i in range(len(BACKGROUNDS)) if i != HELD_OUT_PHOTO]
    background = rng.choice(seen, count)
    if split != "train":
        background[3::4] = HELD_OUT_PHOTO
    labels = np.stack(
        [kind[order], rng.integers(0, len(TINTS), count), background, rng.integers(0, len(MOTIONS), count)], 1
    )
    frames = np.empty((count, FRAMES, SIZE, SIZE, 3), np.uint8)
    for i, label in enumerate(labels):
        frames[i] = compose(grey[order[i]], label, photos[label[2]], rng).numpy()
    return Clips(frames, labels)


def load(split: str, count: int, seed: int = 0) -> Clips:
    """The clips of `build`, made once and kept in the cache folder; frames are mapped, not read."""
    stem = cache_dir() / f"video-{split}-{count}-{seed}"
    frames, labels = stem.with_suffix(".frames.npy"), stem.with_suffix(".labels.npy")
    if not (frames.exists() and labels.exists()):
        clips = build(split, count, seed)
        frames.parent.mkdir(parents=True, exist_ok=True)
        np.save(frames, clips.frames)
        np.save(labels, clips.labels)
    return Clips(np.load(frames, mmap_mode="r"), np.load(labels))


def main() -> None:
    """Build training and held-out clips."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=TRAIN_CLIPS)
    load("train", parser.parse_args().count)
    load("t10k", HELD_OUT_CLIPS)


if __name__ == "__main__":
    main()
