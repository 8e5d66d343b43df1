"""Held-out problems for the bundled language models, and the rules by which an answer is correct."""

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from random import Random
from typing import Final

from draftscope.engines.models.bundled.tally import held_out_stories, read
from draftscope.engines.settings import ConfigError
from draftscope.experiments.definition import ProblemSet
from draftscope.traces.files import ASSETS

PATH: Final = ASSETS / "problems.json"
_MARK: Final = "####"
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]+)?")
"""A number as people write it: with a sign, commas between thousands and decimals, or without."""
_NUM_STORIES: Final = 600
"""Equal to the number of maths problems."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A question with a correct solution, and the answer that others are compared with."""

    question: str
    solution: str
    answer: str


def problems_of(model: str) -> tuple[Problem, ...]:
    """Return the problems for a model, by its id: stories for models that keep a tally, maths for all others."""
    return stories() if _keeps_tally(model) else held_out()


def bundled_problems(model: str, count: int | None = None) -> ProblemSet:
    """Return the first `count` problems for a model, by its id, with the rule by which answers are scored."""
    problems = problems_of(model)[:count]
    tally = _keeps_tally(model)
    return ProblemSet(
        prompts=tuple(problem.question for problem in problems),
        answers=tuple(problem.answer for problem in problems),
        is_correct=is_story_correct if tally else is_correct,
        extract_answer=last_line if tally else extract_answer,
    )


@cache
def held_out() -> tuple[Problem, ...]:
    """Return all maths problems on which no model was trained, in the order of the file.

    Raises:
        ConfigError: Outside a checkout.
    """
    if not PATH.is_file():
        raise ConfigError("problems: are not part of the installed package; use a checkout, or give prompts")
    entries = json.loads(PATH.read_text(encoding="utf-8"))
    return tuple(Problem(entry["question"], entry["solution"], entry["answer"]) for entry in entries)


@cache
def stories() -> tuple[Problem, ...]:
    """Return stories on which no model was trained; their answers are the prompts themselves."""
    drawn = held_out_stories(_NUM_STORIES)
    return tuple(Problem(story.prompt, story.write(Random(story.prompt)), story.prompt) for story in drawn)


def extract_answer(text: str) -> str:
    """Return what follows the last #### of a text; empty if it has none."""
    return text.rpartition(_MARK)[2].strip() if _MARK in text else ""


def is_correct(text: str, answer: str) -> bool:
    """Return whether a text ends with the correct answer: exactly that number after the last ####.

    The scorer of reasoning-gym, which made the problems, takes the first number that it finds there; this rule is
    stricter, so that neither "-5", "5 or 6" nor "5/6" counts for 5.

    Args:
        text: Output of a model.
        answer: The correct number.
    """
    number = extract_answer(text)
    return bool(_NUMBER.fullmatch(number)) and Decimal(number.replace(",", "")) == Decimal(answer)


def is_story_correct(text: str, prompt: str) -> bool:
    """Return whether all totals of a story are correct and its parts agree, in any wording.

    Args:
        text: Story that a model wrote.
        prompt: Problem that it answers.
    """
    return read(prompt).is_told_by(text)


def last_line(text: str) -> str:
    """Return the last line of a text."""
    return text.rstrip("\n").rpartition("\n")[2]


def _keeps_tally(model: str) -> bool:
    return model.startswith("tally-")
