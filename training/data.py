"""The pictures of the studio patch models: Fashion-MNIST garments, tinted, on crops of photographs.

    python -m training.data

The sources are Debian packages (see NOTICE): they are fetched with apt-get, unpacked into the cache folder and never
committed. The picture is a composite and says so. 48x48 pixels; the garment is enlarged to 42 px, mirrored half the
time and placed near the centre; its shade is the Fashion-MNIST grey level, its colour one of six tints.
"""

import argparse
import gzip
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from engines.assets import cache_dir
from engines.models.bundled.garment_prompts import BACKGROUNDS, TINTS
from engines.models.bundled.patch_networks import SIZE

PACKAGES: Final = ("dataset-fashion-mnist", "plasma-workspace-wallpapers", "mate-backgrounds")
MNIST: Final = "usr/share/datasets/fashion-mnist"
PHOTOS: Final = {
    "grass": "usr/share/backgrounds/mate/nature/GreenMeadow.jpg",
    "sky": "usr/share/wallpapers/Kite/contents/images/2560x1600.jpg",
    "wood": "usr/share/backgrounds/mate/nature/Wood.jpg",
    "petals": "usr/share/backgrounds/mate/nature/FreshFlower.jpg",
    "autumn leaves": "usr/share/wallpapers/FallenLeaf/contents/images/2560x1600.jpg",
    "forest": "usr/share/wallpapers/Path/contents/images/2560x1600.jpg",
    "storm": "usr/share/backgrounds/mate/nature/Storm.jpg",
    "dusk": "usr/share/wallpapers/summer_1am/contents/images/2560x1600.jpg",
}
RGB: Final = {
    "red": (226, 40, 44),
    "yellow": (248, 214, 48),
    "green": (40, 168, 72),
    "blue": (44, 92, 224),
    "purple": (160, 60, 200),
    "white": (250, 250, 250),
}
GARMENT_SIZE: Final = 42


@dataclass(frozen=True, slots=True)
class Studio:
    """Images [N, 48, 48, 3] uint8 and labels [N, 3] (garment, tint, background)."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]


def fetch(*packages: str) -> Path:
    """Unpack Debian packages into the cache and return the root of their files."""
    root = cache_dir() / "debs"
    for package in packages:
        stamp = root / f".{package}"
        if stamp.exists():
            continue
        root.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-q", package], cwd=root, check=True)
        (deb,) = root.glob(f"{package}_*.deb")
        subprocess.run(["dpkg-deb", "-x", str(deb), str(root)], check=True)
        deb.unlink()
        stamp.touch()
    return root


def load_garments(root: Path, split: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Fashion-MNIST: images [N, 28, 28] and labels [N]; split is "train" or "t10k"."""
    pixels = gzip.decompress((root / MNIST / f"{split}-images-idx3-ubyte.gz").read_bytes())
    kinds = gzip.decompress((root / MNIST / f"{split}-labels-idx1-ubyte.gz").read_bytes())
    images, labels = np.frombuffer(pixels, np.uint8, offset=16), np.frombuffer(kinds, np.uint8, offset=8)
    return images.reshape(-1, 28, 28), labels.astype(np.int64)


def load_photos(root: Path) -> list[NDArray[np.uint8]]:
    """The background photographs, shrunk to 420 px high, in the order of BACKGROUNDS."""
    photos = [Image.open(root / PHOTOS[name]).convert("RGB") for name in BACKGROUNDS]
    sizes = [(round(420 * photo.width / photo.height), 420) for photo in photos]
    return [np.asarray(p.resize(size, Image.Resampling.LANCZOS)) for p, size in zip(photos, sizes, strict=True)]


def silhouette(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Opacity of a garment [28, 28]: what lies between foreground pixels in all four directions is inside."""
    on = grey > 12
    inside = np.ones_like(on)
    for axis in (0, 1):
        for view in (on, np.flip(on, axis)):
            seen = np.maximum.accumulate(view, axis)
            inside &= seen if view is on else np.flip(seen, axis)
    return np.where(inside, 255, 0).astype(np.uint8)


def enlarged(grey: NDArray[np.uint8], size: int) -> NDArray[np.float32]:
    """A picture at another size, from 0 to 1."""
    picture = Image.fromarray(grey).resize((size, size), Image.Resampling.BICUBIC)
    values: NDArray[np.float32] = np.divide(np.asarray(picture), 255, dtype=np.float32)
    return values


def compose(
    grey: NDArray[np.uint8], tint: int, photo: NDArray[np.uint8], rng: np.random.Generator
) -> NDArray[np.uint8]:
    """One composite [48, 48, 3]."""
    side = int(rng.integers(110, 190))
    y, x = rng.integers(0, photo.shape[0] - side), rng.integers(0, photo.shape[1] - side)
    crop = Image.fromarray(photo[y : y + side, x : x + side]).resize((SIZE, SIZE), Image.Resampling.BOX)
    scene = np.asarray(crop, np.float32)
    shade, alpha = enlarged(grey, GARMENT_SIZE), enlarged(silhouette(grey), GARMENT_SIZE)[..., None]
    if rng.random() < 0.5:
        shade, alpha = shade[:, ::-1], alpha[:, ::-1]
    colour = np.array(list(RGB.values())[tint], np.float32) * (0.3 + 0.7 * shade[..., None])
    slack = SIZE - GARMENT_SIZE
    top, left = rng.integers(1, slack), rng.integers(1, slack)
    out = scene.copy()
    patch = out[top : top + GARMENT_SIZE, left : left + GARMENT_SIZE]
    patch[:] = patch * (1 - alpha) + colour * alpha
    return out.clip(0, 255).astype(np.uint8)


def build(split: str, count: int, seed: int) -> Studio:
    """`count` composites; garments are taken in turn, tint and background at random."""
    root = fetch(*PACKAGES)
    grey, kind = load_garments(root, split)
    photos = load_photos(root)
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(len(grey)) for _ in range(-(-count // len(grey)))])[:count]
    labels = np.stack([kind[order], rng.integers(0, len(TINTS), count), rng.integers(0, len(BACKGROUNDS), count)], 1)
    images = np.stack([compose(grey[i], t, photos[b], rng) for i, (_, t, b) in zip(order, labels, strict=True)])
    return Studio(images, labels)


def load(split: str, count: int, seed: int = 0) -> Studio:
    """The composites of `build`, made once and kept in the cache folder."""
    path = cache_dir() / f"studio-{split}-{count}-{seed}.npz"
    if not path.exists():
        data = build(split, count, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, images=data.images, labels=data.labels)
    with np.load(path) as arrays:
        return Studio(arrays["images"], arrays["labels"])


def main() -> None:
    """Build training and test composites and save a contact sheet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=120_000)
    parser.add_argument("--sheet", type=Path, help="also write a contact sheet of the first 96 composites")
    options = parser.parse_args()
    data = load("train", options.count)
    load("t10k", 4_000)
    if options.sheet:
        rows = data.images[:96].reshape(6, 16, SIZE, SIZE, 3).transpose(0, 2, 1, 3, 4)
        Image.fromarray(rows.reshape(6 * SIZE, 16 * SIZE, 3)).save(options.sheet)


if __name__ == "__main__":
    main()
