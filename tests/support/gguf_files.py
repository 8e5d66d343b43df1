"""Small GGUF files as llama.cpp has them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from support.tiny_text_checkpoints import LETTERS, MERGES, TEMPLATE

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOKENS = [*LETTERS, *map("".join, MERGES), *SPECIAL]


def write_gguf(file: Path, network: Any, quantised: Mapping[str, Any] | None = None) -> Path:
    """A Qwen2 network in float32, where `quantised` has no bytes of a tensor, by its name in transformers."""
    config, writer = network.config, gguf.GGUFWriter(file, "qwen2")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    tokens = [*TOKENS, *(f"[{i}]" for i in range(len(TOKENS), config.vocab_size))]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL or token.startswith("[") else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_eos_token_id(TOKENS.index("<|im_end|>"))
    writer.add_chat_template(TEMPLATE)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config.num_hidden_layers)
    for name, part in network.state_dict().items():
        data, kind = (quantised or {}).get(name, (part.numpy(), None))
        writer.add_tensor(names.get_name(name, (".weight", ".bias")), data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def quantised_bytes(kind: gguf.GGMLQuantizationType, shape: tuple[int, int], seed: int) -> np.ndarray[Any, Any]:
    """Random weights of a block type with 16-bit scales: `Q4_K` (first in its block) or `Q6_K` (last)."""
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    chance = np.random.default_rng(seed)
    blocks = chance.integers(0, 256, (shape[0], shape[1] // weights, size), dtype=np.uint8)
    scales = chance.uniform(1e-4, 1e-3, (*blocks.shape[:2], 2)).astype(np.float16).view(np.uint8)
    if kind == gguf.GGMLQuantizationType.Q4_K:
        blocks[..., :4] = scales
    else:
        blocks[..., -2:] = scales[..., :2]
    return blocks.reshape(shape[0], -1)
