"""Qwen3 with few, large operations: the form in which the studio models decode.

transformers' Qwen3Model takes some forty small operations a layer. In a pass of a few tokens through a narrow network
they, not the arithmetic, take the time. Here queries, keys and values are one product, normalised and turned together,
and so are both halves of the feed-forward part. The weights are the same; results differ by rounding.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import Qwen3Model
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutputWithPast

Remember = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Takes the keys and values [n, H, T, D] of a pass and gives all that may be seen."""


class LeanQwen3(nn.Module):
    """Stands in for the Qwen3Model that it is made of, in float32, for inference."""

    def __init__(self, model: Qwen3Model) -> None:
        """Fuse the weights of a model that `fits`."""
        super().__init__()
        config = model.config
        self.embed_tokens = model.embed_tokens
        self.layers = nn.ModuleList(_Layer(layer, config.head_dim) for layer in model.layers)
        self.norm, self.epsilon = _fixed(model.norm.weight), config.rms_norm_eps
        angle = model.rotary_emb.inv_freq[None] * torch.arange(config.max_position_embeddings)[:, None]
        self.register_buffer("turn", torch.polar(torch.ones_like(angle), angle)[:, None], persistent=False)
        self.turn: Tensor

    def forward(
        self,
        input_ids: Int[Tensor, "n T"] | None = None,
        inputs_embeds: Float[Tensor, "n T W"] | None = None,
        position_ids: Int[Tensor, "n T"] | None = None,
        attention_mask: Float[Tensor, "n 1 T S"] | None = None,
        past_key_values: Cache | None = None,
        **_: object,
    ) -> BaseModelOutputWithPast:
        """See `Qwen3Model.forward`; positions must be given, and without a mask attention is causal."""
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        assert x is not None
        turn = self.turn[position_ids]  # [n, T, 1, D / 2]
        for i, layer in enumerate(self.layers):
            remember: Remember = _forget if past_key_values is None else past_key_values.layers[i].update
            x = layer(x, turn, attention_mask, remember)
        x = _normed(x, self.epsilon) * self.norm
        return BaseModelOutputWithPast(last_hidden_state=x)


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


class _Layer(nn.Module):
    """One layer. The two numbers that a rotation turns lie side by side, as complex numbers do; scores are the same."""

    def __init__(self, layer: Any, head_dim: int) -> None:
        super().__init__()
        attention, feed_forward = layer.self_attn, layer.mlp
        self.head_dim, self.epsilon = head_dim, layer.input_layernorm.variance_epsilon
        q, k = (_paired(one.weight, head_dim) for one in (attention.q_proj, attention.k_proj))
        heads = len(q) // head_dim
        norms = [_paired(one.weight, head_dim).expand(heads, -1) for one in (attention.q_norm, attention.k_norm)]
        self.qkv = _fixed(torch.cat([q, k, attention.v_proj.weight]) * layer.input_layernorm.weight)
        self.scale = _fixed(torch.cat(norms))  # [2 H, D]
        self.out = _fixed(attention.o_proj.weight)
        gate_up = torch.cat([feed_forward.gate_proj.weight, feed_forward.up_proj.weight])
        self.gate_up = _fixed(gate_up * layer.post_attention_layernorm.weight)
        self.down = _fixed(feed_forward.down_proj.weight)

    def forward(
        self, x: Float[Tensor, "n T W"], turn: Tensor, mask: Float[Tensor, "n 1 T S"] | None, remember: Remember
    ) -> Float[Tensor, "n T W"]:
        mixed = F.linear(_normed(x, self.epsilon), self.qkv).unflatten(-1, (-1, self.head_dim))
        both = len(self.scale)
        qk = _normed(mixed[..., :both, :], self.epsilon) * self.scale
        turned = torch.view_as_real(torch.view_as_complex(qk.unflatten(-1, (-1, 2))) * turn).flatten(-2)
        query, key = turned.transpose(1, 2).chunk(2, 1)
        keys, values = remember(key, mixed[..., both:, :].transpose(1, 2))
        seen = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, is_causal=mask is None)
        x = x + F.linear(seen.transpose(1, 2).flatten(2), self.out)
        gate, up = F.linear(_normed(x, self.epsilon), self.gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, self.down)


def _normed(x: Tensor, epsilon: float) -> Tensor:
    """X over the root of its mean square; what a layer scales it by is a factor of the weights behind it."""
    norm: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x * torch.rsqrt(norm.square() / x.shape[-1] + epsilon)


def _fixed(weight: Tensor) -> nn.Parameter:
    return nn.Parameter(weight.detach().clone(), requires_grad=False)


def _paired(weight: Tensor, head_dim: int) -> Tensor:
    """Rows of every head in the order 0, D/2, 1, D/2 + 1, ...: what a rotation turns together lies side by side."""
    halves: Tensor = weight.detach().unflatten(0, (-1, 2, head_dim // 2))
    return halves.transpose(1, 2).flatten(0, 2)
