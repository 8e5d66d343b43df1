"""The held-out problems of the studio language models, and the rule by which an answer is right."""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

PATH: Final = Path(__file__).parents[1] / "assets" / "problems.json"
_MARK: Final = "####"
_NUMBER: Final = re.compile(r"(?:(?<=\w)-|(?<!\w))\d+(?:\.\d+)?(?!\w)")
"""A number that no letter touches. A sign counts only right behind a letter or digit: the scorer's rule."""


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
    """Whether a text ends in the right answer: the first number behind the last #### is it.

    The verdicts are those of reasoning-gym's scorer for gsm_symbolic; a test compares the two.
    """
    number = _NUMBER.search(given(text))
    return number is not None and float(number.group()) == float(answer)
