"""What models around a network of torch say of it."""

from typing import Any

import torch
from torch import Tensor, nn


class Networked:
    """A model around one network."""

    network: nn.Module
    """The transformer."""

    @property
    def dtype(self) -> torch.dtype:
        """What the network computes in."""
        return next(self.network.parameters()).dtype

    @property
    def parameters(self) -> int:
        """See `engines.protocol.Model.parameters`."""
        return sum(weight.numel() for weight in self.network.parameters())


def hidden_states(decoder: Any, positions: Tensor, cache: Any, mask: Tensor | None, **inputs: Tensor) -> Tensor:
    """Last hidden states [B, N, C] of a transformers decoder; `inputs` are input_ids or inputs_embeds [B, N, ...]."""
    out = decoder(
        **inputs,
        position_ids=positions,
        attention_mask=None if mask is None else mask.to(decoder.dtype),
        past_key_values=cache,
        use_cache=cache is not None,
    )
    states: Tensor = out.last_hidden_state
    return states
