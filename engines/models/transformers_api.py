"""All that is used of transformers outside its documented interface, or is called differently in its versions.

`tests/unit/engines/models/test_transformers_api.py` names each entry, so that a new version that lacks one fails there.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from transformers import modeling_gguf_pytorch_utils
from transformers.cache_utils import Cache, DummyLayer, DynamicLayer, DynamicSlidingWindowLayer
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm

__all__ = [
    "Cache",
    "DummyLayer",
    "DynamicLayer",
    "DynamicSlidingWindowLayer",
    "LlamaDecoderLayer",
    "LlamaRMSNorm",
    "cache_argument",
    "cache_of",
    "fed_token_counts",
    "gguf_reader",
    "input_device",
    "is_stateful",
    "use_default_attention",
]
modeling_gguf_pytorch_utils.tqdm = partial(tqdm, disable=True)  # it draws a progress bar regardless of its options


def cache_argument(network: Any) -> str:
    """Name of the argument of a network that takes its KV cache: `cache` from 5.24 on, `past_key_values` before."""
    return _cache_argument(type(network).forward)


@cache
def _cache_argument(forward: Callable[..., Any]) -> str:
    return "cache" if "cache" in signature(forward).parameters else "past_key_values"


def cache_of(values: Any) -> Any:
    """The KV cache among the arguments of a pass, or in its output; None without one."""
    for name in ("cache", "past_key_values"):
        found = values.get(name) if isinstance(values, Mapping) else getattr(values, name, None)
        if found is not None:
            return found
    return None


@contextmanager
def fed_token_counts(network: Any) -> Iterator[list[int]]:
    """Count the tokens that each pass of a network is fed inside the context; of None there are no passes.

    `generate` passes them by name or by position.
    """
    counts: list[int] = []
    if network is None:
        yield counts
        return

    def count(_: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], __: Any) -> None:
        counts.append(int((kwargs["input_ids"] if "input_ids" in kwargs else args[0]).shape[-1]))

    handle = network.register_forward_hook(count, with_kwargs=True)
    try:
        yield counts
    finally:
        handle.remove()


def is_stateful(network: Any) -> bool:
    """Whether a network has a state that cannot go back to an earlier token, as `generate` asks before drafts."""
    return bool(getattr(network, "_is_stateful", False))


def input_device(network: Any) -> torch.device:
    """Return the device of a network's inputs; with weights that accelerate loads in every pass, that of the pass."""
    device: torch.device = network.device
    executes = getattr(getattr(network, "_hf_hook", None), "execution_device", None)
    return device if device.type != "meta" or executes is None else torch.device(executes)


def is_offloaded(network: Any) -> bool:
    """Whether accelerate loads weights of a network in every pass, from the computer's memory or its disk."""
    return any(hasattr(part, "_hf_hook") for part in network.modules())


def use_default_attention(config: Any) -> None:
    """Let transformers choose the attention kernel: the one that a config names need not be installed."""
    config._attn_implementation = None


def gguf_reader(file: Path) -> Callable[..., dict[str, Any]]:
    """A function that reads `config` and, on request, `tensors` of a GGUF file."""
    return partial(modeling_gguf_pytorch_utils.load_gguf_checkpoint, str(file))
