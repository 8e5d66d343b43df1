"""A diffusion language model with random weights and a vocabulary of letters."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from draftscope.engines.methods import METHODS
from draftscope.engines.models.diffusion_lm import DiffusionLM, Traits
from draftscope.engines.runtime.driver import Job
from draftscope.engines.settings import make_config
from draftscope.traces.schema import ModelCard

PAD, END, MASK = 0, 1, 2
LETTERS = "\nabcdefgh"
PROMPT = "abcde"


class TinyLM(DiffusionLM):
    """Three layers of noise, large enough to have opinions."""

    def everything(self, ids: Tensor, position: Tensor, seen: Tensor) -> Tensor:
        """Logits [n, V] of a row under a mask, without any cache."""
        mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
        with torch.inference_mode():
            states = self.network.model(
                input_ids=ids[None], position_ids=position[None], attention_mask=mask[None, None], use_cache=False
            )
            logits: Tensor = self.network.lm_head(states.last_hidden_state)[0]
        return logits.clone()


@cache
def tiny_diffusion_lm(kind: str = "aligned", seed: int = 0, layers: int = 3) -> TinyLM:
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(LETTERS) + 3,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        tie_word_embeddings=False,
    )
    network = Qwen3ForCausalLM(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(4 if parameter.ndim == 2 else 1)
    traits = Traits(MASK, (END,), kind == "shift", kind == "full", (1, 2, 4, 8), longest=128)
    return TinyLM(network, _tokenizer(), traits, ModelCard(id="tiny"), torch.device("cpu"))


def text(tokens: Sequence[int | None]) -> tuple[int | None, ...]:
    """The tokens up to the end."""
    return tuple(tokens[: tokens.index(END) + 1] if END in tokens else tokens)


def _tokenizer() -> Tokenizer:
    vocabulary: dict[str, int] = {"<pad>": PAD, "<end>": END, "<mask>": MASK}
    vocabulary |= {letter: i + 3 for i, letter in enumerate(LETTERS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="a"))
    splitter: Any = pre_tokenizers.Split("", "isolated")
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def job(
    method: str = "blockwise", kind: str = "aligned", prompt: str = PROMPT, model: Any = None, **values: object
) -> Job:
    """A run of a tiny model and a tiny drafter on blocks of four tokens; `values` are settings, and the seed."""
    seed, small = int(str(values.pop("seed", 0))), tiny_diffusion_lm(kind, seed=7, layers=1)
    config = make_config(METHODS[method].config, {"block": "4", "length": 16, **values})
    return Job(METHODS[method], model or tiny_diffusion_lm(kind), prompt, config, seed, drafter=small)
