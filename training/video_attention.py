"""Causal attention for training on a CPU, a latent frame of queries at a time.

torch's fused kernel takes a third longer there, most of it in the backward pass.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from engines.models.bundled.video_networks import PLANE

NAME = "causal-blocks"


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """Attention [B, N, H, D] of Q, K and V [B, H, N, D], every position to itself and those before."""
    parts = []
    for first in range(0, query.shape[2], PLANE):
        last = min(first + PLANE, query.shape[2])
        scores = (query[:, :, first:last] * scaling) @ key[:, :, :last].transpose(-1, -2)
        # To add is cheaper than to fill, backward, too.
        unseen = torch.full((last - first, last), -torch.inf, dtype=scores.dtype, device=query.device).triu(first + 1)
        parts.append((scores + unseen).softmax(-1) @ value[:, :, :last])
    return torch.cat(parts, 2).transpose(1, 2), None


AttentionInterface.register(NAME, attend)
