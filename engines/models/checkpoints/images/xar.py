"""xAR-B, -L and -H (arXiv 2502.20388): class-conditional pictures of 256x256 pixels, cell by cell, by a flow each.

The network is implemented here, with the published names and shapes. Two stacks of layers, an encoder and a decoder,
are modulated by class and time. A cell attends to itself and to earlier cells, which are clean, at time 0, for all
later cells: their part of the KV cache is stored once, and drafts can be verified in parallel.

The canvas consists of the cells that the network was trained on, 2x2 of 8x8 tokens, or of single tokens: k = 1 in the
paper of CSpD (arXiv 2411.11925, appendix D). Tokens follow the order of the cells, row by row in each.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from typing_extensions import override

from draftscope.engines.continuous.denoising import ContinuousSampling, Denoiser, Schedule
from draftscope.engines.continuous.flow import as_flow_sampling
from draftscope.engines.continuous.path_request import PathRequest
from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.checkpoints.build import PIXELS, State, card_of, counted, load_state, on_meta
from draftscope.engines.models.checkpoints.conversion import Converted, Request, read_pickle
from draftscope.engines.models.checkpoints.images.autoencoder import UNUSED, kl16_of, read_kl16
from draftscope.engines.models.checkpoints.images.image_model import CLASSES, ClassTask, LatentPictures, class_of
from draftscope.engines.models.heads import TimeEmbedding
from draftscope.engines.models.memory import MemoryRequirement
from draftscope.engines.models.sessions.denoising import ContinuousSession, Head
from draftscope.engines.protocol import ForwardResult, StageCallback
from draftscope.engines.settings import ConfigError
from draftscope.traces.schema import Canvas, ModelCard

TITLE: Final = "xAR"
_MOST: Final = 4096
_EPSILON: Final = 1e-6
_USUAL: Final = ContinuousSampling()
_HEADS_ALONE: Final = {
    "sampler": "the steps of this model are those of a flow's stochastic equation",
    "first_timestep": "this model is a flow, which begins at noise alone",
}
"""Settings of diffusion heads that a flow does not have, and why."""
_TABLE: Final = "encoder_blocks.0.attn.rope.freqs_cos"

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""Called with a layer's number and its Q, K and V [B, heads, L, C]; gives what the queries read."""


@dataclass(frozen=True, slots=True)
class XARSize:
    """Sizes of an xAR; the defaults are those of xAR-B."""

    side: int = 16
    token: int = 16
    width: int = 768
    depth: int = 8
    heads: int = 12


class Attention(nn.Module):
    """One matrix for Q, K and V, and rotary positions of rows and columns in neighbouring pairs."""

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
        self, x: Float[Tensor, "B L C"], positions: Int[Tensor, "B L"], layer: int, attend: Attend
    ) -> Float[Tensor, "B L C"]:
        """Return what the positions read from others.

        Args:
            x: Inputs of the layer.
            positions: Their positions, which rotate queries and keys.
            layer: Number of the layer, which `attend` is called with.
            attend: Gives the values that the queries read.
        """
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        cos, sin = (getattr(self.rope, name)[positions][:, None] for name in ("freqs_cos", "freqs_sin"))
        q, k = (part * cos + _turned(part) * sin for part in (q, k))
        return cast(Tensor, self.proj(attend(layer, q, k, v).transpose(1, 2).flatten(2)))


def _turned(x: Float[Tensor, "B heads L C"]) -> Float[Tensor, "B heads L C"]:
    """Neighbouring pairs (a, b) as (-b, a)."""
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([-b, a], -1).flatten(-2)


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
        modulation: Float[Tensor, "B _ C"],
        positions: Int[Tensor, "B L"],
        at: tuple[int, Attend],
    ) -> Float[Tensor, "B L C"]:
        """Return the outputs of a layer.

        Args:
            x: Its inputs.
            modulation: Result of `XAR.modulation`, or one for each position.
            positions: Positions of the inputs.
            at: Number of the layer, and the function that it attends by.
        """
        gate, inner_gate, scale, inner_scale, shift, inner_shift = self.ada_lin(modulation).chunk(6, -1)
        x = x + gate * self.attn(torch.addcmul(shift, _plain(x), 1 + scale), positions, *at)
        h = torch.addcmul(inner_shift, _plain(x), 1 + inner_scale)
        return cast(Tensor, x + inner_gate * self.mlp["fc2"](F.gelu(self.mlp["fc1_g"](h)) * self.mlp["fc1_x"](h)))


def _plain(x: Float[Tensor, "B L C"]) -> Float[Tensor, "B L C"]:
    return F.rms_norm(x, x.shape[-1:], None, _EPSILON)


class XAR(nn.Module):
    """Both stacks, and the velocity of every token."""

    def __init__(self, size: XARSize) -> None:
        super().__init__()
        width, count = size.width, size.side**2
        self.heads = size.heads
        self.class_emb = nn.Embedding(CLASSES + 1, width)
        self.time_embed = TimeEmbedding(width)
        self.z_proj = nn.Linear(size.token, width)
        self.z_proj_ln = nn.RMSNorm(width, eps=_EPSILON)
        self.encoder_pos_embed_learned = nn.Parameter(torch.zeros(1, count, width))
        self.encoder_blocks = nn.ModuleList(Layer(size) for _ in range(size.depth))
        self.encoder_norm = nn.RMSNorm(width, eps=_EPSILON)
        self.decoder_embed = nn.Linear(width, width)
        self.decoder_pos_embed_learned = nn.Parameter(torch.zeros(1, count, width))
        self.decoder_blocks = nn.ModuleList(Layer(size) for _ in range(size.depth))
        self.decoder_norm = nn.RMSNorm(width, eps=_EPSILON)
        self.pred = nn.Linear(width, size.token)
        self.register_buffer("mask", torch.zeros(1, 1, count, count))

    def modulation(self, label: Int[Tensor, " B"], timestep: int) -> Float[Tensor, "B 1 C"]:
        """Return the modulation of the layers.

        Args:
            label: Class of each sequence; 1000 is the unconditional one.
            timestep: Timestep that all of them have.
        """
        time = torch.full((1,), float(timestep), device=label.device)
        out: Tensor = self.class_emb(label) + self.time_embed(time)
        return out[:, None]

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        modulation: Float[Tensor, "B _ C"],
        positions: Int[Tensor, "B L"],
        attend: Attend,
    ) -> Float[Tensor, "B L D"]:
        """Return the velocities of tokens, clean or noisy.

        Args:
            x: Tokens.
            modulation: Result of `modulation`, or one for each position.
            positions: Positions of the tokens, in the order of generation.
            attend: Called in every layer for what its queries read, so that a session decides on caches and masks.
        """
        h = self.z_proj_ln(self.z_proj(x) + self.encoder_pos_embed_learned[0, positions])
        for i, layer in enumerate(self.encoder_blocks):
            h = layer(h, modulation, positions, (i, attend))
        h = self.decoder_embed(self.encoder_norm(h)) + self.decoder_pos_embed_learned[0, positions]
        for i, layer in enumerate(self.decoder_blocks, len(self.encoder_blocks)):
            h = layer(h, modulation, positions, (i, attend))
        return cast(Tensor, self.pred(self.decoder_norm(h)))


class CellSession:
    """The backbone session: the KV cache of clean cells. A condition is a row of it, and the clean cells to see."""

    def __init__(self, network: XAR, labels: Int[Tensor, "B R"], cell: int) -> None:
        """Sequences of one network; `labels` of all rows, and how many tokens there are to a cell."""
        self.rows, self.network, self._cell = labels.shape[1], network, cell
        self._labels = labels.flatten()
        self._fed = [0] * len(labels)
        """Cells of each sequence that are stored."""
        self._before = 0
        """Clean tokens that cells of the latest pass may see, at most."""
        count, layers = network.encoder_pos_embed_learned.shape[1], 2 * len(network.encoder_blocks)
        head = network.pred.in_features // network.heads
        shape = (len(self._labels), network.heads, count, head)
        self._keys = [torch.zeros(shape, device=labels.device) for _ in range(layers)]
        self._values = [torch.zeros_like(keys) for keys in self._keys]

    def cost(self, request: PathRequest) -> tuple[int, int]:
        """Rows, and tokens fed over all of them, those of every denoising step included."""
        clean = max(request.num_final + request.num_requested - 1 - request.num_cached, 0)
        return self.rows, self.rows * self._cell * (clean + request.noise.shape[1] * request.num_requested)

    def logits(self, requests: Mapping[int, PathRequest]) -> Float[Tensor, "B R W 2"]:
        """Store clean cells; see `draftscope.engines.models.sessions.discrete.DiscreteSession.logits`."""
        conditions = []
        self._before = self._cell * max(request.num_final + request.num_requested - 1 for request in requests.values())
        for sequence, request in requests.items():
            self._store(sequence, request)
            seen = torch.arange(
                request.num_final, request.num_final + request.num_requested, device=self._labels.device
            )
            row = torch.arange(sequence * self.rows, (sequence + 1) * self.rows, device=seen.device)
            pairs = torch.cartesian_prod(row, seen).unflatten(0, (self.rows, -1))  # [R, W, 2]
            conditions.append(pairs.transpose(0, 1).float())
        return nn.utils.rnn.pad_sequence(conditions, batch_first=True).transpose(1, 2)

    def _store(self, sequence: int, request: PathRequest) -> None:
        """Store the clean cells before the last requested position in the KV cache of a sequence."""
        start, stop = min(self._fed[sequence], request.num_cached), request.num_final + request.num_requested - 1
        self._fed[sequence] = max(stop, start)
        if stop <= start:
            return
        rows, size = slice(sequence * self.rows, (sequence + 1) * self.rows), self._cell
        first, last = start * size, stop * size
        positions = torch.arange(first, last, device=self._labels.device)
        cells = torch.arange(last, device=positions.device) // size
        seen = cells <= cells[first:, None]

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self._keys[layer][rows], self._values[layer][rows]
            keys[:, :, first:last], values[:, :, first:last] = k, v
            return F.scaled_dot_product_attention(q, keys[:, :, :last], values[:, :, :last], attn_mask=seen)

        x = request.tokens[start:stop].float().reshape(1, len(positions), -1).expand(self.rows, -1, -1)
        modulation = self.network.modulation(self._labels[rows], 0)
        self.network(x, modulation, positions.expand(self.rows, -1), attend)

    def conditioned_on(self, condition: Float[Tensor, "M 2"], schedule: Schedule) -> Denoiser:
        """Return the denoiser of M cells.

        Args:
            condition: Row of each cell, and the number of clean cells before it.
            schedule: Not used: the denoiser is called with one.
        """
        row, seen = condition.long().unbind(1)
        before, size = self._before, self._cell
        positions = seen[:, None] * size + torch.arange(size, device=row.device)
        clean = torch.arange(before, device=row.device) < seen[:, None] * size
        mask = F.pad(clean, (0, size), value=True)[:, None, None]  # [M, 1, 1, before + size]: clean cells, and its own

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys = torch.cat([self._keys[layer][row, :, :before], k], 2)
            values = torch.cat([self._values[layer][row, :, :before], v], 2)
            return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)

        def denoise(x: Tensor, schedule: Schedule, i: int) -> tuple[Tensor, Tensor]:
            modulation = self.network.modulation(self._labels[row], schedule.timestep[i])
            velocity = self.network(x.float().unflatten(1, (size, -1)), modulation, positions, attend).flatten(1)
            return velocity, velocity

        return denoise


class FlowSession(ContinuousSession):
    """A session whose head is a flow."""

    @override
    def forward(
        self, requests: Mapping[int, PathRequest], sampling: ContinuousSampling, lap: StageCallback
    ) -> dict[int, ForwardResult]:
        return super().forward(requests, as_flow_sampling(sampling), lap)


class XARModel(LatentPictures):
    """An xAR as a model of the family continuous-ar: its tokens are cells."""

    def __init__(
        self, network: XAR, autoencoder: Any, card: ModelCard, device: torch.device, cells: tuple[int, int]
    ) -> None:
        """Wrap a network; `cells` are the sides, in tokens, of those it was trained on and of those it is to draw."""
        (trained, self._drawn_side), positions = cells, torch.arange(network.encoder_pos_embed_learned.shape[1])
        across = math.isqrt(len(positions)) // trained
        # Cell by cell, and row by row in each.
        sequence = positions.unflatten(0, (across, trained, across, trained)).transpose(1, 2).flatten()
        width = self._drawn_side**2 * network.z_proj.in_features
        super().__init__(network, autoencoder, card, device, width, sequence)
        self._xar = network
        self.token_space = f"KL-16, cells of {self._drawn_side}x{self._drawn_side}"

    def make_task(self, prompt: str, config: Any) -> ClassTask:
        """Build the task; raises ValueError as `class_of` does, and ConfigError for settings of diffusion heads."""
        if isinstance(config, ContinuousSampling):
            for name, why in _HEADS_ALONE.items():
                value, default = getattr(config, name), getattr(_USUAL, name)
                if value != default:
                    raise ConfigError(f"{name}: {value!r} is for diffusion heads; {why}; leave it at {default!r}.")
        count, label = self._side // self._drawn_side, class_of(prompt)
        order = tuple(self._sequence.tolist()) if self._drawn_side == 1 else None
        canvas = Canvas(kind="image", shape=(count, count), order=order)
        return ClassTask(canvas, 0, self.device, width=self._width, begins_unguided=True, label=label)

    def open_session(self, tasks: Sequence[ClassTask], guided: bool) -> FlowSession:
        """Open a session, one sequence per task."""
        task_labels = torch.tensor([task.label for task in tasks], device=self.device)
        labels = torch.stack([task_labels, torch.full_like(task_labels, CLASSES)][: 1 + guided], 1)
        with torch.inference_mode():
            rows = CellSession(self._xar, labels, self._drawn_side**2)
        return FlowSession(rows, Head(rows.conditioned_on))


def load(source: CheckpointDir, settings: Mapping[str, Any], device: str, _: torch.dtype) -> XARModel:
    """Load the model of a converted folder, always in float32."""
    size = XARSize(**{each.name: source.number(settings, each.name, maximum=_MOST) for each in fields(XARSize)})
    if size.width % (4 * size.heads):
        raise source.unsupported(
            f"config.json has {size.heads} for 'heads', whose rotary pairs do not divide {size.width}"
        )
    network = load_state(source, on_meta(lambda: XAR(size)), source.tensors(), torch.float32)
    cells = _cells(source, network.get_buffer("mask"), size.side, source.number(settings, "cell", maximum=_MOST))
    card = card_of(source, TITLE, source.inside(PIXELS))
    return XARModel(network, read_kl16(source, size.token), card, torch.device(device), cells)


def needs(source: CheckpointDir, _: Mapping[str, Any]) -> MemoryRequirement:
    """Return the memory requirement of the model in a folder, all of it in float32."""
    tables = ("mask", *(f".rope.{name}" for name in ("freqs", "freqs_cos", "freqs_sin")))
    return MemoryRequirement(0, source.count(tables=tables) + source.inside(PIXELS).count(UNUSED))


def convert(request: Request) -> Converted:
    """xAR-B.pth or another, and MAR's kl16.ckpt; averaged weights are taken where there are some."""
    source = request.file("Give the xAR-B.pth, xAR-L.pth or xAR-H.pth of an xAR.")
    state = read_pickle(source, ("model_ema", "model"))
    size = size_of(source, state)
    load_state(source, on_meta(lambda: XAR(size)), state)
    _, cell = _cells(source, state["mask"], size.side, request.side)
    return Converted({"": state, PIXELS: kl16_of(request)}, {"model_type": "xar", **asdict(size), "cell": cell})


def size_of(source: CheckpointDir, state: State) -> XARSize:
    """Return the sizes of a network by the shapes of its tensors.

    Args:
        source: Folder that errors name.
        state: Tensors by name.

    Raises:
        ModelError: If they are not those of an xAR.
    """
    try:
        count, width = state["encoder_pos_embed_learned"].shape[1:]
        token, head = state["z_proj.weight"].shape[1], state[_TABLE].shape[1]
    except (KeyError, ValueError, IndexError) as error:
        raise source.unsupported(f"its tensors are not those of an xAR: no {error}") from None
    if not head or width % head:
        raise source.unsupported(f"its rotary positions are {head} wide, which does not divide its width {width}")
    depth = counted(state, "encoder_blocks.{}.attn.qkv.bias")
    return XARSize(math.isqrt(count), token, width, depth, width // head)


def _cells(source: CheckpointDir, mask: Tensor, side: int, cell: int | None) -> tuple[int, int]:
    """Tokens per side of the cells that a network was trained on, of which the first token sees its own, and drawn."""
    count = int((mask[0, 0, 0] == 0).sum())
    trained = math.isqrt(count)
    if not trained or trained**2 != count or side % trained:
        raise source.unsupported(
            f"its mask lets the first token attend to {count} of {side * side}, which is not a cell"
        )
    if cell not in (None, 1, trained):
        raise source.unsupported(
            f"it cannot draw cells of {cell}x{cell}; it was trained on {trained}x{trained}, or 1x1"
        )
    return trained, cell or trained
