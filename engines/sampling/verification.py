"""Verification of a sequence of drafts, one after the other, until the first rejection."""

from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from draftscope.engines.protocol import FATE_CODES, UNUSED_ENTRY
from draftscope.engines.sampling.coupling import first_rejection, sample_residual
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.traces.schema import Fate

_FLOOR: Final = 1e-10
"""Probabilities below it count as it in divergences, as in the released code of SimSD."""


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """Verdicts on W drafts."""

    token: Int[Tensor, " W"]
    """The draft if it was accepted, its replacement at the first rejection, and the dropped draft after it."""
    rejection: Int[Tensor, ""]
    """Place of the first rejection; W when there is none."""
    accept_prob: Float[Tensor, " W"] | None
    """None, as `uniform`, where no uniform number was drawn."""
    uniform: Float[Tensor, " W"] | None


def verify_in_order(
    x: Int[Tensor, " W"],
    probs: tuple[Float[Tensor, "W V"], Float[Tensor, "W V"]],
    rule: str,
    rng: RandomSource,
    draw: DrawKey,
    tempering: float = 1.0,
) -> VerificationResult:
    """Verify drafts x ~ q against p in the order they come, and replace the first rejected one.

    Args:
        x: Drafts.
        probs: q, from which the drafts were sampled, and p of the target.
        rule: "match" accepts the most likely tokens of p. The others accept with probability min(1, (p/q)^tempering);
            "ratio" replaces the first rejected draft by a draw from the residual, any other rule by a draw from p.
        rng: Source of random numbers.
        draw: Iteration and positions of the draws; verdicts and replacements have purposes of their own.
        tempering: Exponent of p/q; below 1 more drafts pass, at 0 all do (S2D2, App. A.8).
    """
    q, p = probs
    if rule == "match":
        best, accept_prob, uniform = p.argmax(-1), None, None
        accepted = x == best
    else:
        here = x[:, None]
        accept_prob = (p.gather(1, here) / q.gather(1, here)).squeeze(1).pow(tempering).clamp(max=1.0)
        accepted, uniform = rng.accept(
            accept_prob, DrawKey("verify", draw.iteration, draw.position), until_rejection=True
        )
    r = first_rejection(accepted)
    lost = torch.arange(len(x), device=x.device) == r
    if rule != "match":
        at = DrawKey("residual", draw.iteration, draw.position)
        best = sample_residual(x, q, p, rng, at, lost) if rule == "ratio" else rng.categorical(p, at, where=lost)
    return VerificationResult(torch.where(lost, best, x), r, accept_prob, uniform)


def fates(r: Int[Tensor, ""], W: int) -> Int[Tensor, " W"]:
    """Return the fates of W drafts: accepted before the first rejection, resampled there, discarded after it.

    Args:
        r: Index of the first rejection; W if there is none.
        W: Number of drafts.
    """
    slot = torch.arange(W, device=r.device)
    fate = torch.where(slot < r, FATE_CODES[Fate.ACCEPTED], FATE_CODES[Fate.DISCARDED])
    return torch.where(slot == r, FATE_CODES[Fate.RESAMPLED], fate)


def fates_with_bonus(r: Int[Tensor, ""], W: int) -> Int[Tensor, " E"]:
    """Return the fates of W drafts and of the target's token after them, which exists if none was rejected.

    Args:
        r: Index of the first rejection; W if there is none.
        W: Number of drafts.

    Returns:
        Codes of `FATE_CODES` [W + 1]; the last is `UNUSED_ENTRY` after a rejection.
    """
    last_code = FATE_CODES[Fate.BONUS if W else Fate.SAMPLED]
    return torch.cat([fates(r, W), torch.where(r == W, last_code, UNUSED_ENTRY)[None]])


def divergences(x: Int[Tensor, " W"], q: Float[Tensor, "W V"], p: Float[Tensor, "W V"]) -> dict[str, Tensor]:
    """Return how far the verifying p is from the drafting q.

    Args:
        x: Drafts.
        q: Distributions from which they were sampled.
        p: Distributions against which they were verified.

    Returns:
        A number for each draft [W], by names of `traces.measures`; `kl` and `cross_entropy` are in nats.
    """
    here = x[:, None]
    mine, theirs = q.gather(1, here).squeeze(1), p.gather(1, here).squeeze(1)
    floored = p.clamp(min=_FLOOR)
    return {
        "ratio": theirs / mine,
        "residual_mass": (p - q).clamp(min=0).sum(-1),
        "kl": (q * (q.clamp(min=_FLOOR).log() - floored.log())).sum(-1),
        "cross_entropy": -theirs.clamp(min=_FLOOR).log(),
        "agrees": (q.argmax(-1) == p.argmax(-1)).to(p.dtype),
    }
