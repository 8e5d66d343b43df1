"""Results of many runs gathered by setting: accuracy, speed, frontier.

Rows of one method, model, label and config form a group.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from operator import attrgetter
from statistics import fmean
from typing import Final, TypeAlias

from draftscope.analysis.results import ResultRow, SweepError
from draftscope.analysis.seeds import estimate

OUTSIDE_DECODING: Final = frozenset({"prefill", "commit"})
"""Modes of forward passes that decode nothing: they fill the cache."""
MAX_GROUPS: Final = 1000
"""Maximum number of settings in a file; a figure of more cannot be read."""


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
        """Name of the curve that joins its point with others.

        That of the rows, the label before its comma, or the method.
        """
        stem, comma, _ = self.label.partition(",")
        return self.rows[0].curve or (stem if comma else self.method)

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
    def mean_accepted_length(self) -> float | None:
        """Drafts accepted in a pass that verified drafts; None where the rows do not say."""
        accepted = sum(sum(row.accepted_by_place) for row in self.rows)
        return accepted / self.total("verifications") if self.total("verifications") else None

    @property
    def by_position(self) -> tuple[tuple[int, int], ...]:
        """Verified and accepted drafts at every draft position, over all rows."""
        rows = [zip(row.judged_by_place, row.accepted_by_place, strict=False) for row in self.rows]
        positions = zip_longest(*rows, fillvalue=(0, 0))
        return tuple((sum(judged for judged, _ in each), sum(accepted for _, accepted in each)) for each in positions)

    def shares(self) -> dict[int, float]:
        """Problem -> share of its runs that solved it."""
        answers: dict[int, list[bool]] = {}
        for row in self.rows:
            answers.setdefault(row.problem, []).append(bool(row.correct))
        return {problem: fmean(each) for problem, each in answers.items()}


Total: TypeAlias = Callable[[ResultRow], float]


@dataclass(frozen=True, slots=True)
class Speed:
    """Measure of speed of a group: a ratio of totals over its rows."""

    name: str
    axis: str
    amount: Total
    cost: Total
    relative: bool = False
    """Whether it is divided by the baseline's."""
    falling: bool = False
    """Whether smaller values are faster."""

    @property
    def title(self) -> str:
        """The title of its axis."""
        return f"{self.axis} (less is better)" if self.falling else self.axis

    def of(self, group: Group) -> float | None:
        """Return the speed of a group; None where its rows do not say."""
        amount, cost = (float(sum(map(total, group.rows))) for total in (self.amount, self.cost))
        return amount / cost if cost > 0 and (amount > 0 or not self.falling) else None


def _decoding_forwards(row: ResultRow) -> float:
    return row.forwards - sum(row.forwards_by_mode.get(mode, 0) for mode in OUTSIDE_DECODING)


_PASSES: Final = "Tokens per forward pass"
_TOKENS, _FORWARDS, _SECONDS = attrgetter("tokens"), attrgetter("forwards"), attrgetter("seconds")
_SPEEDS: Final = (
    Speed("tokens-per-forward", _PASSES, _TOKENS, _FORWARDS),
    Speed("tokens-per-decoding-forward", f"{_PASSES}, without prefill and commit", _TOKENS, _decoding_forwards),
    Speed(
        "tokens-per-target-forward",
        f"{_PASSES} of the large model",
        _TOKENS,
        lambda row: row.forwards - row.draft_forwards,
    ),
    Speed("query-tokens-per-token", "Query tokens per token", attrgetter("query_tokens"), _TOKENS, falling=True),
    Speed("milliseconds-per-token", "Milliseconds per token", lambda row: 1000 * row.seconds, _TOKENS, falling=True),
    Speed("tokens-per-second", "Tokens per second", _TOKENS, _SECONDS),
    Speed("speed-up-forwards", "Speed-up in forward passes", _TOKENS, _FORWARDS, relative=True),
    Speed("speed-up-time", "Speed-up in time", _TOKENS, _SECONDS, relative=True),
)
SPEEDS: Final[Mapping[str, Speed]] = {speed.name: speed for speed in _SPEEDS}
"""Name -> speed. Speed-ups are ratios of rates, so that longer answers do not count as slowness."""


def gathered(rows: Sequence[ResultRow], *, scored: bool = True) -> tuple[Group, ...]:
    """Group rows by method, model, label and config, in order of appearance.

    Args:
        rows: Rows of results.
        scored: Whether each row needs a score, `correct`.

    Raises:
        SweepError: If there are too many groups for any figure, or a required score is missing.
    """
    if scored and (unscored := sum(row.correct is None for row in rows)):
        problem = f"rows: `correct` is null in {unscored} of {len(rows)}, so there is no accuracy"
        raise SweepError(f"{problem}; give runs on problems with known answers")
    groups: dict[tuple[str, str, str, str], list[ResultRow]] = {}
    configs = {id(row.config): row.config for row in rows}  # those of a file share few
    texts = {key: canonical(config) for key, config in configs.items()}
    for row in rows:
        groups.setdefault((row.method, row.model, row.label, texts[id(row.config)]), []).append(row)
    if len(groups) > MAX_GROUPS:
        raise SweepError(f"rows: {len(groups)} settings are more than {MAX_GROUPS}; give fewer")
    return tuple(
        Group(method=method, model=model, label=label, config=members[0].config, rows=tuple(members))
        for (method, model, label, _), members in groups.items()
    )


def canonical(config: Mapping[str, object]) -> str:
    """Return a config as text that is equal for equal configs."""
    return json.dumps(config, sort_keys=True, default=list)


def baseline_of(groups: Sequence[Group], name: str) -> Group:
    """Return the group to compare with.

    Args:
        groups: All groups.
        name: Its label, or its method if no label fits.

    Raises:
        SweepError: If the name fits no group, or several.
    """
    fits = [group for group in groups if group.label == name] or [group for group in groups if group.method == name]
    if len(fits) == 1:
        return fits[0]
    labels = ", ".join(dict.fromkeys(group.label for group in groups))
    problem = f"names {len(fits)} groups" if fits else "names no group"
    raise SweepError(f"baseline: {name!r} {problem}; choose one of {labels}")


def speeds(groups: Sequence[Group], speed: str, baseline: str | None = None) -> tuple[float | None, ...]:
    """Return the speed of every group.

    Args:
        groups: The groups.
        speed: A name of `SPEEDS`.
        baseline: Label or method of the group to compare with; speed-ups need it.

    Returns:
        A number per group; None if its rows do not report it.

    Raises:
        SweepError: If the speed is unknown, or a speed-up has no valid baseline.
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
    """Return the results of every group as plain data, in every available measure of speed.

    Args:
        groups: Groups of rows.
        baseline: Method or label of the group that speed-ups are relative to; None for none.

    Raises:
        SweepError: If the baseline names no group or several, or has no cost.
    """
    known = [name for name, speed in SPEEDS.items() if baseline is not None or not speed.relative]
    values = {name: speeds(groups, name, baseline) for name in known}
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
            "acceptance_by_place": [accepted / group.total("verifications") for _, accepted in group.by_position],
            "conditional_acceptance_by_place": [accepted / judged for judged, accepted in group.by_position if judged],
            **{name: values[name][index] if name in values else None for name in SPEEDS},
        }
        for index, group in enumerate(groups)
    ]


def varied(rows: Sequence[ResultRow]) -> tuple[str, ...]:
    """Return the settings with several values within one method, in order of appearance."""
    values: dict[str, dict[str, set[str]]] = {}
    for group in gathered(rows, scored=False):
        for name, value in group.config.items():
            values.setdefault(name, {}).setdefault(group.method, set()).add(canonical({"": value}))
    return tuple(name for name, methods in values.items() if any(len(seen) > 1 for seen in methods.values()))
