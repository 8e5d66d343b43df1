"""How good pictures are: whether they show what was asked, and whether two decoders draw from one distribution."""

import functools
import re
import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import torch
from jaxtyping import Bool, Float
from PIL import Image, ImageDraw
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks._report_format import Row, paired_z_score, standard_error
from draftscope.analysis.seeds import Estimate, estimate
from draftscope.engines.models.bundled.image import load_weights
from draftscope.engines.models.bundled.image_networks import CONDITIONS
from draftscope.engines.models.bundled.prompts import Prompt, parse_prompt

SEEN: Final = 48
"""Pixels of the side of a picture as the classifier sees it."""
SHEET_ROWS: Final = 10
_TIE: Final = 1e-12
EXCHANGES: Final = 999
"""Exchanges of a test."""
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


class KernelTest(NamedTuple):
    """Distance of two sets of pictures, and its distribution by chance."""

    distance: float
    """Squared maximum mean discrepancy, unbiased: 0 on average where both have one distribution."""
    by_chance: Estimate
    """Distance after the pictures of the sets were exchanged at random."""
    p_value: float
    """Share of the exchanges, the one observed included, that are at least as far apart."""


def kernel_test(features: Float[Tensor, "N F"], other: Float[Tensor, "N F"], exchanges: int = EXCHANGES) -> KernelTest:
    """Compare pictures of the same prompts by two decoders.

    The kernel is Gaussian, as wide as the median distance of two pictures (Gretton et al. 2012, JMLR 13). If both
    decoders draw from one distribution, their pictures of a prompt are exchangeable, so the distance observed is one of
    those after exchanges within prompts.

    Args:
        features: Of one picture a prompt.
        other: Of the other decoder's pictures, in the same order.
        exchanges: How often pictures are exchanged, each prompt with probability 1/2.
    """
    count, pooled = len(features), torch.cat([features, other])
    apart = torch.cdist(pooled, pooled)
    kernel = torch.exp(-((apart / apart[apart > 0].median()) ** 2) / 2).fill_diagonal_(0)
    draws = torch.rand(exchanges, count, generator=torch.Generator().manual_seed(0)) < 0.5
    first = torch.cat([torch.zeros(1, count, dtype=torch.bool), draws]).to(kernel.dtype)  # the observed one first
    one = torch.cat([1 - first, first], 1)
    two = 1 - one
    within = ((one @ kernel) * one).sum(1) + ((two @ kernel) * two).sum(1)
    between = ((one @ kernel) * two).sum(1)
    distances = within / (count * (count - 1)) - 2 * between / count**2
    observed, chance = float(distances[0]), distances[1:]
    further = 1 + int((chance >= observed - _TIE).sum())
    return KernelTest(observed, estimate(chance.tolist()), further / (exchanges + 1))


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
