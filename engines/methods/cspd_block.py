"""CSpD with whole paths, by block verification (arXiv 2411.11925 and 2403.10444) or maximal coupling.

The target follows the draft's whole path x_T .. x_0, and takes over its x_T, so that no noise has to be aligned. The
verdicts, whose reasons are in docs/methods/cspd-block.md, are in engines/continuous/block_verification.py and
maximal_coupling.py:

    p_k, q_k  the target's and the draft's distribution of the state after step k, both given the draft's earlier states
    n         drafts accepted, up to the first whose path is not accepted as a whole
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Final, Literal

import torch

from draftscope.engines.continuous import block_verification
from draftscope.engines.continuous import maximal_coupling as maximal
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
from draftscope.engines.continuous.verification_record import VerifiedBlock, search_measures
from draftscope.engines.protocol import Decoder, as_ints
from draftscope.engines.sampling.random_source import RandomSource
from draftscope.engines.settings import SettingInfo

VERDICTS: Final = {
    "block": (block_verification.verify_paths, block_verification.verification_measures),
    "maximal": (maximal.verify_paths, maximal.measured),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(DraftedSampling):
    """Settings of CSpD with whole paths."""

    max_tries: Annotated[
        int,
        SettingInfo("Tries", "Proposals for the replacement of a rejected draft before a plain sample.", 1, 100_000, 1),
    ] = 10_000
    verdict: Annotated[
        Literal["block", "maximal"],
        SettingInfo(
            "Verdict", "block: a rejected path is kept as far as it fits. maximal: it is sampled again. Both are exact."
        ),
    ] = "block"


def decode(task: ContinuousTask, config: Config, rng: RandomSource) -> Decoder:
    """Decode with drafts of a small model.

    Raises:
        ConfigError: If the drafts come from a model without a path to verify.
    """
    check_steps(task, config)
    following, measured = VERDICTS[config.verdict]
    done = (canvas := whole_canvas(task, config, rng)).final_tokens
    settled = fed = iteration = 0  # how many tokens the caches of target and drafter hold, and rounds
    while (start := len(done)) < task.length:
        block, iteration = next_block(canvas, config, done, iteration), iteration + 1
        if not (W := block.W):
            token = yield from decode_without_drafts(block, settled)
            done, settled = torch.cat([done, token]), start
            continue
        x, drawn = yield from draft(block, min(settled, fed))
        # The target follows all paths in one pass, and goes on by itself where the first rejected one is left.
        request = PathRequest(
            torch.cat([done, x]),
            num_final=start,
            num_cached=settled,
            noise=block.noise.path,
            guidance=block.guidance,
            mode="verify",
            follow=following(block, drawn, x, config.max_tries, rng),
        )
        paths = as_paths((yield request))
        assert paths.continuation is not None and paths.continuation.verdict is not None
        drawn = replace(drawn, densities=())  # a record is not to hold what the drafter's head computed
        continuation, verdict = paths.continuation, paths.continuation.verdict
        token = torch.cat([x, continuation.token]).index_copy(0, continuation.row, continuation.token)
        n = verdict.rejection
        rejected = torch.arange(W, device=x.device) == n
        numbers = partial(search_measures, rejected, continuation, partial(measured, drawn, paths, x))
        verified = VerifiedBlock(block, x, drawn, token[:W], paths)
        (count,) = as_ints((yield verified.decision(token, verdict, numbers, (n + 1)[None])))
        done, settled, fed = torch.cat([done, token[:count]]), start + count - 1, start + W - 1
    return done
