"""Networks that draw one continuous token given its condition: MAR's diffusion head, ours, a mixture of Gaussians.

Submodules of the diffusion head have the names of MAR's checkpoints.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from typing_extensions import override

from draftscope.engines.continuous.denoising import Denoiser, Schedule, variance_output_from_error
from draftscope.engines.continuous.gaussians import Gaussians
from draftscope.engines.models.fast_decoder import Linear, PackedLinear, packs

_FREQUENCIES: Final = 256
_SLOWEST: Final = 10_000
_EPSILON: Final = 1e-6
_MIN_STD, _MAX_STD = 1e-3, 1e2
_ROWS: Final = 512
"""Pairs of step and token whose modulations are made together."""
Layers: TypeAlias = Sequence[Sequence[tuple[Tensor, Tensor]]]
"""Weights and biases of every layer's norm and two products."""


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
        return cast(Tensor, self.mlp(torch.cat([angle.cos(), angle.sin()], -1)))


class HeadBlock(nn.Module):
    """The weights of a residual layer whose shift, scale and gate depend on timestep and condition."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.in_ln = nn.LayerNorm(width, eps=_EPSILON)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 3 * width))


class FinalLayer(nn.Module):
    """The weights of the output layer, modulated as well."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, out)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))


class DiffusionHead(nn.Module):
    """MAR's head (arXiv 2406.11838): estimates the noise in a noisy token, and v, which sets the step's variance."""

    def __init__(self, token: int, condition: int, width: int, depth: int) -> None:
        super().__init__()
        self.width = width
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
        """Return noise and variance output of noisy tokens.

        Args:
            x: Noisy tokens.
            timestep: Timestep of each, 0 to 999.
            condition: Condition of each.

        Returns:
            Estimated noise eps, and v, which sets the variance of the step.
        """
        embedded = self.time_embed(timestep) + self.cond_embed(condition)
        modulation = F.linear(F.silu(embedded), *self.modulation())
        return self.step(x, modulation.split(self.width, -1), self.layers())

    def modulation(self) -> tuple[Float[Tensor, "A C"], Float[Tensor, " A"]]:
        """Weight and bias of all modulations of an embedding: shift, factor, gate of each layer, the last's two."""
        layers: list[Any] = [layer.adaLN_modulation[1] for layer in (*self.res_blocks, self.final_layer)]
        one = torch.ones_like(self.final_layer.linear.weight[0])
        factors = torch.cat([0 * one, one, 0 * one] * (len(layers) - 1) + [0 * one, one])
        return torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers]) + factors

    def layers(self) -> Layers:
        """Weights and biases of each layer: to call modules takes as long as a small product."""
        blocks: Any = self.res_blocks
        return [[(part.weight, part.bias) for part in (one.in_ln, one.mlp[0], one.mlp[2])] for one in blocks]

    def step(
        self, x: Float[Tensor, "... D"], modulations: Sequence[Float[Tensor, "... C"]], layers: Layers
    ) -> tuple[Tensor, Tensor]:
        """Return both outputs for noisy tokens, before `read`.

        Args:
            x: Noisy tokens, of any shape before the last dimension.
            modulations: Shift, scale and gate of every layer, then shift and scale of the output, each of the head's
                width C.
            layers: Result of `layers`.
        """
        hidden = self.input_proj(x.to(self.input_proj.weight.dtype))
        for k, (norm, first, second) in enumerate(layers):
            normed = torch.layer_norm(hidden, (self.width,), *norm, _EPSILON)
            inside = F.silu(F.linear(torch.addcmul(modulations[3 * k], normed, modulations[3 * k + 1]), *first))
            hidden = torch.addcmul(hidden, modulations[3 * k + 2], F.linear(inside, *second))
        normed = F.layer_norm(hidden, (self.width,), eps=_EPSILON)
        eps, v = self.final_layer.linear(torch.addcmul(modulations[-2], normed, modulations[-1])).chunk(2, -1)
        return eps, v

    @torch.no_grad()
    def lean(self) -> Callable[[Tensor, Schedule], Denoiser]:
        """Gives the head for the conditions [M, H] of M tokens, for weights that stay as they are."""
        layers, like = self.layers(), self.final_layer.linear.weight
        packed = like.device.type == "cpu" and like.dtype == torch.float32 and packs()
        modulation = (PackedLinear if packed else Linear)(*self.modulation())

        @lru_cache(maxsize=8)
        def times(schedule: Schedule) -> Float[Tensor, "n C"]:
            with torch.inference_mode(False), torch.no_grad():
                timesteps = torch.tensor(schedule.timestep[::-1], device=like.device)
                return cast(Tensor, self.time_embed(timesteps.to(like.dtype)))

        def conditioned(condition: Float[Tensor, "M H"], schedule: Schedule) -> ConditionedHead:
            return ConditionedHead(self, layers, modulation, times(schedule), self.cond_embed(condition))

        return conditioned

    def read(self, eps: Tensor, v: Tensor, schedule: Schedule, i: int | None) -> tuple[Tensor, Tensor]:
        """Return both outputs of `step` as eps and v.

        Args:
            eps: First output; without `i` of shape [n, M, D], a row for each step of the schedule.
            v: Second output, of the same shape.
            schedule: Schedule of the denoising steps.
            i: Index of the step in the schedule; None for all of them.
        """
        return eps, v


class ConditionedHead:
    """A head given the conditions of M tokens: a `draftscope.engines.continuous.denoising.ConditionedDenoiser`.

    Modulations depend on step and condition alone, so they are made for many steps and tokens in one product.
    """

    def __init__(
        self,
        head: DiffusionHead,
        layers: Layers,
        modulation: Linear,
        times: Float[Tensor, "n C"],
        embedded: Float[Tensor, "M C"],
        modulations: Float[Tensor, "n M A"] | None = None,
    ) -> None:
        self._head, self._layers, self._modulation = head, layers, modulation
        self._times, self._embedded = times, embedded
        self._count = max(1, _ROWS // len(embedded)) if modulations is None else len(modulations)
        self._modulated, self._part, self._steps = modulations, -1, list[tuple[Tensor, ...]]()

    def __call__(self, x: Tensor, schedule: Schedule, i: int) -> tuple[Tensor, Tensor]:
        """Apply the layer."""
        part, row = divmod(len(schedule) - 1 - i, self._count)
        if part != self._part:
            self._part = part
            self._steps = [step.split(self._head.width, -1) for step in self._modulations(part).unbind()]
        return self._head.read(*self._head.step(x, self._steps[row], self._layers), schedule, i)

    def predict_all_steps(self, before: Float[Tensor, "n M D"], schedule: Schedule) -> tuple[Tensor, Tensor]:
        """Return eps and v for whole paths, of all steps at once.

        Args:
            before: Noisy token before each of the n steps.
            schedule: Schedule of n steps.
        """
        head, width = self._head, self._head.width
        steps = [
            head.step(chunk, self._modulations(part).split(width, -1), self._layers)
            for part, chunk in enumerate(before.split(self._count))
        ]
        eps, v = (torch.cat(out) for out in zip(*steps, strict=True))
        return head.read(eps, v, schedule, None)

    def rows(self, index: slice | Int[Tensor, " N"]) -> "ConditionedHead":
        """Return the head for some conditions. Modulations that fit into memory are computed once for all tokens."""
        embedded, steps = self._embedded[index], len(self._times)
        fits = steps <= self._count and steps * len(embedded) <= _ROWS
        modulated = self._modulations(0)[:, index] if fits else None
        return ConditionedHead(self._head, self._layers, self._modulation, self._times, embedded, modulated)

    def _modulations(self, part: int) -> Float[Tensor, "S M A"]:
        """Return the modulations of all layers at some of the steps, the first first."""
        if self._modulated is not None:
            return self._modulated
        steps = slice(part * self._count, (part + 1) * self._count)
        embedded = F.silu(self._times[steps, None] + self._embedded)
        rows = embedded.flatten(0, 1)
        modulated = self._modulation(self._modulation.padded(rows))[: len(rows)].unflatten(0, embedded.shape[:2])
        if self._count >= len(self._times):
            self._modulated = modulated
        return cast(Tensor, modulated)


class ResidualHead(DiffusionHead):
    """A diffusion head whose second output is the error of its noise estimates (NPR-DPM, arXiv 2206.07309).

    MAR's v interpolates a step's variance between two extremes, which holds for the steps it was trained with. From the
    error of the noise estimate the variances follow for any number of steps.
    """

    @override
    def read(self, eps: Tensor, v: Tensor, schedule: Schedule, i: int | None) -> tuple[Tensor, Tensor]:
        return eps, variance_output_from_error(schedule, i, v.sigmoid())


class MixtureHead(nn.Module):
    """A mixture of K diagonal Gaussians in one pass, the output of GIVT (arXiv 2312.02116)."""

    def __init__(self, token: int, condition: int, width: int, components: int) -> None:
        super().__init__()
        self.token, self.components = token, components
        self.net = nn.Sequential(nn.Linear(condition, width), nn.SiLU(), nn.Linear(width, components * (1 + 2 * token)))

    def forward(self, condition: Float[Tensor, "M H"]) -> Gaussians:
        """The distributions of M tokens, float64."""
        weight, bias = (
            self.net(condition).to(torch.float64).split([self.components, 2 * self.components * self.token], -1)
        )
        mean, scale = bias.unflatten(-1, (self.components, 2 * self.token)).chunk(2, -1)
        return Gaussians(weight.log_softmax(-1), mean, F.softplus(scale).clamp(_MIN_STD, _MAX_STD))
