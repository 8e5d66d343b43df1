"""Harmon at a small size, with the files, fields and tensor names of the hub's copy, and another implementation.

Written in plain torch from arXiv 2503.21979 and the facts of the release: the Qwen2 reads the prompt, what MAR's
encoder made of the visible tokens and of the buffer, and nothing else, head by head in float64.
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from support import compvis, mar
from support.mar import BUFFER, CODEC, HEADS, SIDE, WIDTH, pixels
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from torch import Tensor
from torch.nn import functional as F

__all__ = ["BUFFER", "SIDE", "Reference", "pixels", "write"]

HIDDEN, INNER, LAYERS, QUERIES, GROUPS, EPSILON, THETA, ROWS = 32, 48, 2, 4, 2, 1e-6, 1e4, 70
SIZE = HIDDEN // QUERIES
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
CONFIG: dict[str, Any] = {
    "architectures": ["HarmonModel"],
    "auto_map": {"AutoConfig": "configuration_harmon.HarmonConfig", "AutoModel": "modeling_harmon.HarmonModel"},
    "model_type": "harmon",
    "torch_dtype": "float32",
    "llm": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "max_position_embeddings": 96,
        "max_window_layers": LAYERS,
        "num_attention_heads": QUERIES,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": GROUPS,
        "rms_norm_eps": EPSILON,
        "rope_theta": THETA,
        "sliding_window": 64,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "vocab_size": ROWS,
        "_attn_implementation": "flash_attention_2",
    },
    "mar": {
        "type": "mar_base",
        "encoder_num_heads": HEADS,
        "img_size": SIDE * CODEC.cell,
        "vae_stride": CODEC.cell,
        "patch_size": 1,
        "vae_embed_dim": CODEC.dim,
        "class_num": 1000,
        "buffer_size": BUFFER,
        "diffloss_d": mar.HEAD_DEPTH,
        "diffloss_w": mar.HEAD_WIDTH,
        "num_sampling_steps": "100",
        "grad_checkpointing": False,
    },
}


def weights(seed: int = 3) -> dict[str, Tensor]:
    """Every tensor of model.safetensors, those of what is not built included."""
    noise = torch.Generator().manual_seed(seed + 20)
    found = {f"mar.{name}": part for name, part in mar.weights(seed).items()}
    for name, rows, columns in (
        ("proj_in.0", HIDDEN, WIDTH),
        ("proj_in.2", HIDDEN, HIDDEN),
        ("proj_out.0", HIDDEN, HIDDEN),
        ("proj_out.2", WIDTH, HIDDEN),
    ):
        found[f"{name}.weight"] = compvis.drawn((rows, columns), noise)
        found[f"{name}.bias"] = 0.2 * torch.randn(rows, generator=noise)
    model = "llm.model"
    found[f"{model}.embed_tokens.weight"] = torch.randn(ROWS, HIDDEN, generator=noise)
    found["llm.lm_head.weight"] = found[f"{model}.embed_tokens.weight"].clone()
    found[f"{model}.norm.weight"] = compvis.drawn((HIDDEN,), noise)
    for i in range(LAYERS):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            found[f"{model}.layers.{i}.{norm}.weight"] = compvis.drawn((HIDDEN,), noise)
        for part, heads in (("q", QUERIES), ("k", GROUPS), ("v", GROUPS)):
            name = f"{model}.layers.{i}.self_attn.{part}_proj"
            found[f"{name}.weight"] = compvis.drawn((heads * SIZE, HIDDEN), noise)
            found[f"{name}.bias"] = torch.randn(heads * SIZE, generator=noise)
        for name, shape in (
            ("self_attn.o_proj", (HIDDEN, HIDDEN)),
            ("mlp.gate_proj", (INNER, HIDDEN)),
            ("mlp.up_proj", (INNER, HIDDEN)),
            ("mlp.down_proj", (HIDDEN, INNER)),
        ):
            found[f"{model}.layers.{i}.{name}.weight"] = compvis.drawn(shape, noise)
    return found | {f"vae.{name}": part for name, part in compvis.weights(CODEC).items() if "loss" not in name}


def tokenizer() -> Tokenizer:
    """Every letter a token, and the special ones."""
    letters = sorted(set("abcdefghijklmnopqrstuvwxyzGI :.ĊĠ"))
    made = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    return made


class Reference(mar.Reference):
    """The other implementation, for one prompt; None is the one without a text."""

    def __init__(self, tensors: dict[str, Tensor], prompt: str | None) -> None:
        own = {name.removeprefix("mar."): part for name, part in tensors.items() if not name.startswith("vae.")}
        super().__init__(own)
        asked = "Generate an image." if prompt is None else f"Generate an image: {prompt}"
        self.prompt = tokenizer().encode(f"<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n").ids

    def between(self, h: Tensor) -> Tensor:
        inside = self.linear(F.silu(self.linear(h, "proj_in.0")), "proj_in.2")
        text = self.tensors["llm.model.embed_tokens.weight"][self.prompt]
        read = self.qwen(torch.cat([text, inside[BUFFER:], inside[:BUFFER]]))[len(text) :]
        count = len(read) - BUFFER
        back = torch.cat([read[count:], read[:count]])
        return h + self.linear(F.silu(self.linear(back, "proj_out.0")), "proj_out.2")

    def qwen(self, h: Tensor) -> Tensor:
        """Rows [N, HIDDEN] through a causal Qwen2."""
        own, turned = self.tensors, compvis.along(torch.arange(len(h)), SIZE, THETA)
        hidden = torch.ones(len(h), len(h)).triu(1).bool()

        def matrix(x: Tensor, name: str) -> Tensor:
            return x @ own[f"{name}.weight"].T

        def rms(x: Tensor, name: str) -> Tensor:
            return x / (x.square().mean(-1, keepdim=True) + EPSILON).sqrt() * own[f"{name}.weight"]

        for i in range(LAYERS):
            place = f"llm.model.layers.{i}"
            x = rms(h, f"{place}.input_layernorm")
            q, k, v = (self.linear(x, f"{place}.self_attn.{part}_proj").split(SIZE, -1) for part in "qkv")
            out = []
            for head in range(QUERIES):
                group = head * GROUPS // QUERIES
                score = (turned(q[head]) @ turned(k[group]).T / math.sqrt(SIZE)).masked_fill(hidden, -math.inf)
                out.append(score.softmax(-1) @ v[group])
            h = h + matrix(torch.cat(out, -1), f"{place}.self_attn.o_proj")
            x = rms(h, f"{place}.post_attention_layernorm")
            inner = F.silu(matrix(x, f"{place}.mlp.gate_proj")) * matrix(x, f"{place}.mlp.up_proj")
            h = h + matrix(inner, f"{place}.mlp.down_proj")
        return rms(h, "llm.model.norm")


def write(folder: Path, seed: int = 3) -> Path:
    """The files of the hub's copy."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1))
    (folder / "modeling_harmon.py").write_text("raise SystemExit('this must not run')\n")
    tokenizer().save(str(folder / "tokenizer.json"))
    save_file(weights(seed), folder / "model.safetensors")
    return folder


def write_pickle(folder: Path, seed: int = 3) -> Path:
    """harmon_0.5b.pth and kl16.ckpt as they are published, and the hub's config.json and tokenizer.json beside them."""
    write(folder, seed)
    (folder / "model.safetensors").unlink()
    parts = {name: part for name, part in weights(seed).items() if not name.startswith("vae.")}
    torch.save(parts, folder / "harmon_0.5b.pth")
    torch.save({"model": compvis.weights(CODEC)}, folder / "kl16.ckpt")
    return folder
