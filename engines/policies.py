"""Which open positions of a block to reveal in a step, by their confidence. Ties go to the lowest position.

Every policy reveals something: where its rule finds nothing, the most confident position is revealed as a fallback.
"""

import torch
from jaxtyping import Bool, Float
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


def schedule(size: int, steps: int, taken: int) -> int:
    """How many positions of a block of `size` the next of `steps` steps reveals: the first steps take the remainder."""
    whole, rest = divmod(size, steps)
    return max(1, whole + (taken < rest))
