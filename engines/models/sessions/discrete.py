"""Common part of sessions of discrete tokens: a network returns logits, which become distributions."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from jaxtyping import Float
from torch import Tensor

from draftscope.engines.protocol import ForwardResult, StageCallback
from draftscope.engines.sampling.distributions import Sampling, to_probs


class DiscreteSession(ABC):
    """A session whose answers are distributions, float64, padded to the widest request and cut to each."""

    rows: int = 1
    """Rows per sequence: 2 with classifier-free guidance."""
    prefix: int = 0
    """Prompt tokens a row is fed before its first canvas token."""

    @abstractmethod
    def logits(self, requests: Mapping[int, Any]) -> Float[Tensor, "B *K R T V"]:
        """Run one forward pass for the requesting sequences.

        Returns:
            Entry i holds the requested logits of the i-th sequence of `requests`, left-aligned and padded: R rows of
            guidance, preceded by K drafts for requests with several.
        """

    def forward(self, requests: Mapping[int, Any], sampling: Sampling, lap: StageCallback) -> dict[int, ForwardResult]:
        """Run one forward pass; values are distributions [*K, W, V]."""
        logits = self.logits(requests)
        lap("forward", logits)
        probs = to_probs(logits, sampling)
        lap("logits", probs)
        return {
            sequence: ForwardResult(request.trim(row_probs), *self.cost(request))
            for row_probs, (sequence, request) in zip(probs.unbind(), requests.items(), strict=True)
        }

    def cost(self, request: Any) -> tuple[int, int]:
        """Rows evaluated for a request, and tokens fed over all of them."""
        rows, fed = request.count_tokens(self.rows, self.prefix)
        return rows, fed
