"""Traits of a causal language model of transformers, found by running it, and its forward pass.

No field of a config says reliably whether attention is causal, or which caches can be cut. A few tokens do: logits must
not depend on later tokens, nor on whether earlier ones were cached.
"""

import inspect
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import DynamicCache

from draftscope.engines.models.transformers_api import (
    DummyLayer,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    cache_argument,
    input_device,
    is_stateful,
)
from draftscope.engines.settings import format_value

_HALF: Final = 4
"""Tokens after which two texts of the test differ."""
_KNOWN: Final = WeakKeyDictionary[torch.nn.Module, "NetworkTraits"]()
_REMEDY: Final = "give a causal language model, as AutoModelForCausalLM loads it."
_MAX_CHARACTERS: Final = 200
"""Maximum length of the error of a network in messages."""


@dataclass(frozen=True, slots=True)
class NetworkTraits:
    """How a network is fed."""

    has_cache: bool
    """Whether it has a KV cache that can be cut at any token; the others are fed the whole text in every pass."""
    cached_numel: int
    """Numbers in the KV cache of one position, of all layers."""
    cache_name: str
    """The argument that takes the cache: `cache`, or `past_key_values` in older versions of transformers."""
    keeps: bool
    """Whether it computes only the logits that are needed."""
    takes_positions: bool
    """Whether it takes the positions of its tokens, which `generate` then gives."""


def check_network(candidate: object, field: str) -> None:
    """Raise ValueError unless an object is a causal language model of transformers that is ready for generation.

    Args:
        candidate: Any object.
        field: Name of the argument, which errors begin with.
    """
    network: Any = candidate
    kind = type(candidate).__name__
    if not (isinstance(candidate, torch.nn.Module) and hasattr(network, "config") and hasattr(network, "device")):
        raise ValueError(f"{field}: a {kind} is not a model of transformers; {_REMEDY}")
    if getattr(network.config, "is_encoder_decoder", False):
        raise ValueError(f"{field}: {kind} is an encoder-decoder, which has no prompt to go on from; {_REMEDY}")
    if not getattr(network, "can_generate", lambda: False)() or network.get_output_embeddings() is None:
        raise ValueError(f"{field}: {kind} has no head that predicts the next token; {_REMEDY}")
    if network.training:
        raise ValueError(f"{field}: {kind} is in training mode, where dropout changes every pass; call {field}.eval().")


def traits_of(network: Any, field: str) -> NetworkTraits:
    """Return how a network is fed, found once by three passes over a few tokens.

    Args:
        network: Network that `check_network` accepts; on the meta device no pass is run.
        field: Name of the argument, which errors begin with.

    Raises:
        ValueError: If its attention is not causal, or it needs more than ids.
    """
    if network not in _KNOWN:
        plain = _described(network)
        if input_device(network).type == "meta":
            return plain
        _KNOWN[network] = _tried(network, field, plain)
    return _KNOWN[network]


def _described(network: Any) -> NetworkTraits:
    """Traits that the signature of a network shows."""
    names = inspect.signature(network.forward).parameters
    return NetworkTraits(False, 0, cache_argument(network), "logits_to_keep" in names, "position_ids" in names)


@torch.inference_mode()
def _tried(network: Any, field: str, plain: NetworkTraits) -> NetworkTraits:
    """Traits that passes over a text, its beginning and a continuation of that show."""
    kind, size = type(network).__name__, int(network.config.get_text_config().vocab_size)
    texts = torch.arange(4 * _HALF, device=input_device(network)).view(2, -1) % size
    texts[1, :_HALF] = texts[0, :_HALF]
    try:
        one = feed(network, plain, texts[:1], None, 0, 2 * _HALF).float()
        begun = feed(network, plain, texts[:1, :_HALF], None, 0, _HALF).float()
    except Exception as error:  # of whatever a network needs in addition
        why = " ".join(str(error).split())[:_MAX_CHARACTERS]
        raise ValueError(f"{field}: {kind} does not decode from ids alone ({why}); {_REMEDY}") from error
    if one[:_HALF].shape != begun.shape or _differ(one[:_HALF], begun, network.dtype):
        raise ValueError(
            f"{field}: the attention of {kind} is not causal, as its logits change when tokens follow; {_REMEDY} One "
            "that was trained as a decoder has is_decoder=true in its config."
        )
    try:
        cache = new_cache(network)
        if cache is None:
            return plain
        feed(network, plain, texts[1:], cache, 0, 1)
        numel = cached_numel(cache) // texts.shape[1]
        cache.crop(-_HALF)
        again = feed(network, plain, texts[:1, _HALF:], cache, _HALF, _HALF).float()
    except Exception:  # a cache that takes no several tokens, for instance
        return plain
    if one[_HALF:].shape != again.shape or _differ(one[_HALF:], again, network.dtype):
        return plain
    return NetworkTraits(True, numel, plain.cache_name, plain.keeps, plain.takes_positions)


def _differ(one: Float[Tensor, "T V"], other: Float[Tensor, "T V"], dtype: torch.dtype) -> bool:
    """Whether logits differ by more than rounding; in half precision, at every token.

    A pass over fewer tokens may round differently, and in half precision a router may choose another expert for one.
    """
    tolerance = torch.finfo(dtype).eps ** 0.5 * one.abs().max()
    differences = (one - other).abs().amax(-1)
    largest = differences.max() if dtype == torch.float32 else differences.min()
    return bool(largest > tolerance)  # False where they are not finite


def feed(network: Any, traits: NetworkTraits, ids: Int[Tensor, "1 T"], cache: Any, start: int, wanted: int) -> Tensor:
    """Feed tokens to a network.

    Args:
        network: A causal language model of transformers.
        traits: As `traits_of` the network.
        ids: The tokens that follow the cached ones.
        cache: A cache of `new_cache`, which grows; None to keep nothing.
        start: The position of the first token.
        wanted: The number of last tokens whose logits are needed.

    Returns:
        Logits [wanted, V].
    """
    options: dict[str, Any] = {traits.cache_name: cache, "use_cache": cache is not None, "return_dict": True}
    if traits.keeps:
        options["logits_to_keep"] = wanted
    if traits.takes_positions:
        options["position_ids"] = torch.arange(start, start + ids.shape[1], device=ids.device)[None]
    logits: Tensor = network(input_ids=ids, **options).logits
    return logits[0, -wanted:]


def new_cache(network: Any) -> Any:
    """An empty KV cache of a network that can be cut at any token; None if transformers has none."""
    if is_stateful(network):
        return None
    layers = DynamicCache(config=network.config).layers
    # Layers that select the tokens they attend to select others in a pass over several tokens than in passes over one.
    if any(type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer, DummyLayer) for layer in layers):
        return None
    if any(type(layer) is DummyLayer for layer in layers):
        cache = DynamicCache(config=network.config)
        cache.layers = [layer if type(layer) is DummyLayer else DynamicLayer() for layer in layers]
        return cache
    # Not a window's layers: they forget tokens that are needed again when a draft is rejected.
    return DynamicCache()


def cached_numel(cache: Any) -> int:
    """The numbers that a cache holds."""
    stored = (value for layer in cache.layers for value in _tensors(layer))
    return sum(value.numel() for value in stored)


def _tensors(layer: Any) -> Iterable[Tensor]:
    return (value for name in ("keys", "values") if isinstance(value := getattr(layer, name, None), Tensor))


@torch.inference_mode()
def estimate_cached_numel(network: Any) -> int | None:
    """Numbers in the KV cache of one position of a network on the meta device, by a pass over one token.

    None for a network that looks at its tokens, which have no values there.
    """
    ids = torch.zeros(1, 1, dtype=torch.long, device="meta")
    network = network.eval().to(torch.bfloat16)  # which all kernels for experts take
    with suppress(Exception):  # of configs that need one
        network.config.pad_token_id = None  # or some networks look for it in the ids
    try:
        cache = new_cache(network)
        if cache is None:
            return 0
        feed(network, _described(network), ids, cache, 0, 1)
    except Exception:  # of whatever reads values
        return None
    return cached_numel(cache)


def ends_of(network: Any) -> tuple[int, ...]:
    """The end-of-sequence ids at which `generate` ends a text of this network; raises ValueError for other values."""
    ends = getattr(getattr(network, "generation_config", None), "eos_token_id", None)
    ids = [] if ends is None else list(ends) if isinstance(ends, list | tuple) else [ends]
    if any(isinstance(end, bool) or not isinstance(end, int) for end in ids):
        raise ValueError(f"eos_token_id: {format_value(ends)} is not allowed; use ids in generation_config.json.")
    return tuple(dict.fromkeys(ids))
