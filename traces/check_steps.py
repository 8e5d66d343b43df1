"""Whether each step makes sense on its own."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Final

from traces import limits
from traces.check_paths import check_paths, path_states
from traces.errors import Problem, quote
from traces.measures import FREE_PREFIX, MEASURES, Measure
from traces.replay import canvas_size
from traces.schema import Call, Fate, Mask, Milliseconds, Node, Numbers, Step, Token, Trace, is_later

_COLUMNS: Final = ("token", "fate", "row", "draft", "p", "q", "accept_prob", "coin", "top", "likely", "paths")
_PROBABILITIES: Final = ("p", "q", "accept_prob", "coin")
_PROBABILITY_REMEDY: Final = "give a probability between 0 and 1"
_MOST: Final = limits.MEASURE
_SLACK: Final = 1e-5
"""Sums and quotients of rounded numbers may miss a bound by this much."""


def check_steps(trace: Trace) -> Iterator[Problem]:
    """All that is wrong with the steps, each taken alone."""
    size = canvas_size(trace.canvas)
    entries = sum(len(step.position) for step in trace.steps)
    if entries > limits.ENTRIES:
        yield Problem("steps", f"have {entries} entries, more than {limits.ENTRIES}", "record a shorter run")
        return
    width, states, later = _token_width(trace), path_states(trace), is_later(trace.version)
    for index, step in enumerate(trace.steps):
        path = f"steps[{index}]"
        yield from _check_call(f"{path}.call", step.call)
        for name, value in step.signals.items():
            yield from _check_measure(f"{path}.signals", name, (value,), "step", later=later)
        if step.mask is not None:
            yield from _check_mask(f"{path}.mask", step.mask)
        if step.graph is not None:
            yield from _check_graph(f"{path}.graph", step.graph, step.call.rows, size)
        uneven = list(_check_lengths(path, step))
        yield from uneven
        if not uneven:
            yield from _check_columns(path, step, size, width)
            for name, column in step.numbers.items():
                yield from _check_measure(f"{path}.numbers", name, column, "position", later=later)
            yield from check_paths(path, step, width, states)


def _check_lengths(path: str, step: Step) -> Iterator[Problem]:
    columns = {name: getattr(step, name) for name in _COLUMNS}
    columns |= {f"numbers.{name}": column for name, column in step.numbers.items()}
    for name, column in columns.items():
        if name == "token" and not column:
            continue  # The ids are unknown.
        if column is not None and len(column) != len(step.position):
            problem = f"has {len(column)} entries where position has {len(step.position)}"
            yield Problem(f"{path}.{name}", problem, "give every column one entry per position")


def _check_columns(path: str, step: Step, size: int, width: int | None) -> Iterator[Problem]:
    yield from _check_positions(path, step, size)
    for name, tokens in {"token": step.token, "draft": step.draft or ()}.items():
        for index, token in enumerate(tokens):
            if token is not None:
                yield from _check_token(f"{path}.{name}[{index}]", token, width)
    for name in _PROBABILITIES:
        yield from _check_range(f"{path}.{name}", getattr(step, name) or (), 0, 1, _PROBABILITY_REMEDY)
    for index, top in enumerate(step.top or ()):
        yield from _check_top(f"{path}.top[{index}]", top)
    for index, likely in enumerate(step.likely or ()):
        yield from _check_likely(f"{path}.likely[{index}]", likely or ())
    yield from _check_verdicts(path, step)


def _check_positions(path: str, step: Step, size: int) -> Iterator[Problem]:
    seen: set[tuple[int, int]] = set()
    final: set[int] = set()
    for index, (position, fate) in enumerate(zip(step.position, step.fate, strict=True)):
        row = step.row[index] if step.row is not None else 0
        if not 0 <= position < size:
            problem = f"{quote(position)} is outside the canvas of {size} positions"
            yield Problem(f"{path}.position[{index}]", problem, f"count from 0 to {size - 1}")
        if not 0 <= row < step.call.rows:
            problem = f"{quote(row)} is no row of a call with {step.call.rows}"
            yield Problem(f"{path}.row[{index}]", problem, f"count from 0 to {step.call.rows - 1}")
        if (row, position) in seen:
            problem = f"{quote(position)} appears twice in one row"
            yield Problem(f"{path}.position[{index}]", problem, "give one entry per row and position")
        if fate.final and position in final:
            problem = f"position {quote(position)} becomes final twice in one step"
            yield Problem(f"{path}.fate[{index}]", problem, "let one row decide")
        seen.add((row, position))
        if fate.final:
            final.add(position)


def _check_verdicts(path: str, step: Step) -> Iterator[Problem]:
    """Fates must not contradict the tokens and coins beside them."""
    empty = (None,) * len(step.position)
    columns = zip(
        step.fate, step.token or empty, step.draft or empty, step.accept_prob or empty, step.coin or empty, strict=True
    )
    for index, (fate, token, draft, bar, coin) in enumerate(columns):
        if None not in (draft, token) and fate in _SAME and (token == draft) is not _SAME[fate]:
            problem = f"{fate}, but the token is {'another than' if _SAME[fate] else 'that of'} the draft"
            yield Problem(f"{path}.fate[{index}]", problem, "give the fate that fits, or correct the draft")
        if bar is None or coin is None:
            continue
        if (fate is Fate.ACCEPTED and coin > bar + _SLACK) or (
            fate in (Fate.RESAMPLED, Fate.REJECTED) and coin < bar - _SLACK
        ):
            problem = f"{fate} with coin {coin:g} against {bar:g}"
            yield Problem(f"{path}.fate[{index}]", problem, "a draft is accepted when its coin falls below accept_prob")


_SAME: Final = {Fate.KEPT: True, Fate.ACCEPTED: True, Fate.CHANGED: False}
"""Whether the token must be the draft or must not be it."""


def _check_token(field: str, token: Token, width: int | None) -> Iterator[Problem]:
    """`width` is the length of continuous tokens, None for a vocabulary."""
    if isinstance(token, int):
        if width is not None:
            yield Problem(field, f"{quote(token)} is an id among continuous tokens", "use one kind of token in a trace")
        else:
            yield from _check_id(field, token)
    elif width is None:
        yield Problem(field, "is a list among vocabulary ids", "use one kind of token in a trace")
    elif len(token) != width:
        yield Problem(field, f"has {len(token)} numbers, others have {width}", "give all tokens one length")


def _check_id(field: str, token: int) -> Iterator[Problem]:
    if not 0 <= token <= limits.WHOLE:
        side = "negative" if token < 0 else f"above {limits.WHOLE}"
        yield Problem(field, f"{quote(token)} is {side}", "give an id of the vocabulary")


def _token_width(trace: Trace) -> int | None:
    for step in trace.steps:
        for token in step.token:
            return None if isinstance(token, int) else len(token)
    return None


def _check_top(field: str, top: Sequence[tuple[int, float]]) -> Iterator[Problem]:
    before = 1.0
    for index, (token, probability) in enumerate(top):
        yield from _check_id(f"{field}[{index}][0]", token)
        yield from _check_range(f"{field}[{index}][1]", (probability,), 0, 1, _PROBABILITY_REMEDY, whole=True)
        if probability > before + _SLACK:
            problem = f"{probability:g} is above the one before it"
            yield Problem(f"{field}[{index}][1]", problem, "list the likeliest token first")
        before = probability


def _check_likely(field: str, likely: Sequence[tuple[int, float, float]]) -> Iterator[Problem]:
    before = 1.0
    for index, (token, p, q) in enumerate(likely):
        yield from _check_id(f"{field}[{index}][0]", token)
        for at, share in enumerate((p, q), 1):
            yield from _check_range(f"{field}[{index}][{at}]", (share,), 0, 1, _PROBABILITY_REMEDY, whole=True)
        if p > before + _SLACK:
            yield Problem(f"{field}[{index}][1]", f"{p:g} is above the one before it", "list them by falling p")
        before = p
    if len({token for token, _, _ in likely}) != len(likely):
        yield Problem(field, "names a token twice", "give each token once")


def _check_measure(path: str, name: str, column: Numbers, per: str, *, later: bool) -> Iterator[Problem]:
    """`later`: the trace is of a version to come, which may have measures that are not known yet."""
    if len(name) > limits.NAME_CHARACTERS:
        yield Problem(path, f"a name has {len(name)} characters, more than {limits.NAME_CHARACTERS}", "shorten it")
        return
    whole = per == "step"
    if name.startswith(FREE_PREFIX) or (later and name not in MEASURES):
        yield from _check_range(
            f"{path}[{quote(name)}]", column, -_MOST, _MOST, "give numbers in this range", whole=whole
        )
        return
    measure: Measure | None = MEASURES.get(name)
    if measure is None:
        remedy = f"use a name of docs/trace.md or begin it with {FREE_PREFIX}"
        yield Problem(path, f"{quote(name)} is no known measure", remedy)
    elif measure.per != per:
        home = "numbers" if measure.per == "position" else "signals"
        yield Problem(path, f"{quote(name)} belongs to a {measure.per}, not to a {per}", f"move it to {home}")
    else:
        remedy = f"give {measure.unit or 'a number'} in its range"
        low = -_MOST if measure.low is None else measure.low
        high = _MOST if measure.high is None else measure.high
        yield from _check_range(f"{path}.{name}", column, low, high, remedy, whole=whole)


def _check_range(
    field: str, column: Numbers, low: float, high: float, remedy: str, *, whole: bool = False
) -> Iterator[Problem]:
    """`whole`: the column is a single number, and `field` its name."""
    for index, value in enumerate(column):
        if value is None:
            continue
        side = ""
        if value < low - _SLACK:
            side = f"below {low:g}"
        elif value > high + _SLACK:
            side = f"above {high:g}"
        if side:
            yield Problem(field if whole else f"{field}[{index}]", f"{value!r} is {side}", remedy)


def _check_call(path: str, call: Call) -> Iterator[Problem]:
    least = {"rows": 1, "query_tokens": 0, "batch": 1}
    for name, low in least.items():
        remedy = "give what the call really used"
        yield from _check_whole(f"{path}.{name}", getattr(call, name), low, limits.CALL_COUNT, remedy)
    for stage in fields(Milliseconds):
        value = getattr(call.milliseconds, stage.name)
        if not 0 <= value <= limits.MILLISECONDS:
            side = "below 0" if value < 0 else f"above {limits.MILLISECONDS}"
            remedy = "measure milliseconds with a monotonic clock"
            yield Problem(f"{path}.milliseconds.{stage.name}", f"{value!r} is {side}", remedy)
    if len(call.mode) > limits.NAME_CHARACTERS:
        yield Problem(
            f"{path}.mode", f"has {len(call.mode)} characters, more than {limits.NAME_CHARACTERS}", "shorten it"
        )


def _check_whole(field: str, value: int, low: int, high: int, remedy: str) -> Iterator[Problem]:
    if not low <= value <= high:
        side = f"below {low}" if value < low else f"above {high}"
        yield Problem(field, f"{quote(value)} is {side}", remedy)


def _check_mask(path: str, mask: Mask) -> Iterator[Problem]:
    for name, labels in {"queries": mask.queries, "keys": mask.keys}.items():
        for index, label in enumerate(labels):
            if len(label) > limits.NAME_CHARACTERS:
                yield Problem(f"{path}.{name}[{index}]", f"has {len(label)} characters", "shorten the label")
    if len(mask.runs) != len(mask.queries):
        problem = f"has {len(mask.runs)} rows for {len(mask.queries)} queries"
        yield Problem(f"{path}.runs", problem, "give one row of runs per query")
    for index, runs in enumerate(mask.runs):
        if any(run < 0 for run in runs) or sum(runs) != len(mask.keys):
            problem = f"do not add up to the {len(mask.keys)} keys"
            yield Problem(f"{path}.runs[{index}]", problem, "count hidden, seen, hidden ... keys from the left")


def _check_graph(path: str, graph: Sequence[Node], rows: int, size: int) -> Iterator[Problem]:
    for index, node in enumerate(graph):
        if not 0 <= node.row < rows:
            problem = f"{quote(node.row)} is no row of a call with {rows}"
            yield Problem(f"{path}[{index}].row", problem, f"count from 0 to {rows - 1}")
        for at, parent in enumerate(node.parents):
            if not 0 <= parent < index:
                problem = f"{quote(parent)} does not precede node {index}"
                yield Problem(f"{path}[{index}].parents[{at}]", problem, "list parents before their children")
        for at, parent in enumerate(node.vouched_by):
            if parent not in node.parents:
                problem = f"{quote(parent)} is no parent of node {index}"
                yield Problem(f"{path}[{index}].vouched_by[{at}]", problem, "name one of its parents")
        for at, position in enumerate(node.positions):
            if not 0 <= position < size:
                problem = f"{quote(position)} is outside the canvas of {size} positions"
                yield Problem(f"{path}[{index}].positions[{at}]", problem, f"count from 0 to {size - 1}")
