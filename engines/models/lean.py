"""Qwen3 with few, large operations: the form in which the studio models decode.

transformers' Qwen3Model takes some sixty small operations a layer. In a pass of a few tokens through a narrow network
they, not the arithmetic, take the time. Here Q, K and V are one product, normalised and turned together,
and so are both halves of the feed-forward part. Weights lie the way in which a product of few rows reads them fastest.
They are the same weights; results differ by rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import Qwen3Model
from transformers.cache_utils import Cache

Remember = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Takes K and V [n, H, T, D] of a pass and gives all that may be seen."""


class States(NamedTuple):
    """What a pass gives, named as transformers names it, whose own record takes as long as a small layer."""

    last_hidden_state: Float[Tensor, "n T W"]


class LeanQwen3(nn.Module):
    """Stands in for the Qwen3Model that it is made of, on its device, in float32, for inference."""

    def __init__(self, model: Qwen3Model) -> None:
        """Fuse the weights of a model that `fits`."""
        super().__init__()
        config = model.config
        self.embed_tokens = model.embed_tokens
        self.layers = tuple(_layer(layer, config.head_dim) for layer in model.layers)
        width, self._least = config.hidden_size, _least(config.hidden_size, config.rms_norm_eps, model.norm.weight)
        self._norm = model.norm.weight.detach() * width**0.5
        steps = torch.arange(config.max_position_embeddings, device=self._norm.device)
        angle = model.rotary_emb.inv_freq[None].to(steps.device) * steps[:, None]
        self._turn = torch.polar(torch.ones_like(angle), angle)[:, None]

    @property
    def dtype(self) -> torch.dtype:
        """What it computes in."""
        dtype: torch.dtype = self._norm.dtype
        return dtype

    def forward(
        self,
        input_ids: Int[Tensor, "n T"] | None = None,
        inputs_embeds: Float[Tensor, "n T W"] | None = None,
        position_ids: Int[Tensor, "n T"] | None = None,
        attention_mask: Float[Tensor, "n 1 T S"] | None = None,
        past_key_values: Cache | None = None,
        **_: object,
    ) -> States:
        """See `Qwen3Model.forward`; positions must be given.

        Without a mask attention is causal, and a single token sees all that is cached.
        """
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        assert x is not None
        turn = self._turn[position_ids]  # [n, T, 1, D / 2]
        for i, layer in enumerate(self.layers):
            remember: Remember = _forget if past_key_values is None else past_key_values.layers[i].update
            x = layer(x, turn, attention_mask, remember)
        return States(_normed(x, self._least) * self._norm)


def lean(model: nn.Module) -> nn.Module:
    """The lean form of a model that has one, and the model itself otherwise."""
    return LeanQwen3(model) if isinstance(model, Qwen3Model) and fits(model) else model


def fits(model: Qwen3Model) -> bool:
    """Whether a Qwen3 is as the studio models are: float32, full attention, a key for each query's head, no biases."""
    config = model.config
    grouped = config.num_attention_heads != config.num_key_value_heads
    other = grouped or config.attention_bias or model.has_sliding_layers or config.hidden_act != "silu"
    return model.dtype == torch.float32 and not other


def _forget(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    return keys, values


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer. The two numbers that a rotation turns lie side by side, as complex numbers do; scores are the same.

    Products are x @ weight, and what a norm scales by is a factor of the weights behind it.
    """

    qkv: Float[Tensor, "W Q"]
    scale: Float[Tensor, "G D"]
    """Of queries and keys."""
    out: Float[Tensor, "I W"]
    gate_up: Float[Tensor, "W J"]
    down: Float[Tensor, "F W"]
    least: Tensor
    """See `_normed`; of states."""
    least_head: Tensor
    """The same of queries and keys."""

    def __call__(
        self, x: Float[Tensor, "n T W"], turn: Tensor, mask: Float[Tensor, "n 1 T S"] | None, remember: Remember
    ) -> Float[Tensor, "n T W"]:
        (n, T, width), (both, head_dim), wide = x.shape, self.scale.shape, len(self.down)
        mixed = torch.matmul(_normed(x, self.least), self.qkv).view(n, T, -1, head_dim)
        qk = mixed[:, :, :both]
        qk = qk * (self.scale / torch.hypot(torch.linalg.vector_norm(qk, dim=-1, keepdim=True), self.least_head))
        turned = torch.view_as_real(torch.view_as_complex(qk.view(n, T, both, -1, 2)) * turn)
        heads = turned.view(n, T, both, head_dim).transpose(1, 2)
        keys, values = remember(heads[:, both // 2 :], mixed[:, :, both:].transpose(1, 2))
        causal = mask is None and T > 1
        seen = F.scaled_dot_product_attention(heads[:, : both // 2], keys, values, attn_mask=mask, is_causal=causal)
        rows = torch.addmm(x.reshape(-1, width), seen.transpose(1, 2).reshape(n * T, -1), self.out)
        gate_up = torch.mm(_normed(rows, self.least), self.gate_up)
        return torch.addmm(rows, F.silu(gate_up[:, :wide]) * gate_up[:, wide:], self.down).view(n, T, width)


def _layer(layer: Any, head_dim: int) -> _Layer:
    attention, feed_forward = layer.self_attn, layer.mlp
    epsilon, width = layer.input_layernorm.variance_epsilon, len(layer.input_layernorm.weight)
    q, k = (_paired(one.weight, head_dim) for one in (attention.q_proj, attention.k_proj))
    norms = [
        _paired(one.weight, head_dim).expand(len(q) // head_dim, -1) for one in (attention.q_norm, attention.k_norm)
    ]
    gate_up = torch.cat([feed_forward.gate_proj.weight, feed_forward.up_proj.weight])
    root = width**0.5
    return _Layer(
        qkv=_across(torch.cat([q, k, attention.v_proj.weight]) * layer.input_layernorm.weight * root),
        scale=torch.cat(norms).detach() * head_dim**0.5,
        out=_across(attention.o_proj.weight),
        gate_up=_across(gate_up * layer.post_attention_layernorm.weight * root),
        down=_across(feed_forward.down_proj.weight),
        least=_least(width, epsilon, q),
        least_head=_least(head_dim, epsilon, q),
    )


def _normed(x: Tensor, least: Tensor) -> Tensor:
    """X over its length, which is the root of its mean square but for a factor that the weights behind it hold."""
    return x / torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), least)


def _least(width: int, epsilon: float, like: Tensor) -> Tensor:
    """What keeps the length of `width` numbers from 0, for a mean square that has `epsilon` added."""
    return torch.tensor((width * epsilon) ** 0.5, dtype=like.dtype, device=like.device)


def _across(weight: Tensor) -> Tensor:
    """A weight [out, in] as [in, out]: with few rows to multiply by it, a third of the time less."""
    return weight.detach().t().contiguous()


def _paired(weight: Tensor, head_dim: int) -> Tensor:
    """Rows of every head in the order 0, D/2, 1, D/2 + 1, ...: what a rotation turns together lies side by side."""
    halves: Tensor = weight.detach().unflatten(0, (-1, 2, head_dim // 2))
    return halves.transpose(1, 2).flatten(0, 2)
