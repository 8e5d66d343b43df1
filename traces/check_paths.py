"""Whether denoising paths make sense: of one length throughout, and never closer than the plane shows them."""

import math
from collections.abc import Iterator
from typing import Final

from traces import limits
from traces.errors import Problem
from traces.schema import PathPair, Step, Trace

_SLACK: Final = 0.01
"""Points of the plane are rounded."""


def path_states(trace: Trace) -> int | None:
    """States of the first path of a trace; None without paths."""
    return next((len(pair.draft) for step in trace.steps for pair in step.paths or () if pair), None)


def check_paths(path: str, step: Step, width: int | None, states: int | None) -> Iterator[Problem]:
    """All that is wrong with a step's paths; `width` is the length of tokens, `states` that of the first path."""
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
    count = len(pair.draft)
    if not 2 <= count <= limits.PATH_STATES:
        problem = f"has {count} states, outside 2 ... {limits.PATH_STATES}"
        yield Problem(f"{path}.draft", problem, "give x_T first and x_0 last")
    for name, found, wanted in (
        ("draft", count, states),
        ("target", len(pair.target), count),
        ("distance_squared", len(pair.distance_squared), count),
    ):
        if found != wanted:
            problem = f"has {found} states, others have {wanted}"
            yield Problem(f"{path}.{name}", problem, "give all paths of a run the same steps")
            return
    for index, (draft, target, squared) in enumerate(zip(pair.draft, pair.target, pair.distance_squared, strict=True)):
        seen = math.dist(draft, target)
        if squared < 0 or math.sqrt(squared) < seen - _SLACK:
            problem = f"{squared:g} is below {seen * seen:g}, the squared distance in the plane"
            yield Problem(f"{path}.distance_squared[{index}]", problem, "take the distance of whole vectors")
