"""What config.json says of a decoder of Llama's kind inside a larger model, with Llama's values where it is silent."""

from collections.abc import Mapping
from typing import Any, Final

from transformers import LlamaConfig

from engines.models.hub.assembling import check_fixed, numbers
from engines.models.weights import Source

FIXED: Final[dict[str, object]] = {
    "hidden_act": "silu",
    "rope_scaling": None,
    "attention_bias": False,
    "mlp_bias": False,
}
_SIZES: Final[dict[str, int | float]] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
}
_MOST_LAYERS: Final = 1000


def sizes_of(
    source: Source, said: Mapping[str, Any], title: str, usual: Mapping[str, int | float] | None = None
) -> dict[str, Any]:
    """Fields of a native config: sizes and rotary positions.

    Args:
        source: Whose config.json it is.
        said: The part of it that speaks of the decoder, without what is null.
        title: What messages call the model.
        usual: Values where it is silent that are not Llama's.

    Raises:
        ModelError: for fields that are not allowed, or ask for another network.
    """
    check_fixed(source, said, FIXED, title)
    base: dict[str, int | float] = {**_SIZES, "rope_theta": 10_000.0, **(usual or {})}
    rope = said.get("rope_parameters")
    rope = rope if isinstance(rope, dict) else {}
    check_fixed(source, rope, {"rope_type": "default"}, title)
    if "rope_theta" in rope:
        said = {**said, "rope_theta": rope["rope_theta"]}
    found = numbers(source, said, base)
    heads = int(found["num_attention_heads"])
    grouped = numbers(
        source,
        said,
        {"num_key_value_heads": base.get("num_key_value_heads", heads), "head_dim": int(found["hidden_size"]) // heads},
    )
    if int(found["num_hidden_layers"]) > _MOST_LAYERS or heads % int(grouped["num_key_value_heads"]):
        raise source.lacks(
            f"config.json has {found['num_hidden_layers']} layers of {heads} heads and "
            f"{grouped['num_key_value_heads']} groups of them, which is no network"
        )
    rotary = {"rope_type": "default", "rope_theta": float(found.pop("rope_theta"))}
    return {**found, **grouped, "rope_parameters": rotary, "pad_token_id": None, "attn_implementation": "sdpa"}


def llama_config(source: Source, said: Mapping[str, Any], title: str) -> LlamaConfig:
    """The config of a native Llama; see `sizes_of`."""
    return LlamaConfig(**sizes_of(source, said, title), attention_bias=False, mlp_bias=False)
