"""Common part of models with a torch network."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from draftscope.engines.models.transformers_api import cache_argument


class Networked:
    """A model around one network."""

    network: Any
    """The network: a module of torch."""
    num_parameters: int
    """Number of parameters."""

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the network's computations."""
        return _dtype_of(self.network)


def _dtype_of(network: Any) -> torch.dtype:
    dtype: torch.dtype = next(network.parameters()).dtype  # transformers' own walks all modules, every pass
    return dtype


def count_parameters(*networks: nn.Module) -> int:
    """The parameters of some networks together."""
    return sum(weight.numel() for network in networks for weight in network.parameters())


def hidden_states(decoder: Any, positions: Tensor, cache: Any, mask: Tensor | None, **inputs: Tensor) -> Tensor:
    """Return the last hidden states of a decoder, [B, N, C].

    Args:
        decoder: Decoder of transformers, without its head.
        positions: Positions of the inputs, [B, N].
        cache: KV cache, which the pass extends; None for none.
        mask: Additive attention mask, [B, 1, N, S]; None for the decoder's own, the causal one.
        inputs: `input_ids` [B, N], or `inputs_embeds` [B, N, C].
    """
    out = decoder(
        **inputs,
        **{cache_argument(decoder): cache},
        position_ids=positions,
        attention_mask=None if mask is None else mask.to(_dtype_of(decoder)),
        use_cache=cache is not None,
    )
    return cast(Tensor, out.last_hidden_state)
