"""What sets the families of published diffusion language models apart, one entry each.

All of them are ordinary decoders with another attention mask, so that a native class holds their weights; what differs
is what the fields of config.json and the tensors are called, the tokens that mean something, and how a question is put.

    sdar            SDAR, arXiv 2510.06303         block-causal, aligned         Qwen3 under its own names
    Fast_dLLM_Qwen  Fast-dLLM v2, arXiv 2509.26328 block-causal, right-shifted   Qwen2 under its own names
    llada           LLaDA, arXiv 2502.09992        bidirectional, aligned        Llama, renamed
    Dream           Dream, arXiv 2508.15487        bidirectional, right-shifted  Qwen2 under its own names
    llada2_moe      LLaDA2.0 and 2.1               block-causal, aligned         Glm4Moe, renamed and stacked
    PanguEmbedded   openPangu Diffusion            causal before a block that sees all of itself, right-shifted; Llama
                                                   with biases around attention
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from transformers import (
    Glm4MoeConfig,
    Glm4MoeForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from engines.models.hub import llada2
from engines.models.weights import Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How checkpoints of a family are laid out and meant to be asked."""

    name: str
    """`model_type` in their config.json."""
    title: str
    config: type[Any]
    network: type[Any]
    sizes: Mapping[str, str]
    """Native config field -> what config.json calls it."""
    fixed: Mapping[str, object]
    """Fields of config.json that may be missing and, where present, must have this value: nothing else was built."""
    constants: Mapping[str, object] = field(default_factory=dict)
    """Native config fields that the family does not vary."""
    names: Names = field(default_factory=Names)
    """How the checkpoint's tensors become native ones."""
    absent: Mapping[str, object] = field(default_factory=dict)
    """Fields of `sizes` that config.json may leave out, with what that means."""
    mask: str = ""
    """The token of an open position; none for a causal model."""
    adds_mask: bool = False
    """Whether a tokenizer without the mask gets it as its next id, as the release's own scripts do."""
    ends: tuple[str, ...] = ()
    """Tokens behind which nothing counts: first a turn's end, last a document's. A causal model's config has them."""
    asks: tuple[str, str] = ("", "")
    """What stands before and behind a question in a model that was taught to chat."""
    chats: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """In place of `asks`, where a family's checkpoints differ: the first whose token their tokenizer has."""
    shift: bool = True
    """Whether the output at i - 1 predicts token i."""
    full: bool = False
    """Whether every token sees every other."""
    causal: bool = False
    """Whether a finished token sees only what stands before it."""
    begins: tuple[str, ...] = ()
    """Tokens that every text begins with, where its release puts them there."""
    trained: str = ""
    """What config.json calls the one block size that was trained, for models that take no other but 1."""
    window: str = ""
    """What config.json calls the reach of attention, where it has one: texts stay so short that it is not felt."""


QWEN_SIZES: Final = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "num_key_value_heads": "num_key_value_heads",
    "max_position_embeddings": "max_position_embeddings",
    "rms_norm_eps": "rms_norm_eps",
    "rope_theta": "rope_theta",
    "tie_word_embeddings": "tie_word_embeddings",
}
QWEN_FIXED: Final = {"hidden_act": "silu", "rope_scaling": None, "use_sliding_window": False}
QWEN_ENDS: Final = ("<|im_end|>", "<|endoftext|>")
QWEN_ASKS: Final = ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n")
_ASSISTANT: Final = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"

_SDAR: Final = Family(
    name="sdar",
    title="SDAR",
    config=Qwen3Config,
    network=Qwen3ForCausalLM,
    sizes=QWEN_SIZES | {"head_dim": "head_dim"},
    fixed=QWEN_FIXED | {"attention_bias": False},
    constants={"attention_bias": False},
    mask="<|MASK|>",
    adds_mask=True,
    ends=QWEN_ENDS,
    asks=QWEN_ASKS,
    shift=False,
    full=False,
)

_FAST_DLLM: Final = Family(
    name="Fast_dLLM_Qwen",
    title="Fast-dLLM v2",
    config=Qwen2Config,
    network=Qwen2ForCausalLM,
    sizes=QWEN_SIZES,
    fixed=QWEN_FIXED,
    mask="|<MASK>|",
    ends=QWEN_ENDS,
    asks=(_ASSISTANT + QWEN_ASKS[0], QWEN_ASKS[1]),
    shift=True,
    full=False,
    trained="bd_size",
)

_LLADA: Final = Family(
    name="llada",
    title="LLaDA",
    config=LlamaConfig,
    network=LlamaForCausalLM,
    sizes={
        "vocab_size": "embedding_size",
        "hidden_size": "d_model",
        "intermediate_size": "mlp_hidden_size",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "num_key_value_heads": "n_kv_heads",
        "max_position_embeddings": "max_sequence_length",
        "rms_norm_eps": "rms_norm_eps",
        "rope_theta": "rope_theta",
        "tie_word_embeddings": "weight_tying",
    },
    fixed={
        "activation_type": "silu",
        "alibi": False,
        "attention_layer_norm": False,
        "bias_for_layer_norm": False,
        "block_group_size": 1,
        "block_type": "llama",
        "include_bias": False,
        "include_qkv_bias": False,
        "input_emb_norm": False,
        "layer_norm_type": "rms",
        "layer_norm_with_affine": True,
        "multi_query_attention": None,
        "rope": True,
        "scale_logits": False,
    },
    constants={"hidden_act": "silu", "attention_bias": False, "mlp_bias": False},
    names=Names(
        (
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
    ),
    mask="<|mdm_mask|>",
    ends=("<|eot_id|>", "<|endoftext|>"),
    asks=(
        "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n",
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    shift=False,
    full=True,
)

_DREAM: Final = Family(
    name="Dream",
    title="Dream",
    config=Qwen2Config,
    network=Qwen2ForCausalLM,
    sizes=QWEN_SIZES,
    fixed=QWEN_FIXED | {"use_mrope": False},
    mask="<|mask|>",
    ends=QWEN_ENDS,
    asks=(_ASSISTANT + QWEN_ASKS[0], QWEN_ASKS[1]),
    shift=True,
    full=True,
)

_LLADA2: Final = Family(
    name="llada2_moe",
    title="LLaDA2",
    config=Glm4MoeConfig,
    network=Glm4MoeForCausalLM,
    sizes=QWEN_SIZES
    | {
        "head_dim": "head_dim",
        "moe_intermediate_size": "moe_intermediate_size",
        "first_k_dense_replace": "first_k_dense_replace",
        "n_routed_experts": "num_experts",
        "n_shared_experts": "num_shared_experts",
        "num_experts_per_tok": "num_experts_per_tok",
        "n_group": "n_group",
        "topk_group": "topk_group",
        "routed_scaling_factor": "routed_scaling_factor",
        "partial_rotary_factor": "partial_rotary_factor",
    },
    fixed=QWEN_FIXED
    | {
        "moe_router_enable_expert_bias": True,
        "norm_head": False,
        "norm_topk_prob": True,
        "score_function": "sigmoid",
        "use_bias": False,
        "use_qk_norm": True,
        "use_qkv_bias": False,
    },
    constants={"attention_bias": False, "use_qk_norm": True, "norm_topk_prob": True},
    absent={"tie_word_embeddings": False},
    names=llada2.NAMES,
    mask="<|mask|>",
    ends=("<|role_end|>", "<|endoftext|>"),
    asks=(
        "<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>",
        "<|role_end|><role>ASSISTANT</role>",
    ),
    shift=False,
    full=False,
)

_OPENPANGU: Final = Family(
    name="PanguEmbedded",
    title="openPangu",
    config=LlamaConfig,
    network=LlamaForCausalLM,
    sizes=QWEN_SIZES | {"attention_bias": "bias"},
    fixed=QWEN_FIXED,
    constants={"mlp_bias": False},
    mask="[unused0]",
    ends=("[unused10]", "</s>"),
    shift=True,
    causal=True,
    begins=("<s>",),
)

FAMILIES: Final[dict[str, Family]] = {
    family.name: family for family in (_SDAR, _FAST_DLLM, _LLADA, _DREAM, _LLADA2, _OPENPANGU)
}
