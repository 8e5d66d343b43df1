"""CSpD with whole paths judged by block verification (arXiv 2411.11925 and 2403.10444). Exact; joining them is ours.

CSpD judges a draft by its last denoising step, which is so narrow that two models hardly overlap in it. Here the target
follows the draft's whole path x_T .. x_0: at each of its states both distributions of the next one are known, which is
what block verification needs, with the steps of a path in place of the tokens of a block. Symbols:

    p_k, q_k  the target's and the draft's distribution of the state after step k, both given the draft's states before
    w_k       min(w_(k-1) p_k / q_k, 1) with w_0 = 1; a coin below w_n accepts the path, and so the draft
    n         drafts accepted, up to the first whose path is not accepted as a whole; the target leaves that path where
              a race decides, and denoises the rest itself

engines/continuous/block_verification.py has weights and race, and says why the token follows the target whatever the
draft was. As the target takes over the draft's x_T, there is no noise to align.
"""

from dataclasses import dataclass
from typing import Annotated

import torch

from engines.config import ConfigError, Knob
from engines.continuous.block_verification import following, path_ratio
from engines.continuous.denoising import ContinuousTask
from engines.continuous.drafting import DraftedSampling, alone, draft, next_block
from engines.continuous.rejection import accept
from engines.continuous.request import PathForward, ask_paths
from engines.continuous.verified import Verified, fates_until, search
from engines.protocol import Decoder, ask_numbers
from engines.sampling.chance import Chance
from engines.sampling.coupling import first_rejection


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(DraftedSampling):
    """Settings of CSpD with whole paths."""

    tries: Annotated[
        int,
        Knob(
            "Tries",
            "Rounds of the race for where to leave a rejected path, before a plain draw stands in. Every second one is "
            "a proposal.",
            1,
            100_000,
            1,
        ),
    ] = 10_000


def decode(task: ContinuousTask, config: Config, chance: Chance) -> Decoder:
    """Decode with drafts of a small model.

    Raises:
        ConfigError: for drafts of a model that has no path to judge.
    """
    if task.mixture and config.gamma:
        raise ConfigError(
            f"gamma: {config.gamma} drafts have no path to be judged by, as this model mixes Gaussians in one step; "
            "use method cspd, or gamma=0."
        )
    return _decode(task, config, chance)


def _decode(task: ContinuousTask, config: Config, chance: Chance) -> Decoder:
    done = torch.empty(0, task.width, dtype=torch.float64, device=task.device)
    settled = fed = iteration = 0  # how many tokens the caches of target and drafter hold, and rounds
    while (start := len(done)) < task.length:
        block, iteration = next_block(task, config, chance, done, iteration), iteration + 1
        if not (W := block.W):
            token = yield from alone(block, settled)
            done, settled = torch.cat([done, token]), start
            continue
        x, drawn = yield from draft(block, min(settled, fed))
        # The target follows all paths in one pass, and goes on by itself where the first rejected one is left.
        asked = PathForward(
            torch.cat([done, x]),
            done=start,
            cached=settled,
            noise=block.noise.path,
            guidance=block.guidance,
            mode="verify",
            follow=following(block, drawn, x, config.tries, chance),
        )
        paths = ask_paths((yield asked))
        assert paths.led is not None
        branch, own = paths.led.branch, paths.led.token
        token = torch.cat([x, own]).index_copy(0, branch.row, own)
        # The coins that decided where to leave, once more for the record.
        ratio = path_ratio(drawn, paths, x)
        coins = accept(ratio.log_weight, chance, block.draw("verify"), until_rejection=True)
        n = first_rejection(coins.kept)
        numbers = {
            "log_ratio": ratio.log_weight,
            "path_log_ratio": ratio.whole,
            "path_log_ratio_highest": ratio.highest,
            **search(torch.arange(W, device=x.device) == n, branch),
        }
        decision = Verified(block, x, drawn, token[:W], paths).decision(
            token, fates_until(n, W), coins, numbers, (n + 1)[None]
        )
        (count,) = ask_numbers((yield decision))
        done, settled, fed = torch.cat([done, token[:count]]), start + count - 1, start + W - 1
    return done
