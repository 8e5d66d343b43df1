"""Two models under one decoder: one drafts, one verifies, each with a cache of its own."""

from collections.abc import Mapping
from typing import Any

from engines.config import shown
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
        ValueError: when they do not; the message names a token that they disagree about.
    """
    if target.tokens != draft.tokens:
        raise ValueError(
            f"drafter: {draft.card.id} and {target.card.id} have different vocabularies"
            f"{_differs(target, draft)}, so one cannot verify the other's drafts; give a drafter of the same "
            "tokenizer, or set drafter=itself."
        )


def _differs(target: Model, draft: Model) -> str:
    """The first token that two tokenizers disagree about, as far as there are tokenizers to tell."""
    one, other = target.tokens, draft.tokens
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return ""
    _, token = min((min(d[token] for d in (one, other) if token in d), token) for token in _odd(one, other))
    said = [f"{d.get(token, 'none')} in {model.card.id}" for d, model in ((other, draft), (one, target))]
    return f": token {shown(token)} is {said[0]} and {said[1]}"


def _odd(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> set[Any]:
    return {token for token in one.keys() | other.keys() if one.get(token) != other.get(token)}
