"""Pictures of a thing in a scene, 96x96 pixels: colour emoji over drawn backgrounds; see docs/training.md."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from draftscope.engines.models.bundled.image_networks import PATCH, SIZE
from draftscope.engines.models.bundled.prompts import PROMPTS, SCENES, THINGS, Place
from draftscope.engines.paths import cache_dir
from training.scenes import GROUNDS, draw

PACKAGE: Final = "fonts-noto-color-emoji"
FONT: Final = "usr/share/fonts/truetype/noto/NotoColorEmoji.ttf"
STEP: Final = PATCH
"""Places are multiples of this many pixels."""
SIZES: Final[dict[Place, tuple[int, int]]] = {"land": (56, 72), "air": (48, 56), "sea": (56, 72)}
FEET: Final = (80, 88)
"""Lower end of a thing on the ground or in the water."""
LOWEST_FLIGHT: Final = 64
BACKGROUNDS: Final = 4_096
"""Backgrounds of each ground of each scene; they are kept in memory, 1.4 GB in all."""
TRAIN, TEST = 0, 1


@cache
def background(scene: str, ground: str, split: int, number: int) -> NDArray[np.uint8]:
    """One of the backgrounds [96, 96, 3] of a split."""
    return draw(scene, ground, np.random.default_rng([*f"{scene} {ground}".encode(), split, number]))


@cache
def sprite(text: str, size: int, kind: Place) -> NDArray[np.float32]:
    """An emoji at the foot of a square [size, size, 4], with its shadow or the water around it; premultiplied."""
    glyph = Image.new("RGBA", (160, 160))
    font = ImageFont.truetype(str(_emoji()), 109)
    ImageDraw.Draw(glyph).text((0, 0), text, font=font, embedded_color=True)
    pixels = np.array(glyph)
    pixels[pixels[..., 3] < 24] = 0
    filled = pixels[..., 3].max(1) > 0
    top = int(filled.argmax())
    if not filled[top : top + 4].all():  # the font's bitmaps have a stray line above some glyphs
        pixels[: top + 4] = 0
    glyph = Image.fromarray(pixels)
    glyph = glyph.crop(glyph.getbbox())
    scale = (size - 2) / max(glyph.size)
    glyph = glyph.resize((round(scale * glyph.width), round(scale * glyph.height)), Image.Resampling.LANCZOS)
    canvas = Image.new("RGBA", (size, size))
    canvas.paste(glyph, ((size - glyph.width) // 2, (size - glyph.height) // (2 if kind == "air" else 1)))
    out: NDArray[np.float32] = np.divide(np.asarray(canvas), 255, dtype=np.float32)
    out[..., :3] *= out[..., 3:]
    if kind == "air":
        return out
    foot = np.flatnonzero(out[int(0.8 * size) :, :, 3].max(0) > 0.5)
    middle, reach = (foot[0] + foot[-1]) / 2, (foot[-1] - foot[0]) / 2 + 2
    if kind == "land":
        out[..., 3:] += (1 - out[..., 3:]) * 0.3 * _ellipse(size, middle, size - 3, reach, 3)
        return out
    water = size - round(0.12 * size)
    out[water:] *= np.linspace(0.5, 0.15, size - water, dtype=np.float32)[:, None, None]
    foam = 0.85 * _ellipse(size, middle, water, reach, 2.2)
    foam[:water] = 0
    out += (1 - out) * foam
    return out


def _emoji() -> Path:
    """The font in the cache folder, unpacked there from its package the first time."""
    root = cache_dir() / "debs"
    stamp = root / f".{PACKAGE}"
    if not stamp.exists():
        root.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-q", PACKAGE], cwd=root, check=True)
        (deb,) = root.glob(f"{PACKAGE}_*.deb")
        subprocess.run(["dpkg-deb", "-x", str(deb), str(root)], check=True)
        deb.unlink()
        stamp.touch()
    return root / FONT


def _ellipse(size: int, x: float, y: float, width: float, height: float) -> NDArray[np.float32]:
    """Opacity [size, size, 1] of an ellipse of these radii, drawn at four times its size."""
    large = Image.new("L", (4 * size, 4 * size))
    box = [4 * (x - width), 4 * (y - height), 4 * (x + width), 4 * (y + height)]
    ImageDraw.Draw(large).ellipse(box, fill=255)
    small = large.resize((size, size), Image.Resampling.BOX)
    return cast("NDArray[np.float32]", np.divide(np.asarray(small), 255, dtype=np.float32)[..., None])


def compose(thing: str, scene: str, split: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """One picture [96, 96, 3]; place, size and background, mirrored or not, are drawn at random."""
    text, kind = THINGS[thing]
    ground = rng.choice([ground for ground in GROUNDS[scene] if kind in (ground, "air")])
    picture = np.divide(background(scene, str(ground), split, int(rng.integers(BACKGROUNDS))), 255, dtype=np.float32)
    shape = sprite(text, int(rng.choice(SIZES[kind])), kind)
    picture = picture[:, :: rng.choice((1, -1))].copy()
    bottom = rng.choice(FEET)
    if kind == "air":
        lowest = SIZE if scene == "sky" else LOWEST_FLIGHT
        bottom = len(shape) + STEP * rng.integers((lowest - len(shape)) // STEP + 1)
    left = STEP * int(rng.integers((SIZE - len(shape)) // STEP + 1))
    paste(picture, shape, left, bottom)
    return (picture.clip(0, 1) * 255).round().astype(np.uint8)


def paste(picture: NDArray[np.float32], shape: NDArray[np.float32], left: int, bottom: int) -> None:
    """Lay a thing over a picture, as far as it is inside."""
    begin, end = max(left, 0), min(left + len(shape), SIZE)
    if begin < end:
        part = shape[:, begin - left : end - left]
        under = picture[bottom - len(shape) : bottom, begin:end]
        under[:] = under * (1 - part[..., 3:]) + part[..., :3]


def build(count: int, split: int, *seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pictures [N, 96, 96, 3] and labels [N, 2], indices into THINGS and SCENES; the same for the same arguments."""
    rng = np.random.default_rng((split, *seed))
    labels = [PROMPTS[i] for i in rng.integers(len(PROMPTS), size=count)]
    things, scenes = list(THINGS), list(SCENES)
    return np.stack([compose(things[i], scenes[k], split, rng) for i, k in labels]), np.array(labels, np.int64)
