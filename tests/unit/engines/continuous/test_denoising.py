"""Denoising steps against closed forms, and verification rules on a known distribution."""

import math
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from draftscope.engines.continuous.denoising import (
    ContinuousSampling,
    ContinuousTask,
    Schedule,
    denoise,
    respaced_cosine_schedule,
    step_distribution,
)
from draftscope.engines.continuous.flow import Flow, as_flow_sampling, flow_schedule
from draftscope.engines.continuous.toy_mixture_2d import (
    GRID_SIZE,
    MODES,
    Mode,
    ToyMixtureConfig,
    count_cells,
    distribution,
    edges,
    sample,
    total_variation,
)
from draftscope.engines.models.heads import ResidualHead
from draftscope.engines.models.toys.toy_field import ideal
from draftscope.engines.sampling.random_source import SeededRandom
from draftscope.traces.schema import Canvas

MEAN, STD = 0.4, 0.25
CONDITION = torch.tensor([[MEAN, STD]], dtype=torch.float64)


def ideal_denoise(x, schedule, i):
    return ideal(x, CONDITION.expand(len(x), -1), schedule, i)


def test_mar_visits_every_tenth_step_down_to_the_first() -> None:
    schedule = respaced_cosine_schedule(100)
    assert (schedule.timestep[0], schedule.timestep[1], schedule.timestep[-1]) == (0, 10, 999)
    low, high = math.sqrt(schedule.posterior(0)), math.sqrt(schedule.beta(0))
    assert 0.0062 < low < high < 0.0065
    widths = [0.5 * math.log(schedule.beta(i) / schedule.posterior(i)) for i in range(1, 100)]
    assert sum(widths) == pytest.approx(5.05, abs=0.01)


@pytest.mark.parametrize("last", [0, 100])
@pytest.mark.parametrize("steps", [2, 3, 25])
def test_an_ideal_head_draws_its_distribution_exactly(steps: int, last: int) -> None:
    """x_0 is linear in the noise: its mean and variance are read off without a single random number."""
    sampling = ContinuousSampling(steps=steps, last_timestep=last, first_timestep=999)
    noise = torch.cat([torch.zeros(1, steps, dtype=torch.float64), torch.eye(steps, dtype=torch.float64)])[..., None]
    distribution = denoise(ideal_denoise, noise, sampling, None).last
    base, weight = distribution.mean[0].item(), distribution.mean[1:, 0, 0] - distribution.mean[0].item()
    # What is left of the tokens in the noisiest state starts the walk a little off.
    assert base == pytest.approx(MEAN, abs=1e-3)
    assert float(weight.square().sum() + distribution.std[0].square().item()) == pytest.approx(STD**2, rel=1e-3)


@pytest.mark.parametrize("steps", [2, 7, 40])
def test_errors_to_expect_make_the_variances_of_any_number_of_steps(steps: int) -> None:
    """For a Gaussian, the squared error of the best noise estimate is STD^2 / noisy, and all else follows from it."""

    head, sampling = ResidualHead(1, 1, 8, 1), ContinuousSampling(steps=steps, last_timestep=50)
    x = torch.randn(5, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    schedule = respaced_cosine_schedule(steps, 50, 960)
    for i in range(steps):
        coefficient = schedule.coefficients[i]
        error = torch.tensor([[coefficient * STD**2 / (coefficient * STD**2 + 1 - coefficient)]], dtype=torch.float64)
        eps, v = ideal_denoise(x, schedule, i)
        distribution = step_distribution(
            schedule, i, x, head.read(eps, error.logit().expand_as(x), schedule, i), sampling
        )
        best = step_distribution(schedule, i, x, (eps, v), sampling)
        torch.testing.assert_close(distribution.std, best.std, rtol=1e-6, atol=0)
        torch.testing.assert_close(distribution.mean, best.mean, rtol=1e-4, atol=1e-5)


def test_temperature_scales_every_step() -> None:
    x = torch.tensor([[0.3]], dtype=torch.float64)
    schedule = respaced_cosine_schedule(10)
    distributions = [
        step_distribution(schedule, 4, x, ideal_denoise(x, schedule, 4), ContinuousSampling(temperature=t))
        for t in (1.0, 0.5)
    ]
    assert torch.equal(distributions[0].mean, distributions[1].mean)
    torch.testing.assert_close(distributions[1].std, distributions[0].std / 2)


def test_ddim_steps_have_one_variance_whatever_the_head_says() -> None:
    schedule, x = respaced_cosine_schedule(10), torch.tensor([[0.3], [0.9]], dtype=torch.float64)
    for i in range(10):
        eps, v = ideal_denoise(x, schedule, i)
        sampling = ContinuousSampling(sampler="ddim", eta=0.7)
        one, other = (step_distribution(schedule, i, x, (eps, variance), sampling) for variance in (v, v + 1))
        assert torch.equal(one.std, other.std)
        assert bool((one.std > 0).all())
    # With eta = 1 the mean and the variance are those of the smaller extreme of DDPM.
    sampling = ContinuousSampling(sampler="ddim", eta=1.0)
    for i in range(1, 10):
        ddim = step_distribution(schedule, i, x, ideal_denoise(x, schedule, i), sampling)
        ddpm = step_distribution(
            schedule, i, x, (ideal_denoise(x, schedule, i)[0], torch.full_like(x, -1.0)), ContinuousSampling()
        )
        torch.testing.assert_close(ddim.mean, ddpm.mean)
        torch.testing.assert_close(ddim.std, ddpm.std)


def test_guidance_ramps_up_over_the_picture() -> None:
    position = torch.tensor([0, 71, 143])
    task = ContinuousTask(Canvas(kind="image", shape=(12, 12)), 0, position.device)
    torch.testing.assert_close(
        ContinuousSampling(guidance=3.0, linear_guidance=True).guidance_at(position, task),
        torch.tensor([1 + 2 / 144, 2.0, 3.0], dtype=torch.float64),
    )
    assert ContinuousSampling(guidance=3.0).guidance_at(position, task).tolist() == [3.0] * 3
    torch.testing.assert_close(
        ContinuousSampling(guidance=3.0, linear_guidance=True).guidance_at(
            position, replace(task, begins_unguided=True)
        ),
        torch.tensor([1.0, 1 + 142 / 143, 3.0], dtype=torch.float64),
    )


@pytest.mark.slow
def test_a_flow_draws_what_its_velocity_stands_for() -> None:
    """The velocity of a normal distribution in closed form, and the moments of what is drawn by it."""

    def velocity(x: torch.Tensor, schedule: Schedule, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        assert isinstance(schedule, Flow)
        t = schedule.time[i]
        spread = (1 - t) ** 2 * STD**2 + t**2
        clean = MEAN + (1 - t) * STD**2 / spread * (x - (1 - t) * MEAN)
        return (x - clean) / t, x

    sampling = as_flow_sampling(ContinuousSampling(steps=250, last_timestep=4))
    noise = torch.randn(20_000, 250, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    last = denoise(velocity, noise, sampling, None).last
    token = last.draw(torch.randn(20_000, 1, generator=torch.Generator().manual_seed(1)).double(), noise[:, 0, 0])
    assert token.mean().item() == pytest.approx(MEAN, abs=0.01)
    assert token.std().item() == pytest.approx(STD, abs=0.01)


def test_a_flow_goes_through_the_times_of_the_release() -> None:
    flow = flow_schedule(50)
    assert (flow.timestep[0], flow.timestep[1], flow.timestep[-1]) == (40, 59, 1000)
    assert flow.time[0] == pytest.approx(0.04)
    of_state, of_velocity, std = flow.custom_step(0)
    assert (of_state, of_velocity, std) == pytest.approx((0.96, -0.04 * 1.96, 2**0.5 * 0.04))
    assert flow_schedule(50, 100).timestep[0] == 100


CHANCE = SeededRandom(5)
COUNT = 40_000
PLAIN = ToyMixtureConfig()


@cache
def drawn_by_target(plane: ToyMixtureConfig) -> Tensor:
    return distribution(plane.target, plane.sampling)


def off(mode: Mode, plane: ToyMixtureConfig) -> float:
    """z-score of the chi-square of cells against what the target draws; the cells left out are one more."""
    expected = COUNT * drawn_by_target(plane)
    counts = count_cells(sample(mode, plane, torch.arange(COUNT), CHANCE).token)
    large = expected >= 5
    cells = [torch.cat([each[large], (COUNT - each[large].sum())[None]]) for each in (counts, expected)]
    chi = float(((cells[0] - cells[1]).square() / cells[1]).sum())
    free = int(large.sum())
    return (chi - free) / (2 * free) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "plane", [PLAIN, ToyMixtureConfig(variance=1.2, shift=0.4, steps=4, same_noise_paths=False)], ids=str
)
def test_exact_tokens_follow_the_target_as_its_own_do(plane: ToyMixtureConfig) -> None:
    assert abs(off("vanilla", plane)) < 4
    assert abs(off("exact", plane)) < 4


@pytest.mark.one_quick
@pytest.mark.parametrize(
    ("mode", "variance", "min_distance"),
    [("paper", 1.2, 30), ("paper", 0.7, 100), ("release", 0.7, 100), ("distance-only", 0.7, 10)],
)
def test_the_others_are_far_off_where_variances_differ(mode: Mode, variance: float, min_distance: float) -> None:
    assert off(mode, ToyMixtureConfig(variance=variance)) > min_distance


def test_the_release_returns_nearly_the_distribution_of_narrower_drafts() -> None:
    target, draft = drawn_by_target(PLAIN), distribution(PLAIN.draft, PLAIN.sampling)
    out = sample("release", PLAIN, torch.arange(COUNT), CHANCE)
    share = count_cells(out.token) / COUNT
    assert float(out.accepted.double().mean()) > 0.99
    assert total_variation(share, draft) < total_variation(share, target) - 0.02


def test_a_draft_equal_to_the_target_is_kept_and_a_vanilla_token_has_none() -> None:
    same = ToyMixtureConfig(variance=1, shift=0)
    for mode in MODES:
        out = sample(mode, same, torch.arange(1000), CHANCE)
        assert bool(out.accepted.all()) is (mode != "vanilla")
        assert not out.tries.any() and not out.capped.any()


def test_integration_returns_a_distribution_in_closed_form() -> None:
    """A standard normal stays one from the first step to the last."""

    def head(x: Tensor, schedule: Schedule, i: int) -> tuple[Tensor, Tensor]:
        eps, v = ideal(x, torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64).expand(len(x), -1), schedule, i)
        return eps, v

    part = torch.special.ndtr(edges()).diff()
    for steps in (2, 9):
        torch.testing.assert_close(
            distribution(head, ContinuousSampling(steps=steps, last_timestep=150)),
            part[:, None] * part,
            atol=2e-6,
            rtol=0,
        )


def test_tokens_outside_all_cells_count_as_one_more() -> None:
    target = torch.full((GRID_SIZE, GRID_SIZE), 0.9 / GRID_SIZE**2, dtype=torch.float64)
    assert total_variation(target, target) == 0
    assert total_variation(0 * target, target) == pytest.approx(0.9)
    assert total_variation(target / 0.9, target) == pytest.approx(0.1)
    counts = count_cells(torch.tensor([[-2.9, 2.9], [9.0, 0.0]], dtype=torch.float64))
    assert counts.sum() == counts[0, -1] == 1
