"""A diffusion head in few, large operations: the same weights, in the form in which they are used.

What a layer is modulated with depends on step and condition alone. It is made for many steps and tokens in one product,
in which the scales of the norms are factors of the weights; so a step is six operations a layer. Where all states of a
path are known, all of its steps are one pass.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from engines.continuous.denoising import Schedule

_ROWS: Final = 512
"""Pairs of step and token whose modulations are made together."""

Read = Callable[[Tensor, Tensor, Schedule, int | None], tuple[Tensor, Tensor]]
"""What a head makes of its two outputs; see `engines.models.heads.DiffusionHead.read`."""


class LeanHead:
    """A head whose weights stay as they are."""

    @torch.no_grad()
    def __init__(self, head: Any, epsilon: float) -> None:
        """Take over the weights of an `engines.models.heads.DiffusionHead`, whose norms have that epsilon."""
        self.epsilon, self.width = epsilon, head.input_proj.out_features
        self.read: Read = head.read
        self.first, self.last = head.input_proj, head.final_layer.linear
        self.layers = [(block.mlp[0], block.mlp[2]) for block in head.res_blocks]
        self._time, self._condition = head.time_embed, head.cond_embed
        folded = [_folded(block.adaLN_modulation[1], block.in_ln) for block in head.res_blocks]
        folded.append(_folded(head.final_layer.adaLN_modulation[1], None))
        self._weight, self._bias = (torch.cat(parts) for parts in zip(*folded, strict=True))
        self._embedded = lru_cache(maxsize=8)(self._embed)

    def conditioned_on(self, condition: Float[Tensor, "M H"], schedule: Schedule) -> "LeanRows":
        """The head given the conditions of M tokens."""
        return LeanRows(self, self._condition(condition), schedule)

    def modulations(self, schedule: Schedule, steps: slice, embedded: Float[Tensor, "M C"]) -> Float[Tensor, "S M A"]:
        """Factors, summands and gates of all layers at some of the steps, the first first."""
        return F.linear(F.silu(self._embedded(schedule)[steps, None] + embedded), self._weight, self._bias)

    def _embed(self, schedule: Schedule) -> Float[Tensor, "n C"]:
        with torch.inference_mode(False), torch.no_grad():
            timesteps = torch.tensor(schedule.timestep[::-1], device=self._weight.device)
            found: Tensor = self._time(timesteps.to(self._weight.dtype))
            return found

    def step(self, x: Float[Tensor, "... D"], modulation: Float[Tensor, "... A"]) -> tuple[Tensor, Tensor]:
        """Both outputs for noisy tokens, before they are read."""
        width, own = (self.width,), modulation.split(self.width, -1)
        hidden = F.linear(x.to(self._weight.dtype), self.first.weight, self.first.bias)
        for k, (into, out) in enumerate(self.layers):
            a, b, gate = own[3 * k : 3 * k + 3]
            normed = torch.addcmul(b, F.layer_norm(hidden, width, eps=self.epsilon), a)
            inside = F.silu(F.linear(normed, into.weight, into.bias), inplace=True)
            hidden = torch.addcmul(hidden, gate, F.linear(inside, out.weight, out.bias))
        normed = torch.addcmul(own[-1], F.layer_norm(hidden, width, eps=self.epsilon), own[-2])
        eps, v = F.linear(normed, self.last.weight, self.last.bias).chunk(2, -1)
        return eps, v


class LeanRows:
    """A head given the conditions of M tokens: an `engines.continuous.denoising.Conditioned`."""

    def __init__(
        self, head: LeanHead, embedded: Float[Tensor, "M C"], schedule: Schedule, made: Tensor | None = None
    ) -> None:
        self._head, self._embedded, self._schedule = head, embedded, schedule
        self._count = max(1, _ROWS // len(embedded))
        self._made, self._part, self._steps = made, -1, () if made is None else made.unbind()

    def __call__(self, x: Tensor, schedule: Schedule, i: int) -> tuple[Tensor, Tensor]:
        """See `engines.continuous.denoising.Denoiser`."""
        part, row = divmod(len(schedule) - 1 - i, self._count)
        if part != self._part and self._made is None:
            self._part, self._steps = part, self._modulations(part).unbind()
        return self._head.read(*self._head.step(x, self._steps[row]), schedule, i)

    def along(self, before: Float[Tensor, "n M D"], schedule: Schedule) -> tuple[Tensor, Tensor]:
        """See `engines.continuous.denoising.Conditioned`."""
        parts = -(-len(schedule) // self._count)
        found = [
            self._head.step(before[part * self._count : (part + 1) * self._count], self._modulations(part))
            for part in range(parts)
        ]
        eps, v = (torch.cat(out) if parts > 1 else out[0] for out in zip(*found, strict=True))
        return self._head.read(eps, v, schedule, None)

    def rows(self, index: slice | Int[Tensor, " N"]) -> "LeanRows":
        """See `engines.continuous.denoising.Conditioned`. What is made for all steps serves again."""
        made = None if self._made is None else self._made[:, index]
        return LeanRows(self._head, self._embedded[index], self._schedule, made)

    def _modulations(self, part: int) -> Tensor:
        if self._made is not None:
            return self._made
        steps = slice(part * self._count, (part + 1) * self._count)
        found = self._head.modulations(self._schedule, steps, self._embedded)
        if self._count >= len(self._schedule):
            self._made = found
        return found


def _folded(linear: nn.Linear, norm: nn.LayerNorm | None) -> Sequence[Tensor]:
    """Weight and bias of what gives (factor, summand, gate) in place of (shift, scale, gate).

    The factor is the norm's own times 1 + scale, the summand shift plus the norm's own times 1 + scale.
    """
    width = linear.in_features
    weight, bias = linear.weight.detach().split(width), linear.bias.detach().split(width)
    one = torch.ones_like(bias[1])
    scale, shift = (one, 0 * one) if norm is None else (norm.weight.detach(), norm.bias.detach())
    factor = (scale[:, None] * weight[1], scale * (one + bias[1]))
    summand = (weight[0] + shift[:, None] * weight[1], bias[0] + shift * (one + bias[1]))
    every = [factor, summand, *zip(weight[2:], bias[2:], strict=True)]
    return [torch.cat(parts) for parts in zip(*every, strict=True)]
