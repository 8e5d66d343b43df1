"""What methods of the family continuous-ar ask for."""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from engines.continuous.paths import Follow, Paths, Steer
from engines.protocol import CausalForward


@dataclass(frozen=True, slots=True)
class PathForward(CausalForward):
    """Ask for the denoising paths of positions `done` .. done + W - 1, each given the tokens before it."""

    noise: Float[Tensor, "W T D"]
    """x_T, then the noise of every step but the last; W is at most one more than there are drafts."""
    guidance: Float[Tensor, " W"]
    """Scale of classifier-free guidance, where the session is guided."""
    unseen: int = 0
    """Trailing tokens that the model is not to see, where it can do without."""
    steer: Steer | None = None
    """Has a say in where the steps before the last one lead."""
    pick: Float[Tensor, " W"] | None = None
    """Uniform: has a mixture of Gaussians draw a path in closed form and choose by this; without it there is none."""
    follow: Follow | None = None
    """Paths of drafts to follow in place of the noise; the position behind them is asked for, too."""

    @property
    def wanted(self) -> int:
        """Positions whose paths are asked for."""
        return len(self.noise)


def ask_paths(answer: Any) -> Paths:
    """The answer to a PathForward."""
    assert isinstance(answer, Paths)
    return answer
