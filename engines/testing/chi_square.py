"""Chi-square tests of sampled texts against the distributions that their tokens should follow."""

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor

CELLS: Final = 16
PAIRED: Final = 6
"""Cells a side for pairs of neighbours."""
HIGHEST: Final = 5.0
"""Bound of the z-scores of sampled texts; a right distribution passes it with a probability of more than 0.9999."""


def misfit(texts: Sequence[tuple[int, ...]], conditionals: Callable[[tuple[int, ...]], Tensor]) -> float:
    """Return the largest statistic, as a z-score, of texts of one length N whose `conditionals` are [N, V].

    Given the tokens before it, a token x sampled from p has u = F(x - 1) + v p(x), with p's distribution function F and
    v uniform. If every token follows p, all u are uniform on (0, 1) and independent; Pearson's statistic of their
    counts in cells is chi-square distributed. It is computed over all tokens, position by position, and over pairs of
    neighbours, once with tokens ordered by id and once by probability.
    """
    probs = torch.stack([conditionals(text) for text in texts])  # [B, N, V]
    tokens = torch.tensor(texts)[..., None]
    order = probs.argsort(dim=-1, descending=True, stable=True)
    by_rank = probs.gather(-1, order), (order == tokens).long().argmax(-1, keepdim=True)
    scores = []
    for seed, (ordered, index) in enumerate(((probs, tokens), by_rank)):
        v = torch.rand(index.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        u = (ordered.cumsum(-1).gather(-1, index) - v * ordered.gather(-1, index)).squeeze(-1)
        pairs = (u[:, :-1] * PAIRED).long() * PAIRED + (u[:, 1:] * PAIRED).long()
        cells = (u * CELLS).long().clamp(0, CELLS - 1)
        scores += [_score(cells.flatten(), CELLS), _score(pairs.flatten().clamp(0, PAIRED**2 - 1), PAIRED**2)]
        scores += [_score(column, CELLS) for column in cells.T]
    return max(scores)


def _score(cells: Tensor, count: int) -> float:
    """Pearson's statistic of equally likely cells, as a standard normal number (Wilson and Hilferty 1931)."""
    expected = len(cells) / count
    square = float((torch.bincount(cells, minlength=count) - expected).square().sum()) / expected
    spread = 2 / (9 * (count - 1))
    return float(((square / (count - 1)) ** (1 / 3) - 1 + spread) / spread**0.5)
