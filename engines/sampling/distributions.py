"""From logits to the distribution a method samples from.

The distribution is *defined* after guidance, temperature and truncation, and the same chain serves ordinary decoding,
drafting and verification: that is what the word lossless refers to (SCD, section 5).
"""

from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from draftscope.engines.sampling.random_source import CHUNK_NUMEL
from draftscope.engines.settings import SettingInfo

MAX_OUTPUT_TOKENS: Final = 2**16
"""Maximum number of output tokens of a text, if the model's context allows it: as many as a trace has positions."""
_FEW: Final = 16
"""The share of a vocabulary, one in so many, that usually holds the mass that is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Post-processing of the logits; the base of every Config."""

    temperature: Annotated[
        float,
        SettingInfo(
            "Temperature", "Below 1 likely tokens are drawn more often, above 1 unlikely ones.", 0.1, 2.0, 0.05
        ),
    ] = 1.0
    top_k: Annotated[
        int, SettingInfo("Top-k", "Draw among the k likeliest tokens and their ties. 0 sets no limit.", 0, 100_000, 1)
    ] = 0
    top_p: Annotated[
        float,
        SettingInfo("Top-p", "Draw among the fewest likeliest tokens of this probability together.", 0.05, 1.0, 0.05),
    ] = 1.0

    @property
    def uses_guidance(self) -> bool:
        """Whether every pass runs an unconditional row in addition to the conditional one."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidedSampling(Sampling):
    """Sampling from left to right, on a model that its prompt may guide."""

    guidance: Annotated[
        float,
        SettingInfo("Guidance", "Weight of the prompt. Above 1 every pass computes a second row.", 1.0, 10.0, 0.5),
    ] = 1.0
    length: Annotated[
        int,
        SettingInfo(
            "Length", "The most tokens of a text; pictures and videos have their own size.", 1, MAX_OUTPUT_TOKENS, 1
        ),
    ] = 64
    same_noise: Annotated[
        bool,
        SettingInfo(
            "Same noise",
            "Every position keeps its random numbers, in ordinary decoding and in lossless methods: both give the same "
            "tokens.",
        ),
    ] = False

    @property
    def uses_guidance(self) -> bool:
        """Whether guidance is above 1."""
        return self.guidance != 1.0


def to_probs(logits: Float[Tensor, "*B R T V"], sampling: Sampling) -> Float[Tensor, "*B T V"]:
    """Return probabilities in float64 from logits, in the order guidance, temperature, top-k, top-p, softmax.

    Args:
        logits: Logits of R rows for each of T positions: R is 1 or, with guidance, 2, the conditional row first.
        sampling: Settings; with two rows a `GuidedSampling`.

    Returns:
        Distributions that sum to 1. Where a logit is not a number or infinite, or all are -inf, the row has no
        probability that is a number.
    """
    *batch, _, width, vocabulary = logits.shape
    step = max(1, CHUNK_NUMEL // vocabulary)
    if logits.device.type != "cpu" or width <= step:
        return _to_probs(logits, sampling)
    probs = torch.empty(*batch, width, vocabulary, dtype=torch.float64)
    for first in range(0, width, step):  # a few rows at a time, whose numbers stay in the processor's cache
        part = slice(first, first + step)
        probs[..., part, :] = _to_probs(logits[..., part, :], sampling)
    return probs


def _to_probs(logits: Float[Tensor, "*B R T V"], sampling: Sampling) -> Float[Tensor, "*B T V"]:
    conditional = logits.select(-3, 0)
    if logits.shape[-3] == 2:
        assert isinstance(sampling, GuidedSampling)
        conditional, unconditional = conditional.to(torch.float64), logits[..., 1, :, :].to(torch.float64)
        conditional = sampling.guidance * (conditional - unconditional) + unconditional
    if sampling.top_k == 1:  # what softmax gives where all others are -inf
        highest = conditional.amax(-1, keepdim=True)
        likeliest = (conditional >= highest).to(
            torch.float64
        ) + 0.0 * highest  # not a number if the highest is infinite
        return likeliest / likeliest.sum(-1, keepdim=True)
    if sampling.temperature != 1.0:
        conditional = conditional.to(torch.float64) / sampling.temperature
    if 0 < sampling.top_k < conditional.shape[-1]:
        threshold = _largest(conditional, sampling.top_k)
        conditional = conditional.masked_fill(conditional < threshold, -torch.inf)
    probs = conditional.softmax(-1, dtype=torch.float64)
    return probs if sampling.top_p >= 1.0 else top_p_filter(probs, sampling.top_p)


def top_p_filter(probs: Float[Tensor, "*B V"], mass: float) -> Float[Tensor, "*B V"]:
    """Keep the nucleus: the fewest most likely ids that together reach a mass; ties go to the lowest id.

    Args:
        probs: Distributions.
        mass: Probability to reach, in (0, 1].

    Returns:
        Renormalised distributions, zero outside the nucleus.
    """
    if probs.device.type == "cpu":
        return _truncated_quickly(probs, mass)
    ordered, index = probs.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered  # probability ahead of each id
    kept_probs = torch.zeros_like(probs).scatter(-1, index, torch.where(before < mass, ordered, 0.0))
    return kept_probs / kept_probs.sum(-1, keepdim=True)


def _largest(values: Float[Tensor, "*B V"], k: int) -> Float[Tensor, "*B 1"]:
    """The k-th largest of each row. On a CPU numpy finds it in a tenth of torch's time."""
    if values.device.type != "cpu":
        return values.topk(k).values[..., -1:]
    index = values.shape[-1] - k
    return torch.from_numpy(np.partition(values.numpy(), index, -1)[..., index : index + 1])


def _truncated_quickly(probs: Float[Tensor, "*B V"], mass: float) -> Float[Tensor, "*B V"]:
    """Return `top_p_filter` by the least kept probability, for which only the values are sorted.

    It decides which ids are kept unless several have exactly this probability and not all are kept.
    """
    ordered = _first(probs, mass)
    count = (ordered.cumsum(-1) - ordered < mass).sum(-1, keepdim=True).clamp(min=1)  # 0 if they are not numbers
    threshold = ordered.gather(-1, count - 1)
    chosen = probs >= threshold
    surplus = chosen.sum(-1, keepdim=True) - count  # of those with the least probability; the highest ids go
    if bool(surplus.any()):
        ties = probs == threshold
        chosen &= ~(ties & (ties.flip(-1).cumsum(-1).flip(-1) <= surplus))
    kept_probs = torch.where(chosen, probs, 0.0)
    return kept_probs / kept_probs.sum(-1, keepdim=True)


def _first(probs: Float[Tensor, "*B V"], mass: float) -> Float[Tensor, "*B n"]:
    """The largest probabilities of each row, falling, as many as reach `mass` in all rows."""
    values, num_candidates = probs.numpy(), probs.shape[-1] // _FEW
    for count in filter(None, (num_candidates, probs.shape[-1])):
        largest = values if count == probs.shape[-1] else np.partition(values, -count, -1)[..., -count:]
        ordered = torch.from_numpy(np.sort(largest, -1)).flip(-1)
        if bool((ordered.cumsum(-1)[..., -1] >= mass).all()):
            break
    return ordered
