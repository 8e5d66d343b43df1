"""The held-out problems of the studio language models, and the rule by which an answer is right."""

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Final

PATH: Final = Path(__file__).parents[1] / "assets" / "problems.json"
_MARK: Final = "####"
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]+)?")
"""A number as people write it: with a sign, commas between thousands and decimals, or without."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A question, a right solution, and the number in which it ends."""

    question: str
    solution: str
    answer: str


@cache
def held_out() -> tuple[Problem, ...]:
    """All problems that no model was trained on, in the order of the file."""
    return tuple(
        Problem(one["question"], one["solution"], one["answer"]) for one in json.loads(PATH.read_text(encoding="utf-8"))
    )


def given(text: str) -> str:
    """The answer that a text gives: what follows its last ####, empty where it gives none."""
    return text.rpartition(_MARK)[2].strip() if _MARK in text else ""


def solved(text: str, answer: str) -> bool:
    """Whether a text ends in the right answer: all that stands behind the last #### is that number.

    The scorer of reasoning-gym, which made the problems, takes the first number that it meets there; this rule is
    stricter, so that neither "-5", "5 or 6" nor "5/6" counts for 5.
    """
    number = given(text)
    return bool(_NUMBER.fullmatch(number)) and Decimal(number.replace(",", "")) == Decimal(answer)
