"""Verification by the last step: its effect on a token's distribution, on known heads: exact, or biased as claimed.

Rows are samples: 100,000 positions at once, each with its own noise, uniform draws and proposals.
"""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

from draftscope.engines.continuous import block_verification
from draftscope.engines.continuous.denoising import (
    ContinuousSampling,
    ContinuousTask,
    Noise,
    denoise,
    path_distributions,
    position_noise,
    resume_denoising,
)
from draftscope.engines.continuous.drafting import Block
from draftscope.engines.continuous.gaussians import Gaussians
from draftscope.engines.continuous.path_request import Paths
from draftscope.engines.continuous.rejection import DensityRatio, Ratio, accept, couple_steps, draw_replacements
from draftscope.engines.models.toys.toy_field import ideal
from draftscope.engines.sampling.random_source import DrawKey, SeededRandom
from draftscope.traces.schema import Canvas

COUNT = 60_000
POSITION = torch.arange(COUNT)
FEWER = POSITION[: COUNT // 4]
"""For races, which take many proposals."""
TASK = ContinuousTask(Canvas(kind="image", shape=(1, 1)), 0, torch.device("cpu"))
CHANCE = SeededRandom(11)


@dataclass(frozen=True)
class HeadOf:
    """An ideal head for N(mean, std^2), whose learnt variances may be off by a factor."""

    mean: float
    std: float = 0.5
    factor: float = 1.0

    def __call__(self, x: Tensor, schedule: Any, i: int) -> tuple[Tensor, Tensor]:
        condition = torch.tensor([[self.mean, self.std]], dtype=torch.float64).expand(len(x), -1)
        eps, v = ideal(x, condition, schedule, i)
        width = torch.tensor(schedule.beta(i) / schedule.posterior(i)).log()
        return eps, v + 4 * torch.tensor(self.factor).log() / width


@dataclass(frozen=True)
class Outcome:
    token: Tensor
    accepted: Tensor
    tries: Tensor
    capped: Tensor
    log_ratio: Tensor
    ratio: DensityRatio


TARGET = HeadOf(0.0)


def verify(ratio: DensityRatio, x: Tensor, max_tries: int = 10_000) -> Outcome:
    log_ratio = ratio.log_of_drafts(x)
    accepted = accept(log_ratio, CHANCE, DrawKey("verify", 0, POSITION)).accepted
    new = draw_replacements(ratio, ~accepted, max_tries, CHANCE, DrawKey("residual", 0, POSITION))
    token = torch.where(accepted[:, None], x, new.token)
    return Outcome(token[:, 0], accepted, new.tries, new.capped, log_ratio, ratio)


def speculate(
    draft: HeadOf,
    sampling: ContinuousSampling,
    variant: Ratio = "exact",
    *,
    align: bool = True,
    tied: int = 0,
    max_tries: int = 10_000,
) -> Outcome:
    noise = position_noise(POSITION, TASK, sampling.steps, CHANCE)
    drawn = denoise(draft, noise.path, sampling, None)
    x = noise.draw(drawn.last)
    noise_of_target = noise if align else position_noise(POSITION, TASK, sampling.steps, CHANCE, " of the target")
    block = Block(
        torch.zeros(0, 1, dtype=torch.float64), COUNT, POSITION, noise, torch.ones(COUNT, dtype=torch.float64), 0
    )
    paths = denoise(TARGET, noise_of_target.path, sampling, couple_steps(block, drawn, tied, max_tries, CHANCE))
    return verify(DensityRatio(variant, paths.last, drawn.last, drawn.log_std - paths.log_std), x, max_tries)


def speculate_whole(draft: HeadOf, sampling: ContinuousSampling) -> Outcome:
    """Speculate by whole paths."""
    noise = position_noise(FEWER, TASK, sampling.steps, CHANCE)
    drawn = denoise(draft, noise.path, sampling, None)
    x = noise.draw(drawn.last)
    states = torch.cat([drawn.states, x[:, None]], 1)
    p, q = path_distributions(TARGET, states, sampling), drawn.distributions
    log_w = block_verification.log_weights(p, q, states)
    accepted, _ = CHANCE.accept(log_w[-1].clamp(max=0).exp(), DrawKey("verify", 0, FEWER))
    rows = (~accepted).nonzero().flatten()
    raced = block_verification.find_exit_step(
        p[:, rows], q[:, rows], log_w[:-1, rows], 10_000, CHANCE, DrawKey("leave", 0, rows)
    )
    fresh = CHANCE.normal(DrawKey("led", 0, rows), sampling.steps + 1)[..., None]
    _, led = resume_denoising(TARGET, raced.state, sampling.steps - 1 - raced.step, fresh, sampling)
    token = x.index_copy(0, rows, led[:, -1])
    ratio = DensityRatio("exact", p[-1], q[-1], torch.zeros(len(x)))
    return Outcome(token[:, 0], accepted, raced.tries, raced.capped, log_w[-1], ratio)


def off(token: Tensor) -> float:
    """p-value of the target's distribution N(0, 0.5^2)."""
    return float(stats.kstest(token.numpy() / TARGET.std, "norm").pvalue)


DDPM = ContinuousSampling(steps=6, last_timestep=150)
DDIM = ContinuousSampling(steps=6, last_timestep=150, sampler="ddim")
WIDE, NARROW, SHIFTED = HeadOf(0.0, factor=1.05), HeadOf(0.0, factor=0.95), HeadOf(0.08)


@pytest.mark.one_quick
@pytest.mark.parametrize("tied", [0, 3])
@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("draft", [WIDE, NARROW, SHIFTED, HeadOf(0.05, factor=1.05)], ids=str)
def test_exact_tokens_follow_the_target(draft: HeadOf, align: bool, tied: int) -> None:
    out = speculate(draft, DDPM, align=align, tied=tied)
    assert off(out.token) > 1e-3
    assert abs(float(out.token.mean())) < 4 * TARGET.std / COUNT**0.5
    assert float(out.token.std()) / TARGET.std == pytest.approx(1, abs=4 / (2 * COUNT) ** 0.5)
    ratio = out.log_ratio.exp()
    if align:
        # Whatever the two paths, the ratio's mean under the draft's last distribution is 1.
        assert abs(float(ratio.mean()) - 1) < 5 * float(ratio.std()) / COUNT**0.5
    assert not out.capped.any()


@pytest.mark.slow
@pytest.mark.parametrize(
    "draft",
    [WIDE, NARROW, *(pytest.param(one, marks=pytest.mark.nightly) for one in (SHIFTED, HeadOf(0.05, factor=1.05)))],
    ids=str,
)
def test_tokens_judged_by_whole_paths_follow_the_target(draft: HeadOf) -> None:
    out = speculate_whole(draft, DDPM)
    assert off(out.token) > 1e-3
    assert abs(float(out.token.mean())) < 4 * TARGET.std / len(FEWER) ** 0.5
    assert float(out.token.std()) / TARGET.std == pytest.approx(1, abs=4 / (2 * len(FEWER)) ** 0.5)
    assert 0.5 < float(out.accepted.double().mean()) < 0.99
    assert not out.capped.any()


@pytest.mark.one_quick
@pytest.mark.parametrize("tries", [1, 5, 31, 32, 40, 100])
def test_a_race_ends_after_as_many_tries_as_are_allowed(tries: int) -> None:
    """For a path of one step every second try is a proposal, each of which succeeds with the total variation."""
    p, q = (
        Gaussians(torch.zeros(1, COUNT, 1), torch.full((1, COUNT, 1, 1), mean, dtype=torch.float64), std)
        for mean, std in ((0.0, torch.full((1, COUNT, 1, 1), 0.5)), (0.1, torch.full((1, COUNT, 1, 1), 0.5)))
    )
    log_w = torch.zeros(1, COUNT, dtype=torch.float64)
    raced = block_verification.find_exit_step(p, q, log_w, tries, CHANCE, DrawKey("leave", 0, POSITION))
    assert float(raced.tries.max()) == tries  # 60,000 races, of which some are long
    apart = 2 * float(torch.special.ndtr(torch.tensor(0.1 / 0.5 / 2, dtype=torch.float64))) - 1
    lost = (1 - apart / 2) ** tries
    assert float(raced.capped.double().mean()) == pytest.approx(lost, abs=4 * (lost * (1 - lost) / COUNT) ** 0.5)
    assert bool((raced.tries[raced.capped] == tries).all())
    # What won follows (p - q)+, all of it below the middle of the two means, and a plain draw of the target follows p.
    middle = 0.05
    assert bool((raced.state[~raced.capped] < middle).all())
    assert off(raced.state[raced.capped][:, 0]) > 1e-3


@pytest.mark.slow
def test_whole_paths_are_left_by_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    right = block_verification.log_weights

    def summed(p: Gaussians, q: Gaussians, states: Tensor) -> Tensor:
        """Without the bound."""
        after = states[:, 1:].transpose(0, 1)
        ratio = (p.log_density(after) - q.log_density(after)).cumsum(0)
        return torch.cat([torch.zeros_like(ratio[:1]), ratio[:-1].clamp(max=0), ratio[-1:]])

    def forgotten(p: Gaussians, q: Gaussians, states: Tensor) -> Tensor:
        """A wrong ratio, as if all steps before the last one were always accepted."""
        weights = right(p, q, states)
        return torch.cat([torch.zeros_like(weights[:-1]), weights[-1:]])

    for defect in (summed, forgotten):
        monkeypatch.setattr(block_verification, "log_weights", defect)
        token = speculate_whole(SHIFTED, DDPM).token.numpy()
        assert float(stats.kstest(token / TARGET.std, "norm").statistic) > 0.015


def test_the_sampler_with_fixed_variances_is_exact_too() -> None:
    target = speculate(TARGET, DDIM).token  # DDIM's own distribution is not the ideal one: compare with itself
    out = speculate(SHIFTED, DDIM)
    assert float(stats.ks_2samp(out.token.numpy(), target.numpy()).pvalue) > 1e-3
    assert 0.05 < float(out.accepted.double().mean()) < 0.999


def test_sigma_says_which_is_wider_and_vanishes_for_equal_variances() -> None:
    assert bool((speculate(WIDE, DDPM).ratio.log_sigma > 0).all())
    assert bool((speculate(NARROW, DDPM).ratio.log_sigma < 0).all())
    assert torch.equal(speculate(SHIFTED, DDIM).ratio.log_sigma, torch.zeros(COUNT, dtype=torch.float64))
    exact, paper = speculate(SHIFTED, DDIM), speculate(SHIFTED, DDIM, "paper")
    assert torch.equal(exact.token, paper.token)
    assert torch.equal(exact.accepted, paper.accepted)


def test_the_release_turns_sigma_upside_down_and_softens() -> None:
    out = speculate(HeadOf(0.05, factor=1.05), DDPM)
    x = out.token[:, None]
    ratios = {
        variant: DensityRatio(variant, out.ratio.p, out.ratio.q, out.ratio.log_sigma)
        for variant in ("exact", "paper", "release")
    }
    of = {variant: ratio.log_of_proposals(x[:, None])[:, 0] for variant, ratio in ratios.items()}
    torch.testing.assert_close(of["paper"] - of["exact"], out.ratio.log_sigma)
    torch.testing.assert_close(of["release"] - of["exact"], -out.ratio.log_sigma)
    widths = (out.ratio.q.std.log() - out.ratio.p.std.log())[:, 0, 0] - out.ratio.log_sigma
    hard = out.ratio.p.noise(x).square().flatten() - out.ratio.q.noise(x).square().flatten()
    torch.testing.assert_close(ratios["release"].log_of_drafts(x), widths - 0.5 * hard / 42**2)


def test_acceptance_is_what_two_gaussians_share() -> None:
    out = speculate(SHIFTED, ContinuousSampling(steps=2, last_timestep=150, sampler="ddim"))
    apart = (out.ratio.p.mean - out.ratio.q.mean).abs() / out.ratio.p.std
    shared = (2 * torch.special.ndtr(-apart / 2)).flatten()
    accepted = out.accepted.double()
    assert abs(float((accepted - shared).mean())) < 4 * float((accepted - shared).std()) / COUNT**0.5
    # One try per verified token on average, since a rejection takes 1 / P(rejection) of them.
    rejected = ~out.accepted
    assert float(out.tries[rejected].sum()) / COUNT == pytest.approx(1, abs=0.05)


@pytest.mark.slow
def test_alignment_and_tied_steps_raise_acceptance_alone() -> None:
    rates = {
        name: float(speculate(SHIFTED, DDPM, align=align, tied=tied).accepted.double().mean())
        for name, align, tied in (("apart", False, 0), ("aligned", True, 0), ("tied", True, 4))
    }
    assert rates["apart"] + 0.05 < rates["aligned"] < rates["tied"]


def test_running_out_of_tries_is_flagged_and_never_a_zero() -> None:
    """With p = q and Sigma below 1 there is nothing to resample from; the paper's loop would not end."""
    out = speculate(TARGET, DDPM)
    ratio = DensityRatio("paper", out.ratio.p, out.ratio.p, torch.full((COUNT,), -0.1, dtype=torch.float64))
    ended = verify(ratio, out.token[:, None], max_tries=100)
    rejected = ~ended.accepted
    assert 0.05 < float(rejected.double().mean()) < 0.15
    assert torch.equal(ended.capped, rejected)
    assert bool((ended.token != 0).all())
    assert bool((ended.tries[rejected] == 100).all())


def mixture(weights: list[float], means: list[float], stds: list[float]) -> Gaussians:
    parts = (torch.tensor([row], dtype=torch.float64) for row in (weights, means, stds))
    weight, mean, std = (part.expand(COUNT, -1) for part in parts)
    return Gaussians(weight.log(), mean[..., None], std[..., None])


def test_mixtures_need_no_path_and_are_exact() -> None:
    p = mixture([0.3, 0.4, 0.3], [-1.0, 0.2, 1.4], [0.3, 0.5, 0.4])
    q = mixture([0.5, 0.5], [-0.7, 0.9], [0.6, 0.6])
    last, pick = CHANCE.normal(DrawKey("last", 0, POSITION), 1), CHANCE.uniform(DrawKey("pick", 0, POSITION), 1)[:, 0]
    noise = Noise(torch.zeros(COUNT, 0, 1), last, pick)
    drawn, paths = (Paths(distribution[None], torch.zeros(COUNT, 0, 1, dtype=torch.float64)) for distribution in (q, p))
    ratio = DensityRatio("exact", p, q, drawn.log_std - paths.log_std)
    out = verify(ratio, noise.draw(q))
    grid = torch.linspace(-6, 6, 60_001, dtype=torch.float64)
    densities = [distribution[:1].log_density(grid[:, None]).exp() for distribution in (p, q)]
    apart = 0.5 * float(torch.trapezoid((densities[0] - densities[1]).abs(), grid))
    accepted = out.accepted.double()
    assert float(accepted.mean()) == pytest.approx(1 - apart, abs=4 * float(accepted.std()) / COUNT**0.5)
    cdf = (p.log_weight[0].exp() * torch.special.ndtr(p[:1].noise(out.token[:, None])[..., 0])).sum(-1)
    assert float(stats.kstest(cdf.numpy(), "uniform").statistic) * COUNT**0.5 < 1.95
    assert float(out.tries[~out.accepted].mean()) == pytest.approx(1 / apart, rel=0.05)
