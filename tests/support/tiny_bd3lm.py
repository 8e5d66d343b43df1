"""BD3-LM's network as its paper and release describe it, written apart from the one that reads its checkpoints.

A diffusion transformer with its time embedding, which is fed time 0, and modulations computed in every layer.
"""

import math
from functools import cache
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor

WIDTH, HEADS, LAYERS, CONDITION, FREQUENCIES = 32, 4, 2, 12, 256


def settings(rows: int, longest: int) -> dict[str, Any]:
    """The published config.json at tiny sizes."""
    return {
        "adaln": True,
        "architectures": ["BD3LM"],
        "attn_backend": "flex",
        "auto_map": {"AutoModelForMaskedLM": "modeling_bd3lm.BD3LM"},
        "block_size": 8,
        "causal": False,
        "cond_dim": CONDITION,
        "cross_attn": True,
        "dropout": 0.1,
        "hidden_dim": WIDTH,
        "model_length": longest,
        "model_type": "bd3lm",
        "n_blocks": LAYERS,
        "n_heads": HEADS,
        "return_dict": False,
        "sampling_eps_max": 0.999,
        "sampling_eps_min": 0.001,
        "time_conditioning": False,
        "torch_dtype": "float32",
        "var_min": True,
        "vocab_size": rows,
    }


@cache
def tensors(rows: int, seed: int) -> dict[str, Tensor]:
    """Random weights under their published names, large enough to have opinions."""
    shapes = {
        "vocab_embed.embedding": (rows, WIDTH),
        "sigma_map.mlp.0.weight": (CONDITION, FREQUENCIES),
        "sigma_map.mlp.0.bias": (CONDITION,),
        "sigma_map.mlp.2.weight": (CONDITION, CONDITION),
        "sigma_map.mlp.2.bias": (CONDITION,),
        "output_layer.norm_final.weight": (WIDTH,),
        "output_layer.linear.weight": (rows, WIDTH),
        "output_layer.linear.bias": (rows,),
        "output_layer.adaLN_modulation.weight": (2 * WIDTH, CONDITION),
        "output_layer.adaLN_modulation.bias": (2 * WIDTH,),
    }
    for i in range(LAYERS):
        shapes |= {
            f"blocks.{i}.norm1.weight": (WIDTH,),
            f"blocks.{i}.attn_qkv.weight": (3 * WIDTH, WIDTH),
            f"blocks.{i}.attn_out.weight": (WIDTH, WIDTH),
            f"blocks.{i}.norm2.weight": (WIDTH,),
            f"blocks.{i}.mlp.0.weight": (4 * WIDTH, WIDTH),
            f"blocks.{i}.mlp.0.bias": (4 * WIDTH,),
            f"blocks.{i}.mlp.2.weight": (WIDTH, 4 * WIDTH),
            f"blocks.{i}.mlp.2.bias": (WIDTH,),
            f"blocks.{i}.adaLN_modulation.weight": (6 * WIDTH, CONDITION),
            f"blocks.{i}.adaLN_modulation.bias": (6 * WIDTH,),
        }
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape, generator=generator)
        scale = 2 / shape[-1] ** 0.5 if len(shape) > 1 else 0.3
        state[f"backbone.{name}"] = noise * scale + ("norm" in name)
    buffers = {"sampling_eps_min": torch.tensor(1e-3), "sampling_eps_max": torch.tensor(0.999)}
    return state | buffers | {"backbone.rotary_emb.inv_freq": _INVERSE}


_INVERSE: Final = 10_000.0 ** -(torch.arange(0, WIDTH // HEADS, 2) / (WIDTH // HEADS))


def forward(state: dict[str, Tensor], ids: Tensor, position: Tensor, seen: Tensor) -> Tensor:
    """Logits [n, V] of tokens at their positions under a mask [n, n]."""

    def part(name: str) -> Tensor:
        return state[f"backbone.{name}"]

    def linear(x: Tensor, name: str) -> Tensor:
        return F.linear(x, part(f"{name}.weight"), state.get(f"backbone.{name}.bias"))

    def modulated(x: Tensor, norm: str, shift: Tensor, scale: Tensor) -> Tensor:
        return F.layer_norm(x, (WIDTH,)) * part(f"{norm}.weight") * (1 + scale) + shift

    time = 0.0 * torch.exp(-math.log(10_000) * torch.arange(FREQUENCIES // 2) / (FREQUENCIES // 2))
    c = torch.cat([time.cos(), time.sin()])
    c = F.silu(linear(F.silu(linear(c, "sigma_map.mlp.0")), "sigma_map.mlp.2"))
    angle = (position[:, None] * _INVERSE).repeat(1, 2)
    cosine, sine = angle.cos(), angle.sin()
    x = part("vocab_embed.embedding")[ids]
    for i in range(LAYERS):
        block = f"blocks.{i}."
        shift, scale, gate, ff_shift, ff_scale, ff_gate = linear(c, f"{block}adaLN_modulation").chunk(6)
        h = linear(modulated(x, f"{block}norm1", shift, scale), f"{block}attn_qkv")
        q, k, v = h.view(len(ids), 3, HEADS, -1).permute(1, 2, 0, 3)
        q, k = (y * cosine + torch.cat([-y[..., y.shape[-1] // 2 :], y[..., : y.shape[-1] // 2]], -1) * sine
                for y in (q, k))  # fmt: skip
        scores = (q @ k.transpose(1, 2) / (WIDTH // HEADS) ** 0.5).masked_fill(~seen, -torch.inf)
        h = (scores.softmax(-1) @ v).transpose(0, 1).reshape(len(ids), WIDTH)
        x = x + gate * linear(h, f"{block}attn_out")
        h = F.gelu(linear(modulated(x, f"{block}norm2", ff_shift, ff_scale), f"{block}mlp.0"), approximate="tanh")
        x = x + ff_gate * linear(h, f"{block}mlp.2")
    shift, scale = linear(c, "output_layer.adaLN_modulation").chunk(2)
    return linear(modulated(x, "output_layer.norm_final", shift, scale), "output_layer.linear")
