"""Tokens in the plane with a known distribution: the output distribution of each verification rule.

The target mixes three Gaussians; the draft is shifted, and the variances of its steps differ by a factor. Because a
step is one Gaussian, few steps lead to another distribution than the mixture, which integration over a grid gives
exactly.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias, cast, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from draftscope.engines.continuous import denoising
from draftscope.engines.continuous.rejection import AcceptOrReplaceResult, DensityRatio, accept_or_replace
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.engines.settings import SettingInfo
from draftscope.traces.schema import Canvas

Mode: TypeAlias = Literal["vanilla", "exact", "paper", "release", "distance-only"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
TRIES: Final = 100
"""Proposals for the replacement of a rejected draft before a plain sample is used, as many as in the release."""
GRID_EXTENT: Final = 3.0
"""Cells cover the square from -REACH to REACH."""
GRID_SIZE: Final = 24
_FAR: Final = 5.0
"""Limit of integration; x_T is standard normal, and one in 10^6 exceeds it."""
_POINTS: Final = 65
"""Along a side; their spacing stays well below the standard deviation of any step, so that sums are integrals."""
_NOTHING: Final = 1e-13
"""Grid points with less mass are left out."""
_TASK: Final = denoising.ContinuousTask(Canvas(kind="image", shape=(1, 1)), 0, torch.device("cpu"), width=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyMixtureConfig:
    """Differences between draft and target, and their denoising."""

    variance: Annotated[
        float, SettingInfo("Draft's variances", "The draft's variances over the true ones. 1 is alike.", 0.5, 2, 0.05)
    ] = 0.85
    shift: Annotated[
        float, SettingInfo("Draft's shift", "How far the draft's points lie to the right of the target's.", 0, 1, 0.05)
    ] = 0.15
    steps: Annotated[
        int, SettingInfo("Denoising steps", "In how many steps draft and target turn noise into a token.", 2, 20, 1)
    ] = 6
    same_noise_paths: Annotated[
        bool,
        SettingInfo("Align trajectories", "Draft and target denoise with the same noise, so that more drafts pass."),
    ] = True

    @property
    def sampling(self) -> denoising.ContinuousSampling:
        """Return the denoising settings.

        The last step keeps some noise, because drafts could not be verified otherwise.
        """
        return denoising.ContinuousSampling(steps=self.steps, last_timestep=150)

    @property
    def target(self) -> "Mixture":
        """The target's head."""
        return Mixture()

    @property
    def draft(self) -> "Mixture":
        """The draft's head."""
        return Mixture(self.shift, self.variance)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Head that denoises three Gaussians ideally, except for the differences of its settings."""

    shift: float = 0.0
    factor: float = 1.0
    """Factor of the head's variances."""

    def __call__(self, x: Tensor, schedule: denoising.Schedule, i: int) -> tuple[Tensor, Tensor]:
        """Mean noise and v at noisy tokens [M, 2]; see `draftscope.engines.continuous.denoising.Denoiser`."""
        now = schedule.coefficients[i]
        variance = _STDS.square()[:, None]  # [K, 1]
        mean = _MEANS + torch.tensor([self.shift, 0.0], dtype=torch.float64)
        noisy = now * variance + 1 - now  # of x_t under each Gaussian
        off = x[:, None] - math.sqrt(now) * mean  # [M, K, 2]
        weight = (_WEIGHTS.log() - 0.5 * (off.square() / noisy).sum(-1) - noisy[:, 0].log()).softmax(-1)[..., None]
        clean = mean + math.sqrt(now) * variance / noisy * off
        expected = (weight * clean).sum(1)
        spread = (weight * (variance * (1 - now) / noisy + (clean - expected[:, None]).square())).sum(1)
        eps = (x - math.sqrt(now) * expected) / math.sqrt(1 - now)
        wider = 2 * math.log(self.factor) / math.log(schedule.beta(i) / schedule.posterior(i))
        return eps, denoising.variance_output(schedule, i, spread) + wider


_WEIGHTS: Final = torch.tensor([0.4, 0.35, 0.25], dtype=torch.float64)
_MEANS: Final = torch.tensor([[-1.1, -0.6], [1.1, -0.4], [0.0, 1.2]], dtype=torch.float64)
_STDS: Final = torch.tensor([0.45, 0.35, 0.5], dtype=torch.float64)


def sample(
    mode: Mode, plane: ToyMixtureConfig, position: Int[Tensor, " M"], rng: RandomSource
) -> AcceptOrReplaceResult:
    """Sample a token at every position: from the target alone, or from drafts verified by a ratio.

    Args:
        mode: "vanilla" for the target alone, else a variant of `DensityRatio`.
        plane: Both models, and the settings of their samplers.
        position: Positions, which the random numbers belong to.
        rng: Random source.
    """
    noise_alone = denoising.position_noise(position, _TASK, plane.steps, rng, " alone")
    if mode == "vanilla":
        nothing = torch.zeros(len(position), dtype=torch.float64)
        token = noise_alone.draw(denoising.denoise(plane.target, noise_alone.path, plane.sampling, None).last)
        return AcceptOrReplaceResult(token, nothing, nothing.bool(), nothing.bool())
    noise = denoising.position_noise(position, _TASK, plane.steps, rng)
    drawn = denoising.denoise(plane.draft, noise.path, plane.sampling, None)
    x = drawn.last.mean[:, 0] if mode == "release" else noise.draw(drawn.last)  # the release leaves the last noise out
    paths = denoising.denoise(
        plane.target, noise.path if plane.same_noise_paths else noise_alone.path, plane.sampling, None
    )
    ratio = DensityRatio(mode, paths.last, drawn.last, drawn.log_std - paths.log_std)
    return accept_or_replace(ratio, x, TRIES, rng, DrawKey("token", 0, position))


def distribution(head: denoising.Denoiser, sampling: denoising.ContinuousSampling) -> Float[Tensor, "X Y"]:
    """Return the probability of every cell under what a head draws.

    The density is carried from step to step over a grid of points.

    Args:
        head: Network that gives eps and v, in two dimensions.
        sampling: Schedule, sampler and temperature.
    """
    schedule = denoising.respaced_cosine_schedule(sampling.steps, sampling.last_timestep, sampling.first_timestep)
    side = torch.linspace(-_FAR, _FAR, _POINTS, dtype=torch.float64)
    area = float(side[1] - side[0]) ** 2
    grid = torch.cartesian_prod(side, side)
    mass = (-0.5 * grid.square().sum(-1)).exp() / (2 * math.pi) * area
    for i in range(len(schedule) - 1, -1, -1):
        nonzero = mass > _NOTHING
        x, mass = grid[nonzero], mass[nonzero]
        step = denoising.step_distribution(schedule, i, x, head(x, schedule, i), sampling)
        along = [_along(step.mean[:, 0, axis], step.std[:, 0, axis], side if i else edges(), not i) for axis in (0, 1)]
        mass = ((mass[:, None] * along[0]).T @ along[1]).flatten() * (area if i else 1.0)
    return mass.reshape(GRID_SIZE, GRID_SIZE)


def _along(mean: Tensor, std: Tensor, ends: Tensor, cells: bool) -> Tensor:
    """Densities of M Gaussians at points of an axis, or their probabilities of the cells between [M, ends]."""
    off = (ends - mean[:, None]) / std[:, None]
    if cells:
        return cast(Tensor, torch.special.ndtr(off).diff(dim=1))
    return (-0.5 * off.square()).exp() / (std[:, None] * math.sqrt(2 * math.pi))


def edges() -> Float[Tensor, " E"]:
    """Edges of the cells along a side."""
    return torch.linspace(-GRID_EXTENT, GRID_EXTENT, GRID_SIZE + 1, dtype=torch.float64)


def count_cells(token: Float[Tensor, "M 2"]) -> Float[Tensor, "X Y"]:
    """Count the tokens in every cell; those outside all cells are left out."""
    return torch.histogramdd(token, bins=[edges(), edges()]).hist


def total_variation(share: Float[Tensor, "X Y"], other: Float[Tensor, "X Y"]) -> float:
    """Return the total variation: half the sum of absolute differences over cells, the outside being one more cell.

    Args:
        share: Probability or share of every cell; they may sum to less than 1.
        other: Probability or share of every cell of the other distribution.
    """
    outside = float(share.sum() - other.sum())
    return 0.5 * (float((share - other).abs().sum()) + abs(outside))
