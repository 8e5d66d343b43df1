"""xAR at a small size: xAR-B.pth and kl16.ckpt as they are published, and another implementation of it.

Written in plain torch from arXiv 2502.20388 and the facts of the release, in float64 and head by head: nothing is
stored, the clean cells go through the network anew with the noisy one behind them, and a step of the stochastic
equation is written with the score. Nothing here is shared with the code under test.
"""

import math
from pathlib import Path

import torch
from support import compvis
from support.compvis import Codec
from torch import Tensor
from torch.nn import functional as F

SIDE, CELL, TOKEN, WIDTH, DEPTH, HEADS = 4, 2, 4, 16, 2, 2
COUNT, HEAD, INNER = SIDE**2, WIDTH // HEADS, int(WIDTH * 4 * 2 / 3)
CODEC = Codec(latent=TOKEN, dim=TOKEN, attends=(True, False))
SCALE = 0.2325
# Tokens in the order of generation: the row and column of each, cell by cell.
PLACES = [
    (CELL * down + y, CELL * right + x)
    for down in range(SIDE // CELL)
    for right in range(SIDE // CELL)
    for y in range(CELL)
    for x in range(CELL)
]


def angles() -> Tensor:
    """What pairs of a head's components turn by [COUNT, HEAD]: the first half with rows, the second with columns."""
    quarter = HEAD // 4
    speed = [10_000 ** (-2 * k / (HEAD // 2)) for k in range(quarter)]
    rows = [[axis * s for axis in place for s in speed for _ in range(2)] for place in PLACES]
    return torch.tensor(rows, dtype=torch.float64)


def mask() -> Tensor:
    """0 where a token may look, and minus infinity elsewhere."""
    cell = [k // CELL**2 for k in range(COUNT)]
    return torch.tensor([[0.0 if there <= here else -math.inf for there in cell] for here in cell])[None, None]


def weights(seed: int = 3) -> dict[str, Tensor]:
    """The state dict by its published names, tables and mask included."""
    noise = torch.Generator().manual_seed(seed)
    found: dict[str, Tensor] = {}

    def linear(name: str, outer: int, inner: int, size: float = 1.0) -> None:
        found[f"{name}.weight"] = size * compvis.drawn((outer, inner), noise)
        found[f"{name}.bias"] = 0.2 * torch.randn(outer, generator=noise)

    found["encoder_pos_embed_learned"] = torch.randn(1, COUNT, WIDTH, generator=noise)
    found["decoder_pos_embed_learned"] = torch.randn(1, COUNT, WIDTH, generator=noise)
    found["mask"] = mask()
    found["class_emb.weight"] = torch.randn(1001, WIDTH, generator=noise)
    linear("time_embed.mlp.0", WIDTH, 256)
    linear("time_embed.mlp.2", WIDTH, WIDTH)
    linear("z_proj", WIDTH, TOKEN)
    linear("decoder_embed", WIDTH, WIDTH)
    linear("pred", TOKEN, WIDTH)
    for name in ("z_proj_ln", "encoder_norm", "decoder_norm"):
        found[f"{name}.weight"] = compvis.drawn((WIDTH,), noise)
    for stack in ("encoder", "decoder"):
        for i in range(DEPTH):
            name = f"{stack}_blocks.{i}"
            linear(f"{name}.attn.qkv", 3 * WIDTH, WIDTH)
            linear(f"{name}.attn.proj", WIDTH, WIDTH)
            linear(f"{name}.mlp.fc1_g", INNER, WIDTH)
            linear(f"{name}.mlp.fc1_x", INNER, WIDTH)
            linear(f"{name}.mlp.fc2", WIDTH, INNER)
            linear(f"{name}.ada_lin.1", 6 * WIDTH, WIDTH, 0.3)  # else rounding would grow from step to step
            quarter = HEAD // 4
            found[f"{name}.attn.rope.freqs"] = 1 / 10_000 ** (torch.arange(quarter).float() / quarter)
            found[f"{name}.attn.rope.freqs_cos"] = angles().cos().float()
            found[f"{name}.attn.rope.freqs_sin"] = angles().sin().float()
    return found


class Reference:
    """The other implementation; `cell` is how many tokens are drawn together."""

    def __init__(self, tensors: dict[str, Tensor], cell: int = CELL**2) -> None:
        self.tensors = {name: part.double() for name, part in tensors.items()}
        self.cell = cell

    def linear(self, x: Tensor, name: str) -> Tensor:
        return x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]

    def rms(self, x: Tensor, name: str = "") -> Tensor:
        x = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        return x * self.tensors[f"{name}.weight"] if name else x

    def time(self, timestep: int) -> Tensor:
        angle = timestep * torch.tensor([10_000 ** (-k / 128) for k in range(128)], dtype=torch.float64)
        wave = torch.cat([angle.cos(), angle.sin()])
        return self.linear(F.silu(self.linear(wave, "time_embed.mlp.0")), "time_embed.mlp.2")

    def velocity(self, clean: Tensor, noisy: Tensor, timestep: int, label: int | None) -> Tensor:
        """Of a noisy cell [cell, TOKEN] behind clean tokens [n, TOKEN]; without a label, that of no class."""
        n, said = len(clean), self.tensors["class_emb.weight"][1000 if label is None else label]
        told = torch.stack([said + self.time(0)] * n + [said + self.time(timestep)] * self.cell)
        x = self.linear(torch.cat([clean, noisy]).double(), "z_proj")
        x = self.rms(x + self.tensors["encoder_pos_embed_learned"][0, : len(x)], "z_proj_ln")
        for i in range(DEPTH):
            x = self.block(x, told, f"encoder_blocks.{i}")
        x = self.linear(self.rms(x, "encoder_norm"), "decoder_embed")
        x = x + self.tensors["decoder_pos_embed_learned"][0, : len(x)]
        for i in range(DEPTH):
            x = self.block(x, told, f"decoder_blocks.{i}")
        return self.linear(self.rms(x, "decoder_norm"), "pred")[n:]

    def block(self, x: Tensor, told: Tensor, name: str) -> Tensor:
        parts = self.linear(F.silu(told), f"{name}.ada_lin.1").split(WIDTH, -1)
        rows = self.linear(self.rms(x) * (1 + parts[2]) + parts[4], f"{name}.attn.qkv")
        q, k, v = (part.split(HEAD, -1) for part in rows.split(WIDTH, -1))
        cell = torch.arange(len(x)) // self.cell
        hidden = cell[None, :] > cell[:, None]
        out = []
        for a, b, c in zip(q, k, v, strict=True):
            score = (self.turned(a) @ self.turned(b).T / math.sqrt(HEAD)).masked_fill(hidden, -math.inf)
            out.append(score.softmax(-1) @ c)
        x = x + parts[0] * self.linear(torch.cat(out, -1), f"{name}.attn.proj")
        h = self.rms(x) * (1 + parts[3]) + parts[5]
        inner = F.gelu(self.linear(h, f"{name}.mlp.fc1_g")) * self.linear(h, f"{name}.mlp.fc1_x")
        return x + parts[1] * self.linear(inner, f"{name}.mlp.fc2")

    def turned(self, x: Tensor) -> Tensor:
        angle, even, odd = angles()[: len(x), ::2], x[:, ::2], x[:, 1::2]
        found = torch.empty_like(x)
        found[:, ::2] = even * angle.cos() - odd * angle.sin()
        found[:, 1::2] = odd * angle.cos() + even * angle.sin()
        return found

    def draw(self, clean: Tensor, label: int, scale: float, noise: list[Tensor], last: float = 0.04) -> Tensor:
        """A cell, by the release's steps; `noise` is that at time 1, then that of every step, also the last one."""
        count = len(noise) - 1
        x = noise[0].reshape(self.cell, TOKEN)
        for i in range(count):
            t = 1 - i * (1 - last) / (count - 1)
            dt = (1 - (i + 1) * (1 - last) / (count - 1) if i < count - 1 else 0.0) - t
            told = int(torch.tensor(t, dtype=torch.float32) * 1000)

            def drift(label: int | None, x: Tensor = x, t: float = t, told: int = told) -> Tensor:
                v = self.velocity(clean, x, told, label)
                score = (-(1 - t) * v - x) / (t**2 + (1 - t) * t)
                return v - 0.5 * 2 * t * score

            d = drift(label)
            if scale != 1:
                d = drift(None) + scale * (d - drift(None))
            x = x + d * dt + math.sqrt(2 * t) * math.sqrt(-dt) * noise[i + 1].reshape(self.cell, TOKEN)
        return x


def pixels(tokens: Tensor) -> Tensor:
    """Pictures of tokens [B, COUNT, TOKEN] in the order of generation."""
    raster = torch.zeros(len(tokens), TOKEN, SIDE, SIDE, dtype=torch.float64)
    for k, (row, column) in enumerate(PLACES):
        raster[:, :, row, column] = tokens[:, k].double()
    return compvis.decode(CODEC, compvis.weights(CODEC), raster / SCALE)


def write(folder: Path, seed: int = 3) -> Path:
    """xAR-B.pth with what a training leaves there, and kl16.ckpt."""
    folder.mkdir(parents=True)
    averaged = weights(seed)
    plain = {name: torch.zeros_like(part) for name, part in averaged.items()}
    torch.save({"model": plain, "model_ema": averaged, "epoch": 800}, folder / "xAR-B.pth")
    codec = compvis.weights(CODEC) | {"loss.logvar": torch.zeros(1)}
    torch.save({"model": codec, "epoch": 3}, folder / "kl16.ckpt")
    return folder
