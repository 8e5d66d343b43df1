"""The held-out problems of the studio language models, and the rules by which an answer is right."""

import json
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from random import Random
from typing import Final

from benchmarks._report_format import Row, standard_error
from benchmarks._timing import Decoded
from engines.models.bundled.tally import held_out_stories, read
from engines.protocol import Model
from traces.files import ROOT

PATH: Final = ROOT / "assets" / "problems.json"
_MARK: Final = "####"
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]+)?")
"""A number as people write it: with a sign, commas between thousands and decimals, or without."""
_STORIES: Final = 600
"""Number of stories, the same as of maths problems."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A question, a right solution, and what `ProblemSet.solved` compares others with."""

    question: str
    solution: str
    answer: str


@dataclass(frozen=True, slots=True)
class ProblemSet:
    """Problems, and how their answers are graded."""

    problems: tuple[Problem, ...]
    solved: Callable[[str, str], bool]
    """Whether a text gives the right answer."""
    given: Callable[[str], str]
    """The answer that a text gives."""


def exam(model: str) -> ProblemSet:
    """The exam of a model, by its id: stories for those that keep a tally, maths problems for all others."""
    return _stories() if model.startswith("tally-") else ProblemSet(held_out(), is_correct, given)


@cache
def _stories() -> ProblemSet:
    """Right is any text whose totals are right and whose parts agree; the answer that a text gives is its last line."""
    stories = [(story.prompt, story.write(Random(story.prompt))) for story in held_out_stories(_STORIES)]
    return ProblemSet(
        tuple(Problem(prompt, told, prompt) for prompt, told in stories),
        lambda text, prompt: read(prompt).is_told_by(text),
        lambda text: text.rstrip("\n").rpartition("\n")[2],
    )


@cache
def held_out() -> tuple[Problem, ...]:
    """All problems that no model was trained on, in the order of the file."""
    return tuple(
        Problem(one["question"], one["solution"], one["answer"]) for one in json.loads(PATH.read_text(encoding="utf-8"))
    )


def given(text: str) -> str:
    """The answer that a text gives: what follows its last ####, empty where it gives none."""
    return text.rpartition(_MARK)[2].strip() if _MARK in text else ""


def is_correct(text: str, answer: str) -> bool:
    """Whether a text ends in the right answer: exactly that number after the last ####.

    The scorer of reasoning-gym, which made the problems, takes the first number that it meets there; this rule is
    stricter, so that neither "-5", "5 or 6" nor "5/6" counts for 5.
    """
    number = given(text)
    return bool(_NUMBER.fullmatch(number)) and Decimal(number.replace(",", "")) == Decimal(answer)


def accuracy(model: Model, runs: Sequence[Decoded], problems: Sequence[Problem]) -> Row:
    """Share of the problems that a model solved, the first of each run, with its standard error."""
    texts = [model.render_output(run.tokens[0]).text or "" for run in runs]
    right = [
        float(exam(model.card.id).solved(text, problem.answer)) for text, problem in zip(texts, problems, strict=True)
    ]
    return {
        "problems": len(right),
        "accuracy": statistics.fmean(right),
        "accuracy_standard_error": standard_error(right),
    }
