"""CSpD as the authors' code does it, which differs from the paper (arXiv 2411.11925). Lossy.

Symbols are those of cspd.py; docs/methods/cspd-release.md has a table of what differs, and what comes of it. Where the
authors' code gives up after 100 proposals and returns zeros, a plain draw of the target's stands in.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal

import torch

from engines.continuous.denoising import ContinuousTask
from engines.continuous.drafting import DraftedSampling, alone, check_steps, draft, next_block, whole_canvas
from engines.continuous.path_request import PathForward, ask_paths
from engines.continuous.rejection import accept, draw_replacements
from engines.continuous.verification_record import Verified, search
from engines.protocol import FATE_CODES, Decoder
from engines.sampling.random_source import Chance
from engines.settings import Knob
from traces.schema import Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(DraftedSampling):
    """Settings of CSpD as released."""

    drafter: Annotated[
        Literal["small", "itself"],
        Knob("Drafter", "What drafts: a smaller model, or the target itself, for comparison."),
    ] = "small"
    tries: Annotated[
        int,
        Knob("Tries", "Proposals before a plain draw stands in. The released code gives up after 100.", 1, 100_000, 1),
    ] = 100


def deviation(config: Config) -> str:
    """What keeps these settings from being lossless."""
    return (
        "Lossy, as the released code is: distances count for less than they are, the factor Sigma is upside down, and "
        "each draft is judged apart from those before it."
        if config.gamma
        else ""
    )


def decode(task: ContinuousTask, config: Config, chance: Chance) -> Decoder:
    """Decode with drafts of a small model; raises ConfigError where a distance is not that of one Gaussian."""
    check_steps(task, config)
    done = (canvas := whole_canvas(task, config, chance)).done
    settled = fed = iteration = 0  # how many tokens the caches of target and drafter hold, and rounds
    while (start := len(done)) < task.length:
        block, iteration = next_block(canvas, config, done, iteration, bonus=False), iteration + 1
        if not (W := block.W):
            token = yield from alone(block, settled)
            done, settled = torch.cat([done, token]), start
            continue
        x, drawn = yield from draft(block, min(settled, fed), mean=True)
        drawn = replace(drawn, densities=())  # a record is not to hold what the drafter's head computed
        request = PathForward(
            torch.cat([done, x]),
            done=start,
            cached=settled,
            noise=block.noise.path,
            guidance=block.guidance[-1:].expand_as(block.guidance),
            mode="verify",
            unseen=W if task.gaps else 0,
        )
        paths = ask_paths((yield request))
        verified = Verified(block, x, drawn, block.noise.draw(paths.last), paths)
        ratio = verified.ratio("release")
        log_ratio = ratio.log_of_drafts(x)
        coins = accept(log_ratio, chance, block.draw("verify"))
        new = draw_replacements(ratio, ~coins.kept, config.tries, chance, block.draw("residual"))
        token = torch.where(coins.kept[:, None], x, new.token)
        numbers = partial(
            search, ~coins.kept, new, partial(dict, log_ratio=log_ratio, soft_log_ratio=ratio.softened(x))
        )
        fate = torch.where(coins.kept, FATE_CODES[Fate.ACCEPTED], FATE_CODES[Fate.RESAMPLED])
        yield verified.decision(token, coins, numbers, fate[:0], fate)
        # What the target's cache holds of drafts, other tokens have replaced.
        done, settled, fed = torch.cat([done, token]), start, start + W - 1
    return done
