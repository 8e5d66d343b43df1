"""Picture tokenizers of CompVis's kind at a small size: what their tensors are called, and codes to pixels.

Written as plain functions of tensors, from the facts of the releases; nothing here is shared with the code under test.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Codec:
    """Of what size a tokenizer is, and how a release writes it down."""

    base: int = 32
    times: tuple[int, ...] = (1, 2)
    depth: int = 1
    latent: int = 6
    """Channels between the networks and the quantiser."""
    dim: int = 4
    """Channels that are quantised, or sampled."""
    codes: int = 0
    """Different ones; 0 where nothing is quantised."""
    vq16: bool = False
    """VQ-16's names: levels in the order of computation, and a middle that is a list."""
    attends: tuple[bool, bool] = (False, False)
    """Whether the coarsest level of encoder and decoder attends."""
    spatial: bool = False
    """Whether what the decoder normalises is scaled and moved by the latents, as in MoVQGAN."""

    @property
    def cell(self) -> int:
        return 2 ** (len(self.times) - 1)

    def level(self, part: str, k: int) -> str:
        """The name of the k-th level that a network computes."""
        if self.vq16:
            return f"{part}.conv_blocks.{k}"
        return f"{part}.down.{k}" if part == "encoder" else f"{part}.up.{len(self.times) - 1 - k}"

    def middle(self, part: str) -> list[str]:
        names = "012" if self.vq16 else ("block_1", "attn_1", "block_2")
        return [f"{part}.mid.{name}" for name in names]

    @property
    def block(self) -> str:
        return "res" if self.vq16 else "block"


class _Tensors:
    """Random tensors by name."""

    def __init__(self, seed: int) -> None:
        self.noise = torch.Generator().manual_seed(seed)
        self.found: dict[str, Tensor] = {}
        self.latents = 0
        """Channels by which what is normalised is moved; 0 where it is not."""

    def conv(self, name: str, inner: int, outer: int, size: int = 3) -> None:
        drawn = torch.randn(outer, inner, size, size, generator=self.noise)
        self.found[f"{name}.weight"] = drawn * 1.4 / (size * inner**0.5)
        self.found[f"{name}.bias"] = 0.1 * torch.randn(outer, generator=self.noise)

    def norm(self, name: str, width: int) -> None:
        if self.latents:
            self.conv(f"{name}.conv_y", self.latents, width, 1)
            self.conv(f"{name}.conv_b", self.latents, width, 1)
            name = f"{name}.norm_layer"
        self.found[f"{name}.weight"] = 1 + 0.3 * torch.randn(width, generator=self.noise)
        self.found[f"{name}.bias"] = 0.2 * torch.randn(width, generator=self.noise)

    def block(self, name: str, inner: int, outer: int) -> None:
        self.norm(f"{name}.norm1", inner)
        self.conv(f"{name}.conv1", inner, outer)
        self.norm(f"{name}.norm2", outer)
        self.conv(f"{name}.conv2", outer, outer)
        if inner != outer:
            self.conv(f"{name}.nin_shortcut", inner, outer, 1)

    def attend(self, name: str, width: int) -> None:
        self.norm(f"{name}.norm", width)
        for part in ("q", "k", "v", "proj_out"):
            self.conv(f"{name}.{part}", width, width, 1)

    def level(self, codec: Codec, place: str, widths: tuple[int, int], count: int, attends: bool) -> None:
        inner, outer = widths
        for j in range(count):
            self.block(f"{place}.{codec.block}.{j}", inner, outer)
            inner = outer
            if attends:
                self.attend(f"{place}.attn.{j}", outer)

    def middle(self, codec: Codec, part: str, width: int) -> None:
        first, second, third = codec.middle(part)
        self.block(first, width, width)
        self.attend(second, width)
        self.block(third, width, width)


def weights(codec: Codec, seed: int = 11) -> dict[str, Tensor]:
    """Every tensor, by its name in the release."""
    made = _Tensors(seed)
    widths = [codec.base * time for time in codec.times]
    last, double = len(widths) - 1, 1 if codec.codes else 2
    made.conv("encoder.conv_in", 3, codec.base)
    inner = codec.base
    for k, width in enumerate(widths):
        place = codec.level("encoder", k)
        made.level(codec, place, (inner, width), codec.depth, codec.attends[0] and k == last)
        inner = width
        if k < last:
            made.conv(f"{place}.downsample.conv", width, width)
    made.middle(codec, "encoder", inner)
    made.norm("encoder.norm_out", inner)
    made.conv("encoder.conv_out", inner, codec.latent * double)
    made.latents = codec.dim if codec.spatial else 0
    made.middle(codec, "decoder", inner)
    made.conv("decoder.conv_in", codec.latent, inner)
    for k, width in enumerate(reversed(widths)):
        place = codec.level("decoder", k)
        made.level(codec, place, (inner, width), codec.depth + 1, codec.attends[1] and k == 0)
        inner = width
        if k < last:
            made.conv(f"{place}.upsample.conv", width, width)
    made.norm("decoder.norm_out", inner)
    made.conv("decoder.conv_out", inner, 3)
    made.conv("quant_conv", codec.latent * double, codec.dim * double, 1)
    made.conv("post_quant_conv", codec.dim, codec.latent, 1)
    if codec.codes:
        made.found["quantize.embedding.weight"] = torch.randn(codec.codes, codec.dim, generator=made.noise)
    return made.found


def decode(codec: Codec, tensors: Mapping[str, Tensor], z: Tensor) -> Tensor:
    """Latents [B, dim, H, W] to pixels, in float64."""

    def conv(x: Tensor, name: str) -> Tensor:
        weight = tensors[f"{name}.weight"].double()
        return F.conv2d(x, weight, tensors[f"{name}.bias"].double(), padding=weight.shape[-1] // 2)

    def norm(x: Tensor, name: str) -> Tensor:
        if codec.spatial and f"{name}.conv_y.weight" in tensors:
            near = z.double().repeat_interleave(x.shape[-1] // z.shape[-1], 2)
            near = near.repeat_interleave(x.shape[-1] // z.shape[-1], 3)
            return norm(x, f"{name}.norm_layer") * conv(near, f"{name}.conv_y") + conv(near, f"{name}.conv_b")
        parts = x.unflatten(1, (32, -1)).flatten(2)
        mean, var = parts.mean(-1, keepdim=True), parts.var(-1, correction=0, keepdim=True)
        x = ((parts - mean) / (var + 1e-6).sqrt()).reshape(x.shape)
        weight, bias = (tensors[f"{name}.{part}"].double()[:, None, None] for part in ("weight", "bias"))
        return x * weight + bias

    def active(x: Tensor, name: str) -> Tensor:
        x = norm(x, name)
        return x * torch.sigmoid(x)

    def block(x: Tensor, name: str) -> Tensor:
        h = conv(active(x, f"{name}.norm1"), f"{name}.conv1")
        h = conv(active(h, f"{name}.norm2"), f"{name}.conv2")
        return h + (conv(x, f"{name}.nin_shortcut") if f"{name}.nin_shortcut.weight" in tensors else x)

    def attend(x: Tensor, name: str) -> Tensor:
        q, k, v = (conv(norm(x, f"{name}.norm"), f"{name}.{part}").flatten(2) for part in "qkv")
        share = (q.transpose(1, 2) @ k / math.sqrt(x.shape[1])).softmax(-1)
        return x + conv((v @ share.transpose(1, 2)).reshape(x.shape), f"{name}.proj_out")

    x = conv(conv(z.double(), "post_quant_conv"), "decoder.conv_in")
    first, second, third = codec.middle("decoder")
    x = block(attend(block(x, first), second), third)
    for k in range(len(codec.times)):
        place = codec.level("decoder", k)
        for j in range(codec.depth + 1):
            x = block(x, f"{place}.{codec.block}.{j}")
            x = attend(x, f"{place}.attn.{j}") if codec.attends[1] and k == 0 else x
        if k < len(codec.times) - 1:
            x = conv(x.repeat_interleave(2, 2).repeat_interleave(2, 3), f"{place}.upsample.conv")
    return conv(active(x, "decoder.norm_out"), "decoder.conv_out")


def looked_up(tensors: Mapping[str, Tensor], codes: Tensor, side: int, unit: bool) -> Tensor:
    """Where codes [B, N] of a square lie, [B, dim, side, side]; `unit` puts them on the unit sphere."""
    book = tensors["quantize.embedding.weight"].double()
    book = book / book.square().sum(-1, keepdim=True).sqrt() if unit else book
    return book[codes].transpose(1, 2).unflatten(2, (side, -1))


Rotation = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Decoder:
    """A causal transformer of Llama's kind: sizes, names, and how it knows where a token stands."""

    layers: int = 2
    heads: int = 4
    groups: int = 2
    size: int = 8
    epsilon: float = 1e-5
    q: str = "self_attn.q_proj"
    k: str = "self_attn.k_proj"
    v: str = "self_attn.v_proj"
    o: str = "self_attn.o_proj"
    gate: str = "mlp.gate_proj"
    up: str = "mlp.up_proj"
    down: str = "mlp.down_proj"
    before: str = "input_layernorm"
    behind: str = "post_attention_layernorm"
    last: str = "norm"

    def weights(self, width: int, inner: int, seed: int = 3) -> dict[str, Tensor]:
        noise = torch.Generator().manual_seed(seed)
        shapes: dict[str, tuple[int, ...]] = {self.last: (width,)}
        for i in range(self.layers):
            own = {self.before: (width,), self.behind: (width,), self.o: (width, self.heads * self.size)}
            own |= {self.q: (self.heads * self.size, width), self.gate: (inner, width), self.up: (inner, width)}
            own |= dict.fromkeys((self.k, self.v), (self.groups * self.size, width)) | {self.down: (width, inner)}
            shapes |= {f"layers.{i}.{name}": shape for name, shape in own.items()}
        return {f"{name}.weight": drawn(shape, noise) for name, shape in shapes.items()}

    def forward(
        self,
        tensors: Mapping[str, Tensor],
        h: Tensor,
        turned: Rotation,
        normed: Callable[[Tensor, str, int, int], Tensor] = lambda x, kind, layer, head: x,
    ) -> Tensor:
        """The last norm's output for rows [N, width]; float64, head by head.

        Args:
            tensors: By the names of `weights`.
            h: What goes in.
            turned: Rotates queries or keys [N, size] by where their tokens stand.
            normed: What is done to queries and keys before: by kind (q, k), layer and head.
        """

        def matrix(x: Tensor, name: str) -> Tensor:
            return x @ tensors[f"{name}.weight"].double().T

        def rms(x: Tensor, name: str) -> Tensor:
            return x / (x.square().mean(-1, keepdim=True) + self.epsilon).sqrt() * tensors[f"{name}.weight"].double()

        hidden = torch.ones(len(h), len(h)).triu(1).bool()
        for i in range(self.layers):
            place = f"layers.{i}."
            x = rms(h, place + self.before)
            q, k, v = (matrix(x, place + name).split(self.size, -1) for name in (self.q, self.k, self.v))
            out = []
            for head in range(self.heads):
                group = head * self.groups // self.heads
                a, b = turned(normed(q[head], "q", i, head)), turned(normed(k[group], "k", i, group))
                score = (a @ b.T / math.sqrt(self.size)).masked_fill(hidden, -math.inf)
                out.append(score.softmax(-1) @ v[group])
            h = h + matrix(torch.cat(out, -1), place + self.o)
            x = rms(h, place + self.behind)
            h = h + matrix(F.silu(matrix(x, place + self.gate)) * matrix(x, place + self.up), place + self.down)
        return rms(h, self.last)


def drawn(shape: tuple[int, ...], noise: torch.Generator) -> Tensor:
    """A matrix that keeps the size of what goes through it, or a norm near 1."""
    found = torch.randn(shape, generator=noise)
    return 1 + 0.3 * found if len(shape) == 1 else found * 1.3 / math.sqrt(shape[-1])


def along(positions: Tensor, size: int, theta: float) -> Rotation:
    """Rotary positions of Llama's kind: the first half of a head turns with the second."""
    speed = torch.tensor([theta ** (-2 * k / size) for k in range(size // 2)], dtype=torch.float64)
    angle = positions.double()[:, None] * speed

    def turned(x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return torch.cat([first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], -1)

    return turned
