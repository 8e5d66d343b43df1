"""Cosmos-1.0-Autoregressive at a small size: a checkpoint in the published layout, and another implementation of it.

Written in plain torch from the facts of the release and of arXiv 2501.03575: names, positions, norms and the order of
wavelet bands are its; nothing here is shared with the code under test.
"""

import json
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LEVELS = [4, 5, 3, 4]
"""240 codes in place of 64,000."""
CHANNELS, TIMES, LATENT = 8, (1, 2, 2), 6
FIELDS: dict[str, Any] = {
    "dim": 24,
    "n_layers": 2,
    "n_heads": 4,
    "n_kv_heads": 2,
    "head_dim": 16,
    "ffn_hidden_size": 40,
    "norm_eps": 1e-3,
    "vocab_size": 240,
    "rope_theta": 5e5,
    "num_video_frames": 33,
    "video_height": 32,
    "video_width": 48,
    "input_types": ["image", "video"],
}
STRETCHED = {
    "apply_yarn": True,
    "yarn_scale": 2,
    "yarn_beta_fast": 4,
    "yarn_beta_slow": 1,
    "original_latent_shape": [3, 40, 64],
}
LATENTS, ROWS, COLUMNS = 5, 2, 3
GIVEN, LENGTH = 2 * ROWS * COLUMNS, LATENTS * ROWS * COLUMNS


# ---------------------------------------------------------------- transformer


def weights(fields: Mapping[str, Any] = FIELDS, prefix: str = "model.") -> dict[str, Tensor]:
    """The tensors of model.pt."""
    noise = torch.Generator().manual_seed(3)
    width, inner, size = fields["dim"], fields["ffn_hidden_size"], fields["head_dim"]
    queries, keys = fields["n_heads"] * size, fields["n_kv_heads"] * size
    shapes = {
        "tok_embeddings": (fields["vocab_size"], width),
        "norm": (width,),
        "output": (fields["vocab_size"], width),
    }
    for i in range(fields["n_layers"]):
        own = {
            "attention.wq": (queries, width),
            "attention.wk": (keys, width),
            "attention.wv": (keys, width),
            "attention.wo": (width, queries),
            "attention.q_norm": (size,),
            "attention.k_norm": (size,),
            "attention_norm": (width,),
            "ffn_norm": (width,),
            "feed_forward.w1": (inner, width),
            "feed_forward.w2": (width, inner),
            "feed_forward.w3": (inner, width),
        }
        shapes |= {f"layers.{i}.{name}": shape for name, shape in own.items()}
    found = {}
    for name, shape in shapes.items():
        drawn = torch.randn(shape, generator=noise)
        found[f"{prefix}{name}.weight"] = 1 + 0.3 * drawn if len(shape) == 1 else drawn * 1.5 / math.sqrt(shape[-1])
    return found


def turns(fields: Mapping[str, Any], place: tuple[int, int, int]) -> list[float]:
    """The angles of half a head at one place (frame, row, column) of the latent clip, one at a time."""
    dim = fields["head_dim"]
    third = 2 * (dim // 6)
    angles = []
    for axis, size in enumerate((dim - 2 * third, third, third)):
        for k in range(size // 2):
            speed = fields["rope_theta"] ** (-2 * k / size)
            if fields.get("apply_yarn"):
                before = fields["original_latent_shape"][0 if axis == 0 else 1]
                high, low = (2 * math.pi * fields[f"yarn_beta_{name}"] / before for name in ("fast", "slow"))
                kept = min(max((speed - low) / (high - low), 0), 1)
                speed *= kept + (1 - kept) / fields["yarn_scale"]
            angles.append(place[axis] * speed)
    return angles


def rms(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt() * weight


def forward(ids: Tensor, fields: Mapping[str, Any] = FIELDS) -> Tensor:
    """Logits [N, V] of a row from the clip's first code on; float64, head by head."""
    tensors = {name: part.double() for name, part in weights(fields, "").items()}
    plane, size, epsilon = ROWS * COLUMNS, fields["head_dim"], fields["norm_eps"]
    places = [(i // plane, i % plane // COLUMNS, i % COLUMNS) for i in range(len(ids))]
    angle = torch.tensor([turns(fields, place) for place in places], dtype=torch.float64)

    def turned(x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    h = tensors["tok_embeddings.weight"][ids]
    for i in range(fields["n_layers"]):
        own = {n.removeprefix(f"layers.{i}."): part for n, part in tensors.items() if n.startswith(f"layers.{i}.")}
        x = rms(h, own["attention_norm.weight"], epsilon)
        q, k, v = (x @ own[f"attention.w{n}.weight"].T for n in "qkv")
        heads = []
        for head in range(fields["n_heads"]):
            group = head * fields["n_kv_heads"] // fields["n_heads"]
            mine, theirs = slice(head * size, (head + 1) * size), slice(group * size, (group + 1) * size)
            a = turned(rms(q[:, mine], own["attention.q_norm.weight"], 1e-5))
            b = turned(rms(k[:, theirs], own["attention.k_norm.weight"], 1e-5))
            score = (a @ b.T / math.sqrt(size)).masked_fill(torch.ones(len(ids), len(ids)).triu(1).bool(), -math.inf)
            heads.append(score.softmax(-1) @ v[:, theirs])
        h = h + torch.cat(heads, -1) @ own["attention.wo.weight"].T
        x = rms(h, own["ffn_norm.weight"], epsilon)
        h = (
            h
            + (F.silu(x @ own["feed_forward.w1.weight"].T) * (x @ own["feed_forward.w3.weight"].T))
            @ own["feed_forward.w2.weight"].T
        )
    return rms(h, tensors["norm.weight"], epsilon) @ tensors["output.weight"].T


# ---------------------------------------------------------------- tokenizer


class Conv(nn.Module):
    """A convolution that sees the past alone: the first frame stands for what was before it."""

    def __init__(self, inner: int, outer: int, kernel: tuple[int, int, int], step: tuple[int, int] = (1, 1)) -> None:
        super().__init__()
        self.conv3d = nn.Conv3d(inner, outer, kernel, stride=(step[0], step[1], step[1]))
        self.before = kernel[0] - step[0]
        self.around = kernel[1] // 2 if step[1] == 1 else 0

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x[:, :, :1]] * self.before + [x], 2)
        return self.conv3d(F.pad(x, (self.around,) * 4))


def both(inner: int, outer: int) -> nn.Sequential:
    """A convolution in space, then one in time."""
    return nn.Sequential(Conv(inner, outer, (1, 3, 3)), Conv(outer, outer, (3, 1, 1)))


class Norm(nn.Module):
    """Over the channels and the area of every frame."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, channels, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.norm(frame) for frame in x.unbind(2)], 2)


class Block(nn.Module):
    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = Norm(inner), both(inner, outer)
        self.norm2, self.conv2 = Norm(outer), both(outer, outer)
        self.nin_shortcut = Conv(inner, outer, (1, 1, 1)) if inner != outer else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.nin_shortcut(x) + self.conv2(F.silu(self.norm2(self.conv1(F.silu(self.norm1(x))))))


class Attend(nn.Module):
    """Of one head: within every frame, or over the past of every place."""

    def __init__(self, channels: int, time: bool) -> None:
        super().__init__()
        self.time, self.norm = time, Norm(channels)
        self.q, self.k, self.v, self.proj_out = (Conv(channels, channels, (1, 1, 1)) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        rows = [part(self.norm(x)).movedim(1, -1) for part in (self.q, self.k, self.v)]  # [B, T, H, W, C]
        q, k, v = (row.permute(0, 2, 3, 1, 4) if self.time else row.flatten(2, 3) for row in rows)
        score = q @ k.transpose(-1, -2) / math.sqrt(x.shape[1])
        if self.time:
            score = score.masked_fill(torch.ones(x.shape[2], x.shape[2]).triu(1).bool(), -math.inf)
        out = score.softmax(-1) @ v
        out = out.permute(0, 4, 3, 1, 2) if self.time else out.movedim(-1, 1).unflatten(-1, x.shape[-2:])
        return x + self.proj_out(out)


class Sampler(nn.Module):
    """Halves or doubles space and, where wanted, time; every convolution beside a mean or a repetition."""

    def __init__(self, channels: int, up: bool, space: bool, time: bool) -> None:
        super().__init__()
        self.up, self.space, self.time = up, space, time
        inner, step = (1, 1) if up else (2, 2)
        kernels = ((3, 1, 1), (1, 3, 3)) if up else ((1, 3, 3), (3, 1, 1))
        for name, kernel in zip(("conv1", "conv2"), kernels, strict=True):
            in_time = kernel[0] == 3
            steps = (inner, 1) if in_time else (1, step)
            setattr(
                self, name, Conv(channels, channels, kernel, steps) if (time if in_time else space) else nn.Identity()
            )
        self.conv3 = Conv(channels, channels, (1, 1, 1)) if space or time else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        if self.up:
            if self.time:
                x = x.repeat_interleave(2, 2)[:, :, 1:]
                x = x + self.conv1(x)
            if self.space:
                x = x.repeat_interleave(2, 3).repeat_interleave(2, 4)
                x = x + self.conv2(x)
        else:
            if self.space:
                x = F.pad(x, (0, 1, 0, 1))
                x = self.conv1(x) + F.avg_pool3d(x, (1, 2, 2))
            if self.time:
                x = torch.cat([x[:, :, :1], x], 2)
                x = self.conv2(x) + F.avg_pool3d(x, (2, 1, 1))
        return self.conv3(x)


_SIGNS = torch.tensor([[1.0, 1.0], [1.0, -1.0]])


def folded(x: Tensor) -> Tensor:
    """Haar wavelets of pairs in time, rows and columns: eight bands of means and differences, then again."""
    x = torch.cat([x[:, :, :1]] * 3 + [x], 2)
    for _ in range(2):
        pairs = x.unflatten(4, (-1, 2)).unflatten(3, (-1, 2)).unflatten(2, (-1, 2))  # [B, C, T, 2, H, 2, W, 2]
        bands = torch.einsum("bcxiyjzk,ti,rj,sk->btrscxyz", pairs, _SIGNS, _SIGNS, _SIGNS) / 8
        x = bands.flatten(1, 4)
    return x


def unfolded(x: Tensor) -> Tensor:
    for _ in range(2):
        bands = x.unflatten(1, (2, 2, 2, -1))
        pairs = torch.einsum("btrscxyz,ti,rj,sk->bcxiyjzk", bands, _SIGNS, _SIGNS, _SIGNS)
        x = pairs.flatten(6, 7).flatten(4, 5).flatten(2, 3)
    return x[:, :, 3:]


def level() -> nn.Module:
    found = nn.Module()
    found.block, found.attn = nn.ModuleList(), nn.ModuleList()
    return found


def middle(width: int) -> nn.Module:
    found = nn.Module()
    found.block_1, found.block_2 = Block(width, width), Block(width, width)
    found.attn_1 = nn.Sequential(Attend(width, False), Attend(width, True))
    return found


def bottom(mid: nn.Module, x: Tensor) -> Tensor:
    return mid.block_2(mid.attn_1(mid.block_1(x)))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # TorchScript keeps buffers that a state dict leaves out.
        self.patcher3d = nn.Module()
        self.patcher3d.register_buffer("wavelets", torch.full((2,), 0.5**0.5), persistent=False)
        self.patcher3d.register_buffer("_arange", torch.arange(2), persistent=False)
        widths = [CHANNELS, *(CHANNELS * time for time in TIMES)]
        self.conv_in, self.down = both(3 * 64, CHANNELS), nn.ModuleList()
        for i in range(3):
            stage = level()
            stage.block.extend([Block(widths[i], widths[i + 1]), Block(widths[i + 1], widths[i + 1])])
            if i < 2:
                stage.downsample = Sampler(widths[i + 1], False, True, i < 1)
            self.down.append(stage)
        self.mid, self.norm_out, self.conv_out = middle(widths[-1]), Norm(widths[-1]), both(widths[-1], LATENT)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_in(folded(x))
        for i, stage in enumerate(self.down):
            for block in stage.block:
                x = block(x)
            x = stage.downsample(x) if i < 2 else x
        return self.conv_out(F.silu(self.norm_out(bottom(self.mid, x))))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.unpatcher3d = nn.Module()
        self.unpatcher3d.register_buffer("wavelets", torch.full((2,), 0.5**0.5), persistent=False)
        widths = [CHANNELS * time for time in TIMES]
        self.conv_in, self.mid, stages = both(LATENT, widths[-1]), middle(widths[-1]), []
        inner = widths[-1]
        for k, width in enumerate(reversed(widths)):
            stage = level()
            stage.block.extend([Block(inner, width), Block(width, width), Block(width, width)])
            inner = width
            if k < 2:  # time is doubled last, as it was halved first
                stage.upsample = Sampler(width, True, True, k == 1)
            stages.insert(0, stage)
        self.up = nn.ModuleList(stages)
        self.norm_out, self.conv_out = Norm(inner), both(inner, 3 * 64)

    def forward(self, x: Tensor) -> Tensor:
        x = bottom(self.mid, self.conv_in(x))
        for i in (2, 1, 0):
            for block in self.up[i].block:
                x = block(x)
            x = self.up[i].upsample(x) if i else x
        return unfolded(self.conv_out(F.silu(self.norm_out(x))))


class Quantizer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("_levels", torch.tensor(LEVELS, dtype=torch.int32), persistent=False)

    def forward(self, z: Tensor) -> Tensor:
        code, worth = torch.zeros(z.shape[:1] + z.shape[2:], dtype=torch.long), 1
        for k, count in enumerate(LEVELS):
            half = (count - 1) * 1.001 / 2
            away = 0.5 if count % 2 == 0 else 0.0
            place = torch.round(torch.tanh(z[:, k] + math.atanh(away / half)) * half - away)
            code = code + worth * (place.long() + count // 2)
            worth *= count
        return code

    def back(self, code: Tensor) -> Tensor:
        parts = []
        for count in LEVELS:
            parts.append((code % count - count // 2) / (count // 2))
            code = code // count
        return torch.stack(parts, 1)


class Codec(nn.Module):
    """The whole tokenizer; a call is what TorchScript records of it."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(5)
            self.encoder, self.decoder, self.quantizer = Encoder(), Decoder(), Quantizer()
            self.quant_conv = Conv(LATENT, len(LEVELS), (1, 1, 1))
            self.post_quant_conv = Conv(len(LEVELS), LATENT, (1, 1, 1))
            for part in self.parameters():
                part.data += 0.1 * torch.randn_like(part)  # norms that are not all alike
            with torch.no_grad():  # spread over all levels, so that many codes are met
                found = self.quant_conv(self.encoder(torch.rand(2, 3, 33, 32, 48) * 2 - 1))
                spread = found.std((0, 2, 3, 4))
                self.quant_conv.conv3d.weight /= spread.view(-1, 1, 1, 1, 1)
                self.quant_conv.conv3d.bias.sub_(found.mean((0, 2, 3, 4))).div_(spread)
        self.eval().requires_grad_(False)

    def encode(self, clip: Tensor) -> Tensor:
        return self.quantizer(self.quant_conv(self.encoder(clip)))

    def decode(self, code: Tensor) -> Tensor:
        return self.decoder(self.post_quant_conv(self.quantizer.back(code)))

    def forward(self, clip: Tensor) -> tuple[Tensor, Tensor]:
        code = self.encode(clip)
        return code, self.decode(code)


class Front(nn.Module):
    """What encoder.jit holds."""

    def __init__(self, codec: Codec) -> None:
        super().__init__()
        self.encoder, self.quant_conv, self.quantizer = codec.encoder, codec.quant_conv, codec.quantizer

    def forward(self, clip: Tensor) -> Tensor:
        return self.quantizer(self.quant_conv(self.encoder(clip)))


class Back(nn.Module):
    """What decoder.jit holds."""

    def __init__(self, codec: Codec) -> None:
        super().__init__()
        self.inv_quant, self.post_quant_conv, self.decoder = codec.quantizer, codec.post_quant_conv, codec.decoder

    def forward(self, code: Tensor) -> Tensor:
        return self.decoder(self.post_quant_conv(self.inv_quant.back(code)))


# ---------------------------------------------------------------- files


def write_model(folder: Path, fields: Mapping[str, Any] = FIELDS, tensors: Any = None) -> Path:
    """config.json and model.pt, as they are published."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(fields))
    torch.save(weights(fields) if tensors is None else tensors, folder / "model.pt")
    return folder


def write_tokenizer(folder: Path, halves: bool = False) -> Path:
    """autoencoder.jit, or encoder.jit and decoder.jit."""
    folder.mkdir(parents=True, exist_ok=True)
    codec, clip = Codec(), torch.zeros(1, 3, 9, 16, 16)
    parts: dict[str, tuple[nn.Module, Tensor]] = {"autoencoder": (codec, clip)}
    if halves:
        parts = {"encoder": (Front(codec), clip), "decoder": (Back(codec), codec.encode(clip))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, and the release is in its format
        for name, (module, example) in parts.items():
            torch.jit.trace(module, example, check_trace=False).save(str(folder / f"{name}.jit"))
    return folder
