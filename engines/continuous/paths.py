"""What a forward pass over continuous tokens is answered with: how each token was denoised, up to its last step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from engines.continuous.gaussians import Gaussians, together


@dataclass(frozen=True, slots=True)
class Branch:
    """Where the target leaves the paths that it follows, and the noise with which it goes on."""

    row: Int[Tensor, "1"]
    """The position, counted from the first one asked for."""
    left: Int[Tensor, "1"]
    """Steps that it still has to take; 0 where x is the token."""
    x: Float[Tensor, "1 D"]
    """The state that it goes on from."""
    noise: Float[Tensor, "1 S D"]
    """x_T, then that of every step, of which the last `left` are used."""
    tries: Float[Tensor, "1"]
    """Proposals it took."""
    capped: Bool[Tensor, "1"]
    """Whether they ran out, so that x is a plain draw of the target's."""


@dataclass(frozen=True, slots=True)
class Follow:
    """Paths for the target to follow; where it leaves them is decided once its distributions along them are known."""

    states: Float[Tensor, "W S D"]
    """x_T .. x_0 of the drafts."""
    leave: Callable[[tuple[Gaussians, ...]], Branch]
    """Called with the target's distributions of all steps, W rows each."""


@dataclass(frozen=True, slots=True)
class Led:
    """What became of the one position where paths were left."""

    branch: Branch
    token: Float[Tensor, "1 D"]


@dataclass(frozen=True, slots=True)
class Paths:
    """How W tokens came to be, up to the distribution of the last step. A GMM head has no path: its S is 0."""

    last: Gaussians
    """The distribution of x_0 given x_1, W rows."""
    states: Float[Tensor, "W S D"]
    """x_T .. x_1."""
    distributions: tuple[Gaussians, ...] = ()
    """The distributions of all steps but the last: entry k leads from states k to k + 1."""
    led: Led | None = None
    """Where paths were followed. The distributions are of the followed rows then; the last row was led on."""

    @property
    def log_std(self) -> Float[Tensor, " W"]:
        """Sum over these steps and components of the logarithms of standard deviations (Eq. 8's products)."""
        each = [distribution.std.log().sum((-1, -2)) for distribution in self.distributions]
        return torch.stack(each).sum(0) if each else self.last.mean.new_zeros(len(self.last))

    def rows(self, index: slice) -> "Paths":
        """Some of the tokens."""
        return Paths(
            self.last[index], self.states[index], tuple(distribution[index] for distribution in self.distributions)
        )


@dataclass(frozen=True, slots=True)
class Walks:
    """How draft and target came by W tokens each, for the record."""

    draft: Paths
    target: Paths
    """Its first W rows speak of the drafts."""
    x: Float[Tensor, "W D"]
    """Where the draft's paths end."""
    y: Float[Tensor, "W D"]
    """Where the target's do."""

    def seen(self) -> Float[Tensor, "W S 5"]:
        """Draft and target in the plane, two numbers each, and their squared distance, at x_T .. x_0.

        A GMM head has no path: its S is 0.
        """
        draft, target = self.draft.states, self.target.states[: len(self.x)]
        if not draft.shape[1]:
            return draft.new_zeros(len(draft), 0, 5)
        draft, target = torch.cat([draft, self.x[:, None]], 1), torch.cat([target, self.y[:, None]], 1)
        onto = plane(draft)
        return torch.cat([draft @ onto, target @ onto, (draft - target).square().sum(-1, keepdim=True)], -1)


def plane(like: Float[Tensor, "... D"]) -> Float[Tensor, "D 2"]:
    """The plane that paths are shown in: no component counts more, and every run has the same (traces.schema.PathPair).

    Args:
        like: gives D, type and device.
    """
    ones = like.new_ones(like.shape[-1])
    signs = ones.clone()
    signs[1::2] = -1
    signs = signs - signs.mean()
    return torch.stack([ones / ones.norm(), signs / signs.norm().clamp(min=1)], 1)


Steer: TypeAlias = Callable[[int, Gaussians, Tensor], Tensor]
"""Called with a step's index, its distribution and the x_{t-1} that the noise makes; gives the one to go on with."""


def join(paths: Sequence[Paths]) -> Paths:
    """Paths of several positions as one."""
    distributions = tuple(together(step) for step in zip(*(path.distributions for path in paths), strict=True))
    return Paths(together([path.last for path in paths]), torch.cat([path.states for path in paths]), distributions)
