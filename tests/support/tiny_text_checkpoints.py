"""Tiny random checkpoints in their published layouts, and the network of transformers that each was made of.

config.json and tensor names are written from the published files, not from the tables that read them.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import save_torch_state_dict
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.cache_utils import Cache, DynamicLayer

from draftscope.engines.methods import METHODS
from draftscope.engines.models.checkpoints.build import renamed
from draftscope.engines.models.transformers_api import cache_argument
from draftscope.engines.runtime.driver import Job
from draftscope.engines.settings import make_config
from draftscope.engines.testing.conformance import finish
from support import tiny_bd3lm

LAYERS, LONGEST, SEED = 2, 96, 5
PROMPT = "a hero"
PADDED = 128
"""Rows of the embedding, more than there are tokens."""
_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": LONGEST,
    "rms_norm_eps": 1e-6,
    "vocab_size": PADDED,
    "rope_theta": 1e6,
}
_LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
_EXPERTS = {
    "first_k_dense_replace": 1,
    "head_dim": 16,
    "moe_intermediate_size": 16,
    "n_group": 4,
    "norm_topk_prob": True,
    "num_experts_per_tok": 2,
    "partial_rotary_factor": 0.5,
    "rope_theta": 6e5,
    "routed_scaling_factor": 2.5,
    "topk_group": 2,
}
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "sdar": ("qwen3", {"head_dim": 16}),
    "a2d-qwen3": ("qwen3", {"head_dim": 16}),
    "bd3lm": ("", {}),
    "Fast_dLLM_Qwen": ("qwen2", {}),
    "Dream": ("qwen2", {}),
    "llada": ("llama", {"rope_theta": 5e5}),
    "llada2_moe": (
        "glm4_moe",
        _EXPERTS | {"n_routed_experts": 8, "n_shared_experts": 1, "use_qk_norm": True, "attention_bias": False},
    ),
    "PanguEmbedded": ("llama", {"attention_bias": True, "rope_theta": 1.6e7}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {"head_dim": 16}),
    "llama": ("llama", {"rope_parameters": _LLAMA3 | {"rope_type": "llama3", "rope_theta": 5e5}, "rope_theta": 5e5}),
    "mistral": ("mistral", {"head_dim": 16, "sliding_window": 8}),
    "gpt2": ("gpt2", {"n_embd": 32, "n_layer": LAYERS, "n_head": 4, "n_positions": LONGEST}),
}
"""By `model_type`: that of transformers' network, and its config where it differs from that of the others.

BD3-LM has a network of its own, in `tiny_bd3lm`.
"""
CAUSAL = ("qwen2", "qwen3", "llama", "mistral", "gpt2")
DIFFUSION = tuple(family for family in NETWORKS if family not in CAUSAL)
TEMPLATE = "{% for turn in messages %}{{ turn['role'] }} {{ turn['content'] }}\n{% endfor %}"
"""Configurations of causal models."""
_LLAMA_CHAT = ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
_CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SPECIAL = {
    "PanguEmbedded": ["<unk>", "<s>", "</s>", "[unused0]", "[unused9]", "[unused10]"],
    "llada2_moe": ["<|endoftext|>", "<role>", "</role>", "<|role_end|>", "<|mask|>"],
    "qwen2": _CHATML,
    "qwen3": _CHATML,
    "gpt2": ["<|endoftext|>"],
    "llama": ["<|begin_of_text|>", "<|end_of_text|>", *_LLAMA_CHAT],
    "mistral": ["<s>", "</s>", "[INST]", "[/INST]"],
    "sdar": [*_CHATML, "<|MASK|>"],
    "a2d-qwen3": [*_CHATML, "<|mask|>"],
    "bd3lm": ["<|endoftext|>", "[MASK]"],
    "Fast_dLLM_Qwen": [*_CHATML, "|<MASK>|"],
    "Dream": [*_CHATML, "<|beginoftext|>", "<|mask|>"],
    "llada": ["<|startoftext|>", "<|endoftext|>", "<|mdm_mask|>", *_LLAMA_CHAT],
}
_WORDS = "user assistant system You are a helpful assistant. Abc SYSTEM detailed thinking off HUMAN ASSISTANT <think>/"
LETTERS = sorted({*_WORDS.replace(" ", "Ġ"), "Ċ", "?"})
MERGES = [("h", "e"), ("Ġ", "a")]
_LLADA_NAMES = (
    ("lm_head.", "model.transformer.ff_out."),
    ("model.embed_tokens.", "model.transformer.wte."),
    ("model.norm.", "model.transformer.ln_f."),
    ("model.layers.", "model.transformer.blocks."),
    (".input_layernorm.", ".attn_norm."),
    (".post_attention_layernorm.", ".ff_norm."),
    (".self_attn.o_proj.", ".attn_out."),
    (".self_attn.", "."),
    (".mlp.gate_proj.", ".ff_proj."),
    (".mlp.down_proj.", ".ff_out."),
    (".mlp.", "."),
)
_LLADA2_NAMES = (
    ("model.embed_tokens.", "model.word_embeddings."),
    (".self_attn.o_proj.", ".attention.dense."),
    (".self_attn.q_norm.", ".attention.query_layernorm."),
    (".self_attn.k_norm.", ".attention.key_layernorm."),
    (".e_score_correction_bias", ".expert_bias"),
)


def id_of(family: str, name: str) -> int:
    """The id of a special token."""
    return len(LETTERS) + len(MERGES) + SPECIAL[family].index(name)


def known(family: str) -> int:
    """How many tokens a family's tokenizer has."""
    return len(LETTERS) + len(MERGES) + len(SPECIAL[family])


@cache
def network_of(family: str, tied: bool = False, seed: int = SEED) -> Any:
    """The network, with random weights large enough to have opinions."""
    kind, options = NETWORKS[family]
    sizes = {"vocab_size": PADDED} if family == "gpt2" else _SIZES
    end = id_of(family, SPECIAL[family][-1])
    config = AutoConfig.for_model(kind, **sizes | {"tie_word_embeddings": tied, "eos_token_id": end} | options)
    generator = torch.Generator().manual_seed(seed)
    network = AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)
    for name, part in network.state_dict().items():
        noise = torch.randn(part.shape, generator=generator)
        if part.dim() > 1:
            part.copy_(noise * 2 / part.shape[-1] ** 0.5)
        elif part.dim():
            part.copy_(0.3 * noise + (name.endswith("weight") and 1.0))
    return network


def forward(
    family: str, ids: Tensor, position: Tensor, seen: Tensor, memory: "Memory | None" = None, seed: int = SEED
) -> Tensor:
    """Logits [n, V] of tokens at their positions under a mask [n, s + n], by the network of transformers."""
    if family == "bd3lm":
        return tiny_bd3lm.forward(tiny_bd3lm.tensors(PADDED, seed), ids, position, seen)
    mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    cache = None if memory is None else Cache(layers=[MemoryLayer(memory, i, position) for i in range(LAYERS)])
    network = network_of(family, seed=seed)
    options = {"attention_mask": mask[None, None], cache_argument(network): cache}
    logits: Tensor = network(input_ids=ids[None], position_ids=position[None], **options).logits[0]
    return logits.clone()


@dataclass
class Memory:
    """The KV cache of earlier passes by layer and position, and which tokens of a pass to remember."""

    stored: dict[tuple[int, int], tuple[Tensor, Tensor]]
    seen: list[int]
    """Positions that every token of the pass sees."""
    keep: int
    """Leading tokens to remember."""


class MemoryLayer(DynamicLayer):
    """The part of a `RouterState` that one layer sees."""

    def __init__(self, memory: Memory, layer: int, position: Tensor) -> None:
        super().__init__()
        self._memory, self._layer, self._position = memory, layer, position.tolist()

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        past = [self._memory.stored[self._layer, position] for position in self._memory.seen]
        for i, position in enumerate(self._position[: self._memory.keep]):
            self._memory.stored[self._layer, position] = (keys[:, :, i], values[:, :, i])
        if not past:
            return keys, values
        seen = [torch.stack(part, 2) for part in zip(*past, strict=True)]
        return torch.cat([seen[0], keys], 2), torch.cat([seen[1], values], 2)


def tensors_of(family: str, tied: bool = False, seed: int = SEED) -> dict[str, Tensor]:
    """The weights under their published names."""
    if family == "bd3lm":
        return tiny_bd3lm.tensors(PADDED, seed)
    state: dict[str, Tensor] = dict(network_of(family, tied, seed).state_dict())
    if tied:
        state.pop("lm_head.weight", None)
    if family == "llada":
        return {renamed(name, _LLADA_NAMES): part for name, part in state.items()}
    return _llada2(state) if family == "llada2_moe" else state


def _llada2(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of transformers' network as LLaDA2 divides and names them."""
    tensors: dict[str, Tensor] = {}
    for name, part in state.items():
        stack = re.fullmatch(r"(.*experts)\.(gate_up|down)_proj", name)
        if stack and stack[2] == "down":
            tensors |= {f"{stack[1]}.{e}.down_proj.weight": one for e, one in enumerate(part)}
        elif stack:
            for e, one in enumerate(part):
                gate, up = one.chunk(2)
                tensors |= {f"{stack[1]}.{e}.gate_proj.weight": gate, f"{stack[1]}.{e}.up_proj.weight": up}
        elif ".q_proj." in name:
            fused = torch.cat([state[name.replace(".q_", f".{letter}_")] for letter in "qkv"])
            tensors[name.replace("self_attn.q_proj", "attention.query_key_value")] = fused
        elif ".k_proj." not in name and ".v_proj." not in name:
            tensors[renamed(name, _LLADA2_NAMES)] = part
    return tensors


def settings_of(family: str, tied: bool = False) -> dict[str, Any]:
    """The published config.json at tiny sizes, with fields that only concern training or code of the release."""
    if family in CAUSAL:
        return dict(network_of(family, tied).config.to_dict())
    if family == "llada":
        return json.loads(_LLADA) | {"weight_tying": tied, "mask_token_id": id_of("llada", "<|mdm_mask|>")}
    if family == "bd3lm":
        return tiny_bd3lm.settings(PADDED, LONGEST)
    common = {"hidden_act": "silu", "rope_scaling": None, "sliding_window": None, "use_sliding_window": False}
    code = {"AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}
    common |= {"torch_dtype": "bfloat16", "auto_map": code, "architectures": ["OwnForCausalLM"], "model_type": family}
    options: dict[str, dict[str, Any]] = {
        "sdar": {"attn_implementation": "flex_attention", "fuse_cross_entropy": True, "head_dim": 16},
        "a2d-qwen3": {"head_dim": 16, "layer_types": ["full_attention"] * LAYERS, "max_window_layers": 28},
        "Fast_dLLM_Qwen": {"bd_size": 8, "layer_types": ["full_attention"] * LAYERS},
        "Dream": {"mask_token_id": id_of("Dream", "<|mask|>"), "use_mrope": False},
        "llada2_moe": _EXPERTS
        | {"moe_router_enable_expert_bias": True, "num_experts": 8, "num_shared_experts": 1, "router_dtype": "fp32"}
        | {"score_function": "sigmoid", "use_bias": False, "use_qk_norm": True, "use_qkv_bias": False},
        "PanguEmbedded": {"bias": True, "rope_theta": 1.6e7},
    }
    return _SIZES | common | {"tie_word_embeddings": tied} | options[family]


_LLADA = f"""{{
  "activation_type": "silu", "alibi": false, "attention_layer_norm": false, "bias_for_layer_norm": false,
  "block_group_size": 1, "block_type": "llama", "d_model": 32, "embedding_size": {PADDED}, "include_bias": false,
  "include_qkv_bias": false, "init_device": "meta", "input_emb_norm": false, "layer_norm_type": "rms",
  "layer_norm_with_affine": true, "max_sequence_length": {LONGEST}, "mlp_hidden_size": 48, "mlp_ratio": 4,
  "model_type": "llada", "multi_query_attention": null, "n_heads": 4, "n_kv_heads": 2, "n_layers": {LAYERS},
  "precision": "amp_bf16", "rms_norm_eps": 1e-6, "rope": true, "rope_theta": 500000.0, "scale_logits": false,
  "use_cache": false, "vocab_size": {PADDED}
}}"""


def tokenizer_of(family: str, special: list[str] | None = None) -> Tokenizer:
    """Letters, two merges, and then the family's special tokens, as Qwen's tokenizers are built."""
    vocabulary = {piece: i for i, piece in enumerate([*LETTERS, *map("".join, MERGES)])}
    tokenizer: Any = Tokenizer(models.BPE(vocabulary, MERGES))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL[family] if special is None else special)
    first = SPECIAL[family][0]
    if family in ("llama", "mistral"):
        begin = [(first, id_of(family, first))]
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{first} $A", special_tokens=begin)
    return tokenizer


def write(
    folder: Path, family: str, *, tied: bool = False, shards: int = 1, pieces: bool = False, seed: int = SEED
) -> Path:
    """A whole checkpoint. `pieces` writes the tokenizer as vocab.json and merges.txt, as Qwen's were."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", settings_of(family, tied))
    tensors = tensors_of(family, tied, seed)
    apart = {name: part.clone() for name, part in tensors.items()}
    size = sum(part.numel() * part.itemsize for part in apart.values())
    save_torch_state_dict(apart, folder, max_shard_size=size // shards + 1)
    plain = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    about = {
        "added_tokens_decoder": {str(id_of(family, name)): plain | {"content": name} for name in SPECIAL[family]},
        "auto_map": {"AutoTokenizer": ["tokenization_own.OwnTokenizer", None]},
        "chat_template": TEMPLATE if family in CAUSAL else "{{ 'a template that is not run' }}",
        "tokenizer_class": "OwnTokenizer",
    }
    write_json(folder / "tokenizer_config.json", about)
    if pieces:
        write_json(folder / "vocab.json", {piece: i for i, piece in enumerate([*LETTERS, *map("".join, MERGES)])})
        (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in MERGES))
    else:
        tokenizer_of(family).save(str(folder / "tokenizer.json"))
    return folder


def write_json(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value))


def job(model: Any, method: str = "blockwise", prompt: str = PROMPT, small: Any = None, **values: object) -> Job:
    """A text of 16 tokens to decode."""
    chosen = METHODS[method]
    return Job(chosen, model, prompt, make_config(chosen.config, {"length": 16} | values), drafter=small)


def decoded(job: Job) -> tuple[Any, ...]:
    """The tokens of a whole run."""
    return tuple(finish(job).output.tokens)
