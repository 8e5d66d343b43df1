"""CSpD: continuous speculative decoding (arXiv 2411.11925), Algorithm 1; docs/methods/cspd.md has more of it.

Symbols:

    p, q      distributions of x_0 given x_1, p_theta(x_0 | x_1^p) and q_theta(x_0 | x_1^q)
    Sigma     standard deviations of q's over p's path, last step excluded (Eq. 8)
    R         p(x) / q(x), times Sigma in the paper (Eq. 9); a uniform number below it accepts the draft
    n         drafts accepted, up to the first rejection; the next token is redrawn by acceptance-rejection (Eq. 10-13)
              or, if all were accepted, drawn from the target's own distribution
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Final, Literal

import torch

from draftscope.engines.continuous.denoising import ContinuousTask, position_noise
from draftscope.engines.continuous.drafting import (
    DraftedSampling,
    decode_without_drafts,
    draft,
    max_tries_deviation,
    next_block,
    whole_canvas,
)
from draftscope.engines.continuous.path_request import PathRequest, as_paths
from draftscope.engines.continuous.rejection import accept, couple_steps, draw_replacements
from draftscope.engines.continuous.verification_record import VerifiedBlock, search_measures
from draftscope.engines.protocol import Decoder, as_ints
from draftscope.engines.sampling.random_source import RandomSource
from draftscope.engines.settings import ConfigError, SettingInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(DraftedSampling):
    """Settings of CSpD."""

    mode: Annotated[
        Literal["exact", "paper", "distance-only"],
        SettingInfo(
            "Ratio",
            "The acceptance ratio. exact: of the densities of the last step. paper: times Sigma (Eq. 9), biased. "
            "distance-only: of the distances to both means, more biased.",
        ),
    ] = "exact"
    same_noise_paths: Annotated[
        bool,
        SettingInfo("Align trajectories", "Target and drafter denoise with the same noise, so that more drafts pass."),
    ] = True
    coupled_steps: Annotated[
        int,
        SettingInfo(
            "Tied steps", "Steps before the last that are coupled to the draft's, too.", 0, 250, 1, {"mode": ("exact",)}
        ),
    ] = 5


PRESETS: Final[dict[str, dict[str, object]]] = {
    f"As published, γ = {gamma}": {
        "steps": 100,
        "temperature": 1.0,
        "sampler": "ddpm",
        "last_timestep": 0,
        "gamma": gamma,
        "prefill_share": 0.05,
        "drafter": "small",
        "mode": "paper",
        "same_noise_paths": True,
        "coupled_steps": 0,
    }
    for gamma in (4, 8, 16, 32)
}
"""Table 1: Algorithm 1 with Eq. 9 and 13, 5 % of the tokens pre-filled, MAR's 100 steps. Its guidance is not stated."""


def deviation(config: Config) -> str:
    """Return what keeps these settings from being lossless."""
    if config.gamma == 0:
        return ""
    return {
        "exact": max_tries_deviation(config),
        "paper": "Biased where the steps of the two models differ in width: the ratio has a factor, Sigma (Eq. 9, 13).",
        "distance-only": "Lossy: drafts are verified by distances alone, whatever the spread of each model.",
    }[config.mode]


def decode(task: ContinuousTask, config: Config, rng: RandomSource) -> Decoder:
    """Draft vectors with a small model, and verify the last denoising step of each in one pass of the target.

    Raises:
        ConfigError: For a mode that the heads of target or drafter do not have.
    """
    if task.mixture and config.mode == "distance-only" and config.gamma:
        raise ConfigError(
            f"mode: {config.mode!r} measures drafts by one bell curve; this model mixes several, use exact."
        )
    if config.drafter == "mixture" and config.mode != "exact" and config.gamma:
        raise ConfigError(
            f"mode: {config.mode!r} measures drafts by one bell curve a denoising step; drafter=mixture mixes several, "
            "use exact."
        )
    done = (canvas := whole_canvas(task, config, rng)).final_tokens
    target_distribution = canvas.noise
    if not config.same_noise_paths:
        target_distribution = position_noise(canvas.position, task, config.steps, rng, " of the target")
    settled = fed = iteration = 0  # how many tokens the caches of target and drafter hold, and rounds
    tied = config.coupled_steps if config.mode == "exact" else 0
    while (start := len(done)) < task.length:
        block, iteration = next_block(canvas, config, done, iteration), iteration + 1
        if not (W := block.W):
            token = yield from decode_without_drafts(block, settled)
            done, settled = torch.cat([done, token]), start
            continue
        # Sample x_1 .. x_gamma from the draft model, one after the other, along Y_q.
        x, drawn = yield from draft(block, min(settled, fed))
        drawn = replace(drawn, densities=())  # a record is not to hold what the drafter's head computed
        # Denoise gamma + 1 positions by the target in one pass, along Y_p.
        noise = target_distribution[start : start + W + 1]
        request = PathRequest(
            torch.cat([done, x]),
            num_final=start,
            num_cached=settled,
            noise=noise.path,
            guidance=block.guidance,
            mode="verify",
            steer=couple_steps(block, drawn, tied, config.max_tries, rng) if tied else None,
        )
        paths = as_paths((yield request))
        y = noise.draw(paths.last)  # what the target alone would draw
        # Determine n, the number of drafts accepted: uniform numbers against R.
        verified = VerifiedBlock(block, x, drawn, y[:W], paths)
        ratio = verified.ratio(config.mode)
        log_ratio = ratio.log_of_drafts(x)
        verdict = accept(log_ratio, rng, block.draw_key("verify"), until_rejection=True)
        n = verdict.rejection
        # Replace the first rejected token by acceptance-rejection; without a rejection use the target's own token.
        rejected = torch.arange(W, device=x.device) == n
        new = draw_replacements(ratio, rejected, config.max_tries, rng, block.draw_key("residual"))
        token = torch.cat([torch.where(rejected[:, None], new.token, x), y[W:]])
        numbers = partial(search_measures, rejected, new, partial(dict, log_ratio=log_ratio))
        (count,) = as_ints((yield verified.decision(token, verdict, numbers, (n + 1)[None])))
        done, settled, fed = torch.cat([done, token[:count]]), start + count - 1, start + W - 1
    return done
