"""A raster of smooth grey levels with a distribution in closed form: no weights, but the shape of an image model.

Each of 16x16 cells takes one of 128 levels v in [-1, 1] with p(v | left, up, upleft) proportional to exp(-(v - m)^2 /
(2 * 0.25^2)) and m = 0.55 left + 0.55 up - 0.2 upleft; cells outside the raster count as 0.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import torch
from PIL import Image
from torch import Tensor
from typing_extensions import override

from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.models.bundled.catalog import card_of
from draftscope.engines.models.image_rendering import as_uri
from draftscope.engines.models.sessions.discrete import DiscreteSession
from draftscope.engines.protocol import Family, Task
from draftscope.engines.sampling.distributions import Sampling
from draftscope.traces.schema import Canvas, Legend, Output, Tiles

ID: Final = "toy-raster"
SIDE: Final = 16
LEVELS: Final = 128


@dataclass(frozen=True, slots=True)
class Weights:
    """How a cell's mean depends on its neighbours, and how much is left to chance."""

    left: float
    up: float
    upleft: float
    std: float


TARGET, SMALL = Weights(0.55, 0.55, -0.2, 0.25), Weights(0.5, 0.5, -0.12, 0.27)
MODELS: Final = {ID: TARGET, "toy-raster-small": SMALL}


def refuse_prompt(name: str, prompt: str, guided: bool) -> None:
    """Raise ValueError if a toy is given a prompt or guidance.

    Args:
        name: Model that the error names.
        prompt: Prompt of the request, which must be empty.
        guided: Whether the request has a guidance scale other than 1.
    """
    if prompt:
        raise ValueError(f"prompt: {name} draws without a prompt; leave it empty.")
    if guided:
        raise ValueError(f"guidance: {name} draws without a prompt, so there is nothing to guide; use 1.")


class ToyRaster:
    """The closed-form raster as a model of the family discrete-ar."""

    num_parameters = 0

    def __init__(self, device: torch.device, name: str = ID) -> None:
        self.card, self._weights = card_of(name), MODELS[name]
        self.families: tuple[Family, ...] = ("discrete-ar",)
        self.token_space = "grey levels"
        self.device, self.dtype = device, torch.float64
        self.levels = torch.linspace(-1, 1, LEVELS, dtype=torch.float64, device=device)

    def make_task(self, prompt: str, config: Sampling) -> Task:
        """Build the task. The raster takes no prompt."""
        refuse_prompt(self.card.id, prompt, config.uses_guidance)
        return Task(Canvas(kind="image", shape=(SIDE, SIDE)), LEVELS, self.device, self.levels[:, None])

    def open_session(self, tasks: Sequence[Task], guided: bool) -> "ToySession":
        """Open a session, one sequence per task."""
        return ToySession(self.levels, self._weights)

    def make_legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """One grey tile per level."""
        grey = ((self.levels.cpu() + 1) * 127.5).round().byte().numpy()[None]
        return Legend(tiles=Tiles(png=as_uri(Image.fromarray(grey), "PNG"), size=1, columns=LEVELS))

    def render_output(self, tokens: Sequence[int | None]) -> Output:
        """The raster as a picture."""
        levels = self.levels.cpu()
        values = torch.stack([torch.zeros((), dtype=torch.float64) if t is None else levels[t] for t in tokens])
        grey = ((values + 1) * 127.5).round().byte().reshape(SIDE, SIDE).numpy()
        return Output(tokens=tuple(tokens), image=as_uri(Image.fromarray(grey), "PNG"))


class ToySession(DiscreteSession):
    """Computes distributions from the tokens each time; there is nothing to cache."""

    def __init__(self, levels: Tensor, weights: Weights) -> None:
        self._levels, self._weights = levels, weights

    @override
    def logits(self, requests: Mapping[int, ProbsRequest]) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence([self._scores(r) for r in requests.values()], batch_first=True)[:, None]

    def _scores(self, request: ProbsRequest) -> Tensor:
        """Log distributions [W + 1, V] of positions done .. len(tokens)."""
        device = self._levels.device
        count = len(request.tokens)
        value = torch.zeros(count + SIDE + 2, dtype=torch.float64, device=device)
        value[SIDE + 1 : SIDE + 1 + count] = self._levels[request.tokens]
        position = torch.arange(request.num_final, count + 1, device=device)
        left_edge = position % SIDE == 0
        at = position + SIDE + 1  # index of the cell itself in the padded row of values
        weights = self._weights
        neighbours = weights.left * value[at - 1] + weights.upleft * value[at - SIDE - 1]
        mean = weights.up * value[at - SIDE] + torch.where(left_edge, 0.0, neighbours)
        return -((self._levels - mean[:, None]) ** 2) / (2 * weights.std**2)


@cache
def load(model_id: str = ID, device: str = "cpu") -> ToyRaster:
    """Return one of the two rasters.

    Args:
        model_id: Id of the raster.
        device: A single device, such as "cpu" or "cuda:0".
    """
    return ToyRaster(torch.device(device), model_id)
