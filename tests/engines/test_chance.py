"""Randomness is a function of its name with the distribution it claims; couplings have the cost the theory gives."""

import pytest
import torch
from scipy import stats
from torch import Tensor

from engines.sampling.coupling import (
    collision_gumbel,
    collision_independent,
    gumbel_repeat_prob,
    residual,
    total_variation,
    verify_drafts,
)
from engines.sampling.random_source import DrawKey, SeededRandom

WHERE = torch.arange(200_000)


def test_a_number_depends_on_its_name_alone() -> None:
    chance, half = SeededRandom(7), torch.full((3,), 0.5, dtype=torch.float64)
    chance.accept(half[:1], DrawKey("verify", 0, torch.tensor([3])))  # others are made with it
    _, coin = chance.accept(half, DrawKey("verify", 2, torch.tensor([5, 6, 7])))
    _, again = SeededRandom(7).accept(half[:2], DrawKey("verify", 2, torch.tensor([7, 5])))
    assert torch.equal(again, coin[[2, 0]])


@pytest.mark.parametrize(
    ("other", "draw"),
    [
        (SeededRandom(8), DrawKey("verify", 2, WHERE)),
        (SeededRandom(7, sample=1), DrawKey("verify", 2, WHERE)),
        (SeededRandom(7), DrawKey("redraft", 2, WHERE)),
        (SeededRandom(7), DrawKey("verify", 3, WHERE)),
        (SeededRandom(7), DrawKey("verify", 2, WHERE + 1)),
    ],
)
def test_names_that_differ_give_unrelated_numbers(other: SeededRandom, draw: DrawKey) -> None:
    half = torch.full(WHERE.shape, 0.5, dtype=torch.float64)
    _, mine = SeededRandom(7).accept(half, DrawKey("verify", 2, WHERE))
    _, theirs = other.accept(half, draw)
    assert not torch.equal(mine, theirs)
    assert abs(float(torch.corrcoef(torch.stack([mine, theirs]))[0, 1])) < 4 / len(WHERE) ** 0.5
    assert stats.kstest(theirs.numpy(), "uniform").pvalue > 1e-4


def test_coins_fall_below_the_bar_as_often_as_it_says() -> None:
    kept, coin = SeededRandom(0).accept(torch.full(WHERE.shape, 0.3, dtype=torch.float64), DrawKey("verify", 0, WHERE))
    assert torch.equal(kept, coin < 0.3)
    assert stats.binomtest(int(kept.sum()), len(kept), 0.3).pvalue > 1e-4


def test_categorical_and_gumbel_draws_have_the_distribution_of_their_weights() -> None:
    weights = torch.tensor([0.0, 3.0, 1.0, 0.0, 6.0, 0.0], dtype=torch.float64)
    rows = weights.expand(50_000, -1)
    position = WHERE[:50_000]
    for ids in (
        SeededRandom(1).categorical(rows, DrawKey("sample", 0, position)),
        SeededRandom(1).gumbel_argmax(rows / rows.sum(-1, keepdim=True), position),
    ):
        counts = torch.bincount(ids, minlength=6)
        assert counts[weights == 0].sum() == 0
        assert stats.chisquare(counts[weights > 0], 50_000 * weights[weights > 0] / 10).pvalue > 1e-4


def test_gumbel_noise_belongs_to_position_and_id() -> None:
    chance = SeededRandom(3)
    probs = torch.rand(4, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    position = torch.tensor([10, 11, 12, 13])
    ids = chance.gumbel_argmax(probs, position)
    assert torch.equal(chance.gumbel_argmax(probs.flip(0), position.flip(0)), ids.flip(0))  # whatever the window slot
    top = probs.masked_fill(probs < probs.sort(dim=-1, descending=True).values[:, 9:10], 0.0)
    survived = top.gather(1, ids[:, None]).squeeze(1) > 0
    assert survived.any()
    assert torch.equal(chance.gumbel_argmax(top, position)[survived], ids[survived])  # whatever else was truncated


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
    position, chance = torch.arange(DRAWS), SeededRandom(seed)
    if coupling == "maximal":
        x = chance.categorical(q, DrawKey("draft", 0, position))
        verdict = verify_drafts(x, q, p, chance, DrawKey("verify", 1, position))
        y = torch.where(verdict.accepted, x, chance.categorical(residual(q, p), DrawKey("residual", 1, position)))
        cost = 1 - total_variation(q[:1], p[:1])
    else:
        x, y = chance.gumbel_argmax(q, position), chance.gumbel_argmax(p, position)
        cost, chance.same_noise = collision_gumbel(q[:1], p[:1]), True
        verdict = verify_drafts(x, q, p, chance, DrawKey("verify", 1, position))
        assert torch.equal(verdict.accepted, x == y) and verdict.coin is None
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
    every = [q[:, x] * gumbel_repeat_prob(torch.full((len(q),), x), q, p) for x in range(q.shape[1])]
    torch.testing.assert_close(sum(every), cost)


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
