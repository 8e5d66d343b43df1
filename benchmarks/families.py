"""Every causal language model of the installed transformers, with tiny random weights, against `generate`.

`python -m benchmarks.families` prints which families decode the tokens of `generate`, and `--write` puts the list into
docs/models.md. It takes minutes on one core, and downloads nothing.
"""

import argparse
import gc
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, GenerationConfig, PreTrainedTokenizerFast, logging
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import draftscope as ds
from draftscope.engines.models.errors import ModelError
from draftscope.traces.files import write_atomic

DOCS: Final = Path(__file__).parent.parent / "docs" / "models.md"
MARKS: Final = ("<!-- families -->\n", "<!-- /families -->\n")
"""Lines before and after the list in docs/models.md."""
PROMPT: Final = "def add(a, b): return a + b; def add("
LENGTH: Final = 8
_LAYERS: Final = 4
_ROWS: Final = 257
"""Size of the vocabularies."""
_LARGEST: Final = 20_000_000
"""Parameters from which on a network is not tiny."""
_STD: Final = 0.3
"""Standard deviation of the random weights, with which hardly two tokens have the same probability."""

_TINY: Final[dict[str, int]] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "embedding_size", "emb_dim", "attention_hidden_size"), 64
    ),
    **dict.fromkeys(
        (
            "intermediate_size", "ffn_dim", "n_inner", "d_ff", "dff", "dim_ff", "ffn_hidden_size", "decoder_ffn_dim",
            "encoder_ffn_dim", "shared_intermediate_size",
        ),
        96,
    ),
    **dict.fromkeys(
        ("moe_intermediate_size", "shared_expert_intermediate_size", "shared_experts_intermediate_size",
         "expert_ffn_hidden_size"),
        32,
    ),
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "encoder_layers",
         "num_decoder_layers", "num_encoder_layers", "num_blocks"),
        _LAYERS,
    ),
    **dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads", "encoder_attention_heads",
         "num_decoder_attention_heads", "num_encoder_attention_heads"),
        4,
    ),
    "num_key_value_heads": 2,
    **dict.fromkeys(
        ("head_dim", "attention_head_dim", "v_head_dim", "index_head_dim", "linear_head_dim", "linear_key_head_dim",
         "linear_value_head_dim", "dim_head"),
        16,
    ),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", "linear_num_heads"), 4),
    **dict.fromkeys(
        ("num_experts_per_tok", "num_experts_per_token", "linear_num_key_heads", "index_n_heads", "moe_topk"), 2
    ),
    **dict.fromkeys(("n_shared_experts", "topk_group", "num_expert_group"), 1),
    "n_group": 2,
    "linear_num_value_heads": 4,
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "o_lora_rank"), 16),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "rotary_dim", "time_step_rank", "mamba_dt_rank"), 8),
    "qk_head_dim": 16,
    "vocab_size": _ROWS,
    "vocab_size_per_layer_input": _ROWS,
    "hidden_size_per_layer_input": 8,
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 512),
    "mamba_n_heads": 8,
    "mamba_n_groups": 1,
    **dict.fromkeys(("mamba_d_state", "mamba_d_head", "mamba_chunk_size", "state_size", "chunk_size"), 16),
    **dict.fromkeys(("image_size", "img_size"), 28),
    "num_buckets": 16,
}  # fmt: skip
"""Sizes of configs, where a config has them and they are larger."""
_COMPUTED: Final = (
    "layer_types", "mlp_layer_types", "per_layer_config", "layers_block_type", "no_rope_layers", "attention_layers",
    "hybrid_layer_ids", "attention_types",
)  # fmt: skip
"""Lists that are computed from the number of layers."""
_LATENT: Final = {"head_dim": 8, "num_key_value_heads": 4}
"""Latent attention: the dimension of a head is the rotated part, and each head has its own key."""
_HYBRID: Final = {"layer_types": ["linear_attention", "full_attention"] * 2}
_WIDE: Final = {"head_dim": 16}
_WINDOWS: Final[dict[str, Any]] = {"layer_types": ["sliding_attention", "full_attention"] * 2}
_DECODER: Final = {"is_decoder": True}
_OWN: Final[Mapping[str, Mapping[str, Any]]] = {
    **dict.fromkeys(
        ("deepseek_v3", "deepseek_v32", "axk1", "axk2", "glm4_moe_lite", "glm_moe_dsa", "longcat_flash",
         "youtu", "minicpm3", "hy_v4"),
        _LATENT,
    ),
    "granitemoehybrid": _HYBRID,
    "bamba": {"attn_layer_indices": [1, 3]},
    **dict.fromkeys(("kimi_linear", "bailing_hybrid"), _HYBRID | _LATENT),
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe", "ministral"), _WIDE),
    **dict.fromkeys(
        ("bert", "bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie", "megatron-bert",
         "rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer", "xlm-roberta", "xlm-roberta-xl"),
        _DECODER,
    ),
    "xmod": {"is_decoder": True, "default_language": "en_XX"},
    "blenderbot": {"encoder_layers": _LAYERS, "decoder_layers": _LAYERS, "num_hidden_layers": _LAYERS},
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 1e4} for kind in ("sliding_attention", "full_attention")
        },
    },
    "deepseek_v2": _LATENT | {"n_group": 1, "topk_group": 1, "topk_method": "greedy", "num_experts_per_tok": 2},
    "dots3_note_text": {
        "layer_types": ["indexed_attention", "sliding_attention"] * 2, "num_key_value_heads": 4,
        "mlp_layer_types": ["dense", "sparse"] * 2, "per_layer_config": {},
    },
    "ernie4_5_moe": {"moe_k": 2},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1},
    "falcon_h1": {"mamba_d_ssm": 128, "mamba_d_head": 16, "mamba_n_heads": 8},
    **dict.fromkeys(("gemma4_text", "gemma4_unified_text"), _WINDOWS | {"per_layer_config": {1: _WIDE, 3: _WIDE}}),
    "gemma3n_text": {
        "intermediate_size": [96] * _LAYERS, "activation_sparsity_pattern": [0.0] * _LAYERS, "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2, "laurel_rank": 8,
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "mamba2": {"num_heads": 8, "n_groups": 1},
    "nemotron": {"num_key_value_heads": 2},
    "reformer": {
        "is_decoder": True, "axial_pos_embds": False, "attn_layers": ["local"] * _LAYERS, "attention_head_size": 16,
        "feed_forward_size": 96,
    },
    "qwen4_exp_text": {
        "layer_types": ["linear_attention", "indexed_attention"] * 2, "ple_embed_dim": 16, "indexer_budget": 512,
        "indexer_compress_ratio": 4, "hc_lowrank": 8, "ngram_vocab_size_base": 64, "indexer_head_dim": 16,
        "indexer_n_heads": 2, "indexer_kv_heads": 1,
    },
    "xlstm": {"embedding_dim": 64, "num_heads": 4, "qk_dim_factor": 1.0, "ffn_round_up_to_multiple_of": 16},
    "zamba": {
        "num_hidden_layers": 6, "attention_hidden_size": 128, "attention_head_dim": 32, "num_key_value_heads": 4,
        "use_mamba_kernels": False, "attn_layer_period": 3, "attn_layer_offset": 1,
    },
    "zamba2": {
        "layers_block_type": ["linear_attention", "hybrid"] * 2, "hybrid_layer_ids": [1, 3], "mamba_headdim": 16,
        "attention_hidden_size": 128, "attention_head_dim": 32, "num_key_value_heads": 4, "use_mamba_kernels": False,
        "adapter_rank": 8,
    },
}  # fmt: skip
"""Fields of configs that depend on each other, by `model_type`."""
UNTRIED: Final[Mapping[str, str]] = {
    **{
        name: f"pictures or sounds around `{text}`, which is tried"
        for name, text in {
            "dots3_note": "dots3_note_text",
            "gemma3n": "gemma3n_text",
            "qwen4_exp": "qwen4_exp_text",
        }.items()
    },
    **dict.fromkeys(("gemma4_assistant", "gemma4_unified_assistant"), "drafts from the hidden states of another model"),
    **dict.fromkeys(
        ("musicgen", "musicgen_melody"), "transformers builds no causal model from the config of the whole model"
    ),
    **dict.fromkeys(("emu3", "mllama"), "transformers cannot load what its causal class of this family saves"),
    "blt": "reads bytes, and its hash tables are not made small by its config",
    "reformer": "a pass with positions over a text that does not fill its chunks fails in transformers",
}
"""Why a family is not tried, by `model_type`; a wrapper of several parts is tried by its text model."""


class Untried(Exception):
    """A family that cannot be made tiny; the message has the reason."""


@dataclass(frozen=True, slots=True)
class FamilyResult:
    """Result of one family."""

    model_type: str
    outcome: str
    """A key of `OUTCOMES`."""
    note: str = ""


OUTCOMES: Final[Mapping[str, str]] = {
    "same": "give the tokens of `generate`",
    "uncached": "give the tokens of `generate(use_cache=False)`; transformers itself gives others with its cache",
    "refused": "are refused",
    "untried": "were not tried",
}


def model_types() -> list[str]:
    """Return the `model_type` of every causal language model of transformers, in alphabetical order."""
    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are the 256 bytes and an end token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(["<|end|>", *alphabet])}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|end|>", eos_token="<|end|>")


def _shrunk(values: Mapping[str, Any]) -> dict[str, Any]:
    """Smaller sizes for a config and for the configs inside it."""
    tiny: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, int) and not isinstance(value, bool) and name in _TINY:
            tiny[name] = min(value, _TINY[name]) if name != "vocab_size" else _ROWS
        elif name == "pad_token_id" and isinstance(value, int):
            tiny[name] = 0
        elif isinstance(value, dict) and name.endswith("_config"):
            inner = {key: each for key, each in value.items() if key not in _COMPUTED}
            tiny[name] = inner | _shrunk(inner)
    return tiny


def tiny_config(model_type: str) -> Any:
    """A config of a family with small sizes.

    Raises:
        Untried: If the family has none.
    """
    if model_type in UNTRIED:
        raise Untried(UNTRIED[model_type])
    kind = CONFIG_MAPPING[model_type]
    special = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    try:
        config = kind(**{**_shrunk(kind().to_dict()), **special, **_OWN.get(model_type, {})})
        with torch.device("meta"):
            size = sum(weight.numel() for weight in AutoModelForCausalLM.from_config(config).parameters())
    except Exception as error:  # of validators, and of layers of all kinds
        raise Untried(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error
    if size > _LARGEST:
        raise Untried(f"its smallest network here has {size:,} parameters")
    return config


def tiny_network(model_type: str) -> Any:
    """A network of a family with random weights in float32; raises Untried as `tiny_config`."""
    config = tiny_config(model_type)
    torch.manual_seed(1)
    network = AutoModelForCausalLM.from_config(config).eval().float()
    drawn = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if weight.ndim > 1 and "conv" not in name and weight.std() < _STD / 3:
                weight.normal_(0, _STD, generator=drawn)
    return network


def generated(network: Any, ids: list[int], **options: Any) -> list[int]:
    """Tokens that greedy `generate` adds to a prompt, with the default options of `generate`."""
    network.generation_config = GenerationConfig(eos_token_id=0, pad_token_id=0)
    input_ids = torch.tensor([ids])
    out = network.generate(
        input_ids, attention_mask=torch.ones_like(input_ids), max_new_tokens=LENGTH, do_sample=False, **options
    )
    return [int(token) for token in out[0, len(ids) :]]


def _decoded(method: str, **options: Any) -> list[int]:
    trace = ds.run(method, top_k=1, length=LENGTH, **options)
    return [token for token in trace.output.tokens[: trace.summary.tokens] if isinstance(token, int)]


WAYS: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "ordinary": ("ar", {}),
    "lookup": ("speculative", {"drafter": "lookup", "gamma": 3}),
    "itself": ("speculative", {"drafter": "itself", "gamma": 3}),
}
"""Ways of decoding: method and settings by name."""


def check_family(model_type: str) -> FamilyResult:
    """Decode with a tiny network of a family, from a folder and as an object, in all `WAYS`.

    Raises:
        AssertionError: If one of them gives other tokens than `generate`, with or without its cache.
    """
    try:
        network = tiny_network(model_type)
    except Untried as reason:
        return FamilyResult(model_type, "untried", str(reason))
    tokenizer = tiny_tokenizer()
    ids: list[int] = tokenizer(PROMPT)["input_ids"]
    try:
        right = generated(network, ids)
    except Exception as error:  # of a network that needs more than ids, for instance
        return FamilyResult(model_type, "untried", f"`generate` fails: {' '.join(str(error).split())[:300]}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / model_type
        network.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        found: dict[str, list[int]] = {}
        for name, (method, settings) in WAYS.items():
            try:
                found[f"object, {name}"] = _decoded(method, target=network, ids=ids, **settings)
                found[f"folder, {name}"] = _decoded(method, model=str(folder), prompt=PROMPT, chat=False, **settings)
            except (ValueError, ModelError) as error:
                return FamilyResult(model_type, "refused", str(error).removeprefix("target: ").partition(";")[0])
    wrong = [name for name, tokens in found.items() if tokens != right]
    if not wrong:
        return FamilyResult(model_type, "same")
    uncached = generated(network, ids, use_cache=False)
    others = {name: tokens for name, tokens in found.items() if tokens != uncached}
    assert not others, f"{model_type}: generate gives {right}, without cache {uncached}, and {others} differ"
    return FamilyResult(model_type, "uncached")


def table(results: list[FamilyResult]) -> str:
    """Return the families by outcome, in Markdown."""
    lines = [f"With transformers {version('transformers')}, {len(results)} families:", ""]
    for outcome, words in OUTCOMES.items():
        those = [result for result in results if result.outcome == outcome]
        if not those:
            continue
        names = ", ".join(f"`{result.model_type}`" for result in those)
        lines.append(f"- {len(those)} {words}: {names}.")
    noted = [result for result in results if result.note]
    lines += ["", "| family | why |", "|---|---|"] if noted else []
    lines += [f"| `{result.model_type}` | {result.note.replace('|', '/')} |" for result in noted]
    return "\n".join(lines) + "\n"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from warning of random weights and of progress."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()


def main(arguments: list[str] | None = None) -> int:
    """Check families and print, or write, the list."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.families", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="MODEL_TYPE", help="only these; by default all")
    parser.add_argument("--write", action="store_true", help="write the list into docs/models.md")
    options = parser.parse_args(arguments)
    results = []
    for name in options.names or model_types():
        with _quiet():
            results.append(check_family(name))
        print(f"{name}: {results[-1].outcome} {results[-1].note}".rstrip(), file=sys.stderr, flush=True)
        gc.collect()
    print(table(results))
    if options.write:
        before, after = DOCS.read_text(encoding="utf-8").split(MARKS[0])
        write_atomic(DOCS, f"{before}{MARKS[0]}{table(results)}{MARKS[1]}{after.split(MARKS[1])[1]}".encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
