"""A tiny random Llama in a folder, with a tokenizer of bytes and special tokens and a chat template."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ("<|end|>", "<|turn|>", "<|think|>")


def byte_tokenizer(prefix: Sequence[str] = (), merges: Sequence[tuple[str, str]] = ()) -> PreTrainedTokenizerFast:
    """A tokenizer of bytes; `prefix` are special tokens that it puts before a text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*SPECIAL, *alphabet, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, [*merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if prefix:
        numbered = [(token, SPECIAL.index(token)) for token in dict.fromkeys(prefix)]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{' '.join(prefix)} $A", special_tokens=numbered
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|end|>", eos_token="<|end|>", extra_special_tokens=[*SPECIAL[1:]]
    )


@cache
def network(rows: int = 259, longest: int = 512, seed: int = 1) -> Any:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=rows, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=longest, bos_token_id=0, eos_token_id=0, pad_token_id=0,
        initializer_range=0.3,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def write(folder: Path, template: str = "", tokenizer: Any = None, **settings: Any) -> str:
    """Write the folder and return its path; `settings` are fields of config.json."""
    network().save_pretrained(folder)
    (tokenizer or byte_tokenizer()).save_pretrained(folder)
    if template:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    if settings:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    return str(folder)
