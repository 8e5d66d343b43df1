"""What sessions of discrete tokens share: a network gives logits, and these become distributions."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from jaxtyping import Float
from torch import Tensor

from engines.protocol import Answer, Lap
from engines.sampling.distributions import Sampling, to_probs


class DiscreteSession(ABC):
    """A session whose answers are distributions, float64, padded to the widest request and cut to each."""

    rows: int = 1
    """Rows per sequence: 2 with classifier-free guidance."""
    prefix: int = 0
    """Prompt tokens a row is fed before its first canvas token."""

    @abstractmethod
    def logits(self, requests: Mapping[int, Any]) -> Float[Tensor, "B *K R T V"]:
        """One forward pass for the sequences that ask.

        Returns:
            For the i-th sequence of `requests`, entry i holds the logits of what it asked for, left-aligned and padded:
            R rows of guidance, and K drafts before them where requests have several.
        """

    def answer(self, requests: Mapping[int, Any], sampling: Sampling, lap: Lap) -> dict[int, Answer]:
        """See `engines.protocol.Session.answer`; values are distributions [*K, W, V]."""
        logits = self.logits(requests)
        lap("forward", logits)
        probs = to_probs(logits, sampling)
        lap("logits", probs)
        return {
            sequence: Answer(request.cut(own), *self.cost(request))
            for own, (sequence, request) in zip(probs.unbind(), requests.items(), strict=True)
        }

    def cost(self, request: Any) -> tuple[int, int]:
        """Rows evaluated for a request, and tokens fed over all of them."""
        rows, fed = request.cost(self.rows, self.prefix)
        return rows, fed
