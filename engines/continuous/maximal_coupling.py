"""Judging a draft's whole denoising path by maximal coupling: CSpD's Eq. 10 to 12, of paths in place of tokens.

A proposal takes all denoising steps of the target, and a draft's head has to say q of it; they are made several at a
time, as a few cost hardly more than one.
"""

from dataclasses import replace
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from engines.continuous.drafting import Block, own_path
from engines.continuous.gaussians import Gaussians
from engines.continuous.path_request import Follow, PathDensity, Paths, PathVerification, anew, whole_paths
from engines.continuous.rejection import accept
from engines.sampling.random_source import Chance, Draw

_FIRST_ROUND: Final = 4
_LARGEST_ROUND: Final = 256


def following(block: Block, drawn: Paths, x: Float[Tensor, "W D"], most: int, chance: Chance) -> Follow:
    """What the target needs to verify drafts x by their whole paths; the first rejected one is drawn anew.

    Where none is rejected the target goes its own way at the position behind them, with the noise of that position.
    After `most` proposals a plain draw stands in.
    """
    states = torch.cat([drawn.states, x[:, None]], 1)

    def verify_paths(p: Gaussians) -> PathVerification:
        coins = accept(log_ratio(drawn, p, x), chance, block.draw("verify"), until_rejection=True)
        r = int(coins.rejection)
        if r == block.W:
            return replace((yield from own_path(block)), coins=coins)
        at = Draw("anew", block.iteration, block.position[r : r + 1])
        own = yield from redrawn(r, drawn.densities[r], states.shape[1:], most, chance, at)
        return replace(own, coins=coins)

    return Follow(states, verify_paths)


def log_ratio(drawn: Paths, p: Gaussians, x: Float[Tensor, "W D"]) -> Float[Tensor, " W"]:
    """Log p / q of whole paths of drafts x, given the target's distributions of all steps along them, [n, W]."""
    after = torch.cat([drawn.states, x[:, None]], 1)[:, 1:].transpose(0, 1)
    return (p.log_density(after) - drawn.whole.log_density(after)).sum(0)


def measured(drawn: Paths, paths: Paths, x: Float[Tensor, "W D"]) -> dict[str, Tensor]:
    """What decided on drafts x whose paths the target followed, in the names of the trace."""
    ratio = log_ratio(drawn, paths.whole, x)
    return {"log_ratio": ratio, "path_log_ratio": ratio}


def redrawn(row: int, draft: PathDensity, shape: torch.Size, most: int, chance: Chance, at: Draw) -> PathVerification:
    """Draw a path from (p - q)+, normalised, by acceptance and rejection.

    At most `most` proposals are made. A plain draw stands in after that, which happens with a probability of at most
    1 / (e * most) a judged draft: the proposals fail with probability (1 - P)^most, and are needed with probability P.

    Positions, of which `row` is one, are counted from the first of the request; `draft` is the density q of paths of
    the `shape` S x D, and `at` names the draws of one position.
    """
    made, count, width = 0, min(_FIRST_ROUND, most), shape.numel()
    while made < most:
        noise = chance.normal(at.part(f"paths {made}"), count * width)[0].unflatten(0, (count, *shape))
        coins = chance.uniform(at.part(f"coins {made}"), count)[0]
        denoised = yield whole_paths(row, noise)
        log_p = denoised.whole.log_density(denoised.states[:, 1:].transpose(0, 1)).sum(0)
        taken = coins < -torch.expm1(draft(denoised.states) - log_p)  # 1 - q / p; below 0 where q is larger
        if bool(taken.any()):
            first = int(taken.long().argmax())
            return anew(row, denoised.states[first : first + 1], made + first + 1)
        made += count
        count = min(2 * count, _LARGEST_ROUND, most - made)
    spare = chance.normal(at.part("spare"), width).unflatten(1, shape)
    denoised = yield whole_paths(row, spare)
    return anew(row, denoised.states, most, capped=True)
