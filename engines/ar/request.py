"""What methods of the family discrete-ar ask for."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from engines.protocol import Role
from traces.schema import Mask


@dataclass(frozen=True, slots=True)
class Forward:
    """Ask for the distributions of positions `done` .. len(tokens), each given the tokens before it."""

    tokens: Int[Tensor, " n"]
    """Final tokens, then drafts."""
    done: int
    """How many tokens are final."""
    cached: int
    """How many tokens, from the left, went through the model unchanged in earlier passes."""
    role: Role = "target"
    mode: str = "causal"

    def cost(self, rows: int, prefix: int) -> tuple[int, int]:
        """Rows evaluated, and tokens fed over all of them, for a sequence of `rows` rows and `prefix` prompt tokens."""
        return rows, rows * max(len(self.tokens) - self.cached + (0 if self.done else prefix), 1)

    @property
    def wanted(self) -> int:
        """Positions whose distributions are asked for."""
        return len(self.tokens) - self.done + 1

    def cut(self, all_probs: Tensor) -> Tensor:
        """The distributions that were asked for, out of padded ones [T, V]."""
        return all_probs[: self.wanted]

    def drawn(self) -> Mask | None:
        """The attention mask, where there is something to see."""
        return None
