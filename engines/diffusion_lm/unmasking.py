"""Which open positions of a block to reveal in a step, by their confidence. Ties go to the lowest position.

Policies look at one row [m] or at many at once [K, m]; a confidence of -inf says that a row has no open position there.
Every policy reveals something: where its rule finds nothing, the most confident position, as a fallback.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from draftscope.engines.protocol import FATE_CODES
from draftscope.engines.settings import SettingInfo
from draftscope.traces.schema import Fate

SURE: Final = "Confidence from which a token is revealed. Lower takes fewer passes, with more mistakes."
"""Help text of thresholds."""
Threshold = Annotated[float, SettingInfo("Threshold", SURE, 0.0, 1.0, 0.05)]

Confidence = Float[Tensor, "*K m"]
Chosen = Bool[Tensor, "*K m"]


def deviation_text(reasons: Mapping[str, bool], together: bool = False) -> str:
    """Return how settings deviate from block size 1, in a sentence; empty if they do not.

    Args:
        reasons: Reason -> whether it applies.
        together: Whether one pass reveals several tokens, which is a reason of its own.
    """
    all_reasons = {"tokens filled in by one pass do not know of each other": together, **reasons}
    why = "; ".join(reason for reason, holds in all_reasons.items() if holds)
    return f"Not what decoding token by token (block size 1) gives: {why}." if why else ""


ANCHOR_THRESHOLD: Final = 0.75
ANCHOR_RADIUS: Final = 4
"""LocalLeap's threshold and radius around an anchor, as released."""


def top_confident(confidence: Confidence, count: int) -> Chosen:
    """The `count` most confident positions."""
    if confidence.shape[-1] <= count:
        return confidence > -torch.inf
    if count == 1:  # the first of several that are as confident, as the order has it
        order = confidence.argmax(-1, keepdim=True)
    else:
        order = confidence.argsort(dim=-1, descending=True, stable=True)[..., :count]
    return torch.zeros_like(confidence, dtype=torch.bool).scatter_(-1, order, True) & (confidence > -torch.inf)


RevealRule: TypeAlias = Callable[[Confidence, Tensor, float], Chosen]
"""Called with confidence and position of all, and a threshold: whether each may be revealed; maybe none may."""


def top1(confidence: Confidence, position: Int[Tensor, " m"], threshold: float) -> Chosen:
    """The most confident one, whatever the threshold."""
    return top_confident(confidence, 1)


def above_threshold(confidence: Confidence, position: Int[Tensor, " m"], threshold: float) -> Chosen:
    """Every position that reaches the threshold (Fast-dLLM, arXiv 2505.22618)."""
    return confidence >= threshold


def near_anchors(confidence: Confidence, position: Int[Tensor, " m"], threshold: float) -> Chosen:
    """Anchors, which reach the threshold, and what reaches RELAXED within RADIUS of one (LocalLeap, 2510.07081)."""
    anchor = confidence >= threshold
    near = (position[:, None] - position[None, :]).abs() <= ANCHOR_RADIUS  # [m, m]
    near_anchor = (anchor[..., None, :] & near).any(-1)
    return anchor | (near_anchor & (confidence >= ANCHOR_THRESHOLD))


RULES: Final[Mapping[str, RevealRule]] = {"confidence": above_threshold, "localleap": near_anchors, "greedy": top1}
"""Name -> rule of a transfer policy. A policy is a rule and `at_least_one`."""


def at_least_one(passed: Chosen, confidence: Confidence) -> Chosen:
    """Return what passed a rule, and the most confident position, so that at least one passes."""
    return passed | top_confident(confidence, 1)


def fates(chosen: Bool[Tensor, " m"], rescued: Bool[Tensor, " m"]) -> Int[Tensor, " m"]:
    """Return the fates of revealed positions, of which `rescued` are a fallback; the others stay drafts."""
    fate = torch.where(chosen, FATE_CODES[Fate.UNMASKED], FATE_CODES[Fate.DRAFTED])
    return torch.where(rescued, FATE_CODES[Fate.FALLBACK], fate)


def dynamic(confidence: Confidence, threshold: float, min_count: int) -> Chosen:
    """Choose all above the threshold if they are at least as many as the schedule wants, else the schedule's (SDAR).

    Args:
        confidence: Confidence, -inf at positions that are not open.
        threshold: Confidence above which a token is revealed.
        min_count: Tokens that the schedule reveals in this step.
    """
    passed = confidence > threshold
    return torch.where(passed.sum() >= min_count, passed, top_confident(confidence, min_count))


def top_up(confidence: Confidence, chosen: Chosen, min_count: int) -> Chosen:
    """Return the most confident positions missing to `min_count`, in addition to the chosen ones (release of S2D2)."""
    order = torch.where(chosen, -torch.inf, confidence).argsort(descending=True, stable=True)
    rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    return (rank < min_count - chosen.sum()) & ~chosen


def edits(confidence: Confidence, token: Int[Tensor, " m"], ids: Int[Tensor, " m"], threshold: float) -> Chosen:
    """Held tokens that the model would replace by another one, above the threshold (LLaDA2.1); 1 replaces none."""
    return (confidence > threshold) & (token != ids)


def schedule(size: int, steps: int, num_steps_done: int) -> int:
    """How many positions of a block of `size` the next of `steps` steps reveals: the first steps take the remainder."""
    quotient, remainder = divmod(size, steps)
    return max(1, quotient + (num_steps_done < remainder))
