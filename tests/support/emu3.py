"""Emu3-Gen at a small size, in both layouts of transformers, and another implementation of it."""

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from support import compvis
from support.compvis import Decoder
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from torch import Tensor
from torch.nn import functional as F

SIDE, CODES, WIDTH, VOCABULARY, DIM = 3, 20, 32, 110, 4
BASE, TIMES, DEPTH = 32, (1, 2), 1
SPECIAL = ["<|extra_203|>", "<|image start|>", "<|image token|>", "<|extra_200|>", "<|extra_201|>", "<|image end|>"]
GOOD = " masterpiece, film grained, best quality."
BAD = (
    "lowres, bad anatomy, bad hands, text, error, missing fingers, extra digit, fewer digits, cropped, worst quality, "
    "low quality, normal quality, jpeg artifacts, signature, watermark, username, blurry."
)
DECODER = Decoder()
FIELDS: dict[str, Any] = {
    "model_type": "emu3",
    "image_area": (2 * SIDE) ** 2,
    "text_config": {
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1e6,
    },
    "vq_config": {
        "codebook_size": CODES,
        "embed_dim": DIM,
        "latent_channels": DIM,
        "base_channels": BASE,
        "channel_multiplier": list(TIMES),
        "num_res_blocks": DEPTH,
        "attn_resolutions": [1],
        "hidden_size": BASE * TIMES[-1],
    },
    "vocabulary_map": {"<image>": 7},
}


def tokenizer() -> Tokenizer:
    """Bytes, codes and special tokens."""
    letters = sorted(set("abcdefghijklmnopqrstuvwxyz.,*ĊĠ0123456789"))
    made = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    names = [*SPECIAL, *(f"<|visual token {code:06d}|>" for code in range(CODES))]
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    return made


class _Tensors:
    """Random tensors of the way back from codes to pixels, by name."""

    def __init__(self) -> None:
        self.noise = torch.Generator().manual_seed(21)
        self.found: dict[str, Tensor] = {}

    def conv(self, name: str, inner: int, outer: int, *size: int) -> None:
        fan = inner * math.prod(size)
        self.found[f"{name}.weight"] = torch.randn(outer, inner, *size, generator=self.noise) * 1.3 / fan**0.5
        self.found[f"{name}.bias"] = 0.1 * torch.randn(outer, generator=self.noise)

    def norm(self, name: str, width: int) -> None:
        self.found[f"{name}.norm_layer.weight"] = 1 + 0.3 * torch.randn(width, generator=self.noise)
        self.found[f"{name}.norm_layer.bias"] = 0.2 * torch.randn(width, generator=self.noise)
        self.conv(f"{name}.conv_y", DIM, width, 1, 1)
        self.conv(f"{name}.conv_b", DIM, width, 1, 1)

    def block(self, name: str, inner: int, outer: int) -> None:
        self.norm(f"{name}.norm1", inner)
        self.conv(f"{name}.conv1", inner, outer, 3, 3)
        self.norm(f"{name}.norm2", outer)
        self.conv(f"{name}.conv2", outer, outer, 3, 3)
        if inner != outer:
            self.conv(f"{name}.nin_shortcut", inner, outer, 1, 1)

    def attend(self, name: str, norm: str, width: int) -> None:
        self.norm(norm, width)
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            self.conv(f"{name}.{part}", width, width)


def codec() -> dict[str, Tensor]:
    """The tensors that make pixels, and some that make codes."""
    made = _Tensors()
    wide = BASE * TIMES[-1]
    for i in range(DEPTH):
        for k in (1, 2):
            name = f"decoder.time_res_stack.{i}.norm{k}"
            made.found[f"{name}.weight"] = 1 + 0.3 * torch.randn(DIM, generator=made.noise)
            made.found[f"{name}.bias"] = 0.2 * torch.randn(DIM, generator=made.noise)
            made.found[f"{name}.running_mean"] = 0.2 * torch.randn(DIM, generator=made.noise)
            made.found[f"{name}.running_var"] = 1 + torch.rand(DIM, generator=made.noise)
            made.found[f"{name}.num_batches_tracked"] = torch.tensor(7)
            made.conv(f"decoder.time_res_stack.{i}.conv{k}.conv", DIM, DIM, 3, 3, 3)
    for i in range(2):
        made.conv(f"decoder.time_conv.{i}.conv.conv", DIM, DIM, 3, 3, 3)
    made.conv("decoder.conv_in", DIM, wide, 3, 3)
    made.block("decoder.middle_block.block_1", wide, wide)
    made.attend("decoder.middle_block.attn_1", "decoder.middle_block.attn_norm", wide)
    made.block("decoder.middle_block.block_2", wide, wide)
    inner = wide
    for level in (1, 0):
        outer = BASE * TIMES[level]
        for j in range(DEPTH + 1):
            made.block(f"decoder.up_block.up.{level}.block.{j}", inner, outer)
            inner = outer
            if level == 1:
                made.attend(
                    f"decoder.up_block.up.{level}.attn.{j}", f"decoder.up_block.up.{level}.attn_norms.{j}", outer
                )
        if level:
            made.conv(f"decoder.up_block.up.{level}.upsample.conv", outer, outer, 3, 3)
    made.norm("decoder.norm_out", inner)
    made.conv("decoder.conv_out", inner, 3, 3, 3)
    made.conv("post_quant_conv.conv", DIM, DIM, 3, 1, 1)
    made.found["quantize.embedding.weight"] = torch.randn(CODES, DIM, generator=made.noise)
    return made.found | {"encoder.conv_in.weight": torch.zeros(2), "quant_conv.conv.bias": torch.zeros(2)}


def weights(older: bool) -> dict[str, Tensor]:
    """All tensors, by the names of one generation or the other."""
    noise = torch.Generator().manual_seed(31)
    body, head, code = (
        ("text_model.model.", "text_model.lm_head.weight", "vqmodel.")
        if older
        else ("model.text_model.", "lm_head.weight", "model.vqmodel.")
    )
    found = {f"{body}{name}": part for name, part in DECODER.weights(WIDTH, 48).items()}
    found[f"{body}embed_tokens.weight"] = torch.randn(VOCABULARY, WIDTH, generator=noise)
    found[head] = compvis.drawn((VOCABULARY, WIDTH), noise)
    return found | {f"{code}{name}": part for name, part in codec().items()}


def prompt_ids(text: str, silent: bool) -> list[int]:
    """What stands before a picture."""
    made = tokenizer()
    begin, start, picture = (made.token_to_id(name) for name in SPECIAL[:3])
    words, size = (
        made.encode(part, add_special_tokens=False).ids for part in (BAD if silent else text + GOOD, f"{SIDE}*{SIDE}")
    )
    return [begin, *words, start, *size, picture]


def forward(prompt: list[int], codes: Tensor) -> Tensor:
    """Logits [1 + N, K] of every code of a row that has N of them, behind the ends of rows."""
    made, tensors = tokenizer(), weights(older=False)
    words = torch.tensor([made.token_to_id(f"<|visual token {code:06d}|>") for code in range(CODES)])
    row, read = list(prompt), []
    for i in range(len(codes) + 1):
        if i and i % SIDE == 0:
            row.append(made.token_to_id("<|extra_200|>"))
        read.append(len(row) - 1)
        row += words[codes[i : i + 1]].tolist()
    own = {n.removeprefix("model.text_model."): part for n, part in tensors.items()}
    h = own["embed_tokens.weight"].double()[torch.tensor(row)]
    h = DECODER.forward(own, h, compvis.along(torch.arange(len(row)), DECODER.size, 1e6))
    return (h @ own["lm_head.weight"].double().T)[read][:, words]


class _Back:
    """Codes to pixels in float64: the first of the four frames that a code stands for."""

    def __init__(self) -> None:
        self.own = {name: part.double() for name, part in codec().items()}

    def conv(self, x: Tensor, name: str) -> Tensor:
        weight = self.own[f"{name}.weight"]
        return F.conv2d(x, weight, self.own[f"{name}.bias"], padding=weight.shape[-1] // 2)

    def past(self, x: Tensor, name: str) -> Tensor:
        """A convolution over [B, C, T, H, W] that sees no later frame, and nothing before the first."""
        weight = self.own[f"{name}.weight"]
        around = weight.shape[-1] // 2
        x = torch.cat([torch.zeros_like(x[:, :, :1])] * 2 + [x], 2)
        return F.conv3d(x, weight, self.own[f"{name}.bias"], padding=(0, around, around))

    def batch(self, x: Tensor, name: str) -> Tensor:
        weight, bias, mean, var = (
            self.own[f"{name}.{part}"].view(1, -1, 1, 1, 1)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        return swish((x - mean) / (var + 1e-5).sqrt() * weight + bias)

    def in_time(self, x: Tensor) -> Tensor:
        for i in range(DEPTH):
            name = f"decoder.time_res_stack.{i}"
            h = self.past(self.batch(x, f"{name}.norm1"), f"{name}.conv1.conv")
            x = x + self.past(self.batch(h, f"{name}.norm2"), f"{name}.conv2.conv")
        for i in range(2):
            x = swish(self.past(x.repeat_interleave(2, 2), f"decoder.time_conv.{i}.conv.conv"))
        return x[:, :, 0]

    def norm(self, x: Tensor, q: Tensor, name: str) -> Tensor:
        weight, bias = (self.own[f"{name}.norm_layer.{part}"] for part in ("weight", "bias"))
        x = F.group_norm(x, 32, weight, bias, 1e-6)
        times = x.shape[-1] // q.shape[-1]
        q = q.repeat_interleave(times, 2).repeat_interleave(times, 3)
        return x * self.conv(q, f"{name}.conv_y") + self.conv(q, f"{name}.conv_b")

    def block(self, x: Tensor, q: Tensor, name: str) -> Tensor:
        h = self.conv(swish(self.norm(x, q, f"{name}.norm1")), f"{name}.conv1")
        h = self.conv(swish(self.norm(h, q, f"{name}.norm2")), f"{name}.conv2")
        return h + (self.conv(x, f"{name}.nin_shortcut") if f"{name}.nin_shortcut.weight" in self.own else x)

    def attend(self, x: Tensor, q: Tensor, name: str, before: str) -> Tensor:
        def linear(rows: Tensor, part: str) -> Tensor:
            return rows @ self.own[f"{name}.{part}.weight"].T + self.own[f"{name}.{part}.bias"]

        rows = self.norm(x, q, before).flatten(2).transpose(1, 2)
        a, b, c = (linear(rows, f"{part}_proj") for part in "qkv")
        out = (a @ b.transpose(1, 2) / math.sqrt(x.shape[1])).softmax(-1) @ c
        return x + linear(out, "out_proj").transpose(1, 2).reshape(x.shape)

    def level(self, x: Tensor, q: Tensor, level: int) -> Tensor:
        name = f"decoder.up_block.up.{level}"
        for j in range(DEPTH + 1):
            x = self.block(x, q, f"{name}.block.{j}")
            x = self.attend(x, q, f"{name}.attn.{j}", f"{name}.attn_norms.{j}") if level else x
        return self.conv(x.repeat_interleave(2, 2).repeat_interleave(2, 3), f"{name}.upsample.conv") if level else x


def swish(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def pixels(codes: Tensor) -> Tensor:
    """Pictures of codes [B, N]."""
    back, middle = _Back(), "decoder.middle_block"
    z = back.own["quantize.embedding.weight"][codes].transpose(1, 2).unflatten(2, (SIDE, SIDE))[:, :, None]
    x, q = back.in_time(back.past(z, "post_quant_conv.conv")), back.in_time(z)
    x = back.conv(x, "decoder.conv_in")
    x = back.attend(back.block(x, q, f"{middle}.block_1"), q, f"{middle}.attn_1", f"{middle}.attn_norm")
    x = back.block(x, q, f"{middle}.block_2")
    x = back.level(back.level(x, q, 1), q, 0)
    return back.conv(swish(back.norm(x, q, "decoder.norm_out")), "decoder.conv_out")


def write(folder: Path, older: bool) -> Path:
    """A checkpoint."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(FIELDS))
    save_file(weights(older), folder / "model.safetensors")
    tokenizer().save(str(folder / "tokenizer.json"))
    return folder
