"""Which open positions of a block to reveal in a step, by their confidence. Ties go to the lowest position.

Every policy reveals something: where its rule finds nothing, the most confident position is revealed as a fallback.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Confidence = Float[Tensor, " m"]
Chosen = Bool[Tensor, " m"]


def most_confident(confidence: Confidence, count: int) -> Chosen:
    """The `count` most confident positions."""
    order = confidence.argsort(descending=True, stable=True)
    return torch.zeros_like(confidence, dtype=torch.bool).index_fill_(0, order[:count], True)


def above(confidence: Confidence, threshold: float) -> Chosen:
    """Every position that reaches the threshold (Fast-dLLM, arXiv 2505.22618), or the most confident one."""
    passed = confidence >= threshold
    return torch.where(passed.any(), passed, most_confident(confidence, 1))


def dynamic(confidence: Confidence, threshold: float, least: int) -> Chosen:
    """All above the threshold if they are at least as many as the schedule wants, else the schedule's (SDAR)."""
    passed = confidence > threshold
    return torch.where(passed.sum() >= least, passed, most_confident(confidence, least))


def top_up(confidence: Confidence, taken: Chosen, least: int) -> Chosen:
    """The most confident positions that are missing to `least` beside those already `taken` (release of S2D2)."""
    order = torch.where(taken, -torch.inf, confidence).argsort(descending=True, stable=True)
    rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    return (rank < least - taken.sum()) & ~taken


def edits(confidence: Confidence, token: Int[Tensor, " m"], held: Int[Tensor, " m"], threshold: float) -> Chosen:
    """Held tokens that the model would replace by another one, above the threshold (LLaDA2.1); 1 replaces none."""
    return (confidence > threshold) & (token != held)


def schedule(size: int, steps: int, taken: int) -> int:
    """How many positions of a block of `size` the next of `steps` steps reveals: the first steps take the remainder."""
    whole, rest = divmod(size, steps)
    return max(1, whole + (taken < rest))
