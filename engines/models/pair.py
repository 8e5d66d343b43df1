"""Two models under one decoder: one drafts, one judges, each with a cache of its own."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from engines.models.base import Session
from engines.protocol import BlockForward, Role


class PairSession:
    """Hands every request to the session of its role; lanes may ask for different roles in one round."""

    def __init__(self, sessions: Mapping[Role, Session]) -> None:
        """Sessions of the same lanes and vocabulary."""
        self._sessions = sessions
        first = next(iter(sessions.values()))
        self.rows, self.prefix = first.rows, first.prefix

    def logits(self, requests: Mapping[int, BlockForward]) -> Tensor:
        """See `engines.models.base.Session.logits`."""
        parts: dict[int, Tensor] = {}
        for role in dict.fromkeys(request.role for request in requests.values()):
            asked: dict[int, Any] = {lane: request for lane, request in requests.items() if request.role == role}
            parts |= zip(asked, self._sessions[role].logits(asked), strict=True)
        return torch.stack(_even([parts[lane] for lane in requests]))


def check_pair(target: Any, draft: Any) -> None:
    """See that two language models speak of the same tokens.

    Raises:
        ValueError: when they do not.
    """
    if target.tokens != draft.tokens:
        raise ValueError(
            f"drafter: {draft.card.id} and {target.card.id} have different vocabularies, so one cannot judge the "
            "other's drafts; set drafter=itself."
        )


def _even(parts: list[Tensor]) -> list[Tensor]:
    """Pad entries [K, 1, T, V] to the same K and T."""
    drafts, longest = max(len(part) for part in parts), max(part.shape[-2] for part in parts)
    return [pad(part, (0, 0, 0, longest - part.shape[-2], 0, 0, 0, drafts - len(part))) for part in parts]
