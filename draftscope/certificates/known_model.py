"""A tiny Llama whose next-token distribution is known exactly, and its drafter, as safetensors and as GGUF.

Eight letters, two layers, 75,000 weights. All come from the raw words of a generator, so that every machine writes the
same files. Attention counts: an engine that loses or repeats an entry of its KV cache is off. A letter is a token, so
texts and ids are the same thing. The exact distribution is that of a float64 pass.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Float, Int64
from transformers import LlamaConfig, LlamaForCausalLM

LETTERS: Final = "abcdefgh"
PROMPTS: Final = ("abcdabcdab", "efghefghef", "aabbaabbaa", "hgfehgfehg")
"""Prompts that repeat themselves, so that lookups draft."""
LENGTH: Final = 16
"""Tokens of a text."""
CONTEXT: Final = 512
_HIDDEN, _INNER, _LAYERS, _HEADS, _KV_HEADS = 64, 128, 2, 4, 2
_SHARPNESS: Final = 2.2
"""Factor of the last layer; mean entropy 1.1 nats."""
_PROJECTION: Final = 1.5
"""Factor of all other layers."""
_NOISE: Final = 0.3
"""Weight of what is different in the drafter."""
_BATCH: Final = 1024
"""Rows of one reference pass."""
_GGUF: Final = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
_GGUF_ENDS: Final = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
}  # fmt: skip

Role = Literal["target", "draft"]
Array = Float[np.ndarray, "..."]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How an engine samples: `top_k` 0 and `top_p` 1 keep all tokens."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not 0.2 <= self.temperature <= 10:
            raise ValueError(f"temperature: {self.temperature} is not allowed; use 0.2 to 10.")
        if self.top_k not in (0, *range(2, len(LETTERS) + 1)):
            raise ValueError(f"top_k: {self.top_k} is not allowed; use 0, or 2 to {len(LETTERS)}, the vocabulary.")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: {self.top_p} is not allowed; use a number above 0 and up to 1.")

    @property
    def filters(self) -> bool:
        """Whether some tokens are cut off."""
        return 0 < self.top_k < len(LETTERS) or self.top_p < 1

    def apply(self, logits: Array, *, temperature_last: bool) -> Array:
        """Return the distribution that is sampled from.

        Args:
            logits: [..., V].
            temperature_last: Whether filters see the logits before the temperature, as in llama.cpp; in transformers,
                vLLM and SGLang they see them after it.
        """
        scaled = logits if temperature_last else logits / self.temperature
        if 0 < self.top_k < logits.shape[-1]:
            smallest = np.sort(scaled, -1)[..., -self.top_k, None]
            scaled = np.where(scaled >= smallest, scaled, -np.inf)
        if self.top_p < 1:
            probs = softmax(scaled)
            order = np.argsort(-probs, -1, kind="stable")
            ranked = np.take_along_axis(probs, order, -1)
            is_kept = ranked.cumsum(-1) - ranked < self.top_p
            kept_mask = np.zeros_like(is_kept)
            np.put_along_axis(kept_mask, order, is_kept, -1)
            scaled = np.where(kept_mask, scaled, -np.inf)
        return softmax(scaled / self.temperature if temperature_last else scaled)


def softmax(logits: Array) -> Array:
    """Probabilities of logits, over the last axis."""
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def to_ids(text: str) -> list[int]:
    """The ids of a text; raises ValueError for another letter."""
    if wrong := next((letter for letter in text if letter not in LETTERS), None):
        raise ValueError(f"text: {wrong!r} is not a letter of the certificate's model; serve that model.")
    return [LETTERS.index(letter) for letter in text]


def weights(role: Role) -> dict[str, Array]:
    """The float32 weights by the names of transformers."""
    shapes = {name: tuple(weight.shape) for name, weight in _empty().state_dict().items()}
    return {name: _weight(name, shape, _NOISE if role == "draft" else 0.0) for name, shape in shapes.items()}


def _weight(name: str, shape: tuple[int, ...], noise: float) -> Array:
    if "norm" in name:
        return np.ones(shape, np.float32)
    drawn = (_draw(name, shape) + noise * _draw(f"{name} of the drafter", shape)) / (1 + noise**2) ** 0.5
    fan = 1.0 if "embed" in name else shape[1] ** -0.5
    factor = _SHARPNESS if "lm_head" in name else _PROJECTION if "proj" in name else 1.0
    return np.asarray(drawn * fan * factor, np.float32)


def _draw(name: str, shape: tuple[int, ...]) -> Array:
    """Uniform numbers of variance 1, by the raw words of PCG64, whose stream does not change between releases."""
    words = np.random.PCG64(crc32(name.encode())).random_raw(int(np.prod(shape)))
    return ((words >> np.uint64(11)) * 2.0**-53 * 2 - 1).reshape(shape) * 3**0.5


def _config() -> dict[str, Any]:
    return {
        "vocab_size": len(LETTERS), "hidden_size": _HIDDEN, "intermediate_size": _INNER, "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS, "num_key_value_heads": _KV_HEADS, "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": None,
        "pad_token_id": None,
    }  # fmt: skip


def _empty() -> Any:
    with torch.device("meta"):
        return LlamaForCausalLM(LlamaConfig(**_config()))


@cache
def network(role: Role, dtype: torch.dtype = torch.float32) -> Any:
    """Return the known model as a network of transformers; shared, so do not modify it.

    Args:
        role: Whether it is the target or the drafter.
        dtype: Number format of its weights.
    """
    with torch.inference_mode(False):  # the caller may be in it, and its tensors stay so
        net = LlamaForCausalLM(LlamaConfig(**_config()))
        net.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights(role).items()})
        net.generation_config.bos_token_id = net.generation_config.eos_token_id = None
        return net.eval().to(dtype)


def exact_logits(role: Role, prompts: Sequence[str], texts: Int64[np.ndarray, "B N"]) -> Float[np.ndarray, "B N V"]:
    """Return the float64 logits before each token of texts.

    Args:
        role: Whether the target or the drafter computes them.
        prompts: Prompt of each text.
        texts: Ids that continue the prompts, N each.
    """
    logits = np.empty((*texts.shape, len(LETTERS)))
    for prompt in dict.fromkeys(prompts):
        chosen = np.flatnonzero([each == prompt for each in prompts])
        rows, back = np.unique(texts[chosen], axis=0, return_inverse=True)
        head = np.array(to_ids(prompt), dtype=np.int64)
        parts = []
        for first in range(0, len(rows), _BATCH):
            part = rows[first : first + _BATCH]
            ids = torch.from_numpy(np.concatenate([np.tile(head, (len(part), 1)), part], 1))
            with torch.inference_mode():
                parts.append(network(role, torch.float64)(ids, use_cache=False).logits[:, len(head) - 1 : -1].numpy())
        logits[chosen] = np.concatenate(parts)[back.reshape(-1)]
    return logits


def write_checkpoints(folder: Path) -> None:
    """Write `target` and `draft` into a folder, each as a folder of transformers and as a GGUF file.

    Raises:
        OSError: If they cannot be written.
    """
    for role in ("target", "draft"):
        _write_transformers(folder / role, weights(role))
        _write_gguf(folder / f"{role}.gguf", weights(role))


def _write_transformers(folder: Path, named: Mapping[str, Array]) -> None:
    from safetensors.numpy import save
    from tokenizers import Tokenizer
    from tokenizers.decoders import Fuse
    from tokenizers.models import BPE

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(save(dict(named), metadata={"format": "pt"}))
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float32", **_config()}
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    vocabulary = {letter: index for index, letter in enumerate(LETTERS)}
    tokenizer = Tokenizer(BPE(vocabulary, []))
    tokenizer.decoder = Fuse()
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=True), encoding="utf-8")
    tokenizer_config = json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"})
    (folder / "tokenizer_config.json").write_text(tokenizer_config, encoding="utf-8")


def _write_gguf(path: Path, named: Mapping[str, Array]) -> None:
    from gguf import GGUFWriter

    config = _config()
    writer = GGUFWriter(str(path), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(_HIDDEN)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_KV_HEADS)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(_HIDDEN // _HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(LETTERS))
    writer.add_file_type(0)  # all float32
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(list(LETTERS))
    writer.add_token_types([1] * len(LETTERS))
    writer.add_token_merges(["a b"])  # A list must not be empty; the merged token does not exist.
    writer.add_add_bos_token(False)
    for name, weight in named.items():
        writer.add_tensor(*_as_gguf(name.removesuffix(".weight"), weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _as_gguf(name: str, weight: Array) -> tuple[str, Array]:
    """Name and weight in a GGUF file, whose Llama rotates neighbours where that of transformers rotates halves."""
    if name in _GGUF_ENDS:
        return f"{_GGUF_ENDS[name]}.weight", weight
    _, _, layer, part = name.split(".", 3)
    if part.endswith(("q_proj", "k_proj")):
        heads = _HEADS if part.endswith("q_proj") else _KV_HEADS
        halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, weight.shape[1])
        weight = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weight.shape))
    return f"blk.{layer}.{_GGUF[part]}.weight", weight
