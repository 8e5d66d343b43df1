"""xAR (arXiv 2502.20388): a transformer that draws a picture cell by cell, each by a flow over all of its tokens.

The network is our own; its parameters have the names and shapes of the published checkpoints, tables of rotary
positions included, so that a state dict of theirs fits. Two stacks of layers, an encoder and a decoder, are modulated
by class and time. A cell sees itself and the cells before it, and those are clean, at time 0, whoever looks at them:
what they contribute to attention is stored once, and drafts can be verified side by side, each behind the clean cells
that come before it.

Every denoising step is a pass of the whole network over the cells that are being drawn. So a forward pass of a method
is T + 1 passes here, T being the denoising steps: one that stores clean cells and one for every step. `cost` counts the
tokens of all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from engines.continuous.denoising import Denoiser, Schedule
from engines.continuous.request import PathForward
from engines.models.heads import TimeEmbedding

_EPSILON: Final = 1e-6
_CLASSES: Final = 1000

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""Called with a layer's number and its queries, keys and values [B, heads, L, C]; gives what the queries read."""


@dataclass(frozen=True, slots=True)
class XARSize:
    """Sizes of an xAR; the defaults are those of xAR-B."""

    side: int = 16
    """Tokens per side of the picture."""
    token: int = 16
    width: int = 768
    depth: int = 8
    """Layers of the encoder, and again of the decoder."""
    heads: int = 12


class RMSNorm(nn.Module):
    """Root mean square normalisation with weights."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Float[Tensor, "B L C"]) -> Float[Tensor, "B L C"]:
        """Normalise."""
        return F.rms_norm(x, x.shape[-1:], self.weight, _EPSILON)


class Attention(nn.Module):
    """One matrix for queries, keys and values, and rotary positions of rows and columns in neighbouring pairs."""

    def __init__(self, size: XARSize) -> None:
        super().__init__()
        self.heads, head = size.heads, size.width // size.heads
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.proj = nn.Linear(size.width, size.width)
        self.rope = nn.Module()
        self.rope.register_buffer("freqs", torch.zeros(head // 4))
        self.rope.register_buffer("freqs_cos", torch.zeros(size.side**2, head))
        self.rope.register_buffer("freqs_sin", torch.zeros(size.side**2, head))

    def forward(
        self, x: Float[Tensor, "B L C"], place: Int[Tensor, "B L"], layer: int, attend: Attend
    ) -> Float[Tensor, "B L C"]:
        """Read what `attend` allows."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        cos, sin = (getattr(self.rope, name)[place][:, None] for name in ("freqs_cos", "freqs_sin"))
        q, k = (part * cos + _turned(part) * sin for part in (q, k))
        out: Tensor = self.proj(attend(layer, q, k, v).transpose(1, 2).flatten(2))
        return out


def _turned(x: Float[Tensor, "B heads L C"]) -> Float[Tensor, "B heads L C"]:
    """Neighbouring pairs (a, b) as (-b, a)."""
    pairs = x.unflatten(-1, (-1, 2))
    return torch.stack([-pairs[..., 1], pairs[..., 0]], -1).flatten(-2)


class Layer(nn.Module):
    """A layer whose scales, shifts and gates depend on class and time."""

    def __init__(self, size: XARSize) -> None:
        super().__init__()
        width, inner = size.width, int(size.width * 8 / 3)
        self.attn = Attention(size)
        self.mlp = nn.ModuleDict(
            {"fc1_g": nn.Linear(width, inner), "fc1_x": nn.Linear(width, inner), "fc2": nn.Linear(inner, width)}
        )
        self.ada_lin = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(
        self,
        x: Float[Tensor, "B L C"],
        told: Float[Tensor, "G C"],
        group: Int[Tensor, " B"],
        place: Int[Tensor, "B L"],
        at: tuple[int, Attend],
    ) -> Float[Tensor, "B L C"]:
        """One layer; see `XAR.forward`."""
        gate, inner_gate, scale, inner_scale, shift, inner_shift = self.ada_lin(told)[group, None].chunk(6, -1)
        x = x + gate * self.attn(torch.addcmul(shift, _plain(x), 1 + scale), place, *at)
        h = torch.addcmul(inner_shift, _plain(x), 1 + inner_scale)
        out: Tensor = x + inner_gate * self.mlp["fc2"](F.gelu(self.mlp["fc1_g"](h)) * self.mlp["fc1_x"](h))
        return out


def _plain(x: Float[Tensor, "B L C"]) -> Float[Tensor, "B L C"]:
    return F.rms_norm(x, x.shape[-1:], None, _EPSILON)


class XAR(nn.Module):
    """Both stacks, and the velocity of every token."""

    def __init__(self, size: XARSize) -> None:
        super().__init__()
        width, count = size.width, size.side**2
        self.heads = size.heads
        self.class_emb = nn.Embedding(_CLASSES + 1, width)
        self.time_embed = TimeEmbedding(width)
        self.z_proj = nn.Linear(size.token, width)
        self.z_proj_ln = RMSNorm(width)
        self.encoder_pos_embed_learned = nn.Parameter(torch.zeros(1, count, width))
        self.encoder_blocks = nn.ModuleList(Layer(size) for _ in range(size.depth))
        self.encoder_norm = RMSNorm(width)
        self.decoder_embed = nn.Linear(width, width)
        self.decoder_pos_embed_learned = nn.Parameter(torch.zeros(1, count, width))
        self.decoder_blocks = nn.ModuleList(Layer(size) for _ in range(size.depth))
        self.decoder_norm = RMSNorm(width)
        self.pred = nn.Linear(width, size.token)
        self.register_buffer("mask", torch.zeros(1, 1, count, count))

    def told(self, label: Int[Tensor, " G"], timestep: int) -> Float[Tensor, "G C"]:
        """What layers are modulated by; label 1000 is that of no class."""
        time = torch.full((1,), float(timestep), device=label.device)
        out: Tensor = self.class_emb(label) + self.time_embed(time)
        return out

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        told: Float[Tensor, "G C"],
        group: Int[Tensor, " B"],
        place: Int[Tensor, "B L"],
        attend: Attend,
    ) -> Float[Tensor, "B L D"]:
        """Velocities of tokens.

        Args:
            x: noisy tokens, or clean ones.
            told: see `told`.
            group: which of `told` each row goes by.
            place: where the tokens lie, in the order of generation.
            attend: see `Attend`.
        """
        h = self.z_proj_ln(self.z_proj(x) + self.encoder_pos_embed_learned[0, place])
        for i, layer in enumerate(self.encoder_blocks):
            h = layer(h, told, group, place, (i, attend))
        h = self.decoder_embed(self.encoder_norm(h)) + self.decoder_pos_embed_learned[0, place]
        for i, layer in enumerate(self.decoder_blocks, len(self.encoder_blocks)):
            h = layer(h, told, group, place, (i, attend))
        out: Tensor = self.pred(self.decoder_norm(h))
        return out


class CellSession:
    """The backbone session: clean cells' keys and values, a row for every lane and, with guidance, one without class.

    What a cell's flow is conditioned on is the row that it lies in and how many clean cells it sees: two numbers.
    """

    prefix = 0

    def __init__(self, network: XAR, labels: Int[Tensor, "lanes R"], cell: int) -> None:
        """Lanes of one network; `labels` of all rows, and how many tokens there are to a cell."""
        self.rows, self._network, self._cell = labels.shape[1], network, cell
        self._labels = labels.flatten()
        self._fed = [0] * len(labels)
        """Cells of each lane that are stored."""
        self._before = 0
        """Clean tokens that cells of the latest pass may see, at most."""
        count, layers = network.encoder_pos_embed_learned.shape[1], 2 * len(network.encoder_blocks)
        head = network.pred.in_features // network.heads
        shape = (len(self._labels), network.heads, count, head)
        self._keys = [torch.zeros(shape, device=labels.device) for _ in range(layers)]
        self._values = [torch.zeros_like(keys) for keys in self._keys]

    def cost(self, request: PathForward) -> tuple[int, int]:
        """Rows, and tokens fed over all of them, those of every denoising step included."""
        clean = max(request.done + request.wanted - 1 - request.cached, 0)
        return self.rows, self.rows * self._cell * (clean + request.noise.shape[1] * request.wanted)

    def logits(self, requests: Mapping[int, PathForward]) -> Float[Tensor, "B R W 2"]:
        """Store clean cells; see `engines.models.discrete.DiscreteSession.logits`."""
        found = []
        self._before = self._cell * max(request.done + request.wanted - 1 for request in requests.values())
        for lane, request in requests.items():
            self._store(lane, request)
            seen = torch.arange(request.done, request.done + request.wanted, device=self._labels.device)
            row = torch.arange(lane * self.rows, (lane + 1) * self.rows, device=seen.device)
            pairs = torch.cartesian_prod(row, seen).unflatten(0, (self.rows, -1))  # [R, W, 2]
            found.append(pairs.transpose(0, 1).float())
        return nn.utils.rnn.pad_sequence(found, batch_first=True).transpose(1, 2)

    def _store(self, lane: int, request: PathForward) -> None:
        """Bring the clean cells before the last position asked for into a lane's keys and values."""
        start, stop = min(self._fed[lane], request.cached), request.done + request.wanted - 1
        self._fed[lane] = max(stop, start)
        if stop <= start:
            return
        rows, size = slice(lane * self.rows, (lane + 1) * self.rows), self._cell
        first, last = start * size, stop * size
        place = torch.arange(first, last, device=self._labels.device)
        cells = torch.arange(last, device=place.device) // size
        seen = cells <= cells[first:, None]

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self._keys[layer][rows], self._values[layer][rows]
            keys[:, :, first:last], values[:, :, first:last] = k, v
            return F.scaled_dot_product_attention(q, keys[:, :, :last], values[:, :, :last], attn_mask=seen)

        x = request.tokens[start:stop].float().reshape(1, len(place), -1).expand(self.rows, -1, -1)
        group = torch.arange(self.rows, device=place.device)
        self._network(x, self._network.told(self._labels[rows], 0), group, place.expand(self.rows, -1), attend)

    def conditioned_on(self, condition: Float[Tensor, "M 2"], schedule: Schedule) -> Denoiser:
        """What denoises M cells, each in the row and behind the clean cells that its condition names."""
        at = Crowd.of(condition.long(), self._cell)
        labels = self._labels[at.rows]
        place = at.seen[:, None] * self._cell + torch.arange(self._cell, device=labels.device)
        before = self._before
        mask = at.mask(before)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (at.gather(part) for part in (q, k, v))
            keys = torch.cat([self._keys[layer][at.rows, :, :before], k], 2)
            values = torch.cat([self._values[layer][at.rows, :, :before], v], 2)
            return at.scatter(F.scaled_dot_product_attention(q, keys, values, attn_mask=mask))

        def denoise(x: Tensor, schedule: Schedule, i: int) -> tuple[Tensor, Tensor]:
            told = self._network.told(labels, schedule.timestep[i])
            noisy = x.float().unflatten(1, (self._cell, -1))
            velocity = self._network(noisy, told, at.group, place, attend).flatten(1)
            return velocity, velocity

        return denoise


@dataclass(frozen=True, slots=True)
class Crowd:
    """M cells that are denoised together, of which those of a row attend in one piece."""

    rows: Int[Tensor, " G"]
    """The rows that take part."""
    group: Int[Tensor, " M"]
    """Which of them each cell lies in."""
    slot: Int[Tensor, " M"]
    """Where it stands among those of its row."""
    seen: Int[Tensor, " M"]
    """How many clean cells it sees."""
    size: int
    """Tokens to a cell."""
    most: int
    """Cells of a row, at most."""

    @classmethod
    def of(cls, condition: Int[Tensor, "M 2"], size: int) -> "Crowd":
        """The crowd of conditions."""
        rows, group, counts = condition[:, 0].unique(return_inverse=True, return_counts=True)
        same = group[:, None] == group
        slot = same.tril(-1).sum(1)
        return cls(rows, group, slot, condition[:, 1], size, int(counts.max()))

    def mask(self, before: int) -> Bool[Tensor, "G 1 L K"]:
        """Who sees whom: clean cells that stand before one, among `before` tokens, and the cell itself."""
        count = len(self.rows) * self.most
        seen = torch.zeros(count, dtype=torch.long, device=self.seen.device)
        seen[self.group * self.most + self.slot] = self.seen
        clean = torch.arange(before, device=seen.device) < seen[:, None] * self.size
        own = torch.eye(self.most, dtype=torch.bool, device=seen.device).repeat(len(self.rows), 1)
        both = torch.cat([clean, own.repeat_interleave(self.size, 1)], 1).repeat_interleave(self.size, 0)
        found: Tensor = both.unflatten(0, (len(self.rows), 1, -1))
        return found

    def gather(self, x: Float[Tensor, "M heads S C"]) -> Float[Tensor, "G heads L C"]:
        """The tokens of cells, put together by rows; where a row has fewer cells there are zeros."""
        whole = x.new_zeros(len(self.rows), self.most, *x.shape[1:])
        whole[self.group, self.slot] = x
        found: Tensor = whole.transpose(1, 2).flatten(2, 3)
        return found

    def scatter(self, x: Float[Tensor, "G heads L C"]) -> Float[Tensor, "M heads S C"]:
        """The other way round."""
        found: Tensor = x.unflatten(2, (self.most, -1)).transpose(1, 2)[self.group, self.slot]
        return found


def labels_of(tasks: Sequence[Any], guided: bool, device: torch.device) -> Int[Tensor, "lanes R"]:
    """The class of every lane's rows: its own, and with guidance that of no class."""
    own = torch.tensor([task.label for task in tasks], device=device)
    return torch.stack([own, torch.full_like(own, _CLASSES)][: 1 + guided], 1)
