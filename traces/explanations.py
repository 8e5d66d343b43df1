"""Formulas of verdicts: their syntax (names in braces, operators between them) and the names they may use.

docs/trace.md explains the names. Formulas are not evaluated: the numbers are those in the trace.
"""

import re
from typing import Final

from draftscope.traces.measures import FREE_PREFIX, MEASURES

NUMBERS: Final = ("p", "q", "accept_prob", "coin", "peak")
"""Columns of a step, and `peak`, the probability of `best`."""
WORDS: Final = ("draft", "token", "best")
"""The verified draft, the token that the position holds now, and the most likely token under the target
distribution."""
FATE: Final = "fate"
"""The verdict itself, in a word."""
_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_SETTING: Final = re.compile(r"set [A-Za-z_][A-Za-z0-9_]*")


def check(formula: str) -> None:
    """Raise ValueError unless a formula has nothing but text, and known names in braces."""
    for index, part in enumerate(_PLACE.split(formula)):
        if index % 2:
            _check_name(part)
        elif "{" in part or "}" in part:
            raise ValueError(f"{part[:40]!r} has a brace that stands alone")


def _check_name(inside: str) -> None:
    names = [name.strip() for name in inside.split("?")]
    if len(names) > 2:
        raise ValueError(f"{inside[:40]!r} has more than two names")
    for name in names:
        if not _known(name):
            raise ValueError(f"{name[:40]!r} is not a name of a formula")
    if len(names) == 2 and len({name in WORDS for name in names}) == 2:
        raise ValueError(f"{inside[:40]!r} compares a token with a number")
    if len(names) == 2 and FATE in names:
        raise ValueError(f"{inside[:40]!r} compares a verdict")


def _known(name: str) -> bool:
    measure = MEASURES.get(name)
    return (
        name in (*NUMBERS, *WORDS, FATE)
        or (measure is not None and measure.per == "position")
        or name.startswith(FREE_PREFIX)
        or bool(_SETTING.fullmatch(name))
    )
