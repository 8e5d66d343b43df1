"""A small model of continuous tokens whose distribution is known in closed form, and a test of samples against it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor

from engines.continuous.denoising import ContinuousTask
from engines.continuous.gaussians import Gaussians
from engines.continuous.request import PathForward
from engines.models.sessions.denoising import ContinuousSession, Head
from engines.models.toy_field import FieldBackbone, ToyField, knowing, neighbours
from engines.models.toy_raster import Weights
from engines.testing.tables import FedTokens

SHAPE: Final = (2, 4)
TARGET: Final = Weights(0.55, 0.5, -0.2, 0.25)
SMALL: Final = Weights(0.3, 0.3, 0.2, 0.3)
"""Far enough from the target that what it drafts is rejected often."""


class Field(ToyField):
    """A toy field that remembers what it was fed, as a model with a cache does.

    A `mixed` one mixes two Gaussians, so that it drafts with paths in closed form.
    """

    def __init__(self, weights: Weights = TARGET, *, mixed: bool = False) -> None:
        super().__init__("target" if weights is TARGET else "small", weights, torch.device("cpu"), SHAPE)
        self._mixed = mixed

    def make_task(self, prompt: str, config: Any) -> ContinuousTask:
        """See `engines.protocol.Model.make_task`."""
        return replace(super().make_task(prompt, config), mixture=self._mixed)

    def start(self, tasks: Sequence[ContinuousTask], guided: bool) -> ContinuousSession:
        """See `engines.protocol.Model.start`."""
        head = Head(mix=_two) if self._mixed else Head(conditioned_on=knowing)
        return ContinuousSession(RememberingBackbone(self._weights, self.shape), head)


def _two(condition: Tensor) -> Gaussians:
    """Of unequal weight and width, to both sides of the mean that a cell has."""
    mean, std = condition[:, None, :-1], condition[:, None, -1:].expand(-1, 1, condition.shape[1] - 1)
    weight = mean.new_tensor([0.6, 0.4]).log().expand(len(mean), -1)
    return Gaussians(weight, torch.cat([mean - 0.3 * std, mean + 0.6 * std], 1), torch.cat([0.8 * std, 1.1 * std], 1))


class RememberingBackbone(FieldBackbone):
    """The closed form, of the tokens that a cache would hold."""

    def __init__(self, weights: Weights, shape: tuple[int, int]) -> None:
        super().__init__(weights, shape)
        self._fed_tokens = FedTokens()

    def logits(self, requests: Mapping[int, PathForward]) -> Tensor:
        """See `FieldBackbone.logits`."""
        return super().logits({i: self._fed_tokens.seen(i, request) for i, request in requests.items()})


def misfit(samples: Float[Tensor, "B N D"]) -> tuple[float, float]:
    """Mean square and largest of the z-scores of all means and covariances of what is left to chance in each cell.

    They are standard normal and independent where the distribution is that of the target. Components are repeats.
    """
    depends = neighbours(TARGET, SHAPE)
    x = samples.transpose(1, 2).flatten(0, 1)  # [B * D, N]
    e = (x - x @ depends.T) / TARGET.std
    count, one = len(e), torch.eye(len(depends), dtype=torch.float64)
    scores = ((e.T @ e / count - one) / ((1 + one) / count).sqrt())[torch.triu(torch.ones_like(one)) > 0]
    scores = torch.cat([e.mean(0) * count**0.5, scores])
    return float(scores.square().mean()), float(scores.abs().max())
