"""Token editing (LLaDA2.1): final tokens are replaced if the model has become more confident of others.

A position that holds a token is read like an open one: the model is given the token and predicts that position.
"""

from functools import partial
from typing import Final

import torch
from torch import Tensor

from draftscope.engines.diffusion_lm import unmasking
from draftscope.engines.diffusion_lm.block_sequence import BlockSequence
from draftscope.engines.protocol import FATE_CODES, UNUSED_ENTRY, SubDecoder, as_ints, as_probs
from draftscope.engines.transfer import to_device
from draftscope.traces.schema import Fate

MAX_PASSES: Final = 16
"""Passes over a finished block, at most, in the released code."""


def propose_edits(probs: Tensor, ids: Tensor, threshold: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the most likely tokens of filled positions, their probability, and whether to replace the old ones.

    Args:
        probs: Distributions [m, V].
        ids: Tokens that are there, [m].
        threshold: Probability above which another token replaces the old one; 1 replaces none.
    """
    confidence, token = probs.max(-1)
    return token, confidence, unmasking.edits(confidence, token, to_device(ids, probs.device), threshold)


def fates(edited: Tensor) -> Tensor:
    """The fates of positions that hold a token: edited, or no entry."""
    return torch.where(edited, FATE_CODES[Fate.EDITED], UNUSED_ENTRY)


def edit_until_stable(row: BlockSequence, threshold: float, passes: int = MAX_PASSES) -> SubDecoder[None]:
    """Run passes over a block with nothing left to fill, until one of them edits nothing.

    Args:
        row: Sequence, with its block.
        threshold: Probability above which another token replaces the old one; from 1 on no pass is run.
        passes: Maximum number of passes.
    """
    position = row.written
    for _ in range(passes if threshold < 1 and len(position) else 0):
        probs = as_probs((yield row.request_open_positions("edit", read=position)))
        token, confidence, edited = propose_edits(probs, row.tokens[position], threshold)
        decided = token, partial(fates, edited), edited
        answer = yield row.decision(position, decided, probs, confidence, open=len(row.open), committed=0)
        if not row.write(position, as_ints(answer)):
            return
