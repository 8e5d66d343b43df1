"""Attention masks among the tokens of one forward pass. True means visible; queries are rows, keys are columns.

Final tokens before them are in the cache and visible to all, so they are not in these masks.
"""

from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn.functional import pad

AttentionMask = Bool[Tensor, "n n"]


@lru_cache(maxsize=1024)
def block_causal(count: int, size: int, before: int = 0, *, causal: bool = False) -> AttentionMask:
    """Return the mask in which each token attends to its own block and earlier blocks. Do not modify it.

    Args:
        count: Number of tokens.
        size: Tokens of a block; 1 is a causal mask.
        before: Tokens before the first block.
        causal: Whether those before attend no further than to themselves.
    """
    index = torch.arange(-before, count - before)
    block = torch.where(index < 0, index, index // size) if causal else index // size
    return block[:, None] >= block[None, :]


def verifier(count: int, first: int, more: int = 0) -> AttentionMask:
    """Return S2D2's mask over [F | M] (arXiv 2603.25702, eq. 3): filled tokens, and mask copies of some of them.

    F is causal and attends to no copy. A copy attends to the filled tokens strictly before its own and to itself, so
    that its logits are those of block size 1.

    Args:
        count: Number of filled tokens.
        first: Index of the first token with a copy; all after it have one.
        more: Further copies, for positions after the filled ones.
    """
    copied = torch.arange(first, count + more)
    filled = torch.arange(count)
    top = torch.cat([filled[:, None] >= filled[None, :], torch.zeros(count, len(copied), dtype=torch.bool)], 1)
    bottom = torch.cat([copied[:, None] > filled[None, :], torch.eye(len(copied), dtype=torch.bool)], 1)
    return torch.cat([top, bottom])


def drafting_mask(count: int, first: int) -> AttentionMask:
    """Return S2D2's drafting mask (eq. 4): rows before the first open position are causal, the others attend to all.

    Args:
        count: Tokens of the block.
        first: Index of the first open position in it.
    """
    row = torch.arange(count)
    return (row[:, None] >= row[None, :]) | (row[:, None] >= first)


@lru_cache(maxsize=1024)
def temporal(count: int, before: int, after: int) -> Bool[Tensor, "k k"]:
    """Return SimSD's mask over [D | M] (arXiv 2606.02544, eq. 1): drafts in drafting order, and mask copies of them.

    Every row attends to each position exactly once: as a draft if it was drafted by then, as a mask otherwise. Other
    tokens of the block are visible to all and attend to masks instead of drafts. So tokens that are not verified look
    as they do before drafting, and no draft reaches a verdict through them. Do not modify it.

    Args:
        count: Number of drafts.
        before: Other tokens of the block before D.
        after: Other tokens of the block after M.
    """
    query, key = torch.arange(count)[:, None], torch.arange(count)[None, :]
    drafts, length = slice(before, before + count), before + 2 * count + after
    copies = slice(drafts.stop, drafts.stop + count)
    seen = torch.ones(length, length, dtype=torch.bool)
    seen[:, drafts] = False
    seen[drafts, drafts], seen[drafts, copies] = key <= query, key > query
    seen[copies, drafts], seen[copies, copies] = key < query, key >= query
    return seen


def prefix_mask(lead: Bool[Tensor, "n n"], tail: Bool[Tensor, "m m"]) -> Bool[Tensor, "k k"]:
    """Return the mask of tokens followed by others, which attend to all of the first and are not attended to by them.

    Args:
        lead: Mask of the first n tokens.
        tail: Mask of the m tokens after them.
    """
    return torch.cat([pad(lead, (0, len(tail))), pad(tail, (len(lead), 0), value=True)])


def run_lengths(seen: Bool[Tensor, "n m"]) -> tuple[tuple[int, ...], ...]:
    """Lengths of the runs of every row, beginning with what may not be seen."""
    padded = np.pad(seen.numpy(), ((0, 0), (1, 0)))
    row, column = np.nonzero(padded[:, 1:] != padded[:, :-1])  # where another run begins
    parts = np.split(column, np.searchsorted(row, np.arange(1, len(seen))))
    return tuple(tuple(int(b) - int(a) for a, b in pairwise([0, *part.tolist(), seen.shape[1]])) for part in parts)
