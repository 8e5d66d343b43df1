"""How good pictures are: whether they show what was asked, and how far as a set they lie from real ones."""

import functools
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

from benchmarks._results import Row, off, standard_error
from engines.models.bundled import garment_prompts, networks, patch_networks, prompts
from engines.models.bundled.image import load_weights

SEEN: Final = 48
"""Pixels of the side of a picture as the classifiers see it."""
FEATURES: Final = Path(__file__).with_name("features.safetensors")
SHEET_ROWS: Final = 10
_FLOOR: Final = "floor_"
_SCALE, _GAP, _HEAD, _LEFT = 2, 6, 18, 190


class Classifier(nn.Module):
    """Reads what a prompt says off a picture; the measure of prompt agreement.

    Args:
        counts: how many values each part of a prompt has.
        width: of the first layer.
    """

    def __init__(self, counts: tuple[int, ...], width: int = 32) -> None:
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
        self.heads = nn.ModuleList(nn.Linear(4 * width, n) for n in counts)

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


@dataclass(frozen=True, slots=True)
class Judge:
    """A classifier by the name of its weights, and the prompts that it reads off pictures."""

    weights: str
    slots: tuple[str, ...]
    counts: tuple[int, ...]
    parse: Callable[[str], tuple[int, ...]]

    def network(self) -> Classifier:
        """The classifier."""
        return _loaded(self.weights, self.counts)

    @torch.inference_mode()
    def features(self, pixels: Float[Tensor, "B 3 S S"]) -> Float[Tensor, "B F"]:
        """The classifier's pooled features of pictures, in float64."""
        pooled: Tensor = self.network().features(pixels).double()
        return pooled

    @torch.inference_mode()
    def right(self, pixels: Float[Tensor, "B 3 S S"], prompts: Sequence[str]) -> Bool[Tensor, "B P"]:
        """For each of the slots, whether the classifier reads off a picture in [-1, 1] what its prompt says."""
        read = torch.stack([logits.argmax(-1) for logits in self.network()(pixels)], 1)
        return read == torch.tensor([self.parse(prompt) for prompt in prompts])

    def marks(self, own: Bool[Tensor, "N P"], ordinary: Bool[Tensor, "N P"]) -> Row:
        """Percentages of pictures that are as asked, and how far off those of ordinary decoding, in standard errors."""
        whole = own.all(1).double().tolist()
        return {
            **{f"{slot}_percent": 100 * float(own[:, i].double().mean()) for i, slot in enumerate(self.slots)},
            "as_asked_percent": 100 * statistics.fmean(whole),
            "as_asked_error": 100 * standard_error(whole),
            "as_asked_off_errors": off(whole, ordinary.all(1).double().tolist()),
        }


SCENES: Final = Judge("image-classifier", prompts.Prompt._fields, networks.CONDITIONS, prompts.parse_prompt)
"""Of the studio image model."""
GARMENTS: Final = Judge(
    "patch-classifier", garment_prompts.Prompt._fields, patch_networks.CONDITIONS, garment_prompts.parse_prompt
)
"""Of the studio patch models."""


@functools.cache
def _loaded(weights: str, counts: tuple[int, ...]) -> Classifier:
    network = Classifier(counts)
    load_weights(network, weights)
    return network.eval()


@dataclass(frozen=True, slots=True)
class Reference:
    """Features of real pictures."""

    mean: Float[Tensor, " F"]
    covariance: Float[Tensor, "F F"]
    floors: Mapping[int, float] = field(default_factory=dict)
    """How far so many real pictures lie from them by chance alone."""


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
