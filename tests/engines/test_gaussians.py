"""Densities have the right sign and size, draws have the distribution of their density."""

import math

import pytest
import torch
from scipy import stats

from engines.continuous.gaussians import Gaussians, plain, together
from engines.sampling.chance import Draw, SeededChance

COUNT = 100_000
MIXTURE = Gaussians(
    torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64).log(),
    torch.tensor([[[-1.0], [0.5], [2.0]]], dtype=torch.float64),
    torch.tensor([[[0.4], [0.7], [0.2]]], dtype=torch.float64),
)


def test_a_density_falls_off_the_mean_and_integrates_to_one() -> None:
    for distribution in (
        plain(torch.tensor([[0.3]], dtype=torch.float64), torch.tensor([[0.7]], dtype=torch.float64)),
        MIXTURE,
    ):
        grid = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
        density = distribution.log_density(grid[:, None]).exp()
        assert float(torch.trapezoid(density, grid)) == pytest.approx(1, abs=1e-6)
    one = plain(torch.zeros(1, 2, dtype=torch.float64), torch.tensor([[0.5, 2.0]], dtype=torch.float64))
    at_mean, off = one.log_density(torch.tensor([[0.0, 0.0], [0.5, 0.0]], dtype=torch.float64))
    assert at_mean - off == pytest.approx(0.5)
    assert float(at_mean) == pytest.approx(-math.log(2 * math.pi) - math.log(0.5 * 2))


def test_densities_far_out_neither_under_nor_overflow() -> None:
    narrow = plain(torch.zeros(1, 16, dtype=torch.float64), torch.full((1, 16), 0.006, dtype=torch.float64))
    assert torch.isfinite(narrow.log_density(torch.full((1, 16), 40.0, dtype=torch.float64))).all()


def test_draws_follow_their_density() -> None:
    chance, position = SeededChance(0), torch.arange(COUNT)
    normal, pick = (
        draw(Draw(name, 0, position), 1) for draw, name in ((chance.normal, "normal"), (chance.uniform, "pick"))
    )
    x = MIXTURE.draw(normal, pick[:, 0])
    cdf = (MIXTURE.log_weight[0].exp() * torch.special.ndtr(MIXTURE.noise(x)[..., 0])).sum(-1)
    assert stats.kstest(cdf.numpy(), "uniform").pvalue > 1e-3


def test_normal_numbers_are_named_and_normal() -> None:
    chance, position = SeededChance(3), torch.arange(COUNT)
    noise = chance.normal(Draw("path", 0, position), 3)
    assert stats.kstest(noise.flatten().numpy(), "norm").pvalue > 1e-3
    assert torch.corrcoef(noise.T).fill_diagonal_(0).abs().max() < 4 / COUNT**0.5
    assert torch.equal(chance.normal(Draw("path", 0, position[7:9]), 2), noise[7:9, :2])
    assert not torch.equal(chance.normal(Draw("last", 0, position[7:9]), 2), noise[7:9, :2])


def test_rows_can_be_taken_apart_and_put_together() -> None:
    both = together([MIXTURE, MIXTURE])
    x = torch.tensor([[0.1], [1.7]], dtype=torch.float64)
    torch.testing.assert_close(
        both.log_density(x), torch.cat([both[:1].log_density(x[:1]), MIXTURE.log_density(x[1:])])
    )
    torch.testing.assert_close(both[:, None].log_density(x[:, None].expand(-1, 3, -1))[:, 0], both.log_density(x))
