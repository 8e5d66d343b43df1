"""How good pictures of garments are: whether they show what was asked, and how far as a set they lie from real ones."""

import functools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import torch
from jaxtyping import Bool, Float
from PIL import Image, ImageDraw
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks._results import Row, off, standard_error
from engines.models.bundled.image import load_weights
from engines.models.bundled.networks import CONDITIONS, IMAGE_SIZE
from engines.models.bundled.prompts import parse_prompt

SLOTS: Final = ("garment", "tint", "background")
FEATURES: Final = Path(__file__).with_name("features.safetensors")
SHEET_ROWS: Final = 10
_FLOOR: Final = "floor_"
_SCALE, _GAP, _HEAD, _LEFT = 2, 6, 18, 190


class Classifier(nn.Module):
    """Reads garment, tint and background off an image; the measure of prompt agreement."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        channels = [3, width, 2 * width, 4 * width]
        self.trunk = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(8, b), nn.SiLU(), nn.Conv2d(b, b, 3, 2, 1), nn.SiLU()
                )
                for a, b in pairwise(channels)
            )
        )
        self.heads = nn.ModuleList(nn.Linear(4 * width, n) for n in CONDITIONS)

    def features(self, image: Float[Tensor, "B 3 S S"]) -> Float[Tensor, "B F"]:
        """Pooled features of images in [-1, 1]; larger ones are averaged to the size that it learned from."""
        if image.shape[-1] > IMAGE_SIZE:
            image = F.interpolate(image, (IMAGE_SIZE, IMAGE_SIZE), mode="area")
        pooled: Tensor = self.trunk(image).mean((2, 3))
        return pooled

    def forward(self, image: Float[Tensor, "B 3 S S"]) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of garment, tint and background."""
        hidden = self.features(image)
        garment, tint, background = (head(hidden) for head in self.heads)
        return garment, tint, background


@functools.cache
def load_classifier() -> Classifier:
    """The network that reads garment, tint and background off a picture."""
    network = Classifier()
    load_weights(network, "image-classifier")
    return network.eval()


@dataclass(frozen=True, slots=True)
class Reference:
    """Features of real pictures."""

    mean: Float[Tensor, " F"]
    covariance: Float[Tensor, "F F"]
    floors: Mapping[int, float] = field(default_factory=dict)
    """How far so many real pictures lie from them by chance alone."""


@torch.inference_mode()
def right(pixels: Float[Tensor, "B 3 S S"], prompts: Sequence[str]) -> Bool[Tensor, "B 3"]:
    """For each of SLOTS, whether the classifier reads off a picture in [-1, 1] what its prompt says."""
    read = torch.stack([logits.argmax(-1) for logits in load_classifier()(pixels)], 1)
    words = [parse_prompt(prompt) for prompt in prompts]
    return read == torch.tensor([[getattr(prompt, slot) for slot in SLOTS] for prompt in words])


@torch.inference_mode()
def features(pixels: Float[Tensor, "B 3 S S"]) -> Float[Tensor, "B F"]:
    """The classifier's pooled features, in float64."""
    pooled: Tensor = load_classifier().features(pixels).double()
    return pooled


@functools.cache
def reference() -> Reference:
    """Features of held-out composites; see training.features."""
    with safe_open(FEATURES, "pt") as file:
        about = file.metadata().items()
        floors = {int(name.removeprefix(_FLOOR)): float(value) for name, value in about if name.startswith(_FLOOR)}
        return Reference(file.get_tensor("mean").double(), file.get_tensor("covariance").double(), floors)


def frechet(own: Float[Tensor, "N F"], real: Reference) -> float:
    """Fréchet distance of two Gaussians with the moments of features; as FID (arXiv 1706.08500), on a small classifier.

    It falls with N, so that only sets of one size can be compared.
    """
    covariance = own.T.cov()
    values, vectors = torch.linalg.eigh(real.covariance)
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T
    mixed = torch.linalg.eigvalsh(root @ covariance @ root).clamp(min=0).sqrt().sum()
    apart = (own.mean(0) - real.mean).square().sum()
    return float(apart + covariance.trace() + real.covariance.trace() - 2 * mixed)


def marks(own: Bool[Tensor, "N 3"], ordinary: Bool[Tensor, "N 3"]) -> Row:
    """Percentages of pictures that are as asked, and how far off those of ordinary decoding, in standard errors."""
    whole = own.all(1).double().tolist()
    return {
        **{f"{slot}_percent": 100 * float(own[:, i].double().mean()) for i, slot in enumerate(SLOTS)},
        "all_three_percent": 100 * statistics.fmean(whole),
        "all_three_error": 100 * standard_error(whole),
        "all_three_off_errors": off(whole, ordinary.all(1).double().tolist()),
    }


def sheet(path: Path, prompts: Sequence[str], columns: Mapping[str, Float[Tensor, "N 3 S S"]]) -> None:
    """Write a PNG of the pictures for the first prompts with different garments: a row a prompt, a column a decoder."""
    garments = [parse_prompt(prompt).garment for prompt in prompts]
    picked = [garments.index(garment) for garment in list(dict.fromkeys(garments))[:SHEET_ROWS]]
    side = _SCALE * next(iter(columns.values())).shape[-1]
    size = (_LEFT + len(columns) * (side + _GAP), _HEAD + len(picked) * (side + _GAP))
    page = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(page)
    for number, i in enumerate(picked):
        middle = _HEAD + number * (side + _GAP) + side // 2
        draw.text((4, middle - 6), prompts[i].replace(" on ", "\non "), fill="black")
    for column, (name, pictures) in enumerate(columns.items()):
        left = _LEFT + column * (side + _GAP)
        draw.text((left, 3), name, fill="black")
        for number, i in enumerate(picked):
            bytes_ = ((pictures[i] + 1) * 127.5).round().clamp(0, 255).byte().permute(1, 2, 0).numpy()
            picture = Image.fromarray(bytes_).resize((side, side), Image.Resampling.NEAREST)
            page.paste(picture, (left, _HEAD + number * (side + _GAP)))
    path.parent.mkdir(parents=True, exist_ok=True)
    page.save(path, optimize=True)
