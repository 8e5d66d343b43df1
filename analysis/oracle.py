"""Savings with an oracle, which makes the choice of every pass with knowledge of the whole run.

For drafts and rows of a draft graph this is exact, because the cheaper pass leads to the same tokens. For other choices
it is an estimate: positions that enter the window later would start from the same drafts, and predictions stay the
same.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile
from operator import itemgetter
from typing import Final, NamedTuple

from draftscope.analysis.block_stats import router_decisions
from draftscope.analysis.prediction import forecasts
from draftscope.traces.replay import PENDING, position_updates
from draftscope.traces.schema import Fate, Step, Token, Trace
from draftscope.traces.stats import evaluated_drafts


class OracleChoice(NamedTuple):
    """Cost of a pass, and the least cost that was necessary, in the unit of the run."""

    step: int
    spent: int
    best: int


class OracleSavings(NamedTuple):
    """The choices of a run."""

    setting: str
    unit: str
    """Unit of cost: passes, drafts or rows."""
    choices: tuple[OracleChoice, ...]

    @property
    def spent(self) -> int:
        """Cost of all choices."""
        return sum(one.spent for one in self.choices)

    @property
    def best(self) -> int:
        """The least cost that was necessary."""
        return sum(one.best for one in self.choices)

    @property
    def saved(self) -> float:
        """Share that the best choices would have saved, from 0 to 1."""
        return 1 - self.best / self.spent


def oracle_savings(trace: Trace) -> OracleSavings | None:
    """Return the choices of a run and the oracle's; None if there were none, as in the baseline."""
    for setting, unit, read in _KINDS:
        choices = read(trace)
        if any(one.spent for one in choices):
            return OracleSavings(setting, unit, choices)
    return None


def _rows(trace: Trace) -> tuple[OracleChoice, ...]:
    """Rows of a draft graph: only those of the accepted path were necessary."""
    graphs = [(index, step.graph) for index, step in enumerate(trace.steps) if step.graph]
    return tuple(
        OracleChoice(index, len(graph), max(1, sum(node.accepted for node in graph))) for index, graph in graphs
    )


def _routed(trace: Trace) -> tuple[OracleChoice, ...]:
    """A verification was necessary unless the tokens above the threshold were all right, and it added none."""
    if all(one.accepted is None for one in router_decisions(trace.steps)):
        return ()
    fixed_threshold, final_at = trace.config.get("threshold"), _final(trace.steps)
    threshold = fixed_threshold if isinstance(fixed_threshold, int | float) else 1.0
    choices, sure = [], dict[int, Token | None]()
    for index, step in enumerate(trace.steps):
        judges, decided = any(fate.judged for fate in step.fate), _final([step])
        spare = judges and decided.items() <= sure.items() <= final_at.items()
        choices.append(OracleChoice(index, 1, int(not spare)))
        confidence = step.numbers.get("confidence", ())
        left = {} if judges or not confidence else position_updates(step)
        sure = {position: one.token for position, one in left.items() if (confidence[one.entry] or 0) > threshold}
    return tuple(choices)


def _drafted(trace: Trace) -> tuple[OracleChoice, ...]:
    """Drafts: those that were rejected, or dropped after a rejection, were unnecessary."""
    verified = [(index, step) for index, step in enumerate(trace.steps) if evaluated_drafts(step)]
    if any(fate in PENDING for _, step in verified for fate in step.fate):
        return ()
    return tuple(
        OracleChoice(index, evaluated_drafts(step), step.fate.count(Fate.ACCEPTED)) for index, step in verified
    )


def _windowed(trace: Trace) -> tuple[OracleChoice, ...]:
    """A window had to reach as far as the last draft that did not change until it was accepted."""
    choices, stays = [], dict[int, Token | None]()
    for index in range(len(trace.steps) - 1, -1, -1):
        step = trace.steps[index]
        if not step.draft:
            continue
        stays |= {at: one.token for at, one in position_updates(step).items() if one.fate is Fate.ACCEPTED}
        drafts = {at: token for at, token in zip(step.position, step.draft, strict=True) if token is not None}
        stays = {at: token for at, token in stays.items() if drafts.get(at, token) == token}
        useful = [rank for rank, at in enumerate(sorted(drafts), start=1) if at in stays]
        choices.append(OracleChoice(index, len(drafts), max(useful, default=0)))
    return tuple(reversed(choices))


def _thresholded(trace: Trace) -> tuple[OracleChoice, ...]:
    """A pass was necessary unless the lowest possible thresholds had made its tokens final before."""
    foreseen = {one.step: one for one in forecasts(trace.steps)}
    choices, known = [], set[int]()
    for index, step in enumerate(trace.steps):
        decided = _final([step]).keys()
        spare = bool(decided) and decided <= known
        choices.append(OracleChoice(index, 1, int(not spare)))
        known |= decided
        if not spare and index in foreseen:  # as far as all of the most confident became final as foreseen
            unchanged = zip(foreseen[index].candidates, foreseen[index].unchanged, strict=True)
            known |= {at for at, _ in takewhile(itemgetter(1), unchanged)}
    return tuple(choices) if foreseen else ()


def _final(steps: Sequence[Step]) -> dict[int, Token | None]:
    """Position -> the token that it had in the end."""
    return {at: one.token for step in steps for at, one in position_updates(step).items() if one.fate.final}


_KINDS: Final[Sequence[tuple[str, str, Callable[[Trace], tuple[OracleChoice, ...]]]]] = (
    ("rows of the draft graph", "rows", _rows),
    ("whether to verify", "passes", _routed),
    ("draft length", "drafts", _drafted),
    ("window", "drafts", _windowed),
    ("confidence threshold", "passes", _thresholded),
)
"""Setting, unit, and how it is read; the first that a trace has."""
