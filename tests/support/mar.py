"""MAR at a small size: checkpoint-last.pth and kl16.ckpt as they are published, and another implementation of it.

Written in plain torch from arXiv 2406.11838 and the facts of the release: the encoder is given what is visible and
nothing else, and tokens are denoised one by one, in float64. Nothing here is shared with the code under test.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from support import compvis
from support.compvis import Codec
from torch import Tensor
from torch.nn import functional as F

SIDE, TOKEN, WIDTH, DEPTH, HEADS, BUFFER, HEAD_WIDTH, HEAD_DEPTH = 3, 4, 16, 2, 2, 4, 12, 2
CODEC = Codec(latent=TOKEN, dim=TOKEN, attends=(True, False))
SCALE = 0.2325


def weights(seed: int = 3) -> dict[str, Tensor]:
    """The averaged weights by their published names."""
    noise = torch.Generator().manual_seed(seed)
    found: dict[str, Tensor] = {}

    def linear(name: str, outer: int, inner: int) -> None:
        found[f"{name}.weight"] = compvis.drawn((outer, inner), noise)
        found[f"{name}.bias"] = 0.2 * torch.randn(outer, generator=noise)

    def norm(name: str, width: int) -> None:
        found[f"{name}.weight"] = compvis.drawn((width,), noise)
        found[f"{name}.bias"] = 0.2 * torch.randn(width, generator=noise)

    for name, shape in (
        ("class_emb.weight", (1000, WIDTH)),
        ("fake_latent", (1, WIDTH)),
        ("mask_token", (1, 1, WIDTH)),
        ("encoder_pos_embed_learned", (1, BUFFER + SIDE**2, WIDTH)),
        ("decoder_pos_embed_learned", (1, BUFFER + SIDE**2, WIDTH)),
        ("diffusion_pos_embed_learned", (1, SIDE**2, WIDTH)),
    ):
        found[name] = torch.randn(shape, generator=noise)
    linear("z_proj", WIDTH, TOKEN)
    linear("decoder_embed", WIDTH, WIDTH)
    for part in ("z_proj_ln", "encoder_norm", "decoder_norm"):
        norm(part, WIDTH)
    for i in range(DEPTH):
        for block in (f"encoder_blocks.{i}", f"decoder_blocks.{i}"):
            norm(f"{block}.norm1", WIDTH)
            linear(f"{block}.attn.qkv", 3 * WIDTH, WIDTH)
            linear(f"{block}.attn.proj", WIDTH, WIDTH)
            norm(f"{block}.norm2", WIDTH)
            linear(f"{block}.mlp.fc1", 4 * WIDTH, WIDTH)
            linear(f"{block}.mlp.fc2", WIDTH, 4 * WIDTH)
    net = "diffloss.net"
    linear(f"{net}.time_embed.mlp.0", HEAD_WIDTH, 256)
    linear(f"{net}.time_embed.mlp.2", HEAD_WIDTH, HEAD_WIDTH)
    linear(f"{net}.cond_embed", HEAD_WIDTH, WIDTH)
    linear(f"{net}.input_proj", HEAD_WIDTH, TOKEN)
    for i in range(HEAD_DEPTH):
        norm(f"{net}.res_blocks.{i}.in_ln", HEAD_WIDTH)
        linear(f"{net}.res_blocks.{i}.mlp.0", HEAD_WIDTH, HEAD_WIDTH)
        linear(f"{net}.res_blocks.{i}.mlp.2", HEAD_WIDTH, HEAD_WIDTH)
        linear(f"{net}.res_blocks.{i}.adaLN_modulation.1", 3 * HEAD_WIDTH, HEAD_WIDTH)
    linear(f"{net}.final_layer.adaLN_modulation.1", 2 * HEAD_WIDTH, HEAD_WIDTH)
    linear(f"{net}.final_layer.linear", 2 * TOKEN, HEAD_WIDTH)
    return found


class Reference:
    """The other implementation."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = {name: part.double() for name, part in tensors.items()}

    def linear(self, x: Tensor, name: str) -> Tensor:
        return x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]

    def norm(self, x: Tensor, name: str) -> Tensor:
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-6).sqrt()
        return x * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"] if name else x

    def block(self, x: Tensor, name: str) -> Tensor:
        rows = self.linear(self.norm(x, f"{name}.norm1"), f"{name}.attn.qkv")
        q, k, v = (part.split(WIDTH // HEADS, -1) for part in rows.split(WIDTH, -1))
        heads = [(a @ b.T / math.sqrt(WIDTH / HEADS)).softmax(-1) @ c for a, b, c in zip(q, k, v, strict=True)]
        x = x + self.linear(torch.cat(heads, -1), f"{name}.attn.proj")
        inner = F.gelu(self.linear(self.norm(x, f"{name}.norm2"), f"{name}.mlp.fc1"))
        return x + self.linear(inner, f"{name}.mlp.fc2")

    def between(self, h: Tensor) -> Tensor:
        """What lies between the encoder and the decoder: nothing."""
        return h

    def condition(self, tokens: Mapping[int, Tensor], cell: int, label: int | None) -> Tensor:
        """What the head is told of a cell, where the tokens of some others are known."""
        own = self.tensors
        said = own["fake_latent"][0] if label is None else own["class_emb.weight"][label]
        cells = sorted(tokens)
        x = [said + own["encoder_pos_embed_learned"][0, i] for i in range(BUFFER)]
        x += [
            self.linear(tokens[c].double(), "z_proj") + own["encoder_pos_embed_learned"][0, BUFFER + c] for c in cells
        ]
        h = self.norm(torch.stack(x), "z_proj_ln")
        for i in range(DEPTH):
            h = self.block(h, f"encoder_blocks.{i}")
        h = self.linear(self.between(self.norm(h, "encoder_norm")), "decoder_embed")
        whole = own["mask_token"][0].expand(BUFFER + SIDE**2, -1).clone()
        for row, place in enumerate([*range(BUFFER), *(BUFFER + c for c in cells)]):
            whole[place] = h[row]
        whole = whole + own["decoder_pos_embed_learned"][0]
        for i in range(DEPTH):
            whole = self.block(whole, f"decoder_blocks.{i}")
        return self.norm(whole, "decoder_norm")[BUFFER + cell] + own["diffusion_pos_embed_learned"][0, cell]

    def head(self, x: Tensor, timestep: int, condition: Tensor) -> tuple[Tensor, Tensor]:
        """The noise in a token, and where the variance lies."""
        net = "diffloss.net"
        angle = timestep * torch.tensor([10_000 ** (-k / 128) for k in range(128)], dtype=torch.float64)
        wave = F.silu(self.linear(torch.cat([angle.cos(), angle.sin()]), f"{net}.time_embed.mlp.0"))
        y = self.linear(wave, f"{net}.time_embed.mlp.2") + self.linear(condition, f"{net}.cond_embed")
        h = self.linear(x, f"{net}.input_proj")
        for i in range(HEAD_DEPTH):
            name = f"{net}.res_blocks.{i}"
            shift, scale, gate = self.linear(F.silu(y), f"{name}.adaLN_modulation.1").chunk(3)
            inner = F.silu(self.linear(self.norm(h, f"{name}.in_ln") * (1 + scale) + shift, f"{name}.mlp.0"))
            h = h + gate * self.linear(inner, f"{name}.mlp.2")
        shift, scale = self.linear(F.silu(y), f"{net}.final_layer.adaLN_modulation.1").chunk(2)
        out = self.linear(self.norm(h, "") * (1 + scale) + shift, f"{net}.final_layer.linear")
        return out[:TOKEN], out[TOKEN:]

    def token(
        self, conditions: Sequence[Tensor], scale: float, timesteps: Sequence[int], noise: Sequence[Tensor]
    ) -> Tensor:
        """A token, denoised from the last of some timesteps to the first; `noise` is x_T, then that of every step."""
        share = [(0.008 + t / 1000) / 1.008 for t in range(1001)]
        clean, product = [], 1.0
        for t in range(1000):
            product *= 1 - min(
                1 - math.cos(share[t + 1] * math.pi / 2) ** 2 / math.cos(share[t] * math.pi / 2) ** 2, 0.999
            )
            clean.append(product)
        kept = [1.0, *(clean[t] for t in timesteps)]
        betas = [1 - kept[i + 1] / kept[i] for i in range(len(timesteps))]
        x = noise[0]
        for i in reversed(range(len(timesteps))):
            eps, v = self.head(x, timesteps[i], conditions[0])
            if len(conditions) == 2:
                silent, _ = self.head(x, timesteps[i], conditions[1])
                eps = silent + scale * (eps - silent)
            now, then, beta = kept[i + 1], kept[i], betas[i]
            start = x / math.sqrt(now) - math.sqrt(1 / now - 1) * eps
            mean = beta * math.sqrt(then) / (1 - now) * start + (1 - then) * math.sqrt(1 - beta) / (1 - now) * x
            k = max(i, 1)
            low = betas[k] * (1 - kept[k]) / (1 - kept[k + 1])
            log_variance = (v + 1) / 2 * math.log(beta) + (1 - v) / 2 * math.log(low)
            x = mean + (log_variance / 2).exp() * noise[len(timesteps) - i]
        return x


def pixels(raster: Tensor) -> Tensor:
    """Pictures of tokens [B, N, D] in raster order."""
    latents = raster.double().transpose(1, 2).unflatten(2, (SIDE, SIDE)) / SCALE
    return compvis.decode(CODEC, compvis.weights(CODEC), latents)


def write(folder: Path, seed: int = 3) -> Path:
    """checkpoint-last.pth with what a training leaves there, and kl16.ckpt."""
    folder.mkdir(parents=True)
    averaged = weights(seed)
    torch.save(
        {
            "model": {name: torch.zeros_like(part) for name, part in averaged.items()},
            "model_ema": averaged,
            "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 1e-4}]},
            "epoch": 7,
            "args": argparse.Namespace(model="mar_base", diffloss_d=HEAD_DEPTH),
        },
        folder / "checkpoint-last.pth",
    )
    codec = compvis.weights(CODEC) | {"loss.logvar": torch.zeros(1)}
    torch.save({"model": codec, "epoch": 3}, folder / "kl16.ckpt")
    return folder
