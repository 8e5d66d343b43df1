"""Exact output distribution of a decoder: run every branch of its randomness and add up the probabilities.

A decoder is a generator and cannot be copied, so every branch runs it again along its path of choices. All bookkeeping
uses plain floats, so that most of the time is the decoder's own work.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from random import Random
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

from draftscope.engines.protocol import FATE_CODES, Decision, Decoder
from draftscope.engines.sampling.random_source import SAME_NOISE_PURPOSES, DrawKey, RandomSource

Path: TypeAlias = tuple[int, ...]
Distribution: TypeAlias = dict[tuple[int, ...], float]
Point: TypeAlias = tuple[float, float, float]
Polygon: TypeAlias = tuple[Point, ...]
_SIMPLEX: Final[Polygon] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_FINAL: Final = frozenset(code for fate, code in FATE_CODES.items() if fate.final)
_IMPOSSIBLE: Final = 1e-15
"""Branches no likelier than rounding are not walked."""


class TooManyBranchesError(RuntimeError):
    """A walk took more branches than it was allowed."""


class TooManyGumbelIdsError(NotImplementedError):
    """A race of Gumbel noise among more ids than there is geometry for."""


@dataclass
class Enumerator:
    """A Chance that follows a path of choices, multiplies their probabilities and notes the branches it left out.

    Draws with the same key share one uniform number, as with a seed: its interval narrows with every one. Gumbel noise
    of a position is a race of exponentials; normalised, three of them are uniform on a triangle, and every argmax cuts
    a polygon out of it.
    """

    path: Path = ()
    same_noise: bool = False
    weight: float = 1.0
    choices: list[int] = field(default_factory=list)
    siblings: list[Path] = field(default_factory=list)
    intervals: dict[object, tuple[float, float]] = field(default_factory=dict)
    races: dict[int, Polygon] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    """Positions whose token is final, so that their noise decides nothing any more."""
    within: Random = field(default_factory=lambda: Random(0))
    """Relative location of numbers in their intervals, the same for every path."""

    def choose(self, probs: Sequence[float]) -> int:
        """Take the branch of the path, or the first that can be taken; the others become siblings."""
        depth = len(self.choices)
        if depth < len(self.path):
            choice = self.path[depth]
        else:
            choice, *others = (i for i, p in enumerate(probs) if p > _IMPOSSIBLE)
            self.siblings += [(*self.choices, other) for other in others]
        self.choices.append(choice)
        self.weight *= probs[choice]
        return choice

    def observe(self, decision: Decision) -> None:
        """Note which positions are final."""
        for position, fate in zip(decision.position.tolist(), decision.resolve().fate.tolist(), strict=True):
            if fate in _FINAL:
                self.settled.add(position)

    def accept(self, prob: Tensor, draw: DrawKey, *, until_rejection: bool = False) -> tuple[Tensor, Tensor]:
        """The uniform numbers are part of the branch, so that a method that depends on their values fails."""
        verdicts: list[bool] = []
        uniforms: list[float] = []
        over = False
        for accept_prob, position in zip(prob.tolist(), draw.position.tolist(), strict=True):
            is_accepted = not over and self._drawn((accept_prob, 1.0), draw, position) == 0
            low, high = (0.0, 1.0) if over else self.intervals[self._key(draw, position)]
            over = over or (until_rejection and not is_accepted)
            verdicts.append(is_accepted)
            uniforms.append(low + (high - low) * self.within.random())
        return torch.tensor(verdicts, dtype=torch.bool), torch.tensor(uniforms, dtype=torch.float64)

    def categorical(self, weights: Tensor, draw: DrawKey, where: Tensor | None = None) -> Tensor:
        """Sample an id at every position."""
        if self.same_noise and draw.purpose in SAME_NOISE_PURPOSES:
            return self.gumbel_argmax(weights, draw.position, where)

        def pick(probs: tuple[float, ...], position: int) -> int:
            ids = [i for i, prob in enumerate(probs) if prob]  # few of the ids of a published vocabulary
            return ids[self._drawn([*accumulate(probs[i] for i in ids)], draw, position)]

        return _ids(weights, draw.position, where, pick)

    def gumbel_argmax(self, weights: Tensor, position: Tensor, where: Tensor | None = None) -> Tensor:
        """Supports up to three ids."""
        return _ids(weights, position, where, self._win)

    def uniform(self, draw: DrawKey, count: int) -> Tensor:
        """Return uniform numbers."""
        raise NotImplementedError(
            "numbers from an interval have too many branches to walk; draw with keep, categorical or gumbel_argmax"
        )

    def normal(self, draw: DrawKey, count: int) -> Tensor:
        """Return standard normal numbers."""
        return self.uniform(draw, count)

    def _key(self, draw: DrawKey, position: int) -> object:
        """The name of a number: draws of one purpose, iteration and position share it, as with a seed."""
        return draw.purpose, draw.iteration, position

    def _drawn(self, cuts: Sequence[float], draw: DrawKey, position: int) -> int:
        """Return the first i whose cut exceeds the number with this key; the number is known to be in an interval."""
        key = self._key(draw, position)
        low, high = self.intervals.get(key, (0.0, 1.0))
        edges = [low, *(min(max(cut, low), high) for cut in cuts[:-1]), high]
        choice = self.choose([(b - a) / (high - low) for a, b in pairwise(edges)])
        self.intervals[key] = (edges[choice], edges[choice + 1])
        return choice

    def _win(self, probs: tuple[float, ...], position: int) -> int:
        """The winner argmin_v E_v / p_v of the race at a position, given the winners so far."""
        if len(probs) > 3:
            raise TooManyGumbelIdsError(f"gumbel_argmax: {len(probs)} ids; races of more than three cannot be walked")
        if position in self.settled:
            raise ValueError(f"gumbel_argmax: the token at {position} is final, and its noise is used once more.")
        shares, parts = _race(self.races.get(position, _SIMPLEX), (*probs, 0.0)[:3])
        winner = self.choose(shares)
        self.races[position] = parts[winner]
        return winner


def _ids(
    weights: Tensor, position: Tensor, where: Tensor | None, pick: Callable[[tuple[float, ...], int], int]
) -> Tensor:
    """Return the id that `pick` takes for each row by its probabilities and position; 0 where none is requested."""
    used = [True] * len(weights) if where is None else where.tolist()
    rows = zip(weights.tolist(), position.tolist(), used, strict=True)
    return torch.tensor([pick(_shares(row), at) if use else 0 for row, at, use in rows], dtype=torch.long)


def _shares(weights: list[float]) -> tuple[float, ...]:
    total = sum(weights)
    return tuple(weight / total for weight in weights)


@lru_cache(maxsize=65_536)
def _race(polygon: Polygon, probs: tuple[float, float, float]) -> tuple[tuple[float, ...], tuple[Polygon, ...]]:
    """Return for every id its probability to win if the noise is in a polygon, and that part of the polygon."""
    parts: list[Polygon] = []
    for i in range(3):
        part = polygon if probs[i] > 0 else ()
        for v in range(3):
            if v != i:
                part = _clip(part, i, v, probs)
        parts.append(part)
    sides = [zip(part, part[1:] + part[:1], strict=True) for part in parts]
    areas = [0.5 * abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in corners)) for corners in sides]
    return _shares(areas), tuple(parts)


def _clip(polygon: Polygon, i: int, v: int, probs: tuple[float, float, float]) -> Polygon:
    """The part of a polygon where E_i / p_i <= E_v / p_v."""
    sides = [point[v] * probs[i] - point[i] * probs[v] for point in polygon]
    inside: list[Point] = []
    for a, b, here, next_side in zip(polygon, polygon[1:] + polygon[:1], sides, sides[1:] + sides[:1], strict=True):
        if here >= 0:
            inside.append(a)
        if here * next_side < 0:
            t = here / (here - next_side)
            inside.append((a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]), a[2] + t * (b[2] - a[2])))
    return tuple(inside)


Answer: TypeAlias = Callable[[Any], Tensor]
"""Gives a request its distributions; `answer` of the models in this package."""


def by_role(models: Mapping[str, Any]) -> Answer:
    """Answers of several models, each to the requests of its role."""
    return lambda request: models[request.role].forward(request)


def run_decoder(decoder: Decoder, answer: Answer, rng: Enumerator | None = None) -> tuple[int, ...]:
    """Return the tokens of a decoder that is driven to its end, without any of the driver's machinery.

    Args:
        decoder: Decoder that has not started.
        answer: Returns the result of a forward request.
        rng: Its random source, which observes every decision.
    """
    answered: Tensor | tuple[int, ...] | None = None
    while True:
        try:
            item = decoder.send(answered)
        except StopIteration as stop:
            return tuple(stop.value.tolist())
        if isinstance(item, Decision):
            if rng:
                rng.observe(item)
            answered = tuple(item.readback.long().tolist())
        else:
            answered = answer(item)


def exact_distribution(
    make: Callable[[RandomSource], Decoder], answer: Answer, max_branches: int = 1_000_000
) -> Distribution:
    """Return the probability of every output of a decoder.

    Args:
        make: Starts the decoder with a random source; called once a branch.
        answer: Returns the result of a forward request.
        max_branches: Limit of the number of branches.

    Raises:
        TooManyBranchesError: If there are more.
    """
    probs: defaultdict[tuple[int, ...], float] = defaultdict(float)
    todo: list[Path] = [()]
    for _ in range(max_branches):
        rng = Enumerator(todo.pop())
        probs[run_decoder(make(rng), answer, rng)] += rng.weight
        todo += rng.siblings
        if not todo:
            return dict(probs)
    raise TooManyBranchesError(f"more than {max_branches} branches; take fewer positions or fewer tokens.")


def largest_error(probs: Distribution, reference: Distribution) -> float:
    """Return the largest difference between the probabilities of an output.

    Args:
        probs: Output -> probability.
        reference: Probabilities that it is compared with; an output that one of them lacks has probability 0 there.
    """
    return max(_errors(probs, reference))


def variation(probs: Distribution, reference: Distribution) -> float:
    """Return the total variation of two distributions.

    Args:
        probs: Output -> probability.
        reference: Probabilities that it is compared with; an output that one of them lacks has probability 0 there.
    """
    return sum(_errors(probs, reference)) / 2


def _errors(probs: Distribution, reference: Distribution) -> Iterator[float]:
    return (abs(probs.get(key, 0.0) - reference.get(key, 0.0)) for key in probs.keys() | reference.keys())
