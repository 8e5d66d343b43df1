"""An xAR as a model of the family continuous-ar: its tokens are cells, drawn by a flow.

canvas     the cells that the network was trained on, 2x2 of 8x8 tokens, or single tokens: what the paper of CSpD
           calls k = 1 (arXiv 2411.11925, appendix D). Tokens go on in the order of the cells, row by row in each
guidance   what is raised over the picture leaves the first cell unguided, as the release does
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from engines.config import ConfigError
from engines.continuous.denoising import ContinuousSampling, ContinuousTask
from engines.continuous.flow import of_flow
from engines.continuous.paths import Paths
from engines.continuous.request import PathForward
from engines.models.denoising_session import ContinuousSession, Head
from engines.models.hub.compvis import PixelDecoder
from engines.models.hub.latents import LatentPictures
from engines.models.hub.mar import CLASSES
from engines.models.hub.prompts import class_of
from engines.models.hub.xar import XAR, CellSession, labels_of
from engines.protocol import Lap
from traces.schema import Canvas, ModelCard

_USUAL = ContinuousSampling()


@dataclass(frozen=True, slots=True)
class CellTask(ContinuousTask):
    """A picture of a class."""

    label: int = 0


class FlowSession(ContinuousSession):
    """A session whose head is a flow."""

    def answer(self, requests: Mapping[int, PathForward], sampling: ContinuousSampling, lap: Lap) -> dict[int, Paths]:
        """See `engines.protocol.Session.answer`."""
        return super().answer(requests, of_flow(sampling), lap)


def check_flow(config: ContinuousSampling) -> None:
    """See that settings can be those of a flow.

    Raises:
        ConfigError: for the first that is a diffusion head's alone.
    """
    for name, why in (
        ("sampler", "the steps of this model are those of a flow's stochastic equation"),
        ("first", "this model is a flow, which begins at noise alone"),
    ):
        said, usual = getattr(config, name), getattr(_USUAL, name)
        if said != usual:
            raise ConfigError(f"{name}: {said!r} is for diffusion heads; {why}; leave it at {usual!r}.")


def sequence(side: int, trained: int) -> Int[Tensor, " N"]:
    """Where, in raster order, the tokens of a picture lie: cell by cell, and row by row in each."""
    cells = torch.arange(side * side).unflatten(0, (side // trained, trained, side // trained, trained))
    found: Tensor = cells.transpose(1, 2).flatten()
    return found


class XARModel(LatentPictures):
    """An xAR; see the module."""

    def __init__(
        self, network: XAR, decoder: PixelDecoder, card: ModelCard, device: torch.device, cells: tuple[int, int]
    ) -> None:
        """Wrap a network; `cells` are the sides, in tokens, of those it was trained on and of those it is to draw."""
        trained, drawn = cells
        channels = network.z_proj.in_features
        super().__init__(network, decoder, card, device, drawn**2 * channels)
        self._xar, self._channels, self._drawn_side = network, channels, drawn
        self._side = math.isqrt(network.encoder_pos_embed_learned.shape[1])
        self._sequence = sequence(self._side, trained)
        self.tokens = f"KL-16, cells of {drawn}x{drawn}"

    def pose(self, prompt: str, config: Any) -> CellTask:
        """See `engines.protocol.Model.pose`. The prompt is the number of a class.

        Raises:
            ValueError: for anything else.
            ConfigError: for settings of diffusion heads.
        """
        if isinstance(config, ContinuousSampling):
            check_flow(config)
        count, label = self._side // self._drawn_side, class_of(prompt, CLASSES)
        order = tuple(self._sequence.tolist()) if self._drawn_side == 1 else None
        canvas = Canvas(kind="image", shape=(count, count), order=order)
        return CellTask(canvas, 0, self.device, width=self._width, begins_unguided=True, label=label)

    def start(self, tasks: Sequence[CellTask], guided: bool) -> FlowSession:
        """See `engines.protocol.Model.start`."""
        with torch.inference_mode():
            rows = CellSession(self._xar, labels_of(tasks, guided, self.device), self._drawn_side**2)
        return FlowSession(rows, Head(rows.conditioned_on))

    def raster(self, tokens: Float[Tensor, "B N D"]) -> Float[Tensor, "B C h w"]:
        """See `LatentPictures.raster`."""
        row = tokens.reshape(len(tokens), -1, self._channels)
        placed = torch.zeros(row.shape).index_copy(1, self._sequence, row).transpose(1, 2)
        found: Tensor = placed.unflatten(2, (self._side, self._side))
        return found
