"""Verification of whole denoising paths, and where to leave a rejected one: block verification (arXiv 2403.10444).

Steps of one path take the role of the tokens of a block; docs/methods/cspd-block.md has w_k, A_k and the race between
them.
"""

from dataclasses import dataclass, replace
from typing import Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from draftscope.engines.continuous.drafting import Block, bonus_path
from draftscope.engines.continuous.gaussians import Gaussians
from draftscope.engines.continuous.path_request import (
    DenoiseRequest,
    GivenPaths,
    PathContinuation,
    Paths,
    PathVerification,
)
from draftscope.engines.continuous.rejection import accept
from draftscope.engines.sampling.random_source import DrawKey, RandomSource

_FIRST_ROUND: Final = 32
_LARGEST_ROUND: Final = 1024


def log_weights(p: Gaussians, q: Gaussians, states: Float[Tensor, "W S D"]) -> Float[Tensor, "S W"]:
    """Return log w_0 .. w_(n-1), and last log w_n without its bound of 0, which is compared with a uniform number.

    Args:
        p: The target's distributions of all steps, [n, W], at the draft's states.
        q: The drafter's, of the same shape.
        states: The draft's states x_T .. x_0, S = n + 1 of them.
    """
    summed = _log_ratios(p, q, states)
    highest = summed.cummax(0).values
    return torch.cat([summed[:-1] - highest[:-1], (summed[-1] - highest[-2])[None]])


def _log_ratios(p: Gaussians, q: Gaussians, states: Float[Tensor, "W S D"]) -> Float[Tensor, "S W"]:
    """S_0 .. S_n."""
    after = states[:, 1:].transpose(0, 1)
    summed = (p.log_density(after) - q.log_density(after)).cumsum(0)
    return torch.cat([torch.zeros_like(summed[:1]), summed])


def verify_paths(block: Block, drawn: Paths, x: Float[Tensor, "W D"], max_tries: int, rng: RandomSource) -> GivenPaths:
    """Return what the target needs to verify drafts by their whole paths; it continues on its own where it leaves one.

    If none is rejected, the target denoises the position after them, with the noise of that position.

    Args:
        block: Block of the drafts, and the position after them.
        drawn: Paths that the drafts came by.
        x: The drafts.
        max_tries: Proposals for the state at which a path is left; after them a plain sample of the target is used.
        rng: Random source of verdicts and proposals.
    """
    states, q, n = torch.cat([drawn.states, x[:, None]], 1), drawn.distributions, drawn.states.shape[1]

    def verify_paths(p: Gaussians) -> PathVerification:
        log_w = log_weights(p, q, states)
        verdict = accept(log_w[-1], rng, block.draw_key("verify"), until_rejection=True)
        r = verdict.rejection[None]
        if int(r) == block.W:
            return replace((yield from bonus_path(block)), verdict=verdict)
        at = DrawKey("leave", block.iteration, block.position[r])
        left_at = find_exit_step(p[:, r], q[:, r], log_w[:-1, r], max_tries, rng, at)
        left, shape = n - 1 - left_at.step, states.shape[1:]
        fresh = rng.normal(DrawKey("led", at.iteration, at.position), shape.numel()).unflatten(1, shape)
        denoised = yield DenoiseRequest(r, left, left_at.state, fresh)
        return PathContinuation(r, left, denoised.states, left_at.tries, left_at.capped, verdict)

    return GivenPaths(states, verify_paths)


def verification_measures(drawn: Paths, paths: Paths, x: Float[Tensor, "W D"]) -> dict[str, Tensor]:
    """Return the measures of a verification: log ratios of the paths, up to their highest point and in full, each [W].

    Args:
        drawn: Paths that the drafts came by.
        paths: The target's distributions along them.
        x: The drafts.
    """
    summed = _log_ratios(paths.distributions, drawn.distributions, torch.cat([drawn.states, x[:, None]], 1))
    total, highest = summed[-1], summed[:-1].max(0).values
    return {"log_ratio": total - highest, "path_log_ratio": total, "path_log_ratio_highest": highest}


@dataclass(frozen=True, slots=True)
class PathExit:
    """Exits from R paths."""

    step: Int[Tensor, " R"]
    """k, the steps that are kept."""
    state: Float[Tensor, "R D"]
    """The state after the next one."""
    tries: Float[Tensor, " R"]
    """Rounds of the race at this step."""
    capped: Bool[Tensor, " R"]
    """Whether the rounds ran out, so that a plain sample of the target is used."""


def find_exit_step(
    p: Gaussians, q: Gaussians, log_w: Float[Tensor, "n R"], max_tries: int, rng: RandomSource, at: DrawKey
) -> PathExit:
    """Find the largest k that passes, where paths are not kept as a whole.

    All steps race side by side, until the largest that has not lost has won. The first cannot lose: its weight is 1.

    Args:
        p: The target's distributions of n steps, [n, R].
        q: The drafter's, of the same shape.
        log_w: Logarithm of the weight before each step, at most 0.
        max_tries: Rounds of the race; after them a plain sample of the target is used.
        rng: Random source of proposals and verdicts.
        at: Key of the draws, with the R positions.
    """
    n, width = len(log_w), p.mean.shape[-1]
    level = torch.arange(n, device=log_w.device)[:, None]
    keys = (at.position * n + level).flatten()  # a name of its own for every step
    passed, over = torch.zeros_like(log_w, dtype=torch.bool), torch.zeros_like(log_w, dtype=torch.bool)
    y, tries = p.mean[..., 0, :].clone(), torch.zeros_like(log_w)
    num_tried, count = 0, min(_FIRST_ROUND, max_tries)
    while True:
        named = [DrawKey(f"{at.purpose} {part} {num_tried}", at.iteration, keys) for part in ("state", "side", "coin")]
        side, uniform = (rng.uniform(draw, count).unflatten(0, log_w.shape) for draw in named[1:])
        z = rng.normal(named[0], count * width).unflatten(1, (count, width)).unflatten(0, log_w.shape)
        z = p[:, :, None].draw(z, side)  # plain Gaussians: there is nothing to pick
        log_ratio = p[:, :, None].log_density(z) - q[:, :, None].log_density(z)
        won = (side < 0.5) & (uniform < log_w.exp()[..., None] - (-log_ratio).exp())
        ended = won | ((side >= 0.5) & (uniform < -torch.expm1(log_w)[..., None]))
        first = ended.long().argmax(-1, keepdim=True)
        new = ended.any(-1) & ~over
        y = torch.where(new[..., None], z.gather(2, first[..., None].expand(-1, -1, -1, width))[:, :, 0], y)
        passed = passed | (new & won.gather(2, first)[..., 0])
        tries = tries + torch.where(over, 0, torch.where(new, first[..., 0] + 1, count))
        over, num_tried = over | new, num_tried + count
        k = torch.where(passed | ~over, level, -1).max(0, keepdim=True).values
        capped = ~passed.gather(0, k)
        if num_tried >= max_tries or not bool(capped.any()):
            break
        count = min(2 * count, _LARGEST_ROUND, max_tries - num_tried)
    spare = rng.normal(DrawKey(f"{at.purpose} spare", at.iteration, keys), width).unflatten(0, log_w.shape)
    y = torch.where(capped[..., None], p.draw(spare, spare[..., 0]), y)
    return PathExit(k[0], y.gather(0, k[..., None].expand(-1, -1, width))[0], tries.gather(0, k)[0], capped[0])
