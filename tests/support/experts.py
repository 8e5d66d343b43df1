"""A layer with experts as LLaDA2 publishes it, told one token at a time."""

from collections.abc import Callable, Mapping
from typing import Final

import torch
from torch import Tensor

EXPERTS: Final = 8
CHOSEN: Final = 2
"""Experts of a token."""
EXPERT_GROUPS: Final = 4
CHOSEN_GROUPS: Final = 2
EXPERT_INNER: Final = 16
SCALE: Final = 2.5


def tensors(at: str, hidden: int, matrix: Callable[[int, int], Tensor], made: torch.Generator) -> dict[str, Tensor]:
    """The weights of a layer's experts, the shared one and the gate."""
    found = {}
    for part in [*(f"experts.{e}" for e in range(EXPERTS)), "shared_experts"]:
        found |= {f"{at}{part}.{name}_proj.weight": matrix(EXPERT_INNER, hidden) for name in ("gate", "up")}
        found[f"{at}{part}.down_proj.weight"] = matrix(hidden, EXPERT_INNER)
    found[f"{at}gate.weight"] = matrix(EXPERTS, hidden)
    found[f"{at}gate.expert_bias"] = 0.3 * torch.randn(EXPERTS, generator=made)
    return found


def forward(y: Tensor, at: str, weights: Mapping[str, Tensor], mlp: Callable[[Tensor, str], Tensor]) -> Tensor:
    """The best groups by their two best experts, the best experts in them, and the shared one; y is [n, D]."""
    out = mlp(y, f"{at}shared_experts.")
    size = EXPERTS // EXPERT_GROUPS
    for n, one in enumerate(y):
        score = (one @ weights[f"{at}gate.weight"].T).sigmoid()
        biased = (score + weights[f"{at}gate.expert_bias"]).tolist()
        groups = sorted(range(EXPERT_GROUPS), key=lambda g: -sum(sorted(biased[g * size : g * size + size])[-2:]))
        inside = [e for g in groups[:CHOSEN_GROUPS] for e in range(g * size, g * size + size)]
        best = sorted(inside, key=lambda e: -biased[e])[:CHOSEN]
        total = sum(float(score[e]) for e in best)
        for e in best:
            out[n] = out[n] + SCALE * score[e] / total * mlp(one[None], f"{at}experts.{e}.")[0]
    return out
