"""What a forward pass over continuous tokens is answered with: how each token was denoised, up to its last step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from engines.gaussians import Gaussians, together


@dataclass(frozen=True, slots=True)
class Paths:
    """How W tokens came to be, up to the law of the last step. A GMM head has no path: its S is 0."""

    last: Gaussians
    """The law of x_0 given x_1, W rows."""
    states: Float[Tensor, "W S D"]
    """x_T .. x_1."""
    laws: tuple[Gaussians, ...] = ()
    """The laws of all steps but the last: entry k leads from states k to k + 1."""

    @property
    def log_std(self) -> Float[Tensor, " W"]:
        """Sum over these steps and components of the logarithms of standard deviations (Eq. 8's products)."""
        total = self.last.mean.new_zeros(len(self.last))
        for law in self.laws:
            total = total + law.std.log().sum((-1, -2))
        return total

    def rows(self, index: slice) -> "Paths":
        """Some of the tokens."""
        return Paths(self.last[index], self.states[index], tuple(law[index] for law in self.laws))


Steer: TypeAlias = Callable[[int, Gaussians, Tensor], Tensor]
"""Called with a step's index, its law and the x_{t-1} that the noise makes; gives the one to go on with."""


def join(paths: Sequence[Paths]) -> Paths:
    """Paths of several positions as one."""
    laws = tuple(together(step) for step in zip(*(path.laws for path in paths), strict=True))
    return Paths(together([path.last for path in paths]), torch.cat([path.states for path in paths]), laws)
