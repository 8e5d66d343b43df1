"""Drawing a picture as codes: what published models of the family discrete-ar have in common."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor, nn

from engines.models.clip_model import Pictures
from engines.models.memory import cached_numbers, check_cache
from engines.models.networked import Networked
from engines.models.picture_session import Fed, PictureSession, Prompts
from engines.models.pictures import as_uri
from engines.protocol import Family, Task
from engines.sampling.distributions import GuidedSampling
from traces.schema import Canvas, Frame, Legend, ModelCard, Output

FEW_PICTURES: Final = Pictures(most=16, together=4, longest=512)
"""Decoders of published models take seconds a picture on a CPU."""


@dataclass(frozen=True, slots=True)
class PictureTask(Task):
    """A picture to decode."""

    prompts: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """Ids of the conditional prompt and of the unconditional one."""


@dataclass(frozen=True, slots=True)
class PictureShape:
    """Of what size pictures are."""

    rows: int
    """Of codes."""
    columns: int
    codes: int
    """Different ones."""
    longest: int = 0
    """Positions that the transformer was made for, the prompt's included; 0 where that is not said."""


@dataclass(frozen=True, slots=True)
class Codebook:
    """What codes are."""

    places: Float[Tensor, "K D"]
    """Where they lie, in float64."""
    digest: str
    """Names the codes: models with the same ones can draft for each other."""


class PictureModel(Networked):
    """A model of the family discrete-ar that draws pictures, and is guided by its prompt."""

    families: tuple[Family, ...] = ("discrete-ar",)
    line_end: int | None = None
    """See `PictureSession`."""

    def __init__(
        self, network: nn.Module, decoder: Any, codebook: Codebook, shape: PictureShape, card: ModelCard
    ) -> None:
        """Wrap a network that lies on its device.

        Args:
            network: The transformer, and what else is computed with it.
            decoder: The native decoder in it, whose keys and values are cached.
            codebook: What codes are; its tensor is on the same device.
            shape: Of pictures.
            card: Who it is.
        """
        self.card, self.device, self.shape = card, codebook.places.device, shape
        self._network, self._codebook = network, codebook
        self.layers: int = len(decoder.layers)
        self._kept = cached_numbers(decoder.config)

    @property
    def network(self) -> nn.Module:
        """See `Networked.network`."""
        return self._network

    @property
    def embedding(self) -> Float[Tensor, "K D"]:
        """Where codes lie."""
        return self._codebook.places

    @property
    def tokens(self) -> str:
        """What its tokens mean: models with the same codebook can draft for each other."""
        return self._codebook.digest

    @abstractmethod
    def logits(self, ids: Tensor, positions: Tensor, cache: Any = None, mask: Tensor | None = None) -> Tensor:
        """Logits [B, N, K] of the codes; what `CausalSession` calls its network as.

        Ids below K are codes, others belong to the prompt.
        """

    @abstractmethod
    def prompts(self, prompt: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Ids that stand before the picture: with the prompt, and without it.

        Raises:
            ValueError: for a prompt that the model cannot read.
        """

    @abstractmethod
    def pixels(self, codes: Int[Tensor, "B N"]) -> Float[Tensor, "B 3 H W"]:
        """Codes in the order of the canvas to pictures in [-1, 1], which may be overstepped."""

    @property
    def blank(self) -> int:
        """The code nearest to the mean of the codebook, which stands for open positions in pictures."""
        book = self.embedding
        return int((book - book.mean(0)).square().sum(-1).argmin())

    def pose(self, prompt: str, config: GuidedSampling) -> PictureTask:
        """See `engines.protocol.Model.pose`."""
        shape, prompts = self.shape, self.prompts(prompt)
        room = shape.longest - shape.rows * (shape.columns + (self.line_end is not None))
        if shape.longest and len(prompts[0]) > room:
            raise ValueError(
                f"prompt: has {len(prompts[0])} tokens, and {self.card.id} has room for {room} beside its picture; "
                "shorten it."
            )
        canvas = Canvas(kind="image", shape=(shape.rows, shape.columns))
        return PictureTask(canvas, shape.codes, self.device, self.embedding, prompts=prompts)

    def start(self, tasks: Sequence[PictureTask], guided: bool) -> PictureSession:
        """See `engines.protocol.Model.start`."""
        prompts: list[Prompts] = [task.prompts[: 1 + guided] for task in tasks]
        return self._opened(self.logits, prompts, Fed(self.shape.rows, self.shape.columns, self.line_end))

    def _opened(self, network: Callable[..., Tensor], prompts: Sequence[Prompts], fed: Fed) -> PictureSession:
        """A session, if there is room for its keys and values."""
        rows, longest = sum(map(len, prompts)), max(len(row) for lane in prompts for row in lane)
        numbers = rows * (longest + fed.rows * (fed.columns + 1)) * self._kept
        check_cache(self.card.id, numbers * self.dtype.itemsize, str(self.device), len(prompts))
        return PictureSession(network, prompts, fed, self.layers, self.device)

    def legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """Pictures of the canvas, drafts included; open positions hold `blank`, and viewers mark them."""
        return Legend(frames=frames(canvases, self._drawn))

    def output(self, tokens: Sequence[int | None]) -> Output:
        """The finished picture."""
        return Output(tokens=tuple(tokens), image=as_uri(self._drawn([tokens])[0], "PNG"))

    def _drawn(self, canvases: Sequence[Sequence[int | None]]) -> list[Image.Image]:
        blank = self.blank
        codes = torch.tensor([[blank if t is None else t for t in tokens] for tokens in canvases], device=self.device)
        with torch.inference_mode():
            return images(self.pixels(codes))


def images(pixels: Float[Tensor, "B 3 H W"]) -> list[Image.Image]:
    """Pictures of pixels in [-1, 1]; what oversteps the range is cut."""
    arrays = ((pixels.float().clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    return [Image.fromarray(array) for array in arrays]


def frames(
    canvases: Mapping[int, Sequence[Any]], drawn: Callable[[Sequence[Sequence[Any]]], Sequence[Image.Image]]
) -> tuple[Frame, ...]:
    """Pictures of the canvas at steps that are spread evenly over a run, shrunk where they are large."""
    steps, limits = sorted(canvases), FEW_PICTURES
    if len(steps) > limits.most:
        steps = [steps[round(i)] for i in np.linspace(0, len(steps) - 1, limits.most)]
    found = []
    for i in range(0, len(steps), limits.together):
        chunk = steps[i : i + limits.together]
        for step, picture in zip(chunk, drawn([canvases[step] for step in chunk]), strict=True):
            if limits.longest is not None and max(picture.size) > limits.longest:
                picture.thumbnail((limits.longest, limits.longest), Image.Resampling.BOX)
            found.append(Frame(step=step, image=as_uri(picture, "WEBP")))
    return tuple(found)
