"""Results of many runs gathered by setting: accuracy, speed, frontier.

Rows of one method, model, label and config form a group.
"""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from traces.pairing import estimate
from traces.results import ResultRow, SweepError

OUTSIDE_DECODING: Final = frozenset({"prefill", "commit"})
"""Modes of forward passes that decode nothing: they fill the cache."""
MOST_GROUPS: Final = 1000
"""In one file; beyond that no figure can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """All runs of one method on one model in one setting."""

    method: str
    model: str
    label: str
    config: Mapping[str, object]
    rows: tuple[ResultRow, ...]

    @property
    def curve(self) -> str:
        """What its point is joined to others under."""
        return self.rows[0].curve or self.method

    @property
    def problems(self) -> int:
        """Different problems."""
        return len({row.problem for row in self.rows})

    @property
    def accuracy(self) -> float:
        """Share of right answers, each problem counting once."""
        return fmean(self.shares().values())

    @property
    def accuracy_error(self) -> float | None:
        """Standard error of the accuracy over problems; None for a single problem.

        Runs of one problem are averaged first: they are not independent.
        """
        return estimate([*self.shares().values()]).error

    def total(self, name: str) -> float:
        """Sum of a number over the rows."""
        return float(sum(getattr(row, name) for row in self.rows))

    @property
    def decoding_forwards(self) -> int:
        """Forward passes without those that only fill the cache."""
        outside = sum(row.forwards_by_mode.get(mode, 0) for row in self.rows for mode in OUTSIDE_DECODING)
        return sum(row.forwards for row in self.rows) - outside

    @property
    def mean_accepted_length(self) -> float | None:
        """Drafts accepted in a pass that verified drafts; None where the rows do not say."""
        return _per(float(sum(sum(row.accepted_by_place) for row in self.rows)), self.total("verifications"))

    @property
    def by_place(self) -> tuple[tuple[int, int], ...]:
        """Judged and accepted drafts at every place of a draft, over all rows."""
        places: list[list[int]] = []
        for row in self.rows:
            places += [[0, 0] for _ in row.judged_by_place[len(places) :]]
            for place, judged, accepted in zip(places, row.judged_by_place, row.accepted_by_place, strict=False):
                place[0] += judged
                place[1] += accepted
        return tuple((judged, accepted) for judged, accepted in places)

    def shares(self) -> dict[int, float]:
        """Problem -> share of its runs that solved it."""
        answers: dict[int, list[bool]] = {}
        for row in self.rows:
            answers.setdefault(row.problem, []).append(bool(row.correct))
        return {problem: fmean(each) for problem, each in answers.items()}


def _per(amount: float, cost: float) -> float | None:
    return amount / cost if cost > 0 else None


def _price(cost: float, amount: float) -> float | None:
    """None where it was not measured, too: nothing is free."""
    return cost / amount if cost > 0 and amount > 0 else None


def _by_forwards(group: Group) -> float | None:
    return _per(group.total("tokens"), group.total("forwards"))


def _by_target_forwards(group: Group) -> float | None:
    return _per(group.total("tokens"), group.total("forwards") - group.total("draft_forwards"))


def _by_seconds(group: Group) -> float | None:
    return _per(group.total("tokens"), group.total("seconds"))


@dataclass(frozen=True, slots=True)
class Speed:
    """A way to say how fast a group is."""

    name: str
    axis: str
    of: Callable[[Group], float | None]
    relative: bool = False
    """Whether it is divided by the baseline's."""
    falling: bool = False
    """Whether less is faster: it is a price."""


_PASSES: Final = "Tokens per forward pass"
SPEEDS: Final[Mapping[str, Speed]] = {
    speed.name: speed
    for speed in (
        Speed("tokens-per-forward", _PASSES, _by_forwards),
        Speed(
            "tokens-per-decoding-forward",
            f"{_PASSES}, without prefill and commit",
            lambda group: _per(group.total("tokens"), group.decoding_forwards),
        ),
        Speed("tokens-per-target-forward", f"{_PASSES} of the large model", _by_target_forwards),
        Speed(
            "query-tokens-per-token",
            "Query tokens per token",
            lambda group: _price(group.total("query_tokens"), group.total("tokens")),
            falling=True,
        ),
        Speed(
            "milliseconds-per-token",
            "Milliseconds per token",
            lambda group: _price(1000 * group.total("seconds"), group.total("tokens")),
            falling=True,
        ),
        Speed("tokens-per-second", "Tokens per second", _by_seconds),
        Speed("speed-up-forwards", "Speed-up in forward passes", _by_forwards, relative=True),
        Speed("speed-up-time", "Speed-up in time", _by_seconds, relative=True),
    )
}
"""Name -> speed. Speed-ups are ratios of rates, so that longer answers do not count as slowness."""


def gathered(rows: Sequence[ResultRow]) -> tuple[Group, ...]:
    """Gather rows by method, model, label and config, in order of appearance.

    Raises:
        SweepError: There are too many groups for any figure, or rows without a judged answer.
    """
    if unjudged := sum(row.correct is None for row in rows):
        problem = f"rows: `correct` is null in {unjudged} of {len(rows)}, so there is no accuracy"
        raise SweepError(f"{problem}; give runs on problems with known answers")
    groups: dict[tuple[str, str, str, str], list[ResultRow]] = {}
    for row in rows:
        groups.setdefault((row.method, row.model, row.label, canonical(row.config)), []).append(row)
    if len(groups) > MOST_GROUPS:
        raise SweepError(f"rows: {len(groups)} settings are more than {MOST_GROUPS}; give fewer")
    return tuple(
        Group(method=method, model=model, label=label, config=members[0].config, rows=tuple(members))
        for (method, model, label, _), members in groups.items()
    )


def canonical(config: Mapping[str, object]) -> str:
    """Return a config as text that is equal for equal configs."""
    return json.dumps(config, sort_keys=True, default=list)


def baseline_of(groups: Sequence[Group], name: str) -> Group:
    """Return the only group with this label, or of this method.

    Raises:
        SweepError: When the name fits no group, or several.
    """
    fits = [group for group in groups if group.label == name] or [group for group in groups if group.method == name]
    if len(fits) == 1:
        return fits[0]
    labels = ", ".join(dict.fromkeys(group.label for group in groups))
    problem = f"names {len(fits)} groups" if fits else "names no group"
    raise SweepError(f"baseline: {name!r} {problem}; choose one of {labels}")


def speeds(groups: Sequence[Group], speed: str, baseline: str | None = None) -> tuple[float | None, ...]:
    """Return how fast every group is; None where its rows do not say.

    Raises:
        SweepError: For an unknown speed, or a speed-up without a sound baseline.
    """
    chosen = SPEEDS.get(speed)
    if chosen is None:
        raise SweepError(f"speed: {speed!r} is unknown; choose one of {', '.join(SPEEDS)}")
    values = tuple(chosen.of(group) for group in groups)
    if not chosen.relative:
        return values
    if baseline is None:
        raise SweepError(f"baseline: {speed} needs one; name the label or the method of a group")
    base = chosen.of(baseline_of(groups, baseline))
    if not base:
        raise SweepError(f"baseline: the rows of {baseline!r} have no cost to compare with; choose another speed")
    return tuple(None if value is None else value / base for value in values)


def records(groups: Sequence[Group], baseline: str | None = None) -> list[dict[str, object]]:
    """Return what every group comes to as plain data, in every speed there is; speed-ups need a baseline.

    Raises:
        SweepError: For a baseline that names no group or several, or has no cost.
    """
    none = (None,) * len(groups)
    told = {
        name: none if speed.relative and baseline is None else speeds(groups, name, baseline)
        for name, speed in SPEEDS.items()
    }
    return [
        {
            "label": group.label,
            "method": group.method,
            "model": group.model,
            "config": dict(group.config),
            "problems": group.problems,
            "runs": len(group.rows),
            "accuracy": group.accuracy,
            "accuracy_standard_error": group.accuracy_error,
            "mean_accepted_length": group.mean_accepted_length,
            "acceptance_by_place": [accepted / group.total("verifications") for _, accepted in group.by_place],
            "conditional_acceptance_by_place": [accepted / judged for judged, accepted in group.by_place if judged],
            **{name: values[index] for name, values in told.items()},
        }
        for index, group in enumerate(groups)
    ]


def as_csv(table: Sequence[Mapping[str, object]]) -> str:
    """Return records as CSV. A text that a spreadsheet would take for a formula gets a quote before it."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(table[0] if table else ())
    writer.writerows([cell(value) for value in record.values()] for record in table)
    return target.getvalue()


def cell(value: object) -> object:
    """Return a value as a cell of CSV: a config as text, and no text that a spreadsheet would take for a formula."""
    if isinstance(value, Mapping):
        return canonical(value)
    if isinstance(value, list):
        return " ".join(f"{rate:.6g}" for rate in value)
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def on_frontier(points: Sequence[tuple[float, float]]) -> tuple[bool, ...]:
    """Return for points of (speed, accuracy) whether no other is at least as good in both and better in one."""
    return tuple(
        not any(
            other[0] >= point[0] and other[1] >= point[1] and (other[0] > point[0] or other[1] > point[1])
            for other in points
        )
        for point in points
    )


def varied(rows: Sequence[ResultRow]) -> tuple[str, ...]:
    """Return the settings with several values within one method, in order of appearance."""
    values: dict[str, dict[str, set[str]]] = {}
    for row in rows:
        for name, value in row.config.items():
            values.setdefault(name, {}).setdefault(row.method, set()).add(canonical({"": value}))
    return tuple(name for name, methods in values.items() if any(len(seen) > 1 for seen in methods.values()))
