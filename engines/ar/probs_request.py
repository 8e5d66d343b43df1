"""Forward requests of the family discrete-ar."""

from dataclasses import dataclass

from torch import Tensor

from draftscope.engines.protocol import CausalRequest


@dataclass(frozen=True, slots=True)
class ProbsRequest(CausalRequest):
    """Ask for the distributions of positions `done` .. len(tokens), each given the tokens before it."""

    @property
    def num_requested(self) -> int:
        """Number of positions whose distributions are requested."""
        return self.tokens.shape[0] - self.num_final + 1

    def trim(self, all_probs: Tensor) -> Tensor:
        """Return the requested distributions, out of padded ones [T, V]."""
        return all_probs if all_probs.shape[0] == self.num_requested else all_probs[: self.num_requested]
