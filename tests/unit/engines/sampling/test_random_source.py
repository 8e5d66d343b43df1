"""Randomness is a function of its name with the distribution it claims; couplings have the cost the theory gives."""

import pytest
import torch
from scipy import stats

from draftscope.engines.sampling.random_source import MAX_SEED, DrawKey, SeededRandom, parse_seed
from draftscope.engines.settings import ConfigError

WHERE = torch.arange(200_000)


def test_a_number_depends_on_its_name_alone() -> None:
    rng, half = SeededRandom(7), torch.full((3,), 0.5, dtype=torch.float64)
    rng.accept(half[:1], DrawKey("verify", 0, torch.tensor([3])))  # others are made with it
    _, uniform = rng.accept(half, DrawKey("verify", 2, torch.tensor([5, 6, 7])))
    _, again = SeededRandom(7).accept(half[:2], DrawKey("verify", 2, torch.tensor([7, 5])))
    assert torch.equal(again, uniform[[2, 0]])


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
    accepted, uniform = SeededRandom(0).accept(
        torch.full(WHERE.shape, 0.3, dtype=torch.float64), DrawKey("verify", 0, WHERE)
    )
    assert torch.equal(accepted, uniform < 0.3)
    assert stats.binomtest(int(accepted.sum()), len(accepted), 0.3).pvalue > 1e-4


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
    rng = SeededRandom(3)
    probs = torch.rand(4, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    position = torch.tensor([10, 11, 12, 13])
    ids = rng.gumbel_argmax(probs, position)
    assert torch.equal(rng.gumbel_argmax(probs.flip(0), position.flip(0)), ids.flip(0))  # whatever the window slot
    top = probs.masked_fill(probs < probs.sort(dim=-1, descending=True).values[:, 9:10], 0.0)
    survived = top.gather(1, ids[:, None]).squeeze(1) > 0
    assert survived.any()
    assert torch.equal(rng.gumbel_argmax(top, position)[survived], ids[survived])  # whatever else was truncated


@pytest.mark.parametrize(
    ("value", "problem"),
    [(None, "is empty"), ("", "is empty"), (-1, "-1 is not allowed"), (2**63, "is not allowed"), (True, "True is not")],
)
def test_a_seed_out_of_range_is_named(value: object, problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"^seed: .*{problem}.*; use a whole number from 0 to {MAX_SEED}"):
        parse_seed(value)
