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
    """Return the most confident positions.

    Args:
        confidence: Confidence at the open positions, -inf where a position may not be chosen.
        count: How many; ties go to the first.
    """
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
    """Return the most confident position, whatever the threshold.

    Args:
        confidence: Confidence at the open positions, -inf where a position may not be chosen.
        position: The positions.
        threshold: Not used.
    """
    return top_confident(confidence, 1)


def above_threshold(confidence: Confidence, position: Int[Tensor, " m"], threshold: float) -> Chosen:
    """Return every position that reaches the threshold (Fast-dLLM, arXiv 2505.22618).

    Args:
        confidence: Confidence at the open positions, -inf where a position may not be chosen.
        position: The positions.
        threshold: Minimum confidence.
    """
    return confidence >= threshold


def near_anchors(confidence: Confidence, position: Int[Tensor, " m"], threshold: float) -> Chosen:
    """Return anchors, and less confident positions near one (LocalLeap, arXiv 2510.07081).

    Args:
        confidence: Confidence at the open positions, -inf where a position may not be chosen.
        position: The positions.
        threshold: Minimum confidence of an anchor; within `ANCHOR_RADIUS` of one, `ANCHOR_THRESHOLD` is enough.
    """
    anchor = confidence >= threshold
    near = (position[:, None] - position[None, :]).abs() <= ANCHOR_RADIUS  # [m, m]
    near_anchor = (anchor[..., None, :] & near).any(-1)
    return anchor | (near_anchor & (confidence >= ANCHOR_THRESHOLD))


RULES: Final[Mapping[str, RevealRule]] = {"confidence": above_threshold, "localleap": near_anchors, "greedy": top1}
"""Name -> rule of a transfer policy. A policy is a rule and `at_least_one`."""


def at_least_one(passed: Chosen, confidence: Confidence) -> Chosen:
    """Return what passed a rule, and the most confident position, so that at least one passes.

    Args:
        passed: Positions that passed.
        confidence: Confidence at the open positions.
    """
    return passed | top_confident(confidence, 1)


def fates(chosen: Bool[Tensor, " m"], rescued: Bool[Tensor, " m"]) -> Int[Tensor, " m"]:
    """Return the fates of open positions: unmasked, fallback, or drafted for those that stay open.

    Args:
        chosen: Positions that are revealed.
        rescued: Those of them that no rule chose, so that one had to be revealed anyway.
    """
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
    """Return the most confident positions that a minimum lacks, in addition to the chosen ones (release of S2D2).

    Args:
        confidence: Confidence at the open positions.
        chosen: Positions that a rule chose.
        min_count: Minimum number of positions in all.
    """
    order = torch.where(chosen, -torch.inf, confidence).argsort(descending=True, stable=True)
    rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    return (rank < min_count - chosen.sum()) & ~chosen


def edits(confidence: Confidence, token: Int[Tensor, " m"], ids: Int[Tensor, " m"], threshold: float) -> Chosen:
    """Return which tokens the model would replace by another one (LLaDA2.1).

    Args:
        confidence: Probability of the most likely token at each position.
        token: The most likely token.
        ids: The token that is there.
        threshold: Probability above which it is replaced; 1 replaces none.
    """
    return (confidence > threshold) & (token != ids)


def schedule(size: int, steps: int, num_steps_done: int) -> int:
    """Return how many positions of a block the next step reveals: at least 1; the first steps take the remainder.

    Args:
        size: Positions of the block.
        steps: Steps for all of them.
        num_steps_done: Steps that were taken.
    """
    quotient, remainder = divmod(size, steps)
    return max(1, quotient + (num_steps_done < remainder))
