"""How good pictures are: whether they show what was asked, and how far as a set they lie from real ones."""

import functools
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
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

from benchmarks._report_format import Row, paired_z_score, standard_error
from engines.models.bundled.image import load_weights
from engines.models.bundled.image_networks import CONDITIONS
from engines.models.bundled.prompts import Prompt, parse_prompt

SEEN: Final = 48
"""Pixels of the side of a picture as the classifier sees it."""
FEATURES: Final = Path(__file__).with_name("features.safetensors")
SHEET_ROWS: Final = 10
PARTS: Final = 16
_FLOOR: Final = "floor_"
_SCALE, _GAP, _HEAD, _LEFT = 2, 6, 18, 190


class Classifier(nn.Module):
    """Reads what a prompt says, thing and scene, off a picture; the measure of prompt agreement."""

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
        if image.shape[-1] > SEEN:
            image = F.interpolate(image, (SEEN, SEEN), mode="area")
        pooled: Tensor = self.trunk(image).mean((2, 3))
        return pooled

    def forward(self, image: Float[Tensor, "B 3 S S"]) -> list[Tensor]:
        """Logits of each part of a prompt."""
        hidden = self.features(image)
        return [head(hidden) for head in self.heads]


@functools.cache
def classifier() -> Classifier:
    """The classifier that ships."""
    network = Classifier()
    load_weights(network, "image-classifier")
    return network.eval()


@torch.inference_mode()
def features(pixels: Float[Tensor, "B 3 S S"]) -> Float[Tensor, "B F"]:
    """The classifier's pooled features of pictures, in float64."""
    pooled: Tensor = classifier().features(pixels).double()
    return pooled


@torch.inference_mode()
def as_asked(pixels: Float[Tensor, "B 3 S S"], prompts: Sequence[str]) -> Bool[Tensor, "B 2"]:
    """Whether the classifier reads thing and scene of its prompt off each picture in [-1, 1]."""
    read = torch.stack([logits.argmax(-1) for logits in classifier()(pixels)], 1)
    return read == torch.tensor([parse_prompt(prompt) for prompt in prompts])


def quality_scores(scores: Bool[Tensor, "N 2"], ordinary: Bool[Tensor, "N 2"]) -> Row:
    """Percentages of pictures that are as asked, and how far off those of ordinary decoding, in standard errors."""
    all_right = scores.all(1).double().tolist()
    return {
        **{f"{slot}_percent": 100 * float(scores[:, i].double().mean()) for i, slot in enumerate(Prompt._fields)},
        "as_asked_percent": 100 * statistics.fmean(all_right),
        "as_asked_error": 100 * standard_error(all_right),
        "as_asked_off_errors": paired_z_score(all_right, ordinary.all(1).double().tolist()),
    }


@dataclass(frozen=True, slots=True)
class Reference:
    """Features of real pictures."""

    mean: Float[Tensor, " F"]
    covariance: Float[Tensor, "F F"]
    floors: Mapping[int, float] = field(default_factory=dict)
    """Distance between as many real pictures, by chance alone."""


@functools.cache
def reference() -> Reference:
    """Features of held-out pictures; see training.features."""
    with safe_open(FEATURES, "pt") as file:
        about = file.metadata().items()
        floors = {int(name.removeprefix(_FLOOR)): float(value) for name, value in about if name.startswith(_FLOOR)}
        return Reference(file.get_tensor("mean").double(), file.get_tensor("covariance").double(), floors)


def frechet(features: Float[Tensor, "N F"], real: Reference) -> float:
    """Fréchet distance of two Gaussians with the moments of features; as FID (arXiv 1706.08500), on a small classifier.

    It falls with N, so that only sets of one size can be compared.
    """
    covariance = features.T.cov()
    values, vectors = torch.linalg.eigh(real.covariance)
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T
    mixed = torch.linalg.eigvalsh(root @ covariance @ root).clamp(min=0).sqrt().sum()
    apart = (features.mean(0) - real.mean).square().sum()
    return float(apart + covariance.trace() + real.covariance.trace() - 2 * mixed)


def frechet_error(features: Float[Tensor, "N F"], other: Float[Tensor, "N F"], real: Reference) -> float:
    """Standard error of how much further own pictures lie than others of the same prompts."""
    return jackknife(lambda one, baseline: frechet(one, real) - frechet(baseline, real), features, other, parts=PARTS)


def jackknife(figure: Callable[..., float], *sets: Tensor, parts: int | None = None) -> float:
    """Standard error of a figure of sets in one order, by leaving out one of their parts at a time, or one entry."""
    index = torch.arange(len(sets[0])) % (count := parts or len(sets[0]))
    values = [figure(*(each[index != part] for each in sets)) for part in range(count)]
    return statistics.pstdev(values) * math.sqrt(count - 1)


def sheet(path: Path, prompts: Sequence[str], columns: Mapping[str, Float[Tensor, "N 3 S S"]]) -> None:
    """Write a PNG of the pictures for the first different prompts: a row a prompt, a column a decoder."""
    picked = [prompts.index(prompt) for prompt in list(dict.fromkeys(prompts))[:SHEET_ROWS]]
    side = _SCALE * next(iter(columns.values())).shape[-1]
    size = (_LEFT + len(columns) * (side + _GAP), _HEAD + len(picked) * (side + _GAP))
    page = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(page)
    for number, i in enumerate(picked):
        middle = _HEAD + number * (side + _GAP) + side // 2
        draw.text((4, middle - 6), re.sub(" (?=on |in |at |by )", "\n", prompts[i]), fill="black")
    for column, (name, pictures) in enumerate(columns.items()):
        left = _LEFT + column * (side + _GAP)
        draw.text((left, 3), name, fill="black")
        for number, i in enumerate(picked):
            bytes_ = ((pictures[i] + 1) * 127.5).round().clamp(0, 255).byte().permute(1, 2, 0).numpy()
            picture = Image.fromarray(bytes_).resize((side, side), Image.Resampling.NEAREST)
            page.paste(picture, (left, _HEAD + number * (side + _GAP)))
    path.parent.mkdir(parents=True, exist_ok=True)
    page.save(path, optimize=True)
