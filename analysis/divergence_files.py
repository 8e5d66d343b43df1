"""Files of `draftscope diff`, and other texts to compare. They may be from strangers, so they are checked."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from draftscope.analysis.divergences import TITLE, Divergence, GreedyText, Reference, comparable, compare
from draftscope.analysis.results import read_titled
from draftscope.traces import limits

_LARGEST: Final = 1e4
"""Maximum of the absolute value of a log-probability."""


def read_divergence(data: bytes) -> tuple[Divergence, tuple[GreedyText, ...], tuple[GreedyText, ...]]:
    """Read a file of `draftscope diff`, which may be from strangers: its texts are compared again.

    Raises:
        ValueError: For another file.
    """
    document = read_titled(data, "comparison", TITLE, "draftscope diff")
    names = document.get("names")
    if not isinstance(names, list) or len(names) != 2:
        raise ValueError("names: are not two; give a file that draftscope diff wrote.")
    a, b = (read_texts(document.get(side) or ()) for side in ("a", "b"))
    name_a, name_b = (str(name)[: limits.NAME_CHARACTERS] for name in names)
    reference = _read_reference(document.get("reference"), len(a))
    found = compare((name_a, name_b), a, b, reference, str(document.get("ended") or "")[: limits.NAME_CHARACTERS])
    return found, *comparable(a, b)


def _read_reference(entry: Any, texts: int) -> Reference | None:
    if entry is None:
        return None
    try:
        noise = sorted(abs(float(value)) for value in entry["noise"])
        scores = {int(index): (float(pair[0]), float(pair[1])) for index, pair in entry["scores"].items()}
        name = str(entry["name"])[: limits.NAME_CHARACTERS]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise ValueError("reference: has no name, noise and scores; give a file that draftscope diff wrote.") from None
    numbers = [*noise, *(score for pair in scores.values() for score in pair)]
    if not all(isfinite(number) and abs(number) < _LARGEST for number in numbers) or any(
        not 0 <= index < texts for index in scores
    ):
        raise ValueError(
            "reference: has scores that are not log-probabilities; give a file that draftscope diff wrote."
        )
    return Reference(name=name, noise=tuple(noise), scores=scores)


def read_texts(document: Any) -> list[GreedyText]:
    """Return the texts of plain JSON data: a list of them, or an object that has it as `texts`, `a`, or `requests`.

    Each has `tokens` (ids or texts) or a `text`, and if known `prompt` and `top`; `requests` are those of a file of
    `draftscope bench --server`, of its server.

    Raises:
        ValueError: If there is no such text; the message has the number of the entry.
    """
    found = document
    if isinstance(document, Mapping):
        found = next((document[name] for name in ("texts", "a") if isinstance(document.get(name), list)), None)
        if found is None and isinstance(requests := document.get("requests"), list):
            found = [
                one.get("answer") for one in requests if isinstance(one, Mapping) and one.get("server") == "server"
            ]
    if not isinstance(found, list) or not found:
        raise ValueError("texts: there are none; give a list of objects with tokens or text.")
    return [_read_text(entry, number) for number, entry in enumerate(found, 1)]


def _read_text(entry: Any, number: int) -> GreedyText:
    if not isinstance(entry, Mapping):
        raise ValueError(f"texts: entry {number} is not an object; give tokens or text.")
    if isinstance(positions := entry.get("positions"), list) and all(isinstance(each, Mapping) for each in positions):
        columns = {"tokens": "token", "words": "word", "top": "top"}
        entry = dict(entry) | {name: [each.get(key) for each in positions] for name, key in columns.items()}
    tokens = entry.get("tokens")
    by_character = not isinstance(tokens, list | tuple) or entry.get("by_character") is True
    if not isinstance(tokens, list | tuple):
        tokens = entry.get("text")
    if not isinstance(tokens, list | tuple | str) or not tokens:
        raise ValueError(f"texts: entry {number} has neither tokens nor a text; give one of them.")
    words, top = entry.get("words"), entry.get("top")
    try:
        tops = tuple(
            {str(token): float(value) for token, value in each.items()} if each else None for each in top or ()
        )
        if not all(isfinite(value) and abs(value) < _LARGEST for top in tops if top for value in top.values()):
            raise ValueError
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f"texts: entry {number}, top is not a list of token and log-probability; leave it out."
        ) from None
    return GreedyText(
        prompt=str(entry.get("prompt") or ""),
        tokens=tuple(str(token) for token in tokens),
        words=tuple(map(str, words)) if isinstance(words, list | tuple) else (),
        top=tops,
        by_character=by_character,
    )
