"""Clips of a thing that moves over a scene, 9 frames of 96x96 pixels, by one patch of a token a frame or not at all."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from engines.models.bundled.networks import SIZE
from engines.models.bundled.prompts import PROMPTS, SCENES, THINGS, Place
from engines.models.bundled.video import FRAMES, MOTIONS
from training.scenes import GROUNDS
from training.scenes_data import BACKGROUNDS, FEET, LOWEST_FLIGHT, SIZES, STEP, background, paste, sprite

CAN: Final[dict[Place, tuple[str, ...]]] = {
    "land": ("crossing", "strolling", "hopping", "passed by"),
    "air": ("crossing", "strolling", "rising", "sinking", "passed by"),
    "sea": ("crossing", "strolling", "bobbing", "passed by"),
}
"""What a thing does, by where it belongs: crossing is a patch a frame to the left, strolling one every other frame."""


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
