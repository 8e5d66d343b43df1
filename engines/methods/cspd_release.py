"""CSpD as in the authors' code, which differs from the paper (arXiv 2411.11925). Lossy.

Symbols are those of cspd.py; docs/methods/cspd-release.md lists the differences and their consequences. If the authors'
code gives up after 100 proposals and returns zeros, a plain sample of the target is used here.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal

import torch

from draftscope.engines.continuous.denoising import ContinuousTask
from draftscope.engines.continuous.drafting import (
    DraftedSampling,
    check_steps,
    decode_without_drafts,
    draft,
    next_block,
    whole_canvas,
)
from draftscope.engines.continuous.path_request import PathRequest, as_paths
from draftscope.engines.continuous.rejection import accept, draw_replacements
from draftscope.engines.continuous.verification_record import VerifiedBlock, search_measures
from draftscope.engines.protocol import FATE_CODES, Decoder
from draftscope.engines.sampling.random_source import RandomSource
from draftscope.engines.settings import SettingInfo
from draftscope.traces.schema import Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(DraftedSampling):
    """Settings of CSpD as released."""

    drafter: Annotated[
        Literal["small", "itself"],
        SettingInfo("Drafter", "What drafts: a smaller model, or the target itself, for comparison."),
    ] = "small"
    max_tries: Annotated[
        int,
        SettingInfo(
            "Tries", "Proposals before a plain sample is used. The released code gives up after 100.", 1, 100_000, 1
        ),
    ] = 100


def deviation(config: Config) -> str:
    """Return what keeps these settings from being lossless."""
    return (
        "Lossy, like the released code: distances are scaled down, the factor Sigma is inverted, and each draft is "
        "verified independently of earlier ones."
        if config.gamma
        else ""
    )


def decode(task: ContinuousTask, config: Config, rng: RandomSource) -> Decoder:
    """Draft vectors with a small model, and verify them as the released code does.

    Raises:
        ConfigError: If the distance that decides is not that of one Gaussian.
    """
    check_steps(task, config)
    done = (canvas := whole_canvas(task, config, rng)).final_tokens
    settled = fed = iteration = 0  # how many tokens the caches of target and drafter hold, and rounds
    while (start := len(done)) < task.length:
        block, iteration = next_block(canvas, config, done, iteration, bonus=False), iteration + 1
        if not (W := block.W):
            token = yield from decode_without_drafts(block, settled)
            done, settled = torch.cat([done, token]), start
            continue
        x, drawn = yield from draft(block, min(settled, fed), mean=True)
        drawn = replace(drawn, densities=())  # a record is not to hold what the drafter's head computed
        request = PathRequest(
            torch.cat([done, x]),
            num_final=start,
            num_cached=settled,
            noise=block.noise.path,
            guidance=block.guidance[-1:].expand_as(block.guidance),
            mode="verify",
            num_visible_missing=W if task.gaps else 0,
        )
        paths = as_paths((yield request))
        verified = VerifiedBlock(block, x, drawn, block.noise.draw(paths.last), paths)
        ratio = verified.ratio("release")
        log_ratio = ratio.log_of_drafts(x)
        verdict = accept(log_ratio, rng, block.draw_key("verify"))
        new = draw_replacements(ratio, ~verdict.accepted, config.max_tries, rng, block.draw_key("residual"))
        token = torch.where(verdict.accepted[:, None], x, new.token)
        numbers = partial(
            search_measures,
            ~verdict.accepted,
            new,
            partial(dict, log_ratio=log_ratio, soft_log_ratio=ratio.softened(x)),
        )
        fate = torch.where(verdict.accepted, FATE_CODES[Fate.ACCEPTED], FATE_CODES[Fate.RESAMPLED])
        yield verified.decision(token, verdict, numbers, fate[:0], fate)
        # What the target's cache holds of drafts, other tokens have replaced.
        done, settled, fed = torch.cat([done, token]), start, start + W - 1
    return done
