"""Paths of a mixture of Gaussians in closed form: what a diffusion head of that distribution would draw.

Where x_0 is one of K Gaussians, every x_{t-1} given x_t is one of K Gaussians, too: of Gaussian k, its mean is linear
in x_t and its variance does not depend on it. So a path takes one choice of k and a recurrence, no network:

    q(path) = sum over k of P(k | x_T) * product over steps of N(x_{t-1}; a_k x_t + b_k, c_k^2)

Step by step, x_{t-1} follows the mixture of the same Gaussians, weighted by P(k | x_T .. x_t): by the chain rule alone.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from jaxtyping import Float
from torch import Tensor

from draftscope.engines.continuous.denoising import ContinuousSampling, columns
from draftscope.engines.continuous.gaussians import Gaussians
from draftscope.engines.continuous.path_request import Paths

_LOG_TWO_PI = math.log(2 * math.pi)


@dataclass(frozen=True, slots=True)
class Bridge:
    """The steps of M mixtures of K Gaussians, the first first."""

    log_prior: Float[Tensor, "M K"]
    """Logarithms of the weights, before x_T is known."""
    far_mean: Float[Tensor, "M K D"]
    far_variance: Float[Tensor, "M K D"]
    """Variance of x_T under each Gaussian."""
    slope: Float[Tensor, "n M K D"]
    offset: Float[Tensor, "n M K D"]
    std: Float[Tensor, "n M K D"]

    def sample_path(self, noise: Float[Tensor, "M T D"], pick: Float[Tensor, " M"]) -> Paths:
        """Return one path for each of M tokens.

        Args:
            noise: x_T, then the noise of every step but the last.
            pick: Uniform number that chooses the Gaussian of each path.
        """
        x = noise[:, 0]
        first = self._weight(x)
        below = first.softmax(-1).cumsum(-1) < pick[:, None]
        k = below.sum(-1).clamp(max=below.shape[-1] - 1)
        row = torch.arange(len(x), device=x.device)
        drift = self.offset[:-1, row, k] + self.std[:-1, row, k] * noise[:, 1:].transpose(0, 1)
        # Each state is a slope times the one before, and a drift; over the product of the slopes, drifts add up.
        product = self.slope[:-1, row, k].cumprod(0)
        after = product * (x + (drift / product).cumsum(0))
        drawn = torch.cat([x[None], after]).transpose(0, 1)
        densities = tuple(partial(self._log_density_of, row) for row in range(len(x)))
        return Paths(self._along(drawn, first), drawn, densities=densities)

    def _along(self, before: Float[Tensor, "M n D"], first: Float[Tensor, "M K"]) -> Gaussians:
        """The distributions of all steps, [n, M], given the states before each and all that came before those."""
        x = before.transpose(0, 1)[..., None, :]
        mean = torch.addcmul(self.offset, self.slope, x)
        passed = self._each(mean[:-1], x[1:], self.std[:-1])
        return Gaussians(torch.cat([first[None], passed]).cumsum(0).log_softmax(-1), mean, self.std)

    def log_density(self, states: Float[Tensor, "N S D"]) -> Float[Tensor, " N"]:
        """Logarithms of the densities of whole paths x_T .. x_0, that of x_T left out; one mixture takes any number."""
        x = states.transpose(0, 1)[..., None, :]
        steps = self._each(torch.addcmul(self.offset, self.slope, x[:-1]), x[1:], self.std).sum(0)
        return (self._weight(states[:, 0]).log_softmax(-1) + steps).logsumexp(-1)

    def _log_density_of(self, row: int, states: Float[Tensor, "N S D"]) -> Float[Tensor, " N"]:
        index = slice(row, row + 1)
        far = (self.log_prior[index], self.far_mean[index], self.far_variance[index])
        return Bridge(*far, self.slope[:, index], self.offset[:, index], self.std[:, index]).log_density(states)

    def _weight(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N K"]:
        """Logarithms of the weights of the Gaussians given x_T, up to a number."""
        squared = (x[:, None] - self.far_mean).square() / self.far_variance
        return self.log_prior - 0.5 * (squared + self.far_variance.log()).sum(-1)

    def _each(self, mean: Tensor, x: Tensor, std: Tensor) -> Tensor:
        """Log densities of the Gaussians, apart."""
        return -0.5 * ((x - mean) / std).square().sum(-1) - std.log().sum(-1) - 0.5 * x.shape[-1] * _LOG_TWO_PI


def make_bridge(tokens: Gaussians, sampling: ContinuousSampling) -> Bridge:
    """Return the steps that lead to M mixtures of x_0.

    Args:
        tokens: Distribution of each clean token.
        sampling: Schedule, sampler and temperature.
    """
    now, precision, of_clean, of_noisy, of_state, fixed, spread = _steps(sampling, tokens.mean.device)
    variance = tokens.std.square()
    share = (1 + precision * variance).reciprocal()
    left = share * variance  # the variance of x_0 given x_t and k
    return Bridge(
        tokens.log_weight,
        now[0].sqrt() * tokens.mean,
        torch.addcmul(1 - now[0], now[0], variance),
        torch.addcmul(of_state, of_noisy, left),
        of_clean * tokens.mean * share,
        torch.addcmul(fixed, spread, left).sqrt(),
    )


@lru_cache(maxsize=64)
def _steps(sampling: ContinuousSampling, device: torch.device) -> tuple[Tensor, ...]:
    """Return the coefficients of all steps, the first first, [n, 1, 1, 1] each.

    In this order: the share of the clean token's variance; the precision of x_0 given x_t; the factors of the expected
    x_0, of the variance of x_0 given x_t and of x_t in the mean; the variance of a step; and the factor of the variance
    of x_0 given x_t that is added to it.
    """
    schedule, all_steps, hot = sampling.schedule, [], sampling.temperature**2
    for i in reversed(range(len(schedule))):
        now, then, beta = schedule.coefficients[i], schedule.alpha_bar_prev(i), schedule.beta(i)
        if sampling.sampler == "ddim":
            std = schedule.ddim_std(i, sampling.eta)
            of_state = math.sqrt(max(1 - then - std**2, 0.0) / (1 - now))
            of_clean, fixed, spread = math.sqrt(then) - of_state * math.sqrt(now), std**2, 0.0
        else:
            of_clean, of_state = beta * math.sqrt(then) / (1 - now), (1 - then) * math.sqrt(now / then) / (1 - now)
            fixed, spread = beta * (1 - then) / (1 - now), of_clean**2
        of_noisy = of_clean * math.sqrt(now) / (1 - now)
        all_steps.append((now, now / (1 - now), of_clean, of_noisy, of_state, hot * fixed, hot * spread))
    return tuple(column[..., None] for column in columns(all_steps, torch.float64, device))
