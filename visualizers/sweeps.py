"""Results of many runs on problems with known answers, gathered by setting: accuracy, speed, frontier.

A row is one run on one problem. Rows of one method, label and config form a group.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import fmean, stdev
from types import MappingProxyType
from typing import Final

OUTSIDE_DECODING: Final = frozenset({"prefill", "commit"})
"""Modes of forward passes that decode nothing: they fill the cache."""


class SweepError(ValueError):
    """Rows that cannot be read, or a question that they do not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run on one problem."""

    method: str
    label: str
    config: Mapping[str, object]
    problem: int
    correct: bool
    forwards: int
    forwards_by_mode: Mapping[str, int]
    row_forwards: int
    query_tokens: int
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """All runs of one method in one setting."""

    method: str
    label: str
    config: Mapping[str, object]
    rows: tuple[Row, ...]

    @property
    def problems(self) -> int:
        """Different problems."""
        return len({row.problem for row in self.rows})

    @property
    def accuracy(self) -> float:
        """Share of right answers, each problem counting once."""
        return fmean(self._shares())

    @property
    def accuracy_error(self) -> float | None:
        """Standard error of the accuracy over problems; None for a single problem.

        Runs of one problem are averaged first: they are not independent.
        """
        shares = self._shares()
        return stdev(shares) / sqrt(len(shares)) if len(shares) > 1 else None

    def total(self, name: str) -> float:
        """Sum of a number over the rows."""
        return float(sum(getattr(row, name) for row in self.rows))

    @property
    def decoding_forwards(self) -> int:
        """Forward passes without those that only fill the cache."""
        outside = sum(row.forwards_by_mode.get(mode, 0) for row in self.rows for mode in OUTSIDE_DECODING)
        return sum(row.forwards for row in self.rows) - outside

    def _shares(self) -> list[float]:
        answers: dict[int, list[bool]] = {}
        for row in self.rows:
            answers.setdefault(row.problem, []).append(row.correct)
        return [fmean(each) for each in answers.values()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """A way to say how fast a group is; larger is faster."""

    name: str
    axis: str
    of: Callable[[Group], float | None]
    relative: bool = False
    """Whether it is divided by the baseline's."""


def _per(amount: float, cost: float) -> float | None:
    return amount / cost if cost > 0 else None


SPEEDS: Final[Mapping[str, Speed]] = MappingProxyType(
    {
        speed.name: speed
        for speed in (
            Speed(
                name="tokens-per-forward",
                axis="Tokens per forward pass",
                of=lambda group: _per(group.total("tokens"), group.total("forwards")),
            ),
            Speed(
                name="tokens-per-decoding-forward",
                axis="Tokens per forward pass, without prefill and commit",
                of=lambda group: _per(group.total("tokens"), group.decoding_forwards),
            ),
            Speed(
                name="tokens-per-query-token",
                axis="Tokens per query token",
                of=lambda group: _per(group.total("tokens"), group.total("query_tokens")),
            ),
            Speed(
                name="tokens-per-second",
                axis="Tokens per second",
                of=lambda group: _per(group.total("tokens"), group.total("seconds")),
            ),
            Speed(
                name="speed-up-forwards",
                axis="Speed-up in forward passes",
                of=lambda group: _per(group.total("tokens"), group.total("forwards")),
                relative=True,
            ),
            Speed(
                name="speed-up-time",
                axis="Speed-up in time",
                of=lambda group: _per(group.total("tokens"), group.total("seconds")),
                relative=True,
            ),
        )
    }
)
"""Name -> speed. Speed-ups are ratios of rates, so that longer answers do not count as slowness."""


def read_rows(data: object) -> tuple[Row, ...]:
    """Read rows from plain JSON data: a list of rows, or an object that holds it as `rows`.

    Raises:
        SweepError: With the field, the value and the remedy.
    """
    rows = data.get("rows") if isinstance(data, Mapping) else data
    if not isinstance(rows, Sequence) or isinstance(rows, str | bytes) or not rows:
        raise SweepError("rows: no list of results is given; give a list with one object a run and problem")
    return tuple(_row(f"rows[{index}]", row) for index, row in enumerate(rows))


def gathered(rows: Sequence[Row]) -> tuple[Group, ...]:
    """Gather rows by method, label and config, in order of appearance."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.method, row.label, canonical(row.config)), []).append(row)
    return tuple(
        Group(method=method, label=label, config=found[0].config, rows=tuple(found))
        for (method, label, _), found in groups.items()
    )


def canonical(config: Mapping[str, object]) -> str:
    """Return a config as text that is equal for equal configs."""
    return json.dumps(config, sort_keys=True, default=list)


def baseline_of(groups: Sequence[Group], name: str) -> Group:
    """Return the only group with this label, or of this method.

    Raises:
        SweepError: When the name fits no group, or several.
    """
    found = [group for group in groups if group.label == name] or [group for group in groups if group.method == name]
    if len(found) == 1:
        return found[0]
    labels = ", ".join(dict.fromkeys(group.label for group in groups))
    problem = f"names {len(found)} groups" if found else "names no group"
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


def on_frontier(points: Sequence[tuple[float, float]]) -> tuple[bool, ...]:
    """Return for points of (speed, accuracy) whether no other is at least as good in both and better in one."""
    return tuple(
        not any(
            other[0] >= point[0] and other[1] >= point[1] and (other[0] > point[0] or other[1] > point[1])
            for other in points
        )
        for point in points
    )


def varied(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the settings with several values within one method, in order of appearance."""
    values: dict[str, dict[str, set[str]]] = {}
    for row in rows:
        for name, value in row.config.items():
            values.setdefault(name, {}).setdefault(row.method, set()).add(canonical({"": value}))
    return tuple(name for name, methods in values.items() if any(len(seen) > 1 for seen in methods.values()))


_COUNTS: Final = ("problem", "forwards", "row_forwards", "query_tokens", "tokens")


def _row(path: str, data: object) -> Row:
    if not isinstance(data, Mapping):
        raise SweepError(f"{path}: {data!r:.60} is no object; give one with {', '.join(Row.__slots__)}")
    for name in Row.__slots__:
        if name not in data:
            raise SweepError(f"{path}.{name}: is missing; every row needs {', '.join(Row.__slots__)}")
    for name in ("method", "label"):
        _expect(isinstance(data[name], str) and data[name], f"{path}.{name}", data[name], "give its name")
    for name in ("config", "forwards_by_mode"):
        _expect(isinstance(data[name], Mapping), f"{path}.{name}", data[name], "give an object")
    _expect(isinstance(data["correct"], bool), f"{path}.correct", data["correct"], "give true or false")
    for name in _COUNTS:
        _expect(_is_count(data[name]), f"{path}.{name}", data[name], "give a whole number from 0")
    for mode, count in data["forwards_by_mode"].items():
        _expect(_is_count(count), f"{path}.forwards_by_mode.{mode}", count, "give a whole number from 0")
    by_mode = sum(data["forwards_by_mode"].values())
    if by_mode > data["forwards"]:
        problem = f"adds up to {by_mode}, more than the {data['forwards']} forwards"
        raise SweepError(f"{path}.forwards_by_mode: {problem}; count every forward pass under one mode")
    seconds = data["seconds"]
    sound = isinstance(seconds, int | float) and not isinstance(seconds, bool) and isfinite(seconds) and seconds >= 0
    _expect(sound, f"{path}.seconds", seconds, "give seconds, 0 where not measured")
    return Row(**{name: data[name] for name in Row.__slots__})


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _expect(sound: object, field: str, value: object, remedy: str) -> None:
    if not sound:
        raise SweepError(f"{field}: {value!r:.60} is not valid; {remedy}")
