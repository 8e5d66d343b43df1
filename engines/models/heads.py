"""Networks that draw one continuous token given its condition: MAR's diffusion head, ours, a mixture of Gaussians.

Both are small next to the backbone that makes the condition. The diffusion head runs once per denoising step, so its
width and depth decide what a token costs. Submodules of the diffusion head have the names of MAR's checkpoints.
"""

import math
from typing import Any, Final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from engines.continuous.denoising import Denoiser, Schedule, learnt_from_error
from engines.continuous.gaussians import Gaussians
from engines.models.lean_head import LeanHead

_FREQUENCIES: Final = 256
_SLOWEST: Final = 10_000
_EPSILON: Final = 1e-6
_LEAST_STD, _MOST_STD = 1e-3, 1e2


class TimeEmbedding(nn.Module):
    """Timesteps as waves of many lengths, then two layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(_FREQUENCIES, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, timestep: Float[Tensor, " M"]) -> Float[Tensor, "M C"]:
        """Embed timesteps 0 .. 999."""
        half = _FREQUENCIES // 2
        slowness = torch.arange(half, device=timestep.device) * (-math.log(_SLOWEST) / half)
        angle = timestep[:, None] * slowness.exp()
        hidden: Tensor = self.mlp(torch.cat([angle.cos(), angle.sin()], -1))
        return hidden


class HeadBlock(nn.Module):
    """A residual layer whose shift, scale and gate depend on timestep and condition."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.in_ln = nn.LayerNorm(width, eps=_EPSILON)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 3 * width))

    def forward(self, x: Float[Tensor, "M C"], modulation: Float[Tensor, "M 3*C"]) -> Float[Tensor, "M C"]:
        """One layer."""
        shift, scale, gate = modulation.chunk(3, -1)
        out: Tensor = x + gate * self.mlp(self.in_ln(x) * (1 + scale) + shift)
        return out


class FinalLayer(nn.Module):
    """The output layer, modulated as well."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, out)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))

    def forward(self, x: Float[Tensor, "M C"], modulation: Float[Tensor, "M 2*C"]) -> Float[Tensor, "M O"]:
        """The output."""
        shift, scale = modulation.chunk(2, -1)
        out: Tensor = self.linear(F.layer_norm(x, x.shape[-1:], eps=_EPSILON) * (1 + scale) + shift)
        return out


class DiffusionHead(nn.Module):
    """MAR's head (arXiv 2406.11838): estimates the noise in a noisy token, and v, which places the step's variance."""

    def __init__(self, token: int, condition: int, width: int, depth: int) -> None:
        super().__init__()
        self.time_embed = TimeEmbedding(width)
        self.cond_embed = nn.Linear(condition, width)
        self.input_proj = nn.Linear(token, width)
        self.res_blocks = nn.ModuleList(HeadBlock(width) for _ in range(depth))
        self.final_layer = FinalLayer(width, 2 * token)
        # Every layer starts as the identity, and the output at 0.
        for layer in (*self.res_blocks, self.final_layer):
            nn.init.zeros_(layer.adaLN_modulation[1].weight)
            nn.init.zeros_(layer.adaLN_modulation[1].bias)
        nn.init.zeros_(self.final_layer.linear.weight)
        nn.init.zeros_(self.final_layer.linear.bias)

    def forward(
        self, x: Float[Tensor, "M D"], timestep: Float[Tensor, " M"], condition: Float[Tensor, "M H"]
    ) -> tuple[Float[Tensor, "M D"], Float[Tensor, "M D"]]:
        """Return eps and v for noisy tokens."""
        embedded = self.time_embed(timestep) + self.cond_embed(condition)
        hidden = self.input_proj(x)
        layers: list[Any] = [*self.res_blocks, self.final_layer]
        for layer in layers:
            hidden = layer(hidden, layer.adaLN_modulation(embedded))
        eps, v = hidden.chunk(2, -1)
        return eps, v

    def conditioned_on(self, condition: Float[Tensor, "M H"], schedule: Schedule) -> Denoiser:
        """The head given the conditions of M tokens, with few operations a step."""
        return self.lean().conditioned_on(condition, schedule)

    def lean(self) -> LeanHead:
        """The head in its lean form, for weights that stay as they are."""
        return LeanHead(self, _EPSILON)

    def read(self, eps: Tensor, v: Tensor, schedule: Schedule, i: int | None) -> tuple[Tensor, Tensor]:
        """Both outputs at step i of a schedule as eps and v; without i at all steps, the first first [n, M, D]."""
        return eps, v


class ResidualHead(DiffusionHead):
    """A diffusion head whose second output is how far off its noise estimates are (NPR-DPM, arXiv 2206.07309).

    MAR's v says where a step's variance lies between two extremes, which holds for the steps it was trained with: the
    longer the step, the more of its variance comes from what x_t leaves open about x_0. From the error of the noise
    estimate follows just that, so the variances are right in however many steps a token is denoised.
    """

    def left(
        self, x: Float[Tensor, "M D"], timestep: Float[Tensor, " M"], condition: Float[Tensor, "M H"]
    ) -> tuple[Float[Tensor, "M D"], Float[Tensor, "M D"]]:
        """Noise estimates, and the logarithm of their expected squared error, which is at most that of guessing 0."""
        eps, raw = self(x, timestep, condition)
        return eps, F.logsigmoid(raw)

    def read(self, eps: Tensor, v: Tensor, schedule: Schedule, i: int | None) -> tuple[Tensor, Tensor]:
        """See `DiffusionHead.read`."""
        return eps, learnt_from_error(schedule, i, v.sigmoid())


class MixtureHead(nn.Module):
    """A mixture of K diagonal Gaussians in one pass, the output of GIVT (arXiv 2312.02116)."""

    def __init__(self, token: int, condition: int, width: int, components: int) -> None:
        super().__init__()
        self.token, self.components = token, components
        self.net = nn.Sequential(nn.Linear(condition, width), nn.SiLU(), nn.Linear(width, components * (1 + 2 * token)))

    def forward(self, condition: Float[Tensor, "M H"]) -> Gaussians:
        """The distributions of M tokens, float64."""
        weight, rest = (
            self.net(condition).to(torch.float64).split([self.components, 2 * self.components * self.token], -1)
        )
        mean, scale = rest.unflatten(-1, (self.components, 2 * self.token)).chunk(2, -1)
        return Gaussians(weight.log_softmax(-1), mean, F.softplus(scale).clamp(_LEAST_STD, _MOST_STD))
