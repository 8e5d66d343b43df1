"""MAR (arXiv 2406.11838): a bidirectional model of continuous tokens that are revealed in any order.

The network is our own; its parameters have the names and shapes of the published checkpoints, so that a state dict of
theirs fits. Whoever is not visible is masked out of the encoder's attention, which equals leaving it out.

Every position sees all visible ones, so what follows a prefix cannot be read off a longer one: gamma drafts take
gamma + 1 rows, one per prefix. Nothing can be cached either. That is what exact verification costs here; the released
code of CSpD lets all drafts be judged by the verified prefix instead, in one row, which is another distribution.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from engines.continuous.denoising import ContinuousTask
from engines.continuous.request import PathForward
from engines.models.denoising_session import ContinuousSession, Head
from engines.models.heads import DiffusionHead
from engines.models.hub.compvis import PixelDecoder
from engines.models.hub.latents import LatentPictures
from engines.models.hub.prompts import class_of
from traces.schema import Canvas, ModelCard

_EPSILON: Final = 1e-6
CLASSES: Final = 1000
"""Of ImageNet."""


@dataclass(frozen=True, slots=True)
class MARSize:
    """Sizes of a MAR; the defaults are those of MAR-B."""

    side: int = 16
    """Tokens per side of the picture."""
    token: int = 16
    width: int = 768
    depth: int = 12
    """Layers of the encoder, and again of the decoder."""
    heads: int = 12
    buffer: int = 64
    """Places in front of the tokens that hold the class."""
    head_width: int = 1024
    head_depth: int = 6


class Attention(nn.Module):
    """Self-attention with one matrix for queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Float[Tensor, "B N C"], mask: Bool[Tensor, "B 1 1 N"] | None) -> Float[Tensor, "B N C"]:
        """Attend to what `mask` allows, everything without one."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        out: Tensor = self.proj(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))
        return out


class Layer(nn.Module):
    """A layer of a vision transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=_EPSILON)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=_EPSILON)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)})

    def forward(self, x: Float[Tensor, "B N C"], mask: Bool[Tensor, "B 1 1 N"] | None) -> Float[Tensor, "B N C"]:
        """One layer."""
        x = x + self.attn(self.norm1(x), mask)
        out: Tensor = x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(x))))
        return out


class MAR(nn.Module):
    """Encoder of what is visible, decoder of every position, and a diffusion head."""

    def __init__(self, size: MARSize) -> None:
        super().__init__()
        width, count = size.width, size.side**2
        self.buffer = size.buffer
        self.class_emb = nn.Embedding(CLASSES, width)
        self.fake_latent = nn.Parameter(torch.zeros(1, width))
        self.z_proj = nn.Linear(size.token, width)
        self.z_proj_ln = nn.LayerNorm(width, eps=_EPSILON)
        self.encoder_pos_embed_learned = nn.Parameter(torch.zeros(1, count + size.buffer, width))
        self.encoder_blocks = nn.ModuleList(Layer(width, size.heads) for _ in range(size.depth))
        self.encoder_norm = nn.LayerNorm(width, eps=_EPSILON)
        self.decoder_embed = nn.Linear(width, width)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, width))
        self.decoder_pos_embed_learned = nn.Parameter(torch.zeros(1, count + size.buffer, width))
        self.decoder_blocks = nn.ModuleList(Layer(width, size.heads) for _ in range(size.depth))
        self.decoder_norm = nn.LayerNorm(width, eps=_EPSILON)
        self.diffusion_pos_embed_learned = nn.Parameter(torch.zeros(1, count, width))
        self.diffloss = nn.ModuleDict({"net": DiffusionHead(size.token, width, size.head_width, size.head_depth)})

    @property
    def head(self) -> DiffusionHead:
        """The diffusion head."""
        head = self.diffloss["net"]
        assert isinstance(head, DiffusionHead)
        return head

    def forward(
        self, tokens: Float[Tensor, "B N D"], visible: Bool[Tensor, "B N"], label: Float[Tensor, "B C"]
    ) -> Float[Tensor, "B N C"]:
        """Conditions of the head at every position.

        Args:
            tokens: in raster order; what is not visible may hold anything.
            visible: which of them may be seen.
            label: embedded class, or `fake_latent` for none.
        """
        return self.decode(self.encode(tokens, visible, label), visible)

    def encode(
        self, tokens: Float[Tensor, "B N D"], visible: Bool[Tensor, "B N"], label: Float[Tensor, "B C"]
    ) -> Float[Tensor, "B M C"]:
        """What the encoder makes of the label's places and of all positions; invisible ones mean nothing."""
        seen = F.pad(visible, (self.buffer, 0), value=True)
        x = torch.cat([label[:, None].expand(-1, self.buffer, -1), self.z_proj(tokens)], 1)
        x = self.z_proj_ln(x + self.encoder_pos_embed_learned)
        for layer in self.encoder_blocks:
            x = layer(x, seen[:, None, None])
        out: Tensor = self.encoder_norm(x)
        return out

    def decode(self, encoded: Float[Tensor, "B M C"], visible: Bool[Tensor, "B N"]) -> Float[Tensor, "B N C"]:
        """Conditions of the head at every position, of what the encoder made of the visible ones."""
        seen = F.pad(visible, (self.buffer, 0), value=True)
        x = torch.where(seen[..., None], self.decoder_embed(encoded), self.mask_token) + self.decoder_pos_embed_learned
        for layer in self.decoder_blocks:
            x = layer(x, None)
        out: Tensor = self.decoder_norm(x)[:, self.buffer :] + self.diffusion_pos_embed_learned
        return out


@dataclass(frozen=True, slots=True)
class ClassTask(ContinuousTask):
    """A picture of a class."""

    label: int = 0


class StackedRows:
    """The backbone session: a row for every prefix that is asked about, twice that with guidance."""

    prefix = 0

    def __init__(
        self,
        network: Callable[[Tensor, Tensor, Tensor], Tensor],
        orders: Int[Tensor, "lanes N"],
        said: Shaped[Tensor, "lanes R ..."],
        buffer: int,
    ) -> None:
        """Lanes of one network.

        Args:
            network: called with the tokens [B, N, D] in raster order, who of them is visible [B, N] and what the rows
                are told [B, ...]; gives conditions [B, N, H].
            orders: of generation.
            said: what the rows of a lane are told: with guidance the prompt's first, then that of none.
            buffer: places that every row has besides.
        """
        self.rows = said.shape[1]
        self._network, self._order, self._said, self._buffer = network, orders, said, buffer

    def cost(self, request: PathForward) -> tuple[int, int]:
        """Rows, and tokens fed over all of them: every row is whole."""
        rows = self.rows * (1 if request.unseen else request.wanted)
        return rows, rows * (self._order.shape[1] + self._buffer)

    def logits(self, requests: Mapping[int, PathForward]) -> Tensor:
        """See `engines.models.discrete.DiscreteSession.logits`: conditions [B, R, W, H]."""
        parts = [self._stack(lane, request) for lane, request in requests.items()]
        out = self._network(*(torch.cat([part[i] for part in parts]) for i in range(3)))  # [rows, N, H]
        found, start = [], 0
        for (lane, request), (tokens, _, _) in zip(requests.items(), parts, strict=True):
            own = out[start : start + len(tokens)].unflatten(0, (self.rows, -1))  # [R, prefixes, N, H]
            start += len(tokens)
            cells = self._order[lane, request.done : request.done + request.wanted]
            row = torch.zeros_like(cells) if request.unseen else torch.arange(len(cells), device=cells.device)
            found.append(own[:, row, cells].transpose(0, 1))  # [W, R, H], to be padded along W
        return torch.nn.utils.rnn.pad_sequence(found, batch_first=True).transpose(1, 2)

    def _stack(self, lane: int, request: PathForward) -> tuple[Tensor, Tensor, Tensor]:
        """A lane's rows: tokens, who is visible, what they are told; [R * prefixes, ...]."""
        order, known = self._order[lane], len(request.tokens)
        tokens = torch.zeros(1, len(order), request.tokens.shape[1], device=order.device)
        tokens[0, order[:known]] = request.tokens.float()
        lengths = [known - request.unseen] if request.unseen else range(request.done, request.done + request.wanted)
        visible = torch.zeros(len(lengths), len(order), dtype=torch.bool, device=order.device)
        for row, length in enumerate(lengths):
            visible[row, order[:length]] = True
        said = self._said[lane].repeat_interleave(len(lengths), 0)
        return tokens.expand(len(said), -1, -1), visible.repeat(self.rows, 1), said


class AnyOrder(LatentPictures):
    """What is drawn token by token in one random order, which is the same for all runs and models."""

    def __init__(
        self, network: nn.Module, mar: MAR, decoder: PixelDecoder, card: ModelCard, device: torch.device
    ) -> None:
        """Wrap a network.

        Args:
            network: all of it.
            mar: its part that draws.
            decoder: tokens to pictures.
            card: who it is.
            device: where it runs.
        """
        super().__init__(network, decoder, card, device, mar.z_proj.in_features)
        self._mar, self._count = mar, mar.diffusion_pos_embed_learned.shape[1]
        self._order = torch.randperm(self._count, generator=torch.Generator().manual_seed(0))

    def canvas(self) -> Canvas:
        """The positions of a picture."""
        side = math.isqrt(self._count)
        return Canvas(kind="image", shape=(side, side), order=tuple(self._order.tolist()))

    def raster(self, tokens: Float[Tensor, "B N D"]) -> Float[Tensor, "B C h w"]:
        """See `LatentPictures.raster`."""
        side = math.isqrt(self._count)
        placed = torch.zeros(tokens.shape).index_copy(1, self._order, tokens).transpose(1, 2)
        found: Tensor = placed.unflatten(2, (side, side))
        return found

    def session(
        self, network: Callable[..., Tensor], tasks: Sequence[ContinuousTask], said: Tensor
    ) -> ContinuousSession:
        """A session of `network`, whose rows are told `said`; see `StackedRows`."""
        orders = torch.tensor([task.canvas.order for task in tasks], device=self.device)
        rows = StackedRows(network, orders, said, self._mar.buffer)
        return ContinuousSession(rows, Head(self._mar.head.lean().conditioned_on))


class MARModel(AnyOrder):
    """A MAR as a model of the family continuous-ar."""

    tokens = "KL-16"

    def __init__(self, network: MAR, decoder: PixelDecoder, card: ModelCard, device: torch.device) -> None:
        """See `AnyOrder`."""
        super().__init__(network, network, decoder, card, device)

    def pose(self, prompt: str, config: Any) -> ClassTask:
        """See `engines.protocol.Model.pose`. The prompt is the number of a class.

        Raises:
            ValueError: for anything else.
        """
        label = class_of(prompt, CLASSES)
        return ClassTask(self.canvas(), 0, self.device, width=self._width, gaps=True, label=label)

    def start(self, tasks: Sequence[ClassTask], guided: bool) -> ContinuousSession:
        """See `engines.protocol.Model.start`."""
        with torch.inference_mode():
            labels = self._mar.class_emb(torch.tensor([task.label for task in tasks], device=self.device))
            said = torch.stack([labels, self._mar.fake_latent.expand_as(labels)][: 1 + guided], 1)  # [lanes, R, C]
            return self.session(self._mar, tasks, said)
