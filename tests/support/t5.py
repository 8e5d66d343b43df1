"""FLAN-T5's encoder at a small size, in transformers' layout as published, and another implementation of it."""

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from torch import Tensor

WIDTH, HEADS, SIZE, INNER, LAYERS, WORDS, BUCKETS, FAR = 16, 2, 6, 24, 2, 48, 8, 12
FIELDS: dict[str, Any] = {
    "architectures": ["T5ForConditionalGeneration"],
    "d_ff": INNER,
    "d_kv": SIZE,
    "d_model": WIDTH,
    "decoder_start_token_id": 0,
    "eos_token_id": 1,
    "feed_forward_proj": "gated-gelu",
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-06,
    "model_type": "t5",
    "num_decoder_layers": LAYERS,
    "num_heads": HEADS,
    "num_layers": LAYERS,
    "relative_attention_max_distance": FAR,
    "relative_attention_num_buckets": BUCKETS,
    "tie_word_embeddings": False,
    "vocab_size": WORDS,
}


def tokenizer() -> Tokenizer:
    """Letters behind the special tokens."""
    words = {name: i for i, name in enumerate(["<pad>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyzĠ"])}
    made = Tokenizer(models.BPE(words, [], unk_token="<unk>"))
    splitter: Any = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.pre_tokenizer = splitter
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in list(words)[:3]])
    return made


def ids(text: str) -> list[int]:
    """A text in small letters, and its end."""
    return [*tokenizer().encode(text.lower(), add_special_tokens=False).ids, 1]


def weights(seed: int = 5) -> dict[str, Tensor]:
    """The tensors of the encoder."""
    noise = torch.Generator().manual_seed(seed)
    inner = HEADS * SIZE
    found = {"shared.weight": torch.randn(WORDS, WIDTH, generator=noise)}
    found["encoder.final_layer_norm.weight"] = 1 + 0.3 * torch.randn(WIDTH, generator=noise)
    for i in range(LAYERS):
        attention, feed = (f"encoder.block.{i}.layer.{part}." for part in (0, 1))
        shapes = {f"{attention}SelfAttention.{name}": (inner, WIDTH) for name in "qkv"}
        shapes |= {f"{attention}SelfAttention.o": (WIDTH, inner), f"{feed}DenseReluDense.wo": (WIDTH, INNER)}
        shapes |= {f"{feed}DenseReluDense.wi_{j}": (INNER, WIDTH) for j in (0, 1)}
        for name, shape in shapes.items():
            found[f"{name}.weight"] = torch.randn(shape, generator=noise) / shape[1] ** 0.5
        for part in (attention, feed):
            found[f"{part}layer_norm.weight"] = 1 + 0.3 * torch.randn(WIDTH, generator=noise)
    bias = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    return found | {bias: torch.randn(BUCKETS, HEADS, generator=noise)}


def bucket(query: int, key: int) -> int:
    """The class of a distance: half are of what stands behind; near ones singly, far ones by logarithm."""
    half, distance = BUCKETS // 2, abs(key - query)
    near = half // 2
    far = near + int(math.log(max(distance, 1) / near) / math.log(FAR / near) * (half - near))
    return (half if key > query else 0) + (distance if distance < near else min(far, half - 1))


def forward(row: list[int]) -> Tensor:
    """Features [N, WIDTH] of a text's ids, in float64."""
    own = {name: part.double() for name, part in weights().items()}

    def normed(x: Tensor, name: str) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * own[f"{name}.weight"]

    table = own["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    places = torch.tensor([[bucket(q, k) for k in range(len(row))] for q in range(len(row))])
    x = own["shared.weight"][torch.tensor(row)]
    for i in range(LAYERS):
        attention, feed = (f"encoder.block.{i}.layer.{part}." for part in (0, 1))
        y = normed(x, f"{attention}layer_norm")
        q, k, v = ((y @ own[f"{attention}SelfAttention.{name}.weight"].T).split(SIZE, -1) for name in "qkv")
        heads = [(q[h] @ k[h].T + table[places][..., h]).softmax(-1) @ v[h] for h in range(HEADS)]
        x = x + torch.cat(heads, -1) @ own[f"{attention}SelfAttention.o.weight"].T
        y = normed(x, f"{feed}layer_norm")
        gate, up = (y @ own[f"{feed}DenseReluDense.wi_{j}.weight"].T for j in (0, 1))
        gate = gate * 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)))
        x = x + (gate * up) @ own[f"{feed}DenseReluDense.wo.weight"].T
    return normed(x, "encoder.final_layer_norm")


def write(folder: Path) -> Path:
    """The folder, with a decoder beside the encoder."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(FIELDS))
    extra = {"decoder.final_layer_norm.weight": torch.zeros(2), "lm_head.weight": torch.zeros(3)}
    save_file(weights() | extra, folder / "model.safetensors")
    tokenizer().save(str(folder / "tokenizer.json"))
    return folder
