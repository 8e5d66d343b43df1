"""Acceptance by draft position: how often the first draft of a pass is accepted, the second, and so on.

The conditional rate counts the drafts that were verified at a position. The marginal rate counts all passes that
verified drafts; vLLM calls it the per-position acceptance rate. The mean accepted length is the sum of the marginal
rates; vLLM's mean acceptance length and SGLang's accept length also count the token of the pass itself, one more.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from draftscope.traces.schema import Fate, Node, Step, Sums, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Drafts at one position of all passes that verified drafts."""

    number: int
    """Draft position; 1 is verified first."""
    passes: int
    """Passes that verified drafts, of any length."""
    judged: int | None
    """Number of drafts verified at this position; None if some passes do not report how many drafts they had."""
    accepted: int

    @property
    def marginal(self) -> float:
        """Share of all passes that accepted a draft here."""
        return self.accepted / self.passes


class PositionAcceptance(NamedTuple):
    """Acceptance by draft position, over one or several runs."""

    passes: int
    """Passes that verified drafts."""
    positions: tuple[Place, ...]
    """Positions from the first to the last at which a draft was verified."""

    @property
    def mean_accepted_length(self) -> float:
        """Drafts accepted in a pass that verified drafts, on average."""
        return sum(position.accepted for position in self.positions) / self.passes


def acceptance_of(traces: Iterable[Trace]) -> PositionAcceptance | None:
    """Return the acceptance by draft position of runs, from their steps or their sums; None without either."""
    return acceptance_by_draft_position(trace.sums or trace.steps for trace in traces)


def acceptance_by_draft_position(runs: Iterable[Sequence[Step] | Sums]) -> PositionAcceptance | None:
    """Return the acceptance by draft position over all passes that verified drafts; None if there are none.

    The position of a draft is the measure `order` if it is recorded, its level in a draft graph, and otherwise its
    index among the drafts of the pass. A pass that reports only how many drafts it accepted (no `window`) counts
    towards the marginal rates, and leaves the conditional rates unknown. Sums without positions are left out.
    """
    passes, ends_known = 0, True
    judged: Counter[int] = Counter()
    accepted: Counter[int] = Counter()
    stepped: list[Sequence[Step]] = []
    for run in runs:
        if not isinstance(run, Sums):
            stepped.append(run)
        elif run.verifications and run.accepted_by_position:
            passes, ends_known = passes + run.verifications, ends_known and bool(run.judged_by_position)
            accepted.update(dict(enumerate(run.accepted_by_position, 1)))
            judged.update(dict(enumerate(run.judged_by_position, 1)))
    for step in (step for steps in stepped for step in steps):
        count = step.signals.get("accepted")
        if step.draft is None and count is not None and "window" not in step.signals and step.call.role != "draft":
            passes, ends_known = passes + 1, False
            accepted.update(range(1, round(count) + 1))
            continue
        verdicts = [*_verdicts(step)]
        if verdicts and step.graph:
            verdicts = [*_levels(step.graph)]
        passes += bool(verdicts)
        judged.update(number for number, _ in verdicts)
        accepted.update(number for number, passed in verdicts if passed)
    if not passes:
        return None
    numbers = range(1, max([*judged, *accepted], default=0) + 1)
    positions = [
        Place(number=at, passes=passes, judged=judged[at] if ends_known else None, accepted=accepted[at])
        for at in numbers
    ]
    return PositionAcceptance(passes=passes, positions=tuple(positions))


def _verdicts(step: Step) -> Iterator[tuple[int, bool]]:
    """Yield position and verdict of every verified draft."""
    order = step.numbers.get("order")
    position = 0
    for index, fate in enumerate(step.fate):
        if not fate.evaluated:
            continue
        position += 1
        recorded = None if order is None else order[index]
        if fate.judged:
            yield position if recorded is None else round(recorded) + 1, fate is Fate.ACCEPTED


def _levels(graph: Sequence[Node]) -> Iterator[tuple[int, bool]]:
    """The levels of a draft graph down to the first of which no node was accepted, and whether one was."""
    depths: list[int] = []
    for node in graph:
        depths.append(1 + max((depths[parent] for parent in node.parents if parent < len(depths)), default=-1))
    for level in range(1, max(depths, default=0) + 1):
        passed = any(node.accepted for node, depth in zip(graph, depths, strict=True) if depth == level)
        yield level, passed
        if not passed:
            return
