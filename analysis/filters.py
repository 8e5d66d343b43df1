"""Filters over the steps of a run: the verdicts, or the passes, that a question is about.

An example is every draft that was rejected although the drafter gave it a probability above 0.9. Filters are data, so
that a page applies them without asking the server.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from statistics import fmean, median
from typing import Any, Final, Literal

from draftscope.analysis.stats import agreements_of_ages
from draftscope.traces.replay import PENDING
from draftscope.traces.schema import Fate, Step, Trace
from draftscope.traces.stats import draft_forwards

Of = Literal["verdict", "pass"]
"""Kind of result of a filter."""
_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = {">": gt, ">=": ge, "<": lt, "<=": le}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFilter:
    """A question about the steps of a run.

    Args:
        name: Name in scripts.
        title: The question, with `{}` for the number that the reader chooses.
        of: Whether it picks verdicts or whole passes.
        where: Conditions that all hold: column, comparison, number; None means the chosen number.
        minimum: Smallest number to choose; None without a choice.
        maximum: Largest number.
        step: Distance of two choices.
        value: Number at the start.
    """

    name: str
    title: str
    of: Of
    where: tuple[tuple[str, str, float | None], ...]
    minimum: float | None = None
    maximum: float = 1.0
    step: float = 0.01
    value: float = 0.0

    def holds(self, row: Mapping[str, float | None], value: float | None = None) -> bool:
        """Return whether a verdict or a pass belongs to the answer.

        Args:
            row: Its numbers by column; a condition on a number that is unknown does not hold.
            value: The chosen number; by default that of the start.
        """
        chosen = self.value if value is None else value
        for column, comparison, number in self.where:
            found = row.get(column)
            if found is None or not _COMPARE[comparison](found, chosen if number is None else number):
                return False
        return True


FILTERS: Final = (
    StepFilter(
        name="sure",
        title="Rejected, q above {}",
        of="verdict",
        where=(("rejected", ">", 0), ("initial", "<", 1), ("q", ">", None)),
        minimum=0.05,
        maximum=0.99,
        value=0.9,
    ),
    StepFilter(
        name="close",
        title="Close verdicts: draw within {} of the acceptance probability",
        of="verdict",
        where=(("margin", "<", None),),
        minimum=0.01,
        maximum=0.5,
        value=0.05,
    ),
    StepFilter(
        name="unlikely",
        title="Accepted with probability below {}",
        of="verdict",
        where=(("rejected", "<", 1), ("accept_prob", "<", None)),
        minimum=0.05,
        maximum=0.95,
        value=0.5,
    ),
    StepFilter(
        name="old",
        title="Verified after {} passes or more in the window",
        of="verdict",
        where=(("age", ">=", None),),
        minimum=2,
        maximum=16,
        step=1,
        value=5,
    ),
    StepFilter(
        name="slow",
        title="Passes slower than {} × the median",
        of="pass",
        where=(("slowness", ">", None),),
        minimum=1.1,
        maximum=5,
        step=0.1,
        value=2,
    ),
    StepFilter(
        name="long",
        title="Passes that accept {} drafts or more",
        of="pass",
        where=(("accepted", ">=", None),),
        minimum=1,
        maximum=32,
        step=1,
        value=4,
    ),
    StepFilter(
        name="none",
        title="Passes that accept none of their drafts",
        of="pass",
        where=(("judged", ">", 0), ("accepted", "<", 1)),
    ),
)
"""In the order in which they are offered."""

VERDICT_COLUMNS: Final = ("p", "q", "accept_prob", "draw", "margin", "age", "order", "initial", "rejected")
"""Numbers of a verdict. `margin` is the distance of the uniform draw from the acceptance probability, `age` counts the
passes for which the draft had waited, and `order` is its position among the drafts of its pass, from 1. `initial` is 1
for drafts that no model drew, and `rejected` is 1 or 0."""
PASS_COLUMNS: Final = ("milliseconds", "slowness", "judged", "accepted", "final")
"""Numbers of a pass. `slowness` is its time over the median of the passes of the same network; `final` counts the
positions that became final."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Outcome of a pass at a position."""

    step: int
    """Index of the pass, from 0."""
    position: int
    fate: Fate
    numbers: Mapping[str, float | None]
    """By `VERDICT_COLUMNS`; empty where no draft was verified."""


def entries(trace: Trace) -> tuple[Entry, ...]:
    """Return every entry of a run, pass by pass."""
    waiting: dict[int, int] = {}
    found: list[Entry] = []
    for index, step in enumerate(trace.steps):
        number = 0
        for entry, (position, fate) in enumerate(zip(step.position, step.fate, strict=True)):
            number += fate.evaluated
            numbers = _verdict(step, entry, number, waiting.get(position, 0)) if fate.judged else {}
            found.append(Entry(index, position, fate, numbers))
        pending = {at for at, fate in zip(step.position, step.fate, strict=True) if fate in PENDING}
        for position in {*step.position} - pending:
            waiting.pop(position, None)
        for position in pending:
            waiting[position] = waiting.get(position, 0) + 1
    return tuple(found)


def _verdict(step: Step, entry: int, number: int, waited: int) -> dict[str, float | None]:
    """Return the numbers of a verdict by `VERDICT_COLUMNS`."""

    def of(column: Sequence[float | None] | None) -> float | None:
        return column[entry] if column else None

    fate, age, order = step.fate[entry], of(step.numbers.get("age")), of(step.numbers.get("order"))
    accept_prob, draw = of(step.accept_prob), of(step.coin)
    if accept_prob is None:  # tokens are compared, not probabilities
        accept_prob = float(fate is Fate.ACCEPTED)
    return {
        "p": of(step.p),
        "q": of(step.q),
        "accept_prob": accept_prob,
        "draw": draw,
        "margin": None if draw is None else abs(draw - accept_prob),
        "age": waited if age is None else age,
        "order": number if order is None else order + 1,
        "initial": of(step.numbers.get("initial")) or 0.0,
        "rejected": float(fate is not Fate.ACCEPTED),
    }


def pass_numbers(trace: Trace) -> list[dict[str, float | None]]:
    """Return the numbers of every pass by `PASS_COLUMNS`; times are None where none was recorded."""
    times = [step.call.milliseconds.total for step in trace.steps]
    drafting = [step.call.role == "draft" for step in trace.steps]
    medians = {
        role: median([time for time, is_draft in zip(times, drafting, strict=True) if is_draft is role] or [0.0])
        for role in (True, False)
    }
    return [
        {
            "milliseconds": time or None,
            "slowness": time / medians[is_draft] if time and medians[is_draft] else None,
            "judged": sum(fate.judged for fate in step.fate),
            "accepted": step.fate.count(Fate.ACCEPTED),
            "final": sum(fate.final for fate in step.fate),
        }
        for step, time, is_draft in zip(trace.steps, times, drafting, strict=True)
    ]


def matches(trace: Trace, question: StepFilter, value: float | None = None) -> list[tuple[int, int | None]]:
    """Return what a filter picks.

    Args:
        trace: A run.
        question: One of `FILTERS`, or one of your own.
        value: The number of the question; by default that of the start.

    Returns:
        Pass, from 0, and position of each; None for a whole pass.
    """
    if question.of == "pass":
        return [(index, None) for index, row in enumerate(pass_numbers(trace)) if question.holds(row, value)]
    return [(one.step, one.position) for one in entries(trace) if one.numbers and question.holds(one.numbers, value)]


@dataclass(frozen=True, slots=True)
class Curve:
    """How drafts fare by a column of their verdicts."""

    column: Literal["age", "order"]
    title: str
    axis: str
    points: tuple[tuple[int, float, int], ...]
    """Value of the column, mean, and the count that it is of."""


def settling(trace: Trace) -> Curve | None:
    """Return agreement by age where successive distributions were compared, else acceptance by draft position.

    Agreement is beta = 1 - TV of the distributions of two iterations at one position (SCD, Fig. 3c).

    Returns:
        The curve; None for a run without verdicts.
    """
    if by_age := agreements_of_ages(trace.steps):
        points = tuple((age, fmean(values), len(values)) for age, values in sorted(by_age.items()))
        return Curve("age", "β by age", "passes in the window", points)
    passed: dict[int, list[float]] = {}
    for one in entries(trace):
        if one.numbers:
            passed.setdefault(round(one.numbers["order"] or 0), []).append(1 - (one.numbers["rejected"] or 0))
    if not passed:
        return None
    points = tuple((order, fmean(values), len(values)) for order, values in sorted(passed.items()))
    return Curve("order", "Acceptance by draft position", "draft position", points)


def columns(trace: Trace) -> dict[str, Any]:
    """Return the steps of a run as plain columns, for a page.

    Returns:
        `step`, `position` and `fate` of every entry; `verdicts`: `entry` and the columns of every verdict;
        `passes`: the columns of every pass; `curve`: see `settling`; `drafts`: passes of a drafter.
    """
    rows, curve = entries(trace), settling(trace)
    judged = [(index, one.numbers) for index, one in enumerate(rows) if one.numbers]
    passes = pass_numbers(trace)
    return {
        "step": [one.step for one in rows],
        "position": [one.position for one in rows],
        "fate": [one.fate.value for one in rows],
        "verdicts": {
            "entry": [index for index, _ in judged],
            **{name: [_short(numbers[name]) for _, numbers in judged] for name in VERDICT_COLUMNS},
        },
        "passes": {name: [_short(row[name]) for row in passes] for name in PASS_COLUMNS},
        "curve": None
        if curve is None
        else {
            "column": curve.column,
            "title": curve.title,
            "axis": curve.axis,
            "points": [[at, _short(mean), count] for at, mean, count in curve.points],
        },
        "drafts": draft_forwards(trace.steps),
    }


def _short(value: float | None) -> float | None:
    """Return a number with six digits, which are enough to draw and to compare."""
    return None if value is None else float(f"{value:.6g}")
