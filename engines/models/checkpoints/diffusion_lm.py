"""Published diffusion language models: SDAR, Qwen3 by dLLM, BD3-LM, Fast-dLLM v2, LLaDA, Dream, LLaDA2 and openPangu.

Each is a decoder that transformers has, under another attention mask, so that a class of transformers holds its
weights. What differs is what config.json and the tensors are called, the special tokens, and how a question is put:
SDAR (arXiv 2510.06303), dLLM (2602.22661), BD3-LM (2503.09573), Fast-dLLM v2 (2509.26328), LLaDA (2502.09992) and
Dream (2508.15487) have papers.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from tokenizers import AddedToken, Tokenizer
from transformers import Glm4MoeForCausalLM, LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM

from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.checkpoints import bd3lm
from draftscope.engines.models.checkpoints.build import (
    State,
    card_of,
    native_config,
    native_network,
    parameters,
    renamed,
)
from draftscope.engines.models.devices import parse_devices
from draftscope.engines.models.diffusion_lm import DiffusionLM, Traits
from draftscope.engines.models.memory import MemoryRequirement, cached_numbers
from draftscope.engines.models.tokenizer_files import (
    QWEN_CHAT,
    ChatForm,
    has_chat_template,
    named_token,
    read_tokenizer,
    size_of,
    token_id,
)
from draftscope.engines.settings import format_value


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffusionFamily:
    """How the checkpoints of a family are laid out, and how they decode; see `TextTask` for shift, full and causal."""

    title: str
    network: type[Any]
    mask: str
    ends: tuple[str, ...]
    """End-of-sequence tokens: first the end of a turn, last that of a document."""
    chat: ChatForm = ("", "")
    """Text before and after a question in a chat model."""
    fixed: Mapping[str, object] = field(default_factory=dict)
    """Fields of config.json that may be missing and, where present, must have this value: nothing else was built."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """A field of transformers' config -> what config.json calls it."""
    constants: Mapping[str, object] = field(default_factory=dict)
    """Fields of transformers' config that the family does not vary."""
    names: tuple[tuple[str, str], ...] = ()
    """Parts of the folder's tensor names and transformers' for them, applied in this order."""
    split: Callable[[State, Any], State] = lambda state, _: state
    """The folder's tensors as `network` divides them, given its config."""
    shift: bool = False
    full: bool = False
    causal: bool = False
    adds_mask: bool = False
    """Whether a tokenizer without the mask gets it as its next id, as the release's own scripts do."""
    begins: str = ""
    """The token that every text begins with."""
    trained: str = ""
    """Field of config.json with the one trained block size, for models that support only it and 1."""
    tokenizer: str = ""
    """Checkpoint whose tokenizer.json is put into the folder, for those that are published without one."""
    not_read: str = ""
    """Part of the names of checkpoints with the same config.json that attend to the whole text."""


_QWEN_FIXED: Final = {"rope_scaling": None, "use_sliding_window": False}
_QWEN_ENDS: Final = ("<|im_end|>", "<|endoftext|>")
_ASSISTANT: Final = ("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n" + QWEN_CHAT[0], QWEN_CHAT[1])
_NO_THINKING: Final = (QWEN_CHAT[0], QWEN_CHAT[1] + "<think>\n\n</think>\n\n")
_LLADA_NAMES: Final = (
    ("model.transformer.ff_out.", "lm_head."),
    ("model.transformer.wte.", "model.embed_tokens."),
    ("model.transformer.ln_f.", "model.norm."),
    ("model.transformer.blocks.", "model.layers."),
    (".attn_norm.", ".input_layernorm."),
    (".ff_norm.", ".post_attention_layernorm."),
    (".q_proj.", ".self_attn.q_proj."),
    (".k_proj.", ".self_attn.k_proj."),
    (".v_proj.", ".self_attn.v_proj."),
    (".attn_out.", ".self_attn.o_proj."),
    (".ff_proj.", ".mlp.gate_proj."),
    (".up_proj.", ".mlp.up_proj."),
    (".ff_out.", ".mlp.down_proj."),
)
_LLADA2_NAMES: Final = (
    ("model.word_embeddings.", "model.embed_tokens."),
    (".attention.dense.", ".self_attn.o_proj."),
    (".attention.query_layernorm.", ".self_attn.q_norm."),
    (".attention.key_layernorm.", ".self_attn.k_norm."),
    (".expert_bias", ".e_score_correction_bias"),
)
_FUSED, _EXPERTS = ".attention.query_key_value.weight", ".mlp.experts."


def _split_llada2(state: State, config: Any) -> State:
    """Split the fused query, key and value projection; transformers stacks the experts, of which none may miss."""
    sizes = [config.head_dim * heads for heads in (config.num_attention_heads, *[config.num_key_value_heads] * 2)]
    native = dict(state)
    for name, part in state.items():
        if name.endswith(_FUSED) and len(part) == sum(sizes):
            prefix = f"{name.removesuffix(_FUSED)}.self_attn."
            native |= {f"{prefix}{one}_proj.weight": rows for one, rows in zip("qkv", part.split(sizes), strict=True)}
            del native[name]
    num_fused = 3 * config.n_routed_experts
    counts = Counter(name.partition(_EXPERTS)[0] for name in native if _EXPERTS in name)
    return {
        name: part for name, part in native.items() if counts.get(name.partition(_EXPERTS)[0], num_fused) == num_fused
    }


FAMILIES: Final = {
    "sdar": DiffusionFamily(
        title="SDAR",
        network=Qwen3ForCausalLM,
        mask="<|MASK|>",
        adds_mask=True,
        ends=_QWEN_ENDS,
        chat=QWEN_CHAT,
        fixed=_QWEN_FIXED,
    ),
    "a2d-qwen3": DiffusionFamily(
        title="Qwen3 in blocks",
        network=Qwen3ForCausalLM,
        mask="<|mask|>",
        adds_mask=True,
        ends=_QWEN_ENDS,
        chat=_NO_THINKING,
        fixed=_QWEN_FIXED,
        not_read="-mdlm-",
    ),
    "bd3lm": DiffusionFamily(
        title="BD3-LM",
        network=bd3lm.BD3LM,
        mask="[MASK]",
        adds_mask=True,
        ends=("<|endoftext|>",),
        begins="<|endoftext|>",
        fixed={"adaln": True, "causal": False, "cross_attn": True, "time_conditioning": False},
        fields={
            "hidden_size": "hidden_dim",
            "max_position_embeddings": "model_length",
            "num_attention_heads": "n_heads",
            "num_hidden_layers": "n_blocks",
            "num_key_value_heads": "n_heads",
            "vocab_size": "vocab_size",
        },
        constants={
            "hidden_act": "gelu_pytorch_tanh",
            "norm_epsilon": 1e-5,
            "return_dict": True,
            "rope_theta": 1e4,
            "tie_word_embeddings": False,
        },
        split=bd3lm.fold,
        trained="block_size",
        tokenizer="openai-community/gpt2",
    ),
    "Fast_dLLM_Qwen": DiffusionFamily(
        title="Fast-dLLM v2",
        network=Qwen2ForCausalLM,
        mask="|<MASK>|",
        ends=_QWEN_ENDS,
        chat=_ASSISTANT,
        fixed=_QWEN_FIXED,
        shift=True,
        trained="bd_size",
    ),
    "llada": DiffusionFamily(
        title="LLaDA",
        network=LlamaForCausalLM,
        mask="<|mdm_mask|>",
        ends=("<|eot_id|>", "<|endoftext|>"),
        chat=(
            "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n",
            "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        fixed={
            "activation_type": "silu",
            "block_type": "llama",
            "layer_norm_type": "rms",
            "block_group_size": 1,
            "multi_query_attention": None,
            "layer_norm_with_affine": True,
            "rope": True,
            "scale_logits": False,
            **dict.fromkeys(("alibi", "attention_layer_norm", "bias_for_layer_norm", "input_emb_norm"), False),
            **dict.fromkeys(("include_bias", "include_qkv_bias"), False),
        },
        fields={
            "vocab_size": "embedding_size",
            "hidden_size": "d_model",
            "intermediate_size": "mlp_hidden_size",
            "num_hidden_layers": "n_layers",
            "num_attention_heads": "n_heads",
            "num_key_value_heads": "n_kv_heads",
            "max_position_embeddings": "max_sequence_length",
            "tie_word_embeddings": "weight_tying",
        },
        names=_LLADA_NAMES,
        full=True,
    ),
    "Dream": DiffusionFamily(
        title="Dream",
        network=Qwen2ForCausalLM,
        mask="<|mask|>",
        ends=_QWEN_ENDS,
        chat=_ASSISTANT,
        fixed=_QWEN_FIXED | {"use_mrope": False},
        shift=True,
        full=True,
    ),
    "llada2_moe": DiffusionFamily(
        title="LLaDA2",
        network=Glm4MoeForCausalLM,
        mask="<|mask|>",
        ends=("<|role_end|>", "<|endoftext|>"),
        chat=(
            "<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>",
            "<|role_end|><role>ASSISTANT</role>",
        ),
        fixed=_QWEN_FIXED
        | {
            "moe_router_enable_expert_bias": True,
            "norm_head": False,
            "norm_topk_prob": True,
            "score_function": "sigmoid",
            "use_bias": False,
            "use_qk_norm": True,
            "use_qkv_bias": False,
        },
        fields={"n_routed_experts": "num_experts", "n_shared_experts": "num_shared_experts"},
        constants={"attention_bias": False, "use_qk_norm": True},
        names=_LLADA2_NAMES,
        split=_split_llada2,
    ),
    "PanguEmbedded": DiffusionFamily(
        title="openPangu",
        network=LlamaForCausalLM,
        mask="[unused0]",
        ends=("[unused10]", "</s>"),
        fixed=_QWEN_FIXED,
        fields={"attention_bias": "bias"},
        constants={"mlp_bias": False},
        shift=True,
        causal=True,
        begins="<s>",
    ),
}
_OTHERS_CODE: Final = ("architectures", "attn_implementation", "auto_map", "model_type")
"""Fields of config.json that name code of the release."""


def load(source: CheckpointDir, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> DiffusionLM:
    """The model of a folder; see `families`."""
    family, config = _family(source, settings)
    if family.tokenizer and not (source.folder / "tokenizer.json").is_file():
        raise source.unsupported(f"has no tokenizer.json; put that of {family.tokenizer} into {source.folder}")
    tokenizer = read_tokenizer(source)
    kind = _kind(source, family, settings, config, tokenizer)
    size_of(source, tokenizer, config.vocab_size)
    state = {renamed(name, family.names): part for name, part in _split(source, family, config).items()}
    if config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    network = native_network(source, family.network, config, state, dtype, device=device)
    return DiffusionLM(network, tokenizer, kind, card_of(source, family.title), torch.device(parse_devices(device)[0]))


def _split(source: CheckpointDir, family: DiffusionFamily, config: Any) -> State:
    """The tensors of a folder as the family's network divides them."""
    try:
        return family.split(source.tensors(), config)
    except KeyError as error:
        raise source.unsupported(f"tensor {error} is missing in its weights") from None
    except RuntimeError as error:
        raise source.unsupported(f"its weights do not belong together: {error}") from error


def needs(source: CheckpointDir, settings: Mapping[str, Any]) -> MemoryRequirement:
    """The memory that the model of a folder needs; see `families`. A bidirectional one has no KV cache."""
    family, config = _family(source, settings)
    stored = None if family.split is _split_llada2 else source.format()
    count = parameters(source, family.network, config)
    return MemoryRequirement(count, position=0 if family.full else cached_numbers(config), stored=stored)


def _family(source: CheckpointDir, settings: Mapping[str, Any]) -> tuple[DiffusionFamily, Any]:
    """The family of a config.json, and the config of its network."""
    family = FAMILIES[settings["model_type"]]
    if family.not_read and family.not_read in source.name:
        raise source.unsupported("attends to the whole text at once, which is not read; use the -bd3lm- checkpoint")
    source.check_fixed(settings, family.fixed, family.title)
    values = {name: value for name, value in settings.items() if name not in _OTHERS_CODE}
    for name, published in family.fields.items():
        if published not in settings:
            raise source.unsupported(f"config.json has no {published!r}")
        values[name] = settings[published]
    source.number(values, "max_position_embeddings")
    if family.split is bd3lm.fold:
        values["intermediate_size"] = bd3lm.RATIO * source.number(settings, "hidden_dim")
    config = native_config(source, family.network.config_class, values | dict(family.constants))
    if family.split is _split_llada2:
        source.number(values, "head_dim")
        chosen, groups, several = config.topk_group, config.n_group, config.num_experts_per_tok
        size = config.n_routed_experts / max(groups, 1)
        if not (0 < chosen <= groups and size >= 2 and size % 1 == 0 and 0 < several <= chosen * size):
            shape = f"{groups} groups of {size:g} experts; a token takes {several} experts of {chosen} groups"
            raise source.unsupported(f"config.json has {shape}")
    return family, config


def _kind(
    source: CheckpointDir, family: DiffusionFamily, settings: Mapping[str, Any], config: Any, tokenizer: Tokenizer
) -> Traits:
    """Return special tokens, blocks and chat form as specified by the checkpoint's own files."""
    if tokenizer.token_to_id(family.mask) is None and family.adds_mask:
        tokenizer.add_special_tokens([AddedToken(family.mask, special=True, normalized=False)])
    mask = token_id(source, tokenizer, named_token(source, "mask_token") or family.mask)
    if settings.get("mask_token_id", mask) != mask:
        raise source.unsupported(
            f"config.json has {format_value(settings['mask_token_id'])} for 'mask_token_id', its tokenizer {mask}"
        )
    ends = tuple(end for name in family.ends if (end := tokenizer.token_to_id(name)) is not None)
    return Traits(
        mask,
        ends or (token_id(source, tokenizer, family.ends[0]),),
        family.shift,
        family.full,
        (1, source.number(settings, family.trained)) if family.trained else (),
        longest=config.max_position_embeddings,
        prompt_form=family.chat if has_chat_template(source) else ("", ""),
        begins=(token_id(source, tokenizer, family.begins),) if family.begins else (),
        causal=family.causal,
    )
