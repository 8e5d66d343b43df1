"""Tiny random models of transformers, passed as objects."""

from functools import cache
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY = 64
PROMPT = [5, 9, 12, 5, 9]


@cache
def llama(seed: int = 0, *, vocabulary: int = VOCABULARY, layers: int = 2, tied: bool = False) -> Any:
    """A random Llama. Its logits are spread, so that greedy decoding has no ties."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=None,
        tie_word_embeddings=tied,
        initializer_range=0.4,
    )
    return LlamaForCausalLM(config).eval()


def noisy(network: Any, amount: float, seed: int = 1) -> Any:
    """A copy with noise on its weights: a drafter that is right often, not always."""
    other = type(network)(network.config).eval()
    other.load_state_dict(network.state_dict())
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in other.parameters():
            weight += amount * weight.std() * torch.randn_like(weight)
    return other


def greedy(network: Any, prompt: list[int], length: int, **options: Any) -> list[int]:
    """Return the tokens that generate of transformers decodes after the prompt."""
    ids = torch.tensor([prompt], device=network.device)
    out = network.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, do_sample=False, **options)
    return [int(token) for token in out[0, len(prompt) :]]


class Letters:
    """The least that a tokenizer must be able to: 64 characters."""

    alphabet = "".join(map(chr, range(48, 48 + VOCABULARY)))

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [self.alphabet.index(letter) for letter in text]}

    def decode(self, ids: list[int]) -> str:
        return "".join(self.alphabet[i] for i in ids)
