"""LLaDA2.0 and 2.1 in Glm4Moe: one matrix becomes Q, K and V, and experts are stacked."""

import re
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from engines.models.checkpoints.assembling import renamed

_RENAMED: Final = (
    ("model.word_embeddings.", "model.embed_tokens."),
    (".attention.dense.", ".self_attn.o_proj."),
    (".attention.query_layernorm.", ".self_attn.q_norm."),
    (".attention.key_layernorm.", ".self_attn.k_norm."),
    (".expert_bias", ".e_score_correction_bias"),
)
_FUSED: Final = ".attention.query_key_value.weight"
_EXPERT: Final = re.compile(r"(.*\.mlp\.experts)\.\d+\.(gate|up|down)_proj\.weight")


def native_state(state: Mapping[str, Tensor], config: Any) -> dict[str, Tensor]:
    """The tensors of a folder under the names of Glm4Moe.

    Args:
        state: Tensors by their published names.
        config: A Glm4MoeConfig, for the sizes of Q, K and V.
    """
    sizes = [config.head_dim * heads for heads in (config.num_attention_heads, *[config.num_key_value_heads] * 2)]
    native: dict[str, Tensor] = {}
    stacks = set()
    for name, part in state.items():
        expert = _EXPERT.fullmatch(name)
        if expert:
            stacks.add(expert[1])
        elif name.endswith(_FUSED) and len(part) == sum(sizes):
            layer = name.removesuffix(_FUSED)
            names = (f"{layer}.self_attn.{letter}_proj.weight" for letter in "qkv")
            native |= {own: rows.clone() for own, rows in zip(names, part.split(sizes), strict=True)}
        else:
            native[renamed(name, _RENAMED)] = part
    for stack in stacks:
        native |= _stacked(stack, state, config.n_routed_experts)
    return native


def _stacked(stack: str, state: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
    """The experts of a layer [E, out, in], with gate above up; left out where tensors are missing or misshapen."""
    names = {part: [f"{stack}.{e}.{part}_proj.weight" for e in range(count)] for part in ("gate", "up", "down")}
    if any(name not in state for each in names.values() for name in each):
        return {}
    try:
        gate, up, down = (torch.stack([state[name] for name in each]) for each in names.values())
        return {f"{stack}.gate_up_proj": torch.cat([gate, up], 1), f"{stack}.down_proj": down}
    except RuntimeError:
        return {}
