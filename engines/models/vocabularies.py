"""Comparison of the vocabularies of two models, one of which drafts."""

from collections.abc import Mapping

from draftscope.engines.protocol import Model
from draftscope.engines.settings import format_value


def check_vocabularies(target: Model, draft: Model) -> None:
    """Raise ValueError for models of different vocabularies.

    Args:
        target: Model that verifies drafts.
        draft: Model that drafts; the message names a token that the two disagree about, if it can.
    """
    if target.token_space != draft.token_space:
        raise ValueError(
            f"drafter: {draft.card.id} and {target.card.id} have different vocabularies"
            f"{_differs(target, draft)}, so one cannot verify the other's drafts; give a drafter of the same "
            "tokenizer, or set drafter=itself."
        )


def _differs(target: Model, draft: Model) -> str:
    """The first token that two tokenizers disagree about, as far as there are tokenizers to tell."""
    one, other = target.token_space, draft.token_space
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return f", {other} and {one} tokens" if isinstance(one, int) and isinstance(other, int) else ""
    different = (token for token in one.keys() | other.keys() if one.get(token) != other.get(token))
    _, token = min((min(d[token] for d in (one, other) if token in d), token) for token in different)
    names = [f"{d.get(token, 'none')} in {model.card.id}" for d, model in ((other, draft), (one, target))]
    return f": token {format_value(token)} is {names[0]} and {names[1]}"
