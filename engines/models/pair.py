"""Two models under one decoder: one drafts, one verifies, each with a cache of its own."""

from collections.abc import Mapping
from typing import Any

from engines.protocol import Lap, Model, Role, Session


class PairSession:
    """Hands every request to the session of its role; lanes may ask for different roles in one round."""

    def __init__(self, sessions: Mapping[Role, Session]) -> None:
        """Sessions of the same lanes and tokens."""
        self._sessions = sessions

    def answer(self, requests: Mapping[int, Any], sampling: Any, lap: Lap) -> dict[int, Any]:
        """See `engines.protocol.Session.answer`."""
        answers: dict[int, Any] = {}
        for role in dict.fromkeys(request.role for request in requests.values()):
            asked = {lane: request for lane, request in requests.items() if request.role == role}
            answers |= self._sessions[role].answer(asked, sampling, lap)
        return {lane: answers[lane] for lane in requests}

    def cost(self, request: Any) -> tuple[int, int]:
        """See `engines.protocol.Session.cost`."""
        return self._sessions[request.role].cost(request)


def check_pair(target: Model, draft: Model) -> None:
    """See that two models speak of the same tokens.

    Raises:
        ValueError: when they do not.
    """
    if target.tokens != draft.tokens:
        raise ValueError(
            f"drafter: {draft.card.id} and {target.card.id} have different vocabularies, so one cannot verify the "
            "other's drafts; set drafter=itself."
        )
