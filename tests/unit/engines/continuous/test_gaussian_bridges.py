"""Gaussians and their mixtures: densities, draws, paths in closed form, and maximal coupling of whole paths."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

from draftscope.engines.continuous import maximal_coupling as maximal
from draftscope.engines.continuous.denoising import ContinuousSampling, denoise, path_distributions, resume_denoising
from draftscope.engines.continuous.gaussian_bridges import Bridge, make_bridge
from draftscope.engines.continuous.gaussians import Gaussians, concat_rows, single_gaussian
from draftscope.engines.continuous.path_request import DenoiseResult, PathContinuation, Paths
from draftscope.engines.models.toys.toy_field import ideal
from draftscope.engines.sampling.random_source import DrawKey, SeededRandom

CHANCE = SeededRandom(5)
MANY, FEW = 20_000, 4_000
DDPM = ContinuousSampling(steps=6, last_timestep=150)
STD = 0.5


def head(x: Tensor, schedule: Any, i: int, mean: float = 0.0) -> tuple[Tensor, Tensor]:
    """The ideal head of N(mean, STD^2)."""
    return ideal(x, torch.tensor([[mean, STD]], dtype=torch.float64).expand(len(x), -1), schedule, i)


def mixture(weights: list[float], means: list[float], stds: list[float]) -> Gaussians:
    weight, mean, std = (torch.tensor([row], dtype=torch.float64) for row in (weights, means, stds))
    return Gaussians(weight.log(), mean[..., None], std[..., None])


PLAIN = mixture([1.0], [0.3], [STD])
MIXED = mixture([0.45, 0.35, 0.2], [-0.35, 0.25, 0.8], [0.4, 0.35, 0.5])
APART = mixture([0.8, 0.2], [-0.5, 0.7], [0.35, 0.4])


def drafts(sampling: ContinuousSampling, tokens: Gaussians, count: int) -> tuple[Bridge, Paths, Tensor]:
    """Whole paths x_T .. x_0 [count, S, 1] of a mixture."""
    position = torch.arange(count)
    rows = make_bridge(tokens[torch.zeros(count, dtype=torch.long)], sampling)
    noise = CHANCE.normal(DrawKey("path", 0, position), sampling.steps)[..., None]
    pick, again = (CHANCE.uniform(DrawKey(name, 0, position), 1)[:, 0] for name in ("path pick", "last pick"))
    drawn = rows.sample_path(noise, pick)
    x = drawn.last.draw(CHANCE.normal(DrawKey("last", 0, position), 1), again)
    return rows, drawn, torch.cat([drawn.states, x[:, None]], 1)


@pytest.mark.parametrize(
    "values",
    [{}, {"temperature": 0.8}, {"sampler": "ddim"}, {"sampler": "ddim", "eta": 0.4}, {"first_timestep": 999}],
    ids=str,
)
def test_one_gaussian_draws_and_weighs_what_its_head_does(values: dict[str, Any]) -> None:
    sampling = ContinuousSampling(**{"steps": 7, **values})
    noise = CHANCE.normal(DrawKey("same", 0, torch.arange(20)), 7)[..., None]
    drawn = make_bridge(PLAIN[torch.zeros(20, dtype=torch.long)], sampling).sample_path(noise, noise[:, 0, 0] * 0 + 0.5)
    walked = denoise(partial(head, mean=0.3), noise, sampling, None)
    torch.testing.assert_close(drawn.states, walked.states)
    for part in ("mean", "std"):
        torch.testing.assert_close(getattr(drawn.distributions, part), getattr(walked.distributions, part))


@pytest.mark.one_quick
@pytest.mark.parametrize("values", [{}, {"sampler": "ddim", "eta": 0.7, "temperature": 0.8}], ids=str)
def test_a_mixtures_density_is_that_of_what_it_draws(values: dict[str, Any]) -> None:
    """Step by step and at once; and a density over it has the mean 1 on its own draws."""
    sampling = ContinuousSampling(**{"steps": 6, "last_timestep": 150, **values})
    rows, drawn, states = drafts(sampling, MIXED, MANY)
    at_once = rows.log_density(states)
    step_by_step = drawn.distributions.log_density(states[:, 1:].transpose(0, 1)).sum(0)
    torch.testing.assert_close(at_once, step_by_step)
    torch.testing.assert_close(drawn.densities[3](states[:4]), at_once[:4])
    near = make_bridge(mixture([1.0], [0.05], [0.45]), sampling).log_density(states)
    even = make_bridge(mixture([1 / 3] * 3, [-0.35, 0.25, 0.8], [0.4, 0.35, 0.5]), sampling).log_density(states)
    for density, right in ((at_once, True), (even, False)):
        ratio = (near - density).exp()
        assert (abs(float(ratio.mean()) - 1) < 5 * float(ratio.std()) / MANY**0.5) is right


def test_tokens_of_a_mixture_follow_it() -> None:
    """Samples of an exact chain follow the distribution, starting from its noise, whatever the path picked."""
    sampling = ContinuousSampling(first_timestep=999)
    *_, states = drafts(sampling, MIXED, MANY // 2)
    x = states[:, -1]
    cdf = (MIXED.log_weight.exp() * torch.special.ndtr(MIXED.noise(x)[..., 0])).sum(-1)
    assert float(stats.kstest(cdf.numpy(), "uniform").statistic) < 1.95 / (MANY // 2) ** 0.5


def led(rows: Tensor, tokens: Gaussians, max_tries: int, density: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Sample paths for rejected drafts again, in one batch: token, tries and whether these ran out."""
    shape, waiting, redrawn = torch.Size((DDPM.steps + 1, 1)), {}, dict[int, PathContinuation]()
    for row in rows.tolist():
        search = maximal.sample_residual_path(
            0, density, shape, max_tries, CHANCE, DrawKey("anew", 0, torch.tensor([row]))
        )
        waiting[row] = (search, next(search))
    while waiting:
        x, left, noise = (torch.cat([getattr(a, part) for _, a in waiting.values()]) for part in ("x", "left", "noise"))
        states_left, states = resume_denoising(head, x, left, noise, DDPM)
        start, after = 0, {}
        for row, (search, proposal) in waiting.items():
            part_of_search = slice(start, start + len(proposal.x))
            start = part_of_search.stop
            try:
                after[row] = (
                    search,
                    search.send(DenoiseResult(states_left[:, part_of_search], states[part_of_search])),
                )
            except StopIteration as stop:
                redrawn[row] = stop.value
        waiting = after
    ends = [redrawn[row] for row in rows.tolist()]
    return tuple(torch.cat([getattr(end, part) for end in ends]) for part in ("token", "tries", "capped"))


def coupled(tokens: Gaussians, max_tries: int = 10_000, wrong: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Tokens of N(0, STD^2) by drafts of a mixture: token, kept, tries and capped."""
    _, drawn, states = drafts(DDPM, tokens, FEW)
    ratio = maximal.log_ratio(drawn, path_distributions(head, states, DDPM), states[:, -1])
    accepted, _ = CHANCE.accept(ratio.clamp(max=0).exp(), DrawKey("verify", 0, torch.arange(FEW)))
    rows = (~accepted).nonzero().flatten()
    density = (lambda y: torch.full((len(y),), -1e9)) if wrong else drawn.densities[0]
    token, tries, capped = led(rows, tokens, max_tries, density)
    return states[:, -1].index_copy(0, rows, token)[:, 0] / STD, accepted, tries, capped


@pytest.mark.slow
def test_tokens_of_paths_coupled_maximally_follow_the_target() -> None:
    token, accepted, tries, capped = coupled(APART)
    assert float(stats.kstest(token.numpy(), "norm").pvalue) > 1e-3
    assert abs(float(token.mean())) < 4 / FEW**0.5
    assert float(token.std()) == pytest.approx(1, abs=4 / (2 * FEW) ** 0.5)
    # Accepted is the share that both distributions of paths have in common, and a verified draft takes one proposal.
    noise, end = (
        CHANCE.normal(DrawKey(name, 0, torch.arange(MANY)), n) for name, n in (("own", DDPM.steps), ("end", 1))
    )
    target = denoise(head, noise[..., None], DDPM, None)
    paths = torch.cat([target.states, target.last.draw(end, end[:, 0])[:, None]], 1)
    log_p = path_distributions(head, paths, DDPM).log_density(paths[:, 1:].transpose(0, 1)).sum(0)
    shared = (make_bridge(APART, DDPM).log_density(paths) - log_p).exp().clamp(max=1)
    rate = float(accepted.double().mean())
    assert rate == pytest.approx(float(shared.mean()), abs=4 * (rate * (1 - rate) / FEW) ** 0.5)
    assert 0.4 < rate < 0.9
    assert float(tries.sum()) / FEW == pytest.approx(1, abs=0.15)
    assert not capped.any()


@pytest.mark.slow
def test_proposals_that_all_pass_are_caught() -> None:
    token, *_ = coupled(APART, wrong=True)
    assert float(stats.kstest(token.numpy(), "norm").pvalue) < 1e-4


@pytest.mark.parametrize("max_tries", [1, 6])
def test_the_search_ends_after_as_many_tries_as_are_allowed(max_tries: int) -> None:
    _, accepted, tries, capped = coupled(MIXED, max_tries)
    rejected = float((~accepted).double().mean())
    lost = (1 - rejected) ** max_tries
    assert float(capped.double().mean()) == pytest.approx(lost, abs=5 * math.sqrt(lost * (1 - lost) / len(tries)))
    assert float(tries.max()) == max_tries
    assert bool((tries[capped] == max_tries).all())


COUNT = 100_000
MIXTURE = mixture([0.2, 0.5, 0.3], [-1.0, 0.5, 2.0], [0.4, 0.7, 0.2])


def test_a_density_falls_off_the_mean_and_integrates_to_one() -> None:
    for distribution in (
        single_gaussian(torch.tensor([[0.3]], dtype=torch.float64), torch.tensor([[0.7]], dtype=torch.float64)),
        MIXTURE,
    ):
        grid = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
        density = distribution.log_density(grid[:, None]).exp()
        assert float(torch.trapezoid(density, grid)) == pytest.approx(1, abs=1e-6)
    one = single_gaussian(torch.zeros(1, 2, dtype=torch.float64), torch.tensor([[0.5, 2.0]], dtype=torch.float64))
    at_mean, off = one.log_density(torch.tensor([[0.0, 0.0], [0.5, 0.0]], dtype=torch.float64))
    assert at_mean - off == pytest.approx(0.5)
    assert float(at_mean) == pytest.approx(-math.log(2 * math.pi) - math.log(0.5 * 2))


def test_densities_far_out_neither_under_nor_overflow() -> None:
    narrow = single_gaussian(torch.zeros(1, 16, dtype=torch.float64), torch.full((1, 16), 0.006, dtype=torch.float64))
    assert torch.isfinite(narrow.log_density(torch.full((1, 16), 40.0, dtype=torch.float64))).all()


def test_draws_follow_their_density() -> None:
    rng, position = SeededRandom(0), torch.arange(COUNT)
    normal, pick = (
        draw(DrawKey(name, 0, position), 1) for draw, name in ((rng.normal, "normal"), (rng.uniform, "pick"))
    )
    x = MIXTURE.draw(normal, pick[:, 0])
    cdf = (MIXTURE.log_weight[0].exp() * torch.special.ndtr(MIXTURE.noise(x)[..., 0])).sum(-1)
    assert stats.kstest(cdf.numpy(), "uniform").pvalue > 1e-3


def test_normal_numbers_are_named_and_normal() -> None:
    rng, position = SeededRandom(3), torch.arange(COUNT)
    noise = rng.normal(DrawKey("path", 0, position), 3)
    assert stats.kstest(noise.flatten().numpy(), "norm").pvalue > 1e-3
    assert torch.corrcoef(noise.T).fill_diagonal_(0).abs().max() < 4 / COUNT**0.5
    assert torch.equal(rng.normal(DrawKey("path", 0, position[7:9]), 2), noise[7:9, :2])
    assert not torch.equal(rng.normal(DrawKey("last", 0, position[7:9]), 2), noise[7:9, :2])


def test_rows_can_be_taken_apart_and_put_together() -> None:
    both = concat_rows([MIXTURE, MIXTURE])
    x = torch.tensor([[0.1], [1.7]], dtype=torch.float64)
    torch.testing.assert_close(
        both.log_density(x), torch.cat([both[:1].log_density(x[:1]), MIXTURE.log_density(x[1:])])
    )
    torch.testing.assert_close(both[:, None].log_density(x[:, None].expand(-1, 3, -1))[:, 0], both.log_density(x))
