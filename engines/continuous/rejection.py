"""Acceptance and replacement of continuous drafts: all variants of the ratio R, and acceptance-rejection sampling.

CSpD, arXiv 2411.11925, Eq. 8 to 13; docs/methods/cspd.md lists which R are exact. `couple_steps` couples the denoising
steps before the last one in the same way.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from draftscope.engines.continuous.drafting import Block
from draftscope.engines.continuous.gaussians import Gaussians
from draftscope.engines.continuous.path_request import Paths, Steer
from draftscope.engines.sampling.coupling import CouplingResult
from draftscope.engines.sampling.random_source import DrawKey, RandomSource

Ratio: TypeAlias = Literal["exact", "paper", "release", "distance-only"]
SOFTNESS: Final = 42.0
"""Divisor of standardised distances in the release, before it verifies a draft; it is not in the paper."""
_FIRST_ROUND: Final = 32
_LARGEST_ROUND: Final = 1024


@dataclass(frozen=True, slots=True)
class DensityRatio:
    """R at W positions: the density under the target over that under the draft, in one of its variants."""

    variant: Ratio
    p: Gaussians
    """Distribution of the target's last step."""
    q: Gaussians
    """Distribution that the draft's last step was drawn from."""
    log_sigma: Float[Tensor, " W"]
    """log Sigma: standard deviations of the draft's over the target's path (Eq. 8)."""

    def __getitem__(self, index: slice | Tensor) -> "DensityRatio":
        """The ratio at some of the positions."""
        return DensityRatio(self.variant, self.p[index], self.q[index], self.log_sigma[index])

    def log_of_drafts(self, x: Float[Tensor, "W D"]) -> Float[Tensor, " W"]:
        """Log R of one draft at each position. The release softens distances here, and here alone."""
        if self.variant == "release":
            return self.softened(x) - self.log_sigma
        return self._log_ratio(self.p, self.q, self.log_sigma, x)

    def log_of_proposals(self, x: Float[Tensor, "W N D"]) -> Float[Tensor, "W N"]:
        """Log R of N proposals at each position."""
        return self._log_ratio(self.p[:, None], self.q[:, None], self.log_sigma[:, None], x)

    def softened(self, x: Float[Tensor, "W D"]) -> Float[Tensor, " W"]:
        """Logarithm of p / q with standardised distances divided by SOFTNESS, without Sigma."""
        return self.p.log_density(x, SOFTNESS) - self.q.log_density(x, SOFTNESS)

    def _log_ratio(self, p: Gaussians, q: Gaussians, log_sigma: Tensor, x: Tensor) -> Tensor:
        if self.variant == "distance-only":
            return 0.5 * (q.noise(x).square().sum((-1, -2)) - p.noise(x).square().sum((-1, -2)))
        log_ratio = p.log_density(x) - q.log_density(x)
        if self.variant == "paper":
            return log_ratio + log_sigma
        return log_ratio - log_sigma if self.variant == "release" else log_ratio


def accept(
    log_ratio: Float[Tensor, " W"], rng: RandomSource, draw: DrawKey, *, until_rejection: bool = False
) -> CouplingResult:
    """Accept each draft with probability min(1, R).

    Args:
        log_ratio: log R of each draft.
        rng: Random source.
        draw: Key of the uniform draws.
        until_rejection: Whether the caller ignores everything after the first rejection.
    """
    accept_prob = log_ratio.clamp(max=0.0).exp()
    accepted, uniform = rng.accept(accept_prob, draw, until_rejection=until_rejection)
    return CouplingResult(accepted, accept_prob, uniform)


@dataclass(frozen=True, slots=True)
class Replacements:
    """Replacements at W positions; where nothing was to be replaced they are zeros and the tries are 0."""

    token: Float[Tensor, "W D"]
    tries: Float[Tensor, " W"]
    capped: Bool[Tensor, " W"]
    """Whether no proposal was accepted in time, so that a plain sample from p is used."""


def draw_replacements(
    ratio: DensityRatio, rejected: Bool[Tensor, " W"], max_tries: int, rng: RandomSource, draw: DrawKey
) -> Replacements:
    """Draw what replaces the rejected drafts.

    Proposals are made many at a time. Which rows are still without is looked up on the host before each round: how
    many it takes cannot be known beforehand.

    Args:
        ratio: Density ratio at the positions; proposals are drawn from its p and accepted with probability 1 - 1 / R.
        rejected: Positions that need a replacement.
        max_tries: Proposals for each; after them a plain sample of p is used.
        rng: Random source.
        draw: Key of the draws.
    """
    width, count, num_tried = ratio.p.mean.shape[-1], _FIRST_ROUND, 0
    token = ratio.p.mean.new_zeros(len(rejected), width)
    tries = ratio.p.mean.new_zeros(len(rejected))
    rows = rejected.nonzero().flatten()
    while len(rows) and num_tried < max_tries:
        count = min(count, max_tries - num_tried)
        here, named = ratio[rows], draw.select(rows).subkey(f"{num_tried}")
        proposals = _propose(here.p, count, rng, named)
        accept_prob = -torch.expm1(-here.log_of_proposals(proposals))  # 1 - 1 / R; below 0 where R is below 1
        accepted = rng.uniform(named.subkey("coin"), count) < accept_prob
        first = accepted.long().argmax(-1)
        token[rows] = proposals[torch.arange(len(rows), device=rows.device), first]
        tries[rows] = (torch.where(accepted.any(-1), first, count - 1) + num_tried + 1).to(tries.dtype)
        rows = rows[~accepted.any(-1)]
        num_tried, count = num_tried + count, min(2 * count, _LARGEST_ROUND)
    capped = torch.zeros_like(rejected)
    if len(rows):
        token[rows] = _propose(ratio.p[rows], 1, rng, draw.select(rows).subkey("spare"))[:, 0]
        capped[rows] = True
    return Replacements(token, tries, capped)


def _propose(p: Gaussians, count: int, rng: RandomSource, draw: DrawKey) -> Tensor:
    """`count` draws from each of W distributions [W, count, D]."""
    width = p.mean.shape[-1]
    normal = rng.normal(draw, count * width).unflatten(1, (count, width))
    return p[:, None].draw(normal, rng.uniform(draw.subkey("pick"), count))


@dataclass(frozen=True, slots=True)
class AcceptOrReplaceResult(Replacements):
    """Tokens at W positions, accepted drafts and replacements."""

    accepted: Bool[Tensor, " W"]


def accept_or_replace(
    ratio: DensityRatio, x: Float[Tensor, "W D"], max_tries: int, rng: RandomSource, draw: DrawKey
) -> AcceptOrReplaceResult:
    """Accept or replace drafts, each apart from the others; with the variant exact this is a maximal coupling.

    Args:
        ratio: Density ratio at the positions.
        x: Drafts, drawn from its q.
        max_tries: Proposals for each replacement.
        rng: Random source.
        draw: Key of the draws.
    """
    verdict = accept(ratio.log_of_drafts(x), rng, draw.subkey("verdict"))
    new = draw_replacements(ratio, ~verdict.accepted, max_tries, rng, draw)
    return AcceptOrReplaceResult(
        torch.where(verdict.accepted[:, None], x, new.token), new.tries, new.capped, verdict.accepted
    )


def couple_steps(block: Block, drawn: Paths, tied: int, max_tries: int, rng: RandomSource) -> Steer:
    """Return a function that couples denoising steps of the target to those of the drafts, by `accept_or_replace`.

    Given the target's path, the draw of a step follows the target's distribution whatever the draft did, so the path
    keeps its distribution as well; and if both paths meet, their next distributions are nearly equal.

    Args:
        block: Block whose first W positions have drafts; the others are left as they are.
        drawn: Paths that the drafts came by.
        tied: Steps that are coupled, those before the last one.
        max_tries: Proposals for the replacement of a state; after them a plain sample is used.
        rng: Random source.
    """

    def steer(i: int, distribution: Gaussians, x: Tensor) -> Tensor:
        if i > tied:
            return x
        k = len(drawn.distributions) - 1 - i  # step i leads from states k to k + 1
        no_sigma = torch.zeros_like(block.guidance[: block.W])
        ratio = DensityRatio("exact", distribution[: block.W], drawn.distributions[k], no_sigma)
        y = accept_or_replace(ratio, drawn.states[:, k + 1], max_tries, rng, block.draw_key(f"tie {i}")).token
        return torch.cat([y, x[block.W :]])

    return steer
