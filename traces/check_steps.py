"""Whether each step makes sense on its own: sizes, ranges, fates beside tokens, graphs, and denoising paths."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from traces import limits
from traces.errors import Problem, outside, quote
from traces.measures import FREE_PREFIX, MEASURES
from traces.replay import canvas_size
from traces.schema import Fate, Mask, Node, Numbers, PathPair, Step, Token, Trace, is_later

_COLUMNS: Final = ("token", "fate", "row", "draft", "p", "q", "accept_prob", "coin", "top", "likely", "paths")
_PLANE_SLACK: Final = 0.01
"""Points of the plane of paths are rounded further."""
_SAME: Final = {Fate.KEPT: True, Fate.ACCEPTED: True, Fate.CHANGED: False}
"""Whether the token must be the draft or must not be it."""


def check_steps(trace: Trace) -> Iterator[Problem]:
    """All that is wrong with the steps, each taken alone."""
    size = canvas_size(trace.canvas)
    entries = sum(len(step.position) for step in trace.steps)
    if entries > limits.ENTRIES:
        yield Problem("steps", f"have {entries} entries, more than {limits.ENTRIES}", "record a shorter run")
        return
    width, later = _token_width(trace), is_later(trace.version)
    states = next((len(pair.draft) for step in trace.steps for pair in step.paths or () if pair), None)
    for index, step in enumerate(trace.steps):
        path = f"steps[{index}]"
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
            yield from _check_paths(path, step, width, states)


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
    for index, top in enumerate(step.top or ()):
        yield from _check_ranked(f"{path}.top[{index}]", top)
    for index, likely in enumerate(step.likely or ()):
        yield from _check_ranked(f"{path}.likely[{index}]", likely or ())
        if len({token for token, *_ in likely or ()}) != len(likely or ()):
            yield Problem(f"{path}.likely[{index}]", "names a token twice", "give each token once")
    yield from _check_verdicts(path, step)


def _check_positions(path: str, step: Step, size: int) -> Iterator[Problem]:
    seen: set[tuple[int, int]] = set()
    final: set[int] = set()
    for index, (position, fate) in enumerate(zip(step.position, step.fate, strict=True)):
        row = step.row[index] if step.row is not None else 0
        yield from outside(f"{path}.position[{index}]", position, 0, size - 1, "give a position of the canvas")
        yield from outside(f"{path}.row[{index}]", row, 0, step.call.rows - 1, "give a row of the call")
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
    """Fates must not contradict the tokens and uniform numbers beside them."""
    empty = (None,) * len(step.position)
    columns = zip(
        step.fate, step.token or empty, step.draft or empty, step.accept_prob or empty, step.coin or empty, strict=True
    )
    for index, (fate, token, draft, accept_prob, coin) in enumerate(columns):
        if None not in (draft, token) and fate in _SAME and (token == draft) is not _SAME[fate]:
            problem = f"{fate}, but the token is {'another than' if _SAME[fate] else 'that of'} the draft"
            yield Problem(f"{path}.fate[{index}]", problem, "give the fate that fits, or correct the draft")
        if accept_prob is None or coin is None or not fate.judged:
            continue
        off = coin - accept_prob if fate is Fate.ACCEPTED else accept_prob - coin
        if off > limits.SLACK:
            problem = f"{fate} with coin {coin:g} against {accept_prob:g}"
            yield Problem(f"{path}.fate[{index}]", problem, "a draft is accepted when its coin falls below accept_prob")


def _check_token(field: str, token: Token, width: int | None) -> Iterator[Problem]:
    """`width` is the length of continuous tokens, None for a vocabulary."""
    if isinstance(token, int) and width is None:
        return
    if isinstance(token, int) or width is None:
        problem = "an id among continuous tokens" if isinstance(token, int) else "a list among vocabulary ids"
        yield Problem(field, f"is {problem}", "use one kind of token in a trace")
    elif len(token) != width:
        yield Problem(field, f"has {len(token)} numbers, others have {width}", "give all tokens one length")


def _token_width(trace: Trace) -> int | None:
    first = next((token for step in trace.steps for token in step.token), 0)
    return None if isinstance(first, int) else len(first)


def _check_ranked(field: str, ranked: Sequence[tuple[int, float] | tuple[int, float, float]]) -> Iterator[Problem]:
    """Tokens with one or two probabilities, by the first of them."""
    before = 1.0
    for index, share in enumerate(entry[1] for entry in ranked):
        if share > before + limits.SLACK:
            problem = f"{share:g} is above the one before it"
            yield Problem(f"{field}[{index}][1]", problem, "list the likeliest token first")
        before = share


def _check_measure(path: str, name: str, column: Numbers, per: str, *, later: bool) -> Iterator[Problem]:
    """`later`: the trace is of a version to come, which may have measures that are not known yet."""
    measure = MEASURES.get(name)
    if measure is None:
        if not later and not name.startswith(FREE_PREFIX):
            remedy = f"use a name of docs/trace.md or begin it with {FREE_PREFIX}"
            yield Problem(path, f"{quote(name)} is no known measure", remedy)
        return
    if measure.per != per:
        home = "numbers" if measure.per == "position" else "signals"
        yield Problem(path, f"{quote(name)} belongs to a {measure.per}, not to a {per}", f"move it to {home}")
        return
    least = -math.inf if measure.low is None else measure.low
    most = math.inf if measure.high is None else measure.high
    field, remedy = f"{path}.{name}", f"give {measure.unit or 'a number'} in its range"
    for index, value in enumerate(column):
        if value is not None:
            at = field if per == "step" else f"{field}[{index}]"
            yield from outside(at, value, least, most, remedy, limits.SLACK)


def _check_mask(path: str, mask: Mask) -> Iterator[Problem]:
    if len(mask.runs) != len(mask.queries):
        problem = f"has {len(mask.runs)} rows for {len(mask.queries)} queries"
        yield Problem(f"{path}.runs", problem, "give one row of runs per query")
    for index, runs in enumerate(mask.runs):
        if any(run < 0 for run in runs) or sum(runs) != len(mask.keys):
            problem = f"do not add up to the {len(mask.keys)} keys"
            yield Problem(f"{path}.runs[{index}]", problem, "count hidden, seen, hidden ... keys from the left")


def _check_graph(path: str, graph: Sequence[Node], rows: int, size: int) -> Iterator[Problem]:
    for index, node in enumerate(graph):
        own = f"{path}[{index}]"
        yield from outside(f"{own}.row", node.row, 0, rows - 1, "give a row of the call")
        for at, parent in enumerate(node.parents):
            yield from outside(f"{own}.parents[{at}]", parent, 0, index - 1, "list parents before their children")
        for at, parent in enumerate(node.vouched_by):
            if parent not in node.parents:
                problem = f"{quote(parent)} is no parent of node {index}"
                yield Problem(f"{own}.vouched_by[{at}]", problem, "name one of its parents")
        for at, position in enumerate(node.positions):
            yield from outside(f"{own}.positions[{at}]", position, 0, size - 1, "give a position of the canvas")


def _check_paths(path: str, step: Step, width: int | None, states: int | None) -> Iterator[Problem]:
    """`width` is the length of tokens, `states` that of the first path of the trace."""
    if step.paths and width is None:
        yield Problem(f"{path}.paths", "are given for vocabulary ids", "leave them out, ids are not denoised")
        return
    for index, pair in enumerate(step.paths or ()):
        if pair is None:
            continue
        if step.draft is None or step.draft[index] is None:
            yield Problem(f"{path}.paths[{index}]", "is given where no draft was judged", "write null there")
        yield from _check_pair(f"{path}.paths[{index}]", pair, states)


def _check_pair(path: str, pair: PathPair, states: int | None) -> Iterator[Problem]:
    """Paths have one length throughout, and are never closer than the plane shows them."""
    count = len(pair.draft)
    if not 2 <= count <= limits.PATH_STATES:
        problem = f"has {count} states, outside 2 ... {limits.PATH_STATES}"
        yield Problem(f"{path}.draft", problem, "give x_T first and x_0 last")
    lengths = {"draft": (count, states), "target": (len(pair.target), count)}
    lengths["distance_squared"] = (len(pair.distance_squared), count)
    for name, (length, wanted) in lengths.items():
        if length != wanted:
            problem = f"has {length} states, others have {wanted}"
            yield Problem(f"{path}.{name}", problem, "give all paths of a run the same steps")
            return
    for index, (draft, target, squared) in enumerate(zip(pair.draft, pair.target, pair.distance_squared, strict=True)):
        seen = math.dist(draft, target)
        if squared < 0 or math.sqrt(squared) < seen - _PLANE_SLACK:
            problem = f"{squared:g} is below {seen * seen:g}, the squared distance in the plane"
            yield Problem(f"{path}.distance_squared[{index}]", problem, "take the distance of whole vectors")
