"""Distributions of continuous tokens with a density in closed form: diagonal Gaussians, alone or mixed.

The last step of a diffusion head is one Gaussian per token; a GMM head (GIVT, arXiv 2312.02116) is a mixture of K.
Everything is float64 and in log space: densities of sixteen components under- and overflow otherwise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor

_LOG_TWO_PI: Final = math.log(2 * math.pi)


@dataclass(frozen=True, slots=True)
class Gaussians:
    """One distribution per row: a mixture of K diagonal Gaussians over D components; a plain one where K is 1."""

    log_weight: Float[Tensor, "*W K"]
    """Logarithms of weights that sum to 1."""
    mean: Float[Tensor, "*W K D"]
    std: Float[Tensor, "*W K D"]

    def __getitem__(self, index: Any) -> "Gaussians":
        """Some of the rows; `[:, None]` inserts an axis to broadcast over."""
        return Gaussians(self.log_weight[index], self.mean[index], self.std[index])

    def __len__(self) -> int:
        return len(self.mean)

    def noise(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... K D"]:
        """Return the distance of x from each mean, in standard deviations."""
        return (x[..., None, :] - self.mean) / self.std

    def log_density(self, x: Float[Tensor, "... D"], softness: float = 1.0) -> Float[Tensor, "..."]:
        """Return the logarithm of the density.

        Args:
            x: Points, whose rows are broadcast to those of the distributions.
            softness: Divides the distances from the means, but not the standard deviations in the normalisation.
        """
        dimension = self.mean.shape[-1]
        squared = (self.noise(x) / softness).square().sum(-1)
        each = -0.5 * (squared + dimension * _LOG_TWO_PI) - self.std.log().sum(-1)
        return (self.log_weight + each).logsumexp(-1)

    def draw(self, normal: Float[Tensor, "... D"], uniform: Float[Tensor, "..."]) -> Float[Tensor, "... D"]:
        """Return the token that given random numbers make.

        Args:
            normal: Standard normal number of every component.
            uniform: Uniform number that picks the Gaussian; not used where there is one.
        """
        if self.mean.shape[-2] == 1:
            return self.mean[..., 0, :] + self.std[..., 0, :] * normal
        below = self.log_weight.exp().cumsum(-1) < uniform[..., None]
        picked = below.sum(-1, keepdim=True).clamp(max=self.mean.shape[-2] - 1)[..., None]  # [..., 1, 1]
        shape = (*picked.shape[:-2], *self.mean.shape[-2:])
        index = picked.expand(*shape[:-2], 1, shape[-1])
        mean, std = (part.expand(shape).gather(-2, index)[..., 0, :] for part in (self.mean, self.std))
        return mean + std * normal


def single_gaussian(mean: Float[Tensor, "*W D"], std: Float[Tensor, "*W D"]) -> Gaussians:
    """Return one Gaussian per row.

    Args:
        mean: Means.
        std: Standard deviations of the components, above 0.
    """
    return Gaussians(mean.new_zeros(*mean.shape[:-1], 1), mean[..., None, :], std[..., None, :])


def concat_rows(distributions: Sequence[Gaussians], dim: int = 0) -> Gaussians:
    """Return the distributions of several groups of rows as one.

    Args:
        distributions: Groups with the same number of Gaussians per row.
        dim: Axis along which they are put together.
    """
    parts = ([getattr(one, part) for one in distributions] for part in ("log_weight", "mean", "std"))
    return Gaussians(*(torch.cat(part, dim) for part in parts))
