"""CSpD with whole paths, judged by block verification (arXiv 2411.11925 and 2403.10444) or coupled maximally.

The target follows the draft's whole path x_T .. x_0, and takes over its x_T, so that there is no noise to align. The
verdicts, of which docs/methods/cspd-block.md says why, are in engines/continuous/block_verification.py and maximal.py:

    p_k, q_k  the target's and the draft's distribution of the state after step k, both given the draft's states before
    n         drafts accepted, up to the first whose path is not accepted as a whole
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Final, Literal

import torch

from engines.continuous import block_verification
from engines.continuous import maximal_coupling as maximal
from engines.continuous.denoising import ContinuousTask
from engines.continuous.drafting import DraftedSampling, alone, check_steps, draft, next_block, whole_canvas
from engines.continuous.path_request import PathForward, ask_paths
from engines.continuous.verification_record import Verified, search
from engines.protocol import Decoder, ask_numbers
from engines.sampling.random_source import Chance
from engines.settings import Knob

VERDICTS: Final = {
    "block": (block_verification.following, block_verification.measured),
    "maximal": (maximal.following, maximal.measured),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(DraftedSampling):
    """Settings of CSpD with whole paths."""

    tries: Annotated[
        int, Knob("Tries", "Attempts to replace a rejected draft before a plain draw stands in.", 1, 100_000, 1)
    ] = 10_000
    verdict: Annotated[
        Literal["block", "maximal"],
        Knob("Verdict", "block: a rejected path is kept as far as it fits. maximal: it is drawn anew. Both are exact."),
    ] = "block"


def decode(task: ContinuousTask, config: Config, chance: Chance) -> Decoder:
    """Decode with drafts of a small model; raises ConfigError for drafts of a model that has no path to judge."""
    check_steps(task, config)
    following, measured = VERDICTS[config.verdict]
    done = (canvas := whole_canvas(task, config, chance)).done
    settled = fed = iteration = 0  # how many tokens the caches of target and drafter hold, and rounds
    while (start := len(done)) < task.length:
        block, iteration = next_block(canvas, config, done, iteration), iteration + 1
        if not (W := block.W):
            token = yield from alone(block, settled)
            done, settled = torch.cat([done, token]), start
            continue
        x, drawn = yield from draft(block, min(settled, fed))
        # The target follows all paths in one pass, and goes on by itself where the first rejected one is left.
        request = PathForward(
            torch.cat([done, x]),
            done=start,
            cached=settled,
            noise=block.noise.path,
            guidance=block.guidance,
            mode="verify",
            follow=following(block, drawn, x, config.tries, chance),
        )
        paths = ask_paths((yield request))
        assert paths.continuation is not None and paths.continuation.coins is not None
        drawn = replace(drawn, densities=())  # a record is not to hold what the drafter's head computed
        own, coins = paths.continuation, paths.continuation.coins
        token = torch.cat([x, own.token]).index_copy(0, own.row, own.token)
        n = coins.rejection
        rejected = torch.arange(W, device=x.device) == n
        numbers = partial(search, rejected, own, partial(measured, drawn, paths, x))
        verified = Verified(block, x, drawn, token[:W], paths)
        (count,) = ask_numbers((yield verified.decision(token, coins, numbers, (n + 1)[None])))
        done, settled, fed = torch.cat([done, token[:count]]), start + count - 1, start + W - 1
    return done
