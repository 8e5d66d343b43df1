"""A raster of colours with a distribution in closed form: no weights, but the shape of a model of continuous tokens.

Each of 12x12 cells holds a colour of three components, drawn as N(m, s^2) around m = a left + b up + c upleft; cells
outside count as 0. The head denoises ideally, so that whatever the number of steps the token follows N(m, s^2) exactly.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from draftscope.engines.continuous.denoising import ContinuousTask, Denoiser, Schedule, variance_output
from draftscope.engines.continuous.path_request import PathRequest
from draftscope.engines.models.bundled.catalog import card_of
from draftscope.engines.models.image_rendering import ImageLimits, RendersImages
from draftscope.engines.models.sessions.denoising import ContinuousSession, Head
from draftscope.engines.models.sessions.discrete import DiscreteSession
from draftscope.engines.models.toys.toy_raster import SMALL, TARGET, Weights, refuse_prompt
from draftscope.engines.protocol import Family
from draftscope.traces.schema import Canvas, Token

ID: Final = "toy-field"
SIDE: Final = 12
WIDTH: Final = 3
_PIXELS: Final = 4
"""A cell's side in a picture."""
MODELS: Final = {ID: TARGET, "toy-field-small": SMALL}


class ToyField(RendersImages):
    """The closed-form field as a model of the family continuous-ar."""

    token_space = "field"
    num_parameters = 0
    families: tuple[Family, ...] = ("continuous-ar",)
    limits = ImageLimits(kind="PNG")

    def __init__(
        self, name: str, weights: Weights, device: torch.device, shape: tuple[int, int] = (SIDE, SIDE)
    ) -> None:
        self.card = card_of(name)
        self.device, self.dtype = device, torch.float64
        self.shape, self._weights = shape, weights

    def make_task(self, prompt: str, config: Any) -> ContinuousTask:
        """Build the task. The field takes no prompt."""
        refuse_prompt(self.card.id, prompt, config.uses_guidance)
        return ContinuousTask(Canvas(kind="image", shape=self.shape), 0, self.device, width=WIDTH, gaps=True)

    def open_session(self, tasks: Sequence[ContinuousTask], guided: bool) -> ContinuousSession:
        """Open a session, one sequence per task."""
        return ContinuousSession(FieldBackbone(self._weights, self.shape), Head(conditioned_on=conditioned_denoiser))

    @override
    def pixels_of(self, canvases: Sequence[Sequence[Token | None]]) -> Float[Tensor, "B 3 H W"]:
        cells = [[token if isinstance(token, tuple) else (0.0,) * WIDTH for token in tokens] for tokens in canvases]
        colours = torch.tensor(cells).unflatten(1, self.shape).permute(0, 3, 1, 2)
        return F.interpolate(colours, scale_factor=_PIXELS)

    def spread(self, tokens: Float[Tensor, "B N D"]) -> float:
        """How far what fields leave to chance spreads, over what it should: 1 where they follow the distribution."""
        residual = tokens - neighbours(self._weights, self.shape) @ tokens
        return float(residual.square().mean().sqrt()) / self._weights.std


class FieldBackbone(DiscreteSession):
    """Conditions are a cell's mean and standard deviation given the cells before it; there is nothing to cache."""

    def __init__(self, weights: Weights, shape: tuple[int, int]) -> None:
        self._length = math.prod(shape)
        self._depends = neighbours(weights, shape)
        self._std = weights.std

    @override
    def logits(self, requests: Mapping[int, PathRequest]) -> Tensor:
        conditions = [self._condition(request) for request in requests.values()]
        return torch.nn.utils.rnn.pad_sequence(conditions, batch_first=True)[:, None]

    def _condition(self, request: PathRequest) -> Tensor:
        """Means and standard deviation [W, D + 1]."""
        depends = self._depends.to(request.tokens.device)
        index = slice(request.num_final, request.num_final + request.num_requested)
        if not request.num_visible_missing:
            mean = depends[index, : len(request.tokens)] @ request.tokens
            return torch.cat([mean, mean.new_full((len(mean), 1), self._std)], 1)
        # x = A x + b + s eps over the unseen cells, of which b is what the seen ones contribute.
        seen = request.tokens[: len(request.tokens) - request.num_visible_missing]
        among = depends[index, index]
        solved = torch.linalg.inv(torch.eye(len(among), dtype=among.dtype, device=among.device) - among)
        return torch.cat(
            [solved @ (depends[index, : len(seen)] @ seen), self._std * solved.norm(dim=1, keepdim=True)], 1
        )


def neighbours(weights: Weights, shape: tuple[int, int]) -> Tensor:
    """Return how much the mean of each cell depends on each other cell, [N, N].

    Args:
        weights: Weight of the cells to the left, above, and above to the left.
        shape: Rows and columns; N is their product.
    """
    rows, columns = shape
    depends = torch.zeros(rows * columns, rows * columns, dtype=torch.float64)
    for row in range(rows):
        for column in range(columns):
            cell = row * columns + column
            for up, left, weight in ((0, 1, weights.left), (1, 0, weights.up), (1, 1, weights.upleft)):
                if row >= up and column >= left:
                    depends[cell, cell - up * columns - left] = weight
    return depends


def conditioned_denoiser(condition: Tensor, _: Schedule) -> Denoiser:
    """Return `ideal` for some cells.

    Args:
        condition: Means of the cells and, last, their standard deviation, [M, D + 1].
    """
    return lambda x, schedule, i: ideal(x, condition, schedule, i)


def ideal(x: Tensor, condition: Tensor, schedule: Schedule, i: int) -> tuple[Tensor, Tensor]:
    """Return what a head without error gives for tokens of N(mean, std^2): the mean noise, and v for the true variance.

    Args:
        x: Noisy tokens, [M, D].
        condition: Means of the tokens and, last, their standard deviation, [M, D + 1].
        schedule: Schedule of the denoising steps.
        i: Index of the step in the schedule.
    """
    mean, variance = condition[:, :-1], condition[:, -1:].square()
    now = schedule.coefficients[i]
    noisy = now * variance + 1 - now  # variance of x_t
    eps = math.sqrt(1 - now) * (x - math.sqrt(now) * mean) / noisy
    return eps, variance_output(schedule, i, variance * (1 - now) / noisy).expand_as(eps)


@cache
def load(model_id: str = ID, device: str = "cpu") -> ToyField:
    """Return one of the two fields.

    Args:
        model_id: Id in `MODELS`.
        device: A single device, such as "cpu" or "cuda:0".
    """
    return ToyField(model_id, MODELS[model_id], torch.device(device))
