"""Published causal language models, one entry a family: native transformers classes under their own names.

qwen2      Qwen2 and Qwen2.5, arXiv 2407.10671 and 2412.15115
qwen3      Qwen3, dense, arXiv 2505.09388
llama      Llama 2 and 3, arXiv 2307.09288 and 2407.21783, and what has its layers: SmolLM2, TinyLlama ...
mistral    Mistral 7B, arXiv 2310.06825
"""

from typing import Final

from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from engines.models.hub.families import QWEN_ASKS, QWEN_FIXED, QWEN_SIZES, Family

_CHATS: Final = {
    "<|im_start|>": QWEN_ASKS,
    "<|start_header_id|>": (
        "<|start_header_id|>user<|end_header_id|>\n\n",
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "[INST]": ("[INST] ", "[/INST]"),
}
_ABSENT: Final[dict[str, object]] = {"tie_word_embeddings": False, "rope_theta": 10000.0}
"""What the classes take where an older config.json is silent."""
_QWEN2: Final = Family(
    name="qwen2",
    title="Qwen2",
    config=Qwen2Config,
    network=Qwen2ForCausalLM,
    sizes=QWEN_SIZES,
    fixed=QWEN_FIXED,
    absent=_ABSENT,
    chats=_CHATS,
)
_QWEN3: Final = Family(
    name="qwen3",
    title="Qwen3",
    config=Qwen3Config,
    network=Qwen3ForCausalLM,
    sizes=QWEN_SIZES | {"head_dim": "head_dim"},
    fixed=QWEN_FIXED | {"attention_bias": False},
    constants={"attention_bias": False},
    absent=_ABSENT,
    chats=_CHATS,
)
_LLAMA: Final = Family(
    name="llama",
    title="Llama",
    config=LlamaConfig,
    network=LlamaForCausalLM,
    sizes=QWEN_SIZES | {"head_dim": "head_dim", "attention_bias": "attention_bias", "mlp_bias": "mlp_bias"},
    fixed={"hidden_act": "silu"},
    absent=_ABSENT | {"attention_bias": False, "mlp_bias": False},
    chats=_CHATS,
)
_MISTRAL: Final = Family(
    name="mistral",
    title="Mistral",
    config=MistralConfig,
    network=MistralForCausalLM,
    sizes=QWEN_SIZES | {"head_dim": "head_dim"},
    fixed={"hidden_act": "silu"},
    constants={"sliding_window": None},
    absent=_ABSENT,
    chats=_CHATS,
    window="sliding_window",
)

CAUSAL_FAMILIES: Final[dict[str, Family]] = {family.name: family for family in (_QWEN2, _QWEN3, _LLAMA, _MISTRAL)}
