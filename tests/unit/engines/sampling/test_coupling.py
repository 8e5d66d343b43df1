"""Couplings: marginals, cost, and the residual that is left."""

import pytest
import torch
from scipy import stats
from torch import Tensor

from draftscope.engines.sampling.coupling import (
    collision_gumbel,
    collision_independent,
    gumbel_repeat_prob,
    residual,
    total_variation,
    verify_drafts,
)
from draftscope.engines.sampling.random_source import DrawKey, SeededRandom

DRAWS = 100_000


def all_probs(seed: int, vocabulary: int = 6, rows: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    probs = torch.rand(rows, vocabulary, generator=generator, dtype=torch.float64) ** 3
    return probs / probs.sum(-1, keepdim=True)


@pytest.mark.one_quick
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("coupling", ["maximal", "gumbel"])
def test_marginals_and_cost(coupling: str, seed: int) -> None:
    q, p = all_probs(2 * seed).expand(DRAWS, -1), all_probs(2 * seed + 1).expand(DRAWS, -1)
    position, rng = torch.arange(DRAWS), SeededRandom(seed)
    if coupling == "maximal":
        x = rng.categorical(q, DrawKey("draft", 0, position))
        verdict = verify_drafts(x, q, p, rng, DrawKey("verify", 1, position))
        y = torch.where(verdict.accepted, x, rng.categorical(residual(q, p), DrawKey("residual", 1, position)))
        cost = 1 - total_variation(q[:1], p[:1])
    else:
        x, y = rng.gumbel_argmax(q, position), rng.gumbel_argmax(p, position)
        cost, rng.same_noise = collision_gumbel(q[:1], p[:1]), True
        verdict = verify_drafts(x, q, p, rng, DrawKey("verify", 1, position))
        assert torch.equal(verdict.accepted, x == y) and verdict.uniform is None
        assert stats.ttest_1samp(verdict.accept_prob, float(cost)).pvalue > 1e-4
    for draw, probs in ((x, q[0]), (y, p[0])):
        assert stats.chisquare(torch.bincount(draw, minlength=6), DRAWS * probs).pvalue > 1e-4
    assert stats.binomtest(int((x == y).sum()), DRAWS, float(cost)).pvalue > 1e-4


def test_gumbel_cost_against_its_definition_and_bounds() -> None:
    q, p = all_probs(0, 5, 20_000), all_probs(1, 5, 20_000)
    ratio = torch.maximum(p[:, None] / p[:, :, None], q[:, None] / q[:, :, None])  # [.., i, j]
    cost = collision_gumbel(q, p)
    torch.testing.assert_close(cost, (1 / ratio.sum(-1)).sum(-1), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(collision_gumbel(q.float(), p.float()), cost.float(), rtol=1e-5, atol=1e-6)
    tv = total_variation(q, p)
    assert (cost <= 1 - tv + 1e-12).all()
    assert (cost >= (1 - tv) / (1 + tv) - 1e-12).all()
    assert (collision_independent(q, p) <= cost + 1e-12).all()
    rows = [q[:, x] * gumbel_repeat_prob(torch.full((len(q),), x), q, p) for x in range(q.shape[1])]
    torch.testing.assert_close(sum(rows), cost)


def test_gumbel_cost_where_the_bound_is_tight_and_supports_differ() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0, 0.0]], dtype=torch.float64)
    q = torch.tensor([[0.5, 0.0, 0.5, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(collision_gumbel(q, p), torch.tensor([1 / 3], dtype=torch.float64))
    torch.testing.assert_close(collision_gumbel(p, p), torch.ones(1, dtype=torch.float64))


def test_equal_distributions_always_agree_and_leave_a_residual_to_draw_from() -> None:
    p = all_probs(3).expand(1000, -1)
    x = SeededRandom(0).categorical(p, DrawKey("draft", 0, torch.arange(1000)))
    assert verify_drafts(x, p, p, SeededRandom(0), DrawKey("verify", 1, torch.arange(1000))).accepted.all()
    left = residual(p, p)
    torch.testing.assert_close(left / left.sum(-1, keepdim=True), p)
