"""Token editing (LLaDA2.1): tokens that were final are replaced where the model has come to another opinion.

A position that holds a token is read like an open one: the model is given the token and says what should stand there.
"""

from functools import partial
from typing import Final

import torch
from torch import Tensor

from engines.diffusion_lm import unmasking
from engines.diffusion_lm.block_sequence import Row
from engines.protocol import FATE_CODES, NO_ENTRY, Part, ask_numbers, ask_probs
from engines.transfer import to_device
from traces.schema import Fate

MOST_PASSES: Final = 16
"""Passes over a finished block, at most, in the released code."""


def repair(probs: Tensor, held: Tensor, threshold: float) -> tuple[Tensor, Tensor, Tensor]:
    """The likeliest tokens [m] of positions that hold one, their probability, and whether they take its place."""
    confidence, token = probs.max(-1)
    return token, confidence, unmasking.edits(confidence, token, to_device(held, probs.device), threshold)


def fates(edited: Tensor) -> Tensor:
    """The fates of positions that hold a token: edited, or no entry."""
    return torch.where(edited, FATE_CODES[Fate.EDITED], NO_ENTRY)


def polish(row: Row, threshold: float, passes: int = MOST_PASSES) -> Part[None]:
    """Passes over a block with nothing left to fill, until one of them edits nothing."""
    position = row.written
    for _ in range(passes if threshold < 1 and len(position) else 0):
        probs = ask_probs((yield row.look("edit", read=position)))
        token, confidence, edited = repair(probs, row.tokens[position], threshold)
        decided = token, partial(fates, edited), edited
        answer = yield row.decision(position, decided, probs, confidence, open=len(row.open), committed=0)
        if not row.write(position, ask_numbers(answer)):
            return
