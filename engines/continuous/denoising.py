"""Denoising of a token by a diffusion head.

MAR's cosine schedule, respaced, with DDPM or DDIM steps (arXiv 2406.11838).

For a noisy token x_t, the network estimates the noise (`eps`) and the position of the step's variance between its two
extremes (`v`). Improved DDPM (arXiv 2102.09672) has the formulas of p(x_{t-1} | x_t), DDIM (arXiv 2010.02502) the other
sampler; docs/methods/continuous.md lists the differences from MAR, and the reasons.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from draftscope.engines.continuous.gaussians import Gaussians, single_gaussian
from draftscope.engines.continuous.path_request import Paths, Steer
from draftscope.engines.protocol import Task
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.engines.settings import SettingInfo

TIMESTEPS: Final = 1000
"""Steps of the schedule that heads are trained on."""
_OFFSET: Final = 0.008
_MAX_NOISE: Final = 0.999

Denoiser: TypeAlias = Callable[[Tensor, "Schedule", int], tuple[Tensor, Tensor]]
"""Called with noisy tokens [M, D], the schedule and the index of a step; gives eps and v, both [M, D]."""


@runtime_checkable
class ConditionedDenoiser(Protocol):
    """A denoiser that keeps what depends on the conditions alone, so that it can be used again."""

    def __call__(self, x: Tensor, schedule: "Schedule", i: int) -> tuple[Tensor, Tensor]:
        """Denoise noisy tokens, as `Denoiser`. A denoiser of one row takes any number of noisy tokens of that row."""

    def predict_all_steps(self, before: Float[Tensor, "n M D"], schedule: "Schedule") -> tuple[Tensor, Tensor]:
        """Return eps and v [n, M, D] of all steps at once.

        Args:
            before: States before the n steps, the first step first.
            schedule: Schedule of n steps.
        """

    def rows(self, index: slice | Int[Tensor, " N"]) -> "ConditionedDenoiser":
        """Return the denoiser for some of the conditions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousSampling:
    """How a head draws tokens; the base of every Config of the family."""

    steps: Annotated[
        int, SettingInfo("Denoising steps", "Steps from noise to token. More follow the model more closely.", 2, 250, 1)
    ] = 20
    temperature: Annotated[
        float,
        SettingInfo("Temperature", "Scales the random part of every step. 1 is the model as it is.", 0.1, 2.0, 0.05),
    ] = 1.0
    guidance: Annotated[
        float,
        SettingInfo("Guidance", "Weight of the prompt. Above 1 every pass computes a second row.", 1.0, 10.0, 0.5),
    ] = 1.0
    linear_guidance: Annotated[
        bool, SettingInfo("Ramp guidance", "Raise guidance from 1 to its value over the picture, as MAR does.")
    ] = False
    sampler: Annotated[
        Literal["ddpm", "ddim"],
        SettingInfo("Sampler", "Noise added in every step. ddpm: as much as was learnt. ddim: as much as eta says."),
    ] = "ddpm"
    eta: Annotated[
        float,
        SettingInfo(
            "Eta", "Noise that ddim adds, from 1, the usual amount, to 0, none.", 0.0, 1.0, 0.05, {"sampler": ("ddim",)}
        ),
    ] = 1.0
    last_timestep: Annotated[
        int,
        SettingInfo(
            "Last timestep", "Noise level, of 1000, at the last step. Higher accepts more and blurs.", 0, 300, 5
        ),
    ] = 0

    first_timestep: Annotated[
        int, SettingInfo("First timestep", "Noise level, of 1000, at the first step. MAR begins with 999.", 500, 999, 1)
    ] = 960

    @property
    def uses_guidance(self) -> bool:
        """Whether every pass runs an unconditional row in addition to the conditional one."""
        return self.guidance != 1.0

    @property
    def schedule(self) -> "Schedule":
        """The timesteps that are visited."""
        return respaced_cosine_schedule(self.steps, self.last_timestep, self.first_timestep)

    def guidance_at(self, position: Tensor, task: "ContinuousTask") -> Float[Tensor, " W"]:
        """Return the guidance scale at positions of a canvas.

        Args:
            position: W positions, from 0.
            task: Task of the canvas; with `begins_unguided` the ramp starts at 1, else one step above it.
        """
        begun, length = (0, max(task.length - 1, 1)) if task.begins_unguided else (1, task.length)
        share = (position + begun) / length if self.linear_guidance else torch.ones_like(position)
        return 1 + (self.guidance - 1) * share.to(torch.float64)


@dataclass(frozen=True, slots=True)
class ContinuousTask(Task):
    """A canvas of continuous tokens."""

    width: int = 1
    """Components D of a token."""
    mixture: bool = False
    """Whether a GMM head draws its tokens, so that nothing is denoised."""
    gaps: bool = False
    """Whether the model can predict tokens whose predecessors are missing."""
    begins_unguided: bool = False
    """Whether guidance that is raised has its full effect at the last position and none at the first."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The timesteps that are visited, by step index: 0 is the last step, T - 1 the first."""

    timestep: tuple[int, ...]
    coefficients: tuple[float, ...]
    """Share of the clean token's variance at each of them: alpha-bar."""

    def __len__(self) -> int:
        return len(self.timestep)

    def alpha_bar_prev(self, i: int) -> float:
        """alpha-bar that step i leads to; 1 is clean."""
        return self.coefficients[i - 1] if i else 1.0

    def beta(self, i: int) -> float:
        """The larger extreme of the variance of step i."""
        return 1 - self.coefficients[i] / self.alpha_bar_prev(i)

    def posterior(self, i: int) -> float:
        """The smaller extreme, beta-tilde; it would be 0 for the last step, which takes that of the step before."""
        i = max(i, 1)
        return self.beta(i) * (1 - self.alpha_bar_prev(i)) / (1 - self.coefficients[i])

    def ddim_std(self, i: int, eta: float) -> float:
        """Return the standard deviation of a DDIM step (arXiv 2010.02502, eq. 16); step 0 has that of step 1, not 0.

        Args:
            i: Index of the step.
            eta: 0 for no noise, 1 for that of DDPM.
        """
        i = max(i, 1)
        return eta * math.sqrt((1 - self.alpha_bar_prev(i)) / (1 - self.coefficients[i]) * self.beta(i))

    def custom_step(self, i: int) -> tuple[float, float, float] | None:
        """Return the coefficients of step i if it is neither a DDPM nor a DDIM step.

        The mean is x_t times the first number plus the network's first output times the second; the third is the
        standard deviation.
        """
        return None


@cache
def respaced_cosine_schedule(steps: int, last: int = 0, first: int = TIMESTEPS - 1) -> Schedule:
    """Return the cosine schedule of 1000 timesteps at some of them, evenly spread.

    Args:
        steps: How many, at least 2.
        last: Timestep of the last step, near the clean token.
        first: Timestep of the first step, near the noise.
    """
    clean = []
    product = 1.0
    for t in range(TIMESTEPS):
        product *= 1 - min(1 - _cosine((t + 1) / TIMESTEPS) / _cosine(t / TIMESTEPS), _MAX_NOISE)
        clean.append(product)
    chosen = tuple(round(last + i * (first - last) / (steps - 1)) for i in range(steps))
    return Schedule(chosen, tuple(clean[t] for t in chosen))


def _cosine(share: float) -> float:
    return math.cos((share + _OFFSET) / (1 + _OFFSET) * math.pi / 2) ** 2


@lru_cache(maxsize=64)
def _each_step(schedule: Schedule, sampling: ContinuousSampling) -> tuple[tuple[float, ...], ...]:
    """`_one_step` by step index, looked up once a path: to hash a schedule takes as long as a small product."""
    return tuple(_one_step(schedule, i, sampling) for i in range(len(schedule)))


def _one_step(schedule: Schedule, i: int, sampling: ContinuousSampling) -> tuple[float, ...]:
    """Return the coefficients of a step's distribution given x_t, eps and v.

    The mean is the first number times x_t, plus the second times eps; the standard deviation is exp(the third plus the
    fourth times v).
    """
    if (custom := schedule.custom_step(i)) is not None:
        of_state, of_noise, std = custom
        return of_state, of_noise, math.log(std) + math.log(sampling.temperature), 0.0
    now, then = schedule.coefficients[i], schedule.alpha_bar_prev(i)
    if sampling.sampler == "ddim":
        std = schedule.ddim_std(i, sampling.eta)
        of_clean, of_state, of_eps = math.sqrt(then), 0.0, math.sqrt(max(1 - then - std**2, 0.0))
        log_std, of_v = math.log(std) if std else -math.inf, 0.0
    else:
        beta = schedule.beta(i)
        of_clean, of_state = beta * math.sqrt(then) / (1 - now), (1 - then) * math.sqrt(now / then) / (1 - now)
        low, high = math.log(schedule.posterior(i)), math.log(beta)
        of_eps, log_std, of_v = 0.0, (high + low) / 4, (high - low) / 4
    # x_0 is estimated as (x_t - sqrt(1 - now) eps) / sqrt(now).
    return (
        of_state + of_clean / math.sqrt(now),
        of_eps - of_clean * math.sqrt(1 - now) / math.sqrt(now),
        log_std + math.log(sampling.temperature),
        of_v,
    )


@lru_cache(maxsize=64)
def _all_steps(schedule: Schedule, sampling: ContinuousSampling, device: torch.device) -> tuple[Tensor, ...]:
    """Return the coefficients of all steps, [n, 1, 1] each, the first step first."""
    return columns(_each_step(schedule, sampling)[::-1], torch.float64, device)


def columns(rows: Sequence[Sequence[float]], dtype: torch.dtype, device: torch.device) -> tuple[Tensor, ...]:
    """Return numbers of n steps as columns [n, 1, 1], which any mode of autograd may use again.

    Args:
        rows: The numbers of each step, the same number for all steps.
        dtype: Number format of the columns.
        device: Their device.
    """
    with torch.inference_mode(False):
        return tuple(column[:, None, None] for column in torch.tensor(rows, dtype=dtype, device=device).unbind(1))


def _mean_and_std(coefficients: Sequence[Any], x: Tensor, out: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of a step, or of several."""
    of_state, of_noise, log_std, of_v = coefficients
    eps, v = (part.to(torch.float64) for part in out)
    return of_state * x + of_noise * eps, (log_std + of_v * v).exp()


def step_distribution(
    schedule: Schedule, i: int, x: Tensor, out: tuple[Tensor, Tensor], sampling: ContinuousSampling
) -> Gaussians:
    """Return p(x_{t-1} | x_t) of a step.

    Args:
        schedule: Schedule of the denoising steps.
        i: Index of the step.
        x: x_t, [M, D] in float64.
        out: The network's eps and v, both [M, D].
        sampling: Sampler, temperature and eta.
    """
    return single_gaussian(*_mean_and_std(_each_step(schedule, sampling)[i], x, out))


@lru_cache(maxsize=4096)
def _variance(schedule: Schedule, i: int) -> tuple[float, ...]:
    """Return the variance of step i without that of x_0 given x_t, its factor, and the bounds that v interpolates.

    The last value is the factor of the squared error of the noise estimate, which may replace that variance.
    """
    now, then, beta = schedule.coefficients[i], schedule.alpha_bar_prev(i), schedule.beta(i)
    known, of_clean = beta * (1 - then) / (1 - now), (beta * math.sqrt(then) / (1 - now)) ** 2
    low, high = math.log(schedule.posterior(i)), math.log(beta)
    return known, of_clean, low, 2 / (high - low), of_clean * (1 - now) / now


@lru_cache(maxsize=64)
def _variances(schedule: Schedule, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, ...]:
    """Return the variances of all steps, [n, 1, 1] each, the first step first."""
    return columns([_variance(schedule, i) for i in reversed(range(len(schedule)))], dtype, device)


def variance_output(schedule: Schedule, i: int, clean: Tensor) -> Tensor:
    """Return the v that gives a step its true variance.

    Args:
        schedule: Schedule of the denoising steps.
        i: Index of the step.
        clean: Variance of x_0 given x_t, [M, D].
    """
    known, of_clean, low, per_nat, _ = _variance(schedule, i)
    return ((known + of_clean * clean).log() - low) * per_nat - 1


def variance_output_from_error(schedule: Schedule, i: int | None, error: Tensor) -> Tensor:
    """Return the v that gives a step its true variance, by the squared error of its noise estimate.

    Args:
        schedule: Schedule of the denoising steps.
        i: Index of the step; None for all n steps, with errors of shape [n, M, D].
        error: Squared error of eps, [M, D].
    """
    coefficients: Any = _variances(schedule, error.dtype, error.device) if i is None else _variance(schedule, i)
    known, _, low, per_nat, of_error = coefficients
    return cast(Tensor, ((known + of_error * error).log() - low) * per_nat - 1)


def denoise(
    denoise: Denoiser, noise: Float[Tensor, "M T D"], sampling: ContinuousSampling, steer: Steer | None
) -> Paths:
    """Denoise M tokens along their noise.

    Args:
        denoise: Network that gives eps and v.
        noise: x_T, then the noise of every step but the last.
        sampling: Schedule, sampler and temperature.
        steer: Replaces the state after each step but the last, given its distribution; None leaves all as they are.
    """
    schedule = sampling.schedule
    coefficients, x = _each_step(schedule, sampling), noise[:, 0]
    states, outputs = [x], list[tuple[Tensor, Tensor]]()
    for i, z in zip(range(len(schedule) - 1, 0, -1), noise[:, 1:].unbind(1), strict=True):
        mean, std = _mean_and_std(coefficients[i], x, denoise(x, schedule, i))
        x = torch.addcmul(mean, std, z)
        x = x if steer is None else steer(i, single_gaussian(mean, std), x)
        outputs.append((mean, std))
        states.append(x)
    outputs.append(_mean_and_std(coefficients[0], x, denoise(x, schedule, 0)))
    return Paths(_stacked(outputs), torch.stack(states, 1))


def _stacked(steps: Sequence[tuple[Tensor, Tensor]]) -> Gaussians:
    """Distributions of n steps and M tokens, given by means and standard deviations [M, D], as one, [n, M]."""
    mean, std = zip(*steps, strict=True)
    return single_gaussian(torch.stack(mean), torch.stack(std))


def path_distributions(denoise: Denoiser, states: Float[Tensor, "M S D"], sampling: ContinuousSampling) -> Gaussians:
    """Return the distributions of all n steps at given states, [n, M].

    Args:
        denoise: Network that gives eps and v; a `ConditionedDenoiser` computes all steps at once.
        states: x_T .. x_0, S = n + 1 of them.
        sampling: Schedule, sampler and temperature.
    """
    schedule, before = sampling.schedule, states[:, :-1].transpose(0, 1)
    if isinstance(denoise, ConditionedDenoiser):
        return single_gaussian(
            *_mean_and_std(
                _all_steps(schedule, sampling, states.device), before, denoise.predict_all_steps(before, schedule)
            )
        )
    coefficients, steps = _each_step(schedule, sampling), zip(reversed(range(len(schedule))), before, strict=True)
    return _stacked([_mean_and_std(coefficients[i], x, denoise(x, schedule, i)) for i, x in steps])


def resume_denoising(
    denoise: Denoiser,
    x: Float[Tensor, "M D"],
    left: Int[Tensor, " M"],
    noise: Float[Tensor, "M S D"],
    sampling: ContinuousSampling,
) -> tuple[Gaussians, Float[Tensor, "M S D"]]:
    """Denoise M tokens from given states.

    Args:
        denoise: Network that gives eps and v.
        x: State of each token.
        left: Steps that each token has left.
        noise: x_T, then the noise of every step; a token uses that of the steps that it has left.
        sampling: Schedule, sampler and temperature.

    Returns:
        The distributions of the steps from the first that any of them takes, and the states x_T .. x_0, with x itself
        in place of those before it.
    """
    schedule = sampling.schedule
    # Nothing moves before the longest way begins, which a CPU may look up; the last step has a distribution anyway.
    steps = max(1, int(left.max())) if left.device.type == "cpu" else len(schedule)
    together = left.device.type == "cpu" and bool((left == steps).all())
    states, outputs = [x] * (1 + len(schedule) - steps), list[tuple[Tensor, Tensor]]()
    coefficients = _each_step(schedule, sampling)
    for i, z in zip(reversed(range(steps)), noise[:, -steps:].unbind(1), strict=True):
        mean, std = _mean_and_std(coefficients[i], x, denoise(x, schedule, i))
        y = torch.addcmul(mean, std, z)
        x = y if together else torch.where((i < left)[:, None], y, x)
        states.append(x)
        outputs.append((mean, std))
    return _stacked(outputs), torch.stack(states, 1)


@dataclass(frozen=True, slots=True)
class Noise:
    """Random numbers of the tokens at W positions, the same for drafter and target."""

    path: Float[Tensor, "W T D"]
    """x_T, then the noise of every step but the last."""
    last: Float[Tensor, "W D"]
    """The noise of the last step."""
    pick: Float[Tensor, " W"]
    """Picks the Gaussian of a mixture."""

    def __getitem__(self, index: slice) -> "Noise":
        """The noise of some of the positions."""
        return Noise(self.path[index], self.last[index], self.pick[index])

    def draw(self, distribution: Gaussians) -> Float[Tensor, "W D"]:
        """Return the samples of a distribution that correspond to these random numbers."""
        return distribution.draw(self.last, self.pick)


def position_noise(
    position: Int[Tensor, " W"], task: ContinuousTask, steps: int, rng: RandomSource, owner: str = ""
) -> Noise:
    """Return the noise that belongs to positions, throughout a run.

    Args:
        position: W positions.
        task: Task, whose tokens have `width` components.
        steps: Denoising steps of a token.
        rng: Random source.
        owner: Part of the keys of the draws: another owner has other noise.
    """
    path = rng.normal(DrawKey(f"path{owner}", 0, position), steps * task.width).unflatten(1, (steps, task.width))
    last = rng.normal(DrawKey(f"last{owner}", 0, position), task.width)
    return Noise(path, last, rng.uniform(DrawKey(f"pick{owner}", 0, position), 1)[:, 0])
