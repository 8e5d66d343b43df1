"""Lumina-mGPT 1 and 2.0 and Anole at a small size, with their VQGANs, and another implementation of them."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from support import compvis
from support.compvis import Codec, Decoder
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from torch import Tensor

SIDE, CODES, WIDTH, VOCABULARY = 4, 24, 32, 120
CODEC = Codec(dim=4, codes=CODES)
MOVQ = Codec(dim=4, latent=4, codes=CODES, attends=(True, True), spatial=True)
"""MoVQGAN, which draws for Lumina-mGPT 2.0."""
FIRST = 90
"""The token of code 0 in 2.0, behind all that its tokenizer knows."""
SPECIAL = ["<s>", "<reserved08706>", "<racm3:break>", "<eoss>", "<reserved08799>", "<reserved08802>"]
FIELDS: dict[str, Any] = {
    "model_type": "chameleon",
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 160,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "swin_norm": False,
    "model_parallel_size": 1,
    "vocabulary_map": {"<image>": 7},
}
DECODER = Decoder(groups=4)


def tokenizer(kind: str = "") -> Tokenizer:
    """Bytes, then codes in an order that is not theirs, then special tokens; 2.0 has no names for codes."""
    letters = sorted(set("abcdefghijklmnopqrstuvwxyz |:GAĊĠ0123456789"))
    names = ["IMGIMG" + "".join("ABCDEFGHIJ"[int(d)] for d in str(code)) + "Z" for code in range(CODES)]
    words = {name: i for i, name in enumerate([*letters, *([] if kind == "lumina-mgpt-2" else reversed(names))])}
    made = Tokenizer(models.BPE(words, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in special(kind)])
    return made


def special(kind: str) -> list[str]:
    """What begins a text, separates turns, begins a picture, ends it and its rows, and tells its size."""
    return ["<|endoftext|>", *SPECIAL[1:5], "<reserved08801>"] if kind == "lumina-mgpt-2" else SPECIAL


def codec(kind: str) -> Codec:
    """What draws."""
    return MOVQ if kind == "lumina-mgpt-2" else CODEC


def weights(shared: bool = False, seed: int = 3) -> dict[str, Tensor]:
    """The tensors; `shared` has one norm of queries and keys for all heads, as one device had in training."""
    noise = torch.Generator().manual_seed(seed + 10)
    found = {f"model.{name}": part for name, part in DECODER.weights(WIDTH, 48, seed).items()}
    for i in range(2):
        for kind in "qk":
            shape = (1 if shared else 4, DECODER.size)
            found[f"model.layers.{i}.self_attn.{kind}_norm.weight"] = 1 + 0.3 * torch.randn(shape, generator=noise)
            found[f"model.layers.{i}.self_attn.{kind}_norm.bias"] = 0.3 * torch.randn(shape, generator=noise)
    found["model.embed_tokens.weight"] = torch.randn(VOCABULARY, WIDTH, generator=noise)
    found["lm_head.weight"] = compvis.drawn((VOCABULARY, WIDTH), noise)
    return found | {"model.vqmodel.encoder.conv_in.weight": torch.zeros(2)}


def prompt_ids(kind: str, text: str, silent: bool) -> list[int]:
    """What stands before a picture."""
    made = tokenizer(kind)
    begin, turn, start, _, _, grids = (made.token_to_id(name) for name in special(kind))
    if kind != "anole":
        asked = (
            f"Generate an image of {SIDE * CODEC.cell}x{SIDE * CODEC.cell} according to the following prompt:\n{text}"
        )
        before = [begin, *made.encode(asked, add_special_tokens=False).ids, turn]
        return [*([] if silent else before), start, grids, grids]
    return [begin, *([] if silent else [*made.encode(text, add_special_tokens=False).ids, turn]), start]


def forward(tensors: dict[str, Tensor], kind: str, prompt: list[int], codes: Tensor) -> Tensor:
    """Logits [1 + N, K] of every code of a row that has N of them: read before each code, behind the ends of rows."""
    made = tokenizer(kind)
    names = ["IMGIMG" + "".join("ABCDEFGHIJ"[int(d)] for d in str(code)) + "Z" for code in range(CODES)]
    named = [FIRST + code if kind == "lumina-mgpt-2" else made.token_to_id(names[code]) for code in range(CODES)]
    words = torch.tensor(named)
    row, read = list(prompt), []
    for i in range(len(codes) + 1):
        if kind != "anole" and i and i % SIDE == 0:
            row.append(made.token_to_id("<reserved08799>"))
        read.append(len(row) - 1)
        row += words[codes[i : i + 1]].tolist()
    own = {name.removeprefix("model."): part for name, part in tensors.items()}

    def normed(x: Tensor, part: str, layer: int, head: int) -> Tensor:
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
        weight, bias = (own[f"layers.{layer}.self_attn.{part}_norm.{name}"].double() for name in ("weight", "bias"))
        place = head if len(weight) > 1 else 0
        return x * weight[place] + bias[place]

    h = own["embed_tokens.weight"].double()[torch.tensor(row)]
    h = DECODER.forward(own, h, compvis.along(torch.arange(len(row)), DECODER.size, 1e4), normed)
    return (h @ own["lm_head.weight"].double().T)[read][:, words]


def pixels(codes: Tensor, kind: str = "") -> Tensor:
    """Pictures of codes [B, N]."""
    tensors = compvis.weights(codec(kind))
    return compvis.decode(codec(kind), tensors, compvis.looked_up(tensors, codes, SIDE, unit=False))


def write(folder: Path, shared: bool = False, kind: str = "") -> Path:
    """A checkpoint, and vqgan.ckpt beside it."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(FIELDS))
    save_file(weights(shared), folder / "model.safetensors")
    tokenizer(kind).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": None, "eos_token": special(kind)[0]}))
    tensors = compvis.weights(codec(kind)) | {"loss.discriminator.weight": torch.zeros(2)}
    torch.save({"state_dict": tensors, "global_step": 7}, folder / "vqgan.ckpt")
    return folder
