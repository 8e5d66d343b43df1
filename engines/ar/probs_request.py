"""What methods of the family discrete-ar ask for."""

from dataclasses import dataclass

from torch import Tensor

from engines.protocol import CausalForward


@dataclass(frozen=True, slots=True)
class Forward(CausalForward):
    """Ask for the distributions of positions `done` .. len(tokens), each given the tokens before it."""

    @property
    def wanted(self) -> int:
        """Positions whose distributions are asked for."""
        return self.tokens.shape[0] - self.done + 1

    def cut(self, all_probs: Tensor) -> Tensor:
        """The distributions that were asked for, out of padded ones [T, V]."""
        return all_probs if all_probs.shape[0] == self.wanted else all_probs[: self.wanted]
