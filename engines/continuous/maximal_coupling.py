"""Verification of whole denoising paths by maximal coupling: CSpD's Eq. 10 to 12, for paths instead of tokens.

A proposal takes all denoising steps of the target, and a draft's head must give its density q; several are made at a
time, because a few cost hardly more than one.
"""

from dataclasses import replace
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from draftscope.engines.continuous.drafting import Block, bonus_path
from draftscope.engines.continuous.gaussians import Gaussians
from draftscope.engines.continuous.path_request import (
    GivenPaths,
    PathDensity,
    Paths,
    PathVerification,
    resampled_path,
    whole_paths,
)
from draftscope.engines.continuous.rejection import accept
from draftscope.engines.sampling.random_source import DrawKey, RandomSource

_FIRST_ROUND: Final = 4
_LARGEST_ROUND: Final = 256


def verify_paths(block: Block, drawn: Paths, x: Float[Tensor, "W D"], max_tries: int, rng: RandomSource) -> GivenPaths:
    """Return what the target needs to verify drafts by their whole paths; the first rejected one is sampled again.

    If none is rejected, the target denoises the position after them, with the noise of that position.

    Args:
        block: Block of the drafts, and the position after them.
        drawn: Paths that the drafts came by.
        x: The drafts.
        max_tries: Proposals for a replacement; after them a plain sample of the target is used.
        rng: Random source of verdicts and proposals.
    """
    states = torch.cat([drawn.states, x[:, None]], 1)

    def verify_paths(p: Gaussians) -> PathVerification:
        verdict = accept(log_ratio(drawn, p, x), rng, block.draw_key("verify"), until_rejection=True)
        r = int(verdict.rejection)
        if r == block.W:
            return replace((yield from bonus_path(block)), verdict=verdict)
        at = DrawKey("anew", block.iteration, block.position[r : r + 1])
        continuation = yield from sample_residual_path(r, drawn.densities[r], states.shape[1:], max_tries, rng, at)
        return replace(continuation, verdict=verdict)

    return GivenPaths(states, verify_paths)


def log_ratio(drawn: Paths, p: Gaussians, x: Float[Tensor, "W D"]) -> Float[Tensor, " W"]:
    """Return log p / q of whole paths.

    Args:
        drawn: Paths that the drafts came by.
        p: The target's distributions of all steps along them, [n, W].
        x: The drafts, the last states of the paths.
    """
    after = torch.cat([drawn.states, x[:, None]], 1)[:, 1:].transpose(0, 1)
    return (p.log_density(after) - drawn.distributions.log_density(after)).sum(0)


def measured(drawn: Paths, paths: Paths, x: Float[Tensor, "W D"]) -> dict[str, Tensor]:
    """Return the measures of a verification of drafts: the log ratio of each path, [W].

    Args:
        drawn: Paths that the drafts came by.
        paths: The target's distributions along them.
        x: The drafts.
    """
    ratio = log_ratio(drawn, paths.distributions, x)
    return {"log_ratio": ratio, "path_log_ratio": ratio}


def sample_residual_path(
    row: int, draft: PathDensity, shape: torch.Size, max_tries: int, rng: RandomSource, at: DrawKey
) -> PathVerification:
    """Sample a path from (p - q)+, normalised, by acceptance and rejection.

    After `max_tries` proposals a plain sample is used. The probability of that is at most 1 / (e * max_tries) per
    verified draft: the proposals fail with probability (1 - P)^max_tries, and are needed with probability P.

    Args:
        row: Index of the position in the request.
        draft: Density q of the draft's paths.
        shape: Shape of a path, [S, D].
        max_tries: Maximum number of proposals.
        rng: Source of random numbers.
        at: Key of the draws at the position.
    """
    num_tried, count, width = 0, min(_FIRST_ROUND, max_tries), shape.numel()
    while num_tried < max_tries:
        noise = rng.normal(at.subkey(f"paths {num_tried}"), count * width)[0].unflatten(0, (count, *shape))
        uniform = rng.uniform(at.subkey(f"coins {num_tried}"), count)[0]
        denoised = yield whole_paths(row, noise)
        log_p = denoised.distributions.log_density(denoised.states[:, 1:].transpose(0, 1)).sum(0)
        accepted = uniform < -torch.expm1(draft(denoised.states) - log_p)  # 1 - q / p; below 0 where q is larger
        if bool(accepted.any()):
            first = int(accepted.long().argmax())
            return resampled_path(row, denoised.states[first : first + 1], num_tried + first + 1)
        num_tried += count
        count = min(2 * count, _LARGEST_ROUND, max_tries - num_tried)
    spare = rng.normal(at.subkey("spare"), width).unflatten(1, shape)
    denoised = yield whole_paths(row, spare)
    return resampled_path(row, denoised.states, max_tries, capped=True)
