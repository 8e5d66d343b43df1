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
    normed: bool = False
    width: int = HIDDEN // HEADS
    theta: float = 1e6
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
CAUSAL = ("qwen2", "qwen3", "llama", "mistral")
LAYOUTS |= {
    "qwen2": Layout(**_QWEN, biased=True),
    "qwen3": Layout(**_QWEN, normed=True, width=16),
    "llama": Layout(**_QWEN, theta=5e5, stretch=(8.0, 1.0, 4.0, 32.0)),
    "mistral": Layout(**_QWEN, width=16),
}
SPECIAL = {
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
LETTERS = sorted({*"user assistant system You are a helpful assistant. Abc".replace(" ", "Ġ"), "Ċ", "?"})
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
            found |= {f"{at}{name}.bias": norm(shapes[name][0]) - 1 for name in (layout.q, layout.k, layout.v)}
        if layout.normed:
            found |= {f"{at}self_attn.{name}_norm.weight": norm(layout.width) for name in "qk"}
    return found


def forward(family: str, tensors: Mapping[str, Tensor], ids: Tensor, position: Tensor, seen: Tensor) -> Tensor:
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
        half = layout.width // 2
        turned = torch.complex(x[..., :half], x[..., half:]) * turn
        return torch.cat([turned.real, turned.imag], -1)

    x = weights[f"{layout.embedding}.weight"][ids]
    for i in range(LAYERS):
        at = layout.layer.format(i=i)
        y = norm(x, at + layout.before_attention)
        q = heads(linear(y, at + layout.q), at + "self_attn.q_norm")
        k, v = heads(linear(y, at + layout.k), at + "self_attn.k_norm"), heads(linear(y, at + layout.v))
        k, v = (part.repeat_interleave(HEADS // GROUPS, 0) for part in (k, v))
        scores = (q @ k.transpose(1, 2) / layout.width**0.5).masked_fill(~seen, -torch.inf)
        x = x + linear((scores.softmax(-1) @ v).transpose(0, 1).flatten(1), at + layout.o)
        y = norm(x, at + layout.before_mlp)
        x = x + linear(silu(linear(y, at + layout.gate)) * linear(y, at + layout.up), at + layout.down)
    x = norm(x, layout.last)
    head = layout.head if f"{layout.head}.weight" in weights else layout.embedding
    return x @ weights[f"{head}.weight"].T


def frequencies(layout: Layout) -> Tensor:
    """How far a position turns each pair [width / 2]; Llama 3 slows the pairs that turn less than once in its text."""
    plain = layout.theta ** -(torch.arange(0, layout.width, 2) / layout.width).double()
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
