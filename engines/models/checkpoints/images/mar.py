"""MAR-B, -L and -H (arXiv 2406.11838): a class to a picture of 256x256 pixels, token by token in a random order.

The network is our own, of torch's layers. What is not visible is masked out of the encoder's attention, which equals
leaving it out. Every position sees all visible ones, so what follows a prefix cannot be read off a longer one: gamma
drafts take gamma + 1 rows, one per prefix, and there is no KV cache.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from draftscope.engines.continuous.denoising import ContinuousTask
from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.checkpoints.build import PIXELS, State, card_of, counted, load_state, on_meta, renamed
from draftscope.engines.models.checkpoints.conversion import Converted, Request, read_pickle
from draftscope.engines.models.checkpoints.images.autoencoder import UNUSED, kl16_of, read_kl16
from draftscope.engines.models.checkpoints.images.image_model import CLASSES, ClassTask, LatentPictures, class_of
from draftscope.engines.models.heads import DiffusionHead
from draftscope.engines.models.memory import MemoryRequirement
from draftscope.engines.models.sessions.bidirectional import StackedRows
from draftscope.engines.models.sessions.denoising import ContinuousSession, Head
from draftscope.traces.schema import Canvas, ModelCard

TITLE: Final = "MAR"
HEADS: Final = {768: 12, 1024: 16, 1280: 16}
"""Attention heads by width: tensors do not determine them."""
_MOST: Final = 4096
_EPSILON: Final = 1e-6
_NAMES: Final = (
    (".attn.qkv.", ".self_attn.in_proj_"),
    (".attn.proj.", ".self_attn.out_proj."),
    (".mlp.fc", ".linear"),
)
"""Parts of the release's tensor names and torch's for them."""


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


def _layer(size: MARSize) -> nn.Module:
    sizes = (size.width, size.heads, 4 * size.width)
    return nn.TransformerEncoderLayer(*sizes, 0.0, F.gelu, _EPSILON, batch_first=True, norm_first=True)


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
        self.encoder_blocks = nn.ModuleList(_layer(size) for _ in range(size.depth))
        self.encoder_norm = nn.LayerNorm(width, eps=_EPSILON)
        self.decoder_embed = nn.Linear(width, width)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, width))
        self.decoder_pos_embed_learned = nn.Parameter(torch.zeros(1, count + size.buffer, width))
        self.decoder_blocks = nn.ModuleList(_layer(size) for _ in range(size.depth))
        self.decoder_norm = nn.LayerNorm(width, eps=_EPSILON)
        self.diffusion_pos_embed_learned = nn.Parameter(torch.zeros(1, count, width))
        self.diffloss: Any = nn.ModuleDict({"net": DiffusionHead(size.token, width, size.head_width, size.head_depth)})

    def forward(
        self, tokens: Float[Tensor, "B N D"], visible: Bool[Tensor, "B N"], label: Float[Tensor, "B C"]
    ) -> Float[Tensor, "B N C"]:
        """Return the condition of the head at every position.

        Args:
            tokens: Tokens in raster order; invisible ones are not read.
            visible: Which of them are visible.
            label: Embedded class.
        """
        return self.decode(self.encode(tokens, visible, label), visible)

    def encode(
        self, tokens: Float[Tensor, "B N D"], visible: Bool[Tensor, "B N"], label: Float[Tensor, "B C"]
    ) -> Float[Tensor, "B M C"]:
        """Return the encoder's output for the positions of the label and all others; invisible ones are undefined.

        Args:
            tokens: Tokens in raster order.
            visible: Which of them other positions may attend to.
            label: Embedded class, which fills the buffer of M - N positions before the tokens.
        """
        seen = F.pad(visible, (self.buffer, 0), value=True)
        x = torch.cat([label[:, None].expand(-1, self.buffer, -1), self.z_proj(tokens)], 1)
        x = self.z_proj_ln(x + self.encoder_pos_embed_learned)
        for layer in self.encoder_blocks:
            x = layer(x, src_key_padding_mask=~seen)
        return cast(Tensor, self.encoder_norm(x))

    def decode(self, encoded: Float[Tensor, "B M C"], visible: Bool[Tensor, "B N"]) -> Float[Tensor, "B N C"]:
        """Return the condition of the head at every position.

        Args:
            encoded: Result of `encode`.
            visible: Which tokens are visible; a mask token replaces the others.
        """
        seen = F.pad(visible, (self.buffer, 0), value=True)
        x = torch.where(seen[..., None], self.decoder_embed(encoded), self.mask_token) + self.decoder_pos_embed_learned
        for layer in self.decoder_blocks:
            x = layer(x)
        return cast(Tensor, self.decoder_norm(x)[:, self.buffer :] + self.diffusion_pos_embed_learned)


class AnyOrder(LatentPictures):
    """Images drawn token by token in one random order, which is the same for all runs and models."""

    def __init__(self, network: nn.Module, autoencoder: Any, card: ModelCard, device: torch.device) -> None:
        """Wrap a MAR, or a network with one inside as `mar`; see `LatentPictures`."""
        mar: Any = getattr(network, "mar", network)
        count = mar.diffusion_pos_embed_learned.shape[1]
        order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
        super().__init__(network, autoencoder, card, device, mar.z_proj.in_features, order)
        self._mar = mar

    def canvas(self) -> Canvas:
        """The positions of a picture."""
        return Canvas(kind="image", shape=(self._side, self._side), order=tuple(self._sequence.tolist()))

    def session(
        self, network: Callable[..., Tensor], tasks: Sequence[ContinuousTask], labels: Tensor
    ) -> ContinuousSession:
        """Return a session whose sequences share each pass.

        Args:
            network: Called by `StackedRows`.
            tasks: Tasks, one a sequence; their canvases give the order of decoding.
            labels: Conditions of the rows, as `StackedRows` takes them.
        """
        orders = torch.tensor([task.canvas.order for task in tasks], device=self.device)
        rows = StackedRows(network, orders, labels, self._mar.buffer)
        return ContinuousSession(rows, Head(self._mar.diffloss["net"].lean()))


class MARModel(AnyOrder):
    """A MAR as a model of the family continuous-ar."""

    token_space = "KL-16"

    def make_task(self, prompt: str, config: Any) -> ClassTask:
        """Build the task; raises ValueError as `class_of` does."""
        label = class_of(prompt)
        return ClassTask(self.canvas(), 0, self.device, width=self._width, gaps=True, label=label)

    def open_session(self, tasks: Sequence[ClassTask], guided: bool) -> ContinuousSession:
        """Open a session, one sequence per task."""
        with torch.inference_mode():
            labels = self._mar.class_emb(torch.tensor([task.label for task in tasks], device=self.device))
            both = torch.stack([labels, self._mar.fake_latent.expand_as(labels)][: 1 + guided], 1)  # [sequences, R, C]
            return self.session(self._mar, tasks, both)


def load(source: CheckpointDir, settings: Mapping[str, Any], device: str, _: torch.dtype) -> MARModel:
    """Load the model of a converted folder, always in float32."""
    size = MARSize(**{each.name: source.number(settings, each.name, maximum=_MOST) for each in fields(MARSize)})
    if size.width % size.heads:
        raise source.unsupported(
            f"config.json has {size.heads} for 'heads', which do not divide its 'width' {size.width}"
        )
    network = load_state(source, on_meta(lambda: MAR(size)), native_state(source.tensors()), torch.float32)
    autoencoder = read_kl16(source, size.token)
    card = card_of(source, TITLE, source.inside(PIXELS))
    return MARModel(network, autoencoder, card, torch.device(device))


def needs(source: CheckpointDir, _: Mapping[str, Any]) -> MemoryRequirement:
    """Return the memory requirement of the model in a folder, all of it in float32."""
    return MemoryRequirement(0, source.count() + source.inside(PIXELS).count(UNUSED))


def convert(request: Request) -> Converted:
    """checkpoint-last.pth, of which the averaged weights are taken, and kl16.ckpt."""
    source = request.file("Give the checkpoint-last.pth of a MAR.")
    state = read_pickle(source, ("model_ema", "model"))
    size = size_of(source, state, request.heads)
    load_state(source, on_meta(lambda: MAR(size)), native_state(state))
    return Converted({"": state, PIXELS: kl16_of(request)}, {"model_type": "mar", **asdict(size)})


def native_state(state: State) -> State:
    """Published tensors by the names of torch's layers."""
    return {renamed(name, _NAMES): part for name, part in state.items()}


def size_of(source: CheckpointDir, state: State, heads: int | None) -> MARSize:
    """Return the sizes of a network by the shapes of its tensors.

    Args:
        source: Folder that errors name.
        state: Tensors by name.
        heads: Attention heads, which no shape shows; None for those of the published model of this width.

    Raises:
        ModelError: If the tensors are not those of a MAR, or the number of heads is unknown or does not divide the
            width.
    """
    try:
        count, width = state["diffusion_pos_embed_learned"].shape[1:]
        buffer = state["encoder_pos_embed_learned"].shape[1] - count
        token, head_width = state["z_proj.weight"].shape[1], state["diffloss.net.input_proj.weight"].shape[0]
    except (KeyError, ValueError, IndexError) as error:
        raise source.unsupported(f"its tensors are not those of a MAR: no {error}") from None
    depth = counted(state, "encoder_blocks.{}.attn.qkv.bias")
    head_depth = counted(state, "diffloss.net.res_blocks.{}.in_ln.bias")
    heads = heads or HEADS.get(width)
    if heads is None or width % heads:
        raise source.unsupported(
            f"its width is {width}, and no published MAR has it; give its number of heads by --heads"
        )
    return MARSize(math.isqrt(count), token, width, depth, heads, buffer, head_width, head_depth)
