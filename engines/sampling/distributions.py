"""From logits to the distribution a method samples from.

The distribution is *defined* after guidance, temperature and truncation, and the same chain serves ordinary decoding,
drafting and verification: that is what the word lossless refers to (SCD, section 5).
"""

from dataclasses import dataclass
from typing import Annotated, Final

import torch
from jaxtyping import Float
from torch import Tensor

from engines.config import Knob

MOST_TOKENS: Final = 1024
"""Of a text, where the model has room for as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Post-processing of the logits; the base of every Config."""

    temperature: Annotated[float, Knob("Temperature", "Divides the logits.", 0.1, 2.0, 0.05)] = 1.0
    top_k: Annotated[
        int, Knob("Top-k", "Keep the k likeliest tokens and ties with the k-th; 0 keeps all.", 0, 100_000, 1)
    ] = 0
    top_p: Annotated[
        float, Knob("Top-p", "Keep the fewest likeliest tokens that hold this much probability.", 0.05, 1.0, 0.05)
    ] = 1.0

    @property
    def guided(self) -> bool:
        """Whether every pass runs an unconditional row beside the conditional one."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidedSampling(Sampling):
    """Sampling from left to right, on a model that its prompt may guide."""

    guidance: Annotated[
        float,
        Knob(
            "Guidance",
            "Classifier-free guidance scale s: s (cond - uncond) + uncond. 1 is off; above 1 every pass runs two rows.",
            1.0,
            10.0,
            0.5,
        ),
    ] = 1.0
    length: Annotated[
        int, Knob("Length", "Tokens of a text, the end included; pictures have a size of their own.", 8, MOST_TOKENS, 8)
    ] = 64

    @property
    def guided(self) -> bool:
        """See `Sampling.guided`."""
        return self.guidance != 1.0


def to_probs(logits: Float[Tensor, "*B R T V"], sampling: Sampling) -> Float[Tensor, "*B T V"]:
    """Probabilities in float64 from logits of R rows: the conditional one and, with guidance, the unconditional one.

    Order: guidance, temperature, top-k, top-p, softmax.
    """
    logits = logits.to(torch.float64)
    conditional = logits[..., 0, :, :]
    if logits.shape[-3] == 2:
        assert isinstance(sampling, GuidedSampling)
        unconditional = logits[..., 1, :, :]
        conditional = sampling.guidance * (conditional - unconditional) + unconditional
    if sampling.temperature != 1.0:
        conditional = conditional / sampling.temperature
    if 0 < sampling.top_k < conditional.shape[-1]:
        bar = conditional.topk(sampling.top_k, sorted=True).values[..., -1:]
        conditional = conditional.masked_fill(conditional < bar, -torch.inf)
    probs = conditional.softmax(-1)
    return probs if sampling.top_p >= 1.0 else truncate_mass(probs, sampling.top_p)


def truncate_mass(probs: Float[Tensor, "*B V"], mass: float) -> Float[Tensor, "*B V"]:
    """Nucleus: the fewest likeliest ids that together reach `mass`, renormalised; ties go to the lowest id."""
    ordered, index = probs.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered  # probability ahead of each id
    kept = torch.zeros_like(probs).scatter(-1, index, torch.where(before < mass, ordered, 0.0))
    return kept / kept.sum(-1, keepdim=True)
