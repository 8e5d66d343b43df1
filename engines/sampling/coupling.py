"""Couplings: ways to draw y ~ p next to an x ~ q so that the two agree often.

`couple` is the maximal coupling: at once the verification of speculative decoding (modified rejection sampling, MRS)
and the coupled redraft of SCD (arXiv 2510.24211, Alg. 3).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from draftscope.engines.sampling.random_source import CHUNK_NUMEL, DrawKey, RandomSource

_SCARCELY: Final = 1e-200


@dataclass(frozen=True, slots=True)
class CouplingResult:
    """Whether each of W drafts stays, with which probability, and the uniform number where one decided."""

    accepted: Bool[Tensor, " W"]
    accept_prob: Float[Tensor, " W"]
    uniform: Float[Tensor, " W"] | None = None

    @property
    def rejection(self) -> Int[Tensor, ""]:
        """Index of the first rejection; see `first_rejection`."""
        return first_rejection(self.accepted)


def verify_drafts(
    x: Int[Tensor, " W"],
    q: Float[Tensor, "W V"],
    p: Float[Tensor, "W V"],
    rng: RandomSource,
    draw: DrawKey,
    *,
    until_rejection: bool = False,
) -> CouplingResult:
    """Verify drafts x ~ q against p: accept each with probability min(1, p(x) / q(x)).

    If all draws of a position share their noise, accept those that p picks again: the final tokens are then, token by
    token, those of the baseline (arXiv 2408.07978).

    Args:
        x: Drafts.
        q: Distributions from which they were sampled.
        p: Distributions of the target.
        rng: Source of random numbers.
        draw: Key of the draws.
        until_rejection: Whether verdicts after the first rejection are unused, so that their draws can be skipped.

    Returns:
        Verdicts, acceptance probabilities and, unless noise is shared, the uniform numbers.
    """
    if rng.same_noise:
        return CouplingResult(x == rng.gumbel_argmax(p, draw.position), gumbel_repeat_prob(x, q, p))
    here = x[:, None]
    accept_prob = (p.gather(1, here) / q.gather(1, here)).squeeze(1).clamp(max=1.0)
    accepted, uniform = rng.accept(accept_prob, draw, until_rejection=until_rejection)
    return CouplingResult(accepted, accept_prob, uniform)


def first_rejection(accepted: Bool[Tensor, " W"]) -> Int[Tensor, ""]:
    """Index of the first draft that was rejected; W when all were kept."""
    return accepted.cumprod(0).sum()


def residual(q: Float[Tensor, "W V"], p: Float[Tensor, "W V"]) -> Float[Tensor, "W V"]:
    """Return (p - q)+, unnormalised: the distribution of a rejected draft's replacement.

    If p and q agree to rounding, nothing remains to sample from; a rejection then has a probability of the order of
    rounding as well, and p itself is used: added to anything else, so small a multiple of it is lost in rounding.

    Args:
        q: Distributions from which the drafts were sampled.
        p: Distributions of the target.
    """
    return (p - q).clamp_(min=0.0).add_(p, alpha=_SCARCELY)


def sample_residual(
    x: Int[Tensor, " W"],
    q: Float[Tensor, "W V"],
    p: Float[Tensor, "W V"],
    rng: RandomSource,
    draw: DrawKey,
    where: Bool[Tensor, " W"],
) -> Int[Tensor, " W"]:
    """Replace drafts in some rows by a draw from the residual (p - q)+.

    With the same noise for all draws of a position, the replacement is what p picks.

    Args:
        x: Drafts.
        q: Distributions from which they were sampled.
        p: Distributions of the target.
        rng: Source of random numbers.
        draw: Key of the draws; rows outside `where` use none.
        where: Rows to replace.

    Returns:
        The drafts, replaced where `where` is True.
    """
    if rng.same_noise:
        return torch.where(where, rng.gumbel_argmax(p, draw.position, where), x)
    if p.device.type != "cpu":
        return torch.where(where, rng.categorical(residual(q, p), draw, where=where), x)
    rows, step = where.nonzero().squeeze(1), max(1, CHUNK_NUMEL // p.shape[-1])
    for first in range(0, rows.shape[0], step):  # a few rows at a time, whose numbers stay in the processor's cache
        chunk = rows[first : first + step]
        part = residual(q.index_select(0, chunk), p.index_select(0, chunk))
        x = x.index_copy(0, chunk, rng.categorical(part, draw.select(chunk)))
    return x


def collision_independent(q: Float[Tensor, "W V"], p: Float[Tensor, "W V"]) -> Float[Tensor, " W"]:
    """Return P(x = y) for separate draws: sum_i p_i q_i.

    Args:
        q: Distributions of x.
        p: Distributions of y.

    Example:
        >>> collision_independent(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.9, 0.1]]))
        tensor([0.5000])
    """
    return (p * q).sum(-1)


def total_variation(q: Float[Tensor, "W V"], p: Float[Tensor, "W V"]) -> Float[Tensor, " W"]:
    """Return TV(p, q); P(x = y) under the maximal coupling is 1 - TV (SCD, Thm. 2).

    Args:
        q: Distributions of x.
        p: Distributions of y.

    Example:
        >>> total_variation(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.9, 0.1]]))
        tensor([0.4000])
    """
    return 0.5 * (p - q).abs().sum(-1)


def collision_gumbel(q: Float[Tensor, "W V"], p: Float[Tensor, "W V"]) -> Float[Tensor, " W"]:
    """P(x = y) when both draws share Gumbel noise: sum_i 1 / sum_j max(p_j / p_i, q_j / q_i), exactly.

    At least (1 - TV) / (1 + TV) (SCD, Thm. 3). Sorting ids by p/q turns the inner sum into two cumulative sums, so
    the cost is V log V instead of V^2: for every j before i in that order p_j/p_i <= q_j/q_i.

    Args:
        q: Distributions of x; each row sums to 1.
        p: Distributions of y; each row sums to 1.

    Returns:
        A probability for each row.
    """
    order = _rising(p / q)  # 0 / 0 may stand anywhere: no other sum changes by it
    p, q = p.gather(-1, order), q.gather(-1, order)
    before = q.cumsum(-1)  # sum of q_j over j up to and including i
    after = (p.sum(-1, keepdim=True) - p.cumsum(-1)).clamp(min=0.0)  # sum of p_j over j after i
    inner = (before * p + after * q).clamp(min=torch.finfo(p.dtype).tiny)
    return (p * q / inner).sum(-1)


def _rising(ratio: Float[Tensor, "W V"]) -> Int[Tensor, "W V"]:
    """The order of every row, of numbers from 0 to infinity."""
    if ratio.device.type != "cpu" or ratio.dtype != torch.float32:
        return ratio.argsort(-1)
    # As bits such numbers have the same order; with the ids after them numpy sorts in a quarter of the time.
    keys = ratio.view(torch.int32).long().bitwise_left_shift_(32) + torch.arange(ratio.shape[-1])
    keys.numpy().sort(-1)
    return keys.bitwise_and_(2**32 - 1)


def gumbel_repeat_prob(x: Int[Tensor, " W"], q: Float[Tensor, "W V"], p: Float[Tensor, "W V"]) -> Float[Tensor, " W"]:
    """P(y = x) where noise that draws x from q draws y from p, given x: p_x / sum_j max(q_x p_j, p_x q_j).

    Args:
        x: The draws from q.
        q: Distributions of x.
        p: Distributions of y.

    Returns:
        A probability for each row.
    """
    here = x[:, None]
    p_x, q_x = p.gather(1, here), q.gather(1, here)
    return (p_x / torch.maximum(q_x * p, p_x * q).sum(-1, keepdim=True)).squeeze(1)


def entropy_bits(p: Float[Tensor, "W V"]) -> Float[Tensor, " W"]:
    """Entropy of each row in bits."""
    safe = p.clamp(min=torch.finfo(p.dtype).tiny)
    # On a CPU numpy takes a fifth of torch's time for logarithms.
    log = torch.from_numpy(np.log2(safe.numpy())) if p.device.type == "cpu" else safe.log2()
    return -(p * log).sum(-1)
