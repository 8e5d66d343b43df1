"""LLaDA2.0 and 2.1 in Glm4Moe: one matrix is cut into queries, keys and values, and experts are stacked."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from engines.models.weights import Names, Recipe

_RENAMED: Final = (
    ("model.embed_tokens.", "model.word_embeddings."),
    (".self_attn.o_proj.", ".attention.dense."),
    (".self_attn.q_norm.", ".attention.query_layernorm."),
    (".self_attn.k_norm.", ".attention.key_layernorm."),
    (".e_score_correction_bias", ".expert_bias"),
)
_LAYER: Final = re.compile(r"(model\.layers\.\d+\.)self_attn\.q_proj\.weight")
_STACKED: Final = re.compile(r"(model\.layers\.\d+\.mlp\.experts\.)(gate_up_proj|down_proj)")


def _recipes(native: Mapping[str, tuple[int, ...]], config: Any) -> dict[str, Recipe]:
    found: dict[str, Recipe] = {}
    for name, shape in native.items():
        if layer := _LAYER.fullmatch(name):
            found |= _attention(layer[1], native)
        elif stacked := _STACKED.fullmatch(name):
            found[name] = _experts(stacked[1], shape, stacked[2] == "down_proj")
    return found


def _attention(layer: str, native: Mapping[str, tuple[int, ...]]) -> dict[str, Recipe]:
    """Queries, keys and values of a layer, one behind the other in one matrix."""
    names = [f"{layer}self_attn.{part}_proj.weight" for part in "qkv"]
    heights = [native[name][0] for name in names]
    whole = {f"{layer}attention.query_key_value.weight": (sum(heights), native[names[0]][1])}

    def rows(number: int) -> Recipe:
        first = sum(heights[:number])
        return Recipe(whole, lambda parts: parts[0][first : first + heights[number]].clone())

    return {name: rows(number) for number, name in enumerate(names)}


def _experts(layer: str, shape: tuple[int, ...], down: bool) -> Recipe:
    """One matrix an expert, or two that stand one above the other."""
    count, height, width = shape
    if down:
        return Recipe({f"{layer}{e}.down_proj.weight": (height, width) for e in range(count)}, _stack)
    half = (height // 2, width)
    sources = {f"{layer}{e}.{part}_proj.weight": half for e in range(count) for part in ("gate", "up")}

    def pile(parts: Sequence[Tensor]) -> Tensor:
        return torch.stack([torch.cat([parts[2 * e], parts[2 * e + 1]]) for e in range(count)])

    return Recipe(sources, pile)


def _stack(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(parts))


NAMES: Final = Names(_RENAMED, _recipes)
