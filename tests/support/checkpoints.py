"""Tiny random checkpoints with the files, fields and tensor names of the published ones, and a forward to compare with.

Written from the published config.json and safetensors indices, not from the tables that read them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from support import experts
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from torch.nn.functional import silu

HIDDEN, INNER, LAYERS, HEADS, GROUPS, EPS = 32, 48, 2, 4, 2, 1e-6
PADDED = 128
"""Rows of the embedding, more than there are tokens."""


@dataclass(frozen=True)
class Layout:
    """What a family calls its tensors, {i} being the layer."""

    embedding: str
    layer: str
    q: str
    k: str
    v: str
    o: str
    gate: str
    up: str
    down: str
    before_attention: str
    before_mlp: str
    last: str
    head: str
    biased: bool = False
    biased_output: bool = False
    normed: bool = False
    norms: str = "self_attn.{name}_norm"
    width: int = HIDDEN // HEADS
    theta: float = 1e6
    fused: str = ""
    """One matrix for queries, keys and values, where there is one."""
    turned: float = 1.0
    """Part of a head that turns with its position."""
    experts: bool = False
    """Whether all layers but the first have experts."""
    stretch: tuple[float, float, float, float] = ()  # type: ignore[assignment]
    """Of Llama 3: factor, low and high frequency factor, positions before the stretch."""


_QWEN = {
    "embedding": "model.embed_tokens",
    "layer": "model.layers.{i}.",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
    "before_attention": "input_layernorm",
    "before_mlp": "post_attention_layernorm",
    "last": "model.norm",
    "head": "lm_head",
}
LAYOUTS = {
    "sdar": Layout(**_QWEN, normed=True, width=16),
    "Fast_dLLM_Qwen": Layout(**_QWEN, biased=True),
    "Dream": Layout(**_QWEN, biased=True),
    "llada": Layout(
        embedding="model.transformer.wte",
        layer="model.transformer.blocks.{i}.",
        q="q_proj",
        k="k_proj",
        v="v_proj",
        o="attn_out",
        gate="ff_proj",
        up="up_proj",
        down="ff_out",
        before_attention="attn_norm",
        before_mlp="ff_norm",
        last="model.transformer.ln_f",
        head="model.transformer.ff_out",
        theta=5e5,
    ),
}
LAYOUTS["llada2_moe"] = Layout(
    **_QWEN
    | {
        "embedding": "model.word_embeddings",
        "o": "attention.dense",
    },
    fused="attention.query_key_value",
    norms="attention.{name}_layernorm",
    normed=True,
    width=16,
    theta=6e5,
    turned=0.5,
    experts=True,
)
LAYOUTS["PanguEmbedded"] = Layout(**_QWEN, biased=True, biased_output=True, theta=1.6e7)
CAUSAL = ("qwen2", "qwen3", "llama", "mistral")
LAYOUTS |= {
    "qwen2": Layout(**_QWEN, biased=True),
    "qwen3": Layout(**_QWEN, normed=True, width=16),
    "llama": Layout(**_QWEN, theta=5e5, stretch=(8.0, 1.0, 4.0, 32.0)),
    "mistral": Layout(**_QWEN, width=16),
}
SPECIAL = {
    "PanguEmbedded": ["<unk>", "<s>", "</s>", "[unused0]", "[unused9]", "[unused10]"],
    "llada2_moe": ["<|endoftext|>", "<role>", "</role>", "<|role_end|>", "<|mask|>"],
    "qwen2": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "qwen3": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "llama": ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
    "mistral": ["<s>", "</s>", "[INST]", "[/INST]"],
    "sdar": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|MASK|>"],
    "Fast_dLLM_Qwen": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "|<MASK>|"],
    "Dream": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|beginoftext|>", "<|mask|>"],
    "llada": [
        "<|startoftext|>",
        "<|endoftext|>",
        "<|mdm_mask|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
    ],
}
_SAID = "user assistant system You are a helpful assistant. Abc SYSTEM detailed thinking off HUMAN ASSISTANT"
LETTERS = sorted({*_SAID.replace(" ", "Ġ"), "Ċ", "?"})
MERGES = [("h", "e"), ("Ġ", "a")]


def settings_of(family: str, tied: bool = False) -> dict[str, Any]:
    """The published config.json at tiny sizes, with the fields that only concern training or remote code."""
    if family == "llada":
        return json.loads(_LLADA) | {"weight_tying": tied}
    common = {
        "attention_dropout": 0.0,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": INNER,
        "max_position_embeddings": 96,
        "max_window_layers": LAYERS,
        "model_type": family,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": GROUPS,
        "rms_norm_eps": EPS,
        "rope_scaling": None,
        "rope_theta": 1000000.0,
        "sliding_window": None,
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.52.4",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": PADDED,
    }
    own: dict[str, dict[str, Any]] = {
        "sdar": {
            "architectures": ["SDARForCausalLM"],
            "auto_map": {"AutoModelForCausalLM": "modeling_sdar.SDARForCausalLM"},
            "attention_bias": False,
            "attn_implementation": "flex_attention",
            "fuse_cross_entropy": True,
            "head_dim": 16,
            "rope_theta": 1000000,
        },
        "Fast_dLLM_Qwen": {
            "architectures": ["Fast_dLLM_QwenForCausalLM"],
            "auto_map": {"AutoModelForCausalLM": "modeling.Fast_dLLM_QwenForCausalLM"},
            "bd_size": 8,
            "layer_types": ["full_attention"] * LAYERS,
        },
        "Dream": {
            "architectures": ["DreamModel"],
            "auto_map": {"AutoModel": "modeling_dream.DreamModel"},
            "attn_implementation": "flash_attention_2",
            "mask_token_id": len(LETTERS) + len(MERGES) + 4,
            "use_mrope": False,
        },
        "llada2_moe": {
            "architectures": ["LLaDA2MoeModelLM"],
            "auto_map": {"AutoModelForCausalLM": "modeling_llada2_moe.LLaDA2MoeModelLM"},
            "first_k_dense_replace": 1,
            "head_dim": 16,
            "moe_intermediate_size": experts.EXPERT_INNER,
            "moe_router_enable_expert_bias": True,
            "n_group": experts.EXPERT_GROUPS,
            "norm_topk_prob": True,
            "num_experts": experts.EXPERTS,
            "num_experts_per_tok": experts.CHOSEN,
            "num_shared_experts": 1,
            "partial_rotary_factor": 0.5,
            "rope_theta": 600000.0,
            "routed_scaling_factor": experts.SCALE,
            "router_dtype": "fp32",
            "score_function": "sigmoid",
            "topk_group": experts.CHOSEN_GROUPS,
            "use_bias": False,
            "use_qk_norm": True,
            "use_qkv_bias": False,
        },
        "PanguEmbedded": {
            "architectures": ["PanguEmbeddedForCausalLM"],
            "auto_map": {"AutoModelForCausalLM": "modeling_openpangu_dense.PanguEmbeddedForCausalLM"},
            "bias": True,
            "rope_theta": 16000000.0,
        },
        "qwen2": {"architectures": ["Qwen2ForCausalLM"], "eos_token_id": id_of("qwen2", "<|im_end|>")},
        "qwen3": {
            "architectures": ["Qwen3ForCausalLM"],
            "attention_bias": False,
            "head_dim": 16,
            "eos_token_id": id_of("qwen3", "<|im_end|>"),
        },
        "llama": {
            "architectures": ["LlamaForCausalLM"],
            "attention_bias": False,
            "mlp_bias": False,
            "pretraining_tp": 1,
            "eos_token_id": [id_of("llama", name) for name in ("<|end_of_text|>", "<|eot_id|>")],
            "rope_theta": 500000.0,
            "rope_scaling": {
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
                "rope_type": "llama3",
            },
        },
        "mistral": {
            "architectures": ["MistralForCausalLM"],
            "head_dim": 16,
            "eos_token_id": id_of("mistral", "</s>"),
            "sliding_window": 80,
        },
    }
    return common | own[family]


def id_of(family: str, name: str) -> int:
    """The id of a special token."""
    return len(LETTERS) + len(MERGES) + SPECIAL[family].index(name)


_LLADA = f"""{{
  "activation_type": "silu", "alibi": false, "alibi_bias_max": 8.0, "architectures": ["LLaDAModelLM"],
  "attention_dropout": 0.0, "attention_layer_norm": false, "attention_layer_norm_with_affine": true,
  "auto_map": {{"AutoModel": "modeling_llada.LLaDAModelLM"}}, "bias_for_layer_norm": false, "block_group_size": 1,
  "block_type": "llama", "d_model": {HIDDEN}, "embedding_dropout": 0.0, "embedding_size": {PADDED},
  "flash_attention": false, "include_bias": false, "include_qkv_bias": false, "init_device": "meta",
  "input_emb_norm": false, "layer_norm_type": "rms", "layer_norm_with_affine": true,
  "mask_token_id": {len(LETTERS) + len(MERGES) + 2}, "max_sequence_length": 96, "mlp_hidden_size": {INNER},
  "mlp_ratio": 4, "model_type": "llada", "multi_query_attention": null, "n_heads": {HEADS}, "n_kv_heads": {GROUPS},
  "n_layers": {LAYERS}, "precision": "amp_bf16", "rms_norm_eps": {EPS}, "rope": true, "rope_full_precision": true,
  "rope_theta": 500000.0, "scale_logits": false, "use_cache": false, "vocab_size": {PADDED}
}}"""


def norm_names(layout: Layout) -> list[str]:
    """What normalises queries and keys, where something does."""
    names = (("query", "key") if layout.fused else "qk") if layout.normed else ()
    return [layout.norms.format(name=name) for name in names]


def tensors_of(family: str, tied: bool = False, seed: int = 3) -> dict[str, Tensor]:
    """Random weights under the family's names, large enough to have opinions."""
    layout, made = LAYOUTS[family], torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=made) * 2 / columns**0.5

    def norm(count: int) -> Tensor:
        return 1 + 0.3 * torch.randn(count, generator=made)

    out, keys = HEADS * layout.width, GROUPS * layout.width
    found = {f"{layout.embedding}.weight": matrix(PADDED, HIDDEN), f"{layout.last}.weight": norm(HIDDEN)}
    if not tied:
        found[f"{layout.head}.weight"] = matrix(PADDED, HIDDEN)
    shapes = {
        layout.q: (out, HIDDEN),
        layout.k: (keys, HIDDEN),
        layout.v: (keys, HIDDEN),
        layout.o: (HIDDEN, out),
        layout.gate: (INNER, HIDDEN),
        layout.up: (INNER, HIDDEN),
        layout.down: (HIDDEN, INNER),
    }
    for i in range(LAYERS):
        at = layout.layer.format(i=i)
        found |= {f"{at}{name}.weight": matrix(*shape) for name, shape in shapes.items()}
        found |= {f"{at}{name}.weight": norm(HIDDEN) for name in (layout.before_attention, layout.before_mlp)}
        if layout.biased:
            names = (layout.q, layout.k, layout.v, *([layout.o] if layout.biased_output else ()))
            found |= {f"{at}{name}.bias": norm(shapes[name][0]) - 1 for name in names}
        found |= {f"{at}{name}.weight": norm(layout.width) for name in norm_names(layout)}
        if layout.fused:
            own = [found.pop(f"{at}{name}.weight") for name in (layout.q, layout.k, layout.v)]
            found[f"{at}{layout.fused}.weight"] = torch.cat(own)
        if layout.experts and i:
            found = {name: tensor for name, tensor in found.items() if not name.startswith(f"{at}mlp.")}
            found |= experts.tensors(f"{at}mlp.", HIDDEN, matrix, made)
    return found


@dataclass
class Memory:
    """Keys and values of earlier passes by layer and position, and which tokens of a pass to remember."""

    held: dict[tuple[int, int], tuple[Tensor, Tensor]]
    seen: list[int]
    """Positions that every token of the pass sees."""
    keep: int
    """Leading tokens to remember."""

    def extend(self, layer: int, position: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [h, s + n, d] behind those that are seen; the leading ones are remembered."""
        past = [self.held[layer, place] for place in self.seen]
        for i, place in enumerate(position.tolist()[: self.keep]):
            self.held[layer, place] = (k[:, i], v[:, i])
        if not past:
            return k, v
        keys, values = (torch.stack(parts, 1) for parts in zip(*past, strict=True))
        return torch.cat([keys, k], 1), torch.cat([values, v], 1)


def forward(
    family: str,
    tensors: Mapping[str, Tensor],
    ids: Tensor,
    position: Tensor,
    seen: Tensor,
    memory: Memory | None = None,
) -> Tensor:
    """Logits [n, V] of tokens at their positions under a mask, in float64: RMSNorm, rotary attention, SwiGLU."""
    layout = LAYOUTS[family]
    weights = {name: tensor.double() for name, tensor in tensors.items()}
    angle = position[:, None] * frequencies(layout)
    turn = torch.polar(torch.ones_like(angle), angle).to(torch.complex128)  # [n, width / 2]

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", torch.zeros(()))

    def norm(x: Tensor, name: str) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * weights[f"{name}.weight"]

    def heads(x: Tensor, name: str = "") -> Tensor:  # [n, h * width] to [h, n, width]
        x = x.unflatten(-1, (-1, layout.width)).transpose(0, 1)
        if not name:
            return x
        x = norm(x, name) if layout.normed else x
        half = int(layout.width * layout.turned) // 2
        turned = torch.complex(x[..., :half], x[..., half : 2 * half]) * turn
        return torch.cat([turned.real, turned.imag, x[..., 2 * half :]], -1)

    def queries_keys_values(y: Tensor, at: str) -> list[Tensor]:
        names = norm_names(layout) or ("?", "?")
        if layout.fused:
            sizes = [HEADS * layout.width, GROUPS * layout.width, GROUPS * layout.width]
            parts = list(linear(y, at + layout.fused).split(sizes, -1))
        else:
            parts = [linear(y, at + name) for name in (layout.q, layout.k, layout.v)]
        return [heads(parts[0], at + names[0]), heads(parts[1], at + names[1]), heads(parts[2])]

    def mlp(y: Tensor, at: str) -> Tensor:
        gate, up, down = (at + name.removeprefix("mlp.") for name in (layout.gate, layout.up, layout.down))
        return linear(silu(linear(y, gate)) * linear(y, up), down)

    x = weights[f"{layout.embedding}.weight"][ids]
    for i in range(LAYERS):
        at = layout.layer.format(i=i)
        y = norm(x, at + layout.before_attention)
        q, k, v = queries_keys_values(y, at)
        if memory:
            k, v = memory.extend(i, position, k, v)
        k, v = (part.repeat_interleave(HEADS // GROUPS, 0) for part in (k, v))
        scores = (q @ k.transpose(1, 2) / layout.width**0.5).masked_fill(~seen, -torch.inf)
        x = x + linear((scores.softmax(-1) @ v).transpose(0, 1).flatten(1), at + layout.o)
        y = norm(x, at + layout.before_mlp)
        inner = f"{at}mlp." if layout.gate.startswith("mlp.") else at
        x = x + (experts.forward(y, inner, weights, mlp) if layout.experts and i else mlp(y, inner))
    x = norm(x, layout.last)
    head = layout.head if f"{layout.head}.weight" in weights else layout.embedding
    return x @ weights[f"{head}.weight"].T


def frequencies(layout: Layout) -> Tensor:
    """How far a position turns each pair [width / 2]; Llama 3 slows the pairs that turn less than once in its text."""
    count = int(layout.width * layout.turned)
    plain = layout.theta ** -(torch.arange(0, count, 2) / count).double()
    if not layout.stretch:
        return plain
    factor, low, high, before = layout.stretch
    turns = before * plain / (2 * torch.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return kept * plain + (1 - kept) * plain / factor


def tokenizer_of(family: str, special: list[str] | None = None) -> Tokenizer:
    """Letters, two merges, and the family's special tokens behind them, as Qwen's tokenizers are built."""
    vocabulary = {piece: i for i, piece in enumerate([*LETTERS, *map("".join, MERGES)])}
    tokenizer = Tokenizer(models.BPE(vocabulary, MERGES))
    normalizer: Any = normalizers.NFC()
    tokenizer.normalizer = normalizer
    splitter: Any = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = splitter
    decoder: Any = decoders.ByteLevel()
    tokenizer.decoder = decoder
    tokenizer.add_special_tokens(SPECIAL[family] if special is None else special)
    first = SPECIAL[family][0]
    if family in ("llama", "mistral") and special is None:
        begin: Any = processors.TemplateProcessing(single=f"{first} $A", special_tokens=[(first, id_of(family, first))])
        tokenizer.post_processor = begin
    return tokenizer


def write(folder: Path, family: str, *, tied: bool = False, shards: int = 1, pieces: bool = False) -> Path:
    """A whole checkpoint. `pieces` writes the tokenizer as vocab.json and merges.txt, as Qwen's were."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", settings_of(family, tied))
    write_weights(folder, tensors_of(family, tied), shards)
    special = {str(len(LETTERS) + len(MERGES) + i): {"content": name} for i, name in enumerate(SPECIAL[family])}
    plain = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    about = {
        "added_tokens_decoder": {place: token | plain for place, token in special.items()},
        "auto_map": {"AutoTokenizer": ["tokenization_dream.DreamTokenizer", None]},
        "chat_template": "{{ 'a template that is not run' }}",
        "tokenizer_class": "DreamTokenizer",
    }
    write_json(folder / "tokenizer_config.json", about)
    if pieces:
        write_json(folder / "vocab.json", {piece: i for i, piece in enumerate([*LETTERS, *map("".join, MERGES)])})
        (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in MERGES))
    else:
        tokenizer_of(family).save(str(folder / "tokenizer.json"))
    return folder


def write_weights(folder: Path, tensors: Mapping[str, Tensor], shards: int = 1) -> None:
    """One file, or several with an index."""
    if shards == 1:
        save_file(dict(tensors), folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(tensors)
    parts = [names[i::shards] for i in range(shards)]
    files = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    for file, part in zip(files, parts, strict=True):
        save_file({name: tensors[name] for name in part}, folder / file, metadata={"format": "pt"})
    where = dict(chain.from_iterable([(name, file) for name in part] for file, part in zip(files, parts, strict=True)))
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": 0}, "weight_map": where})


def write_json(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value))
