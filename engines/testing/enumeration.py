"""The exact output distribution of a decoder: walk every branch of its randomness and add up the probabilities."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass

import torch
from support.tables import Table
from torch import Tensor

from engines.ar.request import Forward
from engines.protocol import Decision, Decoder
from engines.sampling.chance import Chance, Draw

Point = tuple[float, float, float]
_SIMPLEX: tuple[Point, ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


@dataclass
class Enumerator:
    """A Chance that follows a path of choices, multiplies their probabilities and notes the branches it left out.

    Coins with the same key share one uniform number: its interval narrows with every verdict. Gumbel noise of a
    position is a race of exponentials; normalised, three of them are uniform on a triangle, and every argmax cuts a
    polygon out of it.
    """

    path: tuple[int, ...] = ()
    coin_key: Callable[[Draw, int], object] = lambda draw, position: (draw.purpose, draw.iteration, position)
    weight: float = 1.0
    taken: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    siblings: list[tuple[int, ...]] = field(default_factory=list)
    intervals: dict[object, tuple[float, float]] = field(default_factory=dict)
    races: dict[int, tuple[Point, ...]] = field(default_factory=dict)

    def choose(self, probs: list[float]) -> int:
        depth = len(self.taken)
        possible = [i for i, p in enumerate(probs) if p > 1e-15]
        if depth < len(self.path):
            choice = self.path[depth]
        else:
            choice = possible[0]
            self.siblings += [(*self.taken, other) for other in possible[1:]]
        self.taken.append(choice)
        self.weight *= probs[choice]
        self.weights.append(self.weight)
        return choice

    def weight_of(self, length: int) -> float:
        """Probability of the first `length` choices."""
        return self.weights[length - 1] if length else 1.0

    def memory(self) -> object:
        """What later draws depend on, apart from the path."""
        shared = {key: value for key, value in self.intervals.items() if not _is_own(key)}
        return (tuple(sorted(shared.items(), key=str)), tuple(sorted(self.races.items())))

    def keep(self, prob: Tensor, draw: Draw, *, until_rejection: bool = False) -> tuple[Tensor, Tensor]:
        verdicts: list[bool] = []
        for bar, position in zip(prob.tolist(), draw.position.tolist(), strict=True):
            if until_rejection and not all(verdicts):
                verdicts.append(False)
                continue
            key = self.coin_key(draw, position)
            low, high = self.intervals.get(key, (0.0, 1.0))
            cut = min(max(bar, low), high)
            chance = (cut - low) / (high - low)
            kept = self.choose([1 - chance, chance]) == 1
            self.intervals[key] = (low, cut) if kept else (cut, high)
            verdicts.append(kept)
        return torch.tensor(verdicts, dtype=torch.bool), torch.zeros(len(verdicts), dtype=torch.float64)

    def categorical(self, weights: Tensor, draw: Draw, where: Tensor | None = None) -> Tensor:
        used = [True] * len(weights) if where is None else where.tolist()
        ids = [self.choose((row / row.sum()).tolist()) if use else 0 for row, use in zip(weights, used, strict=True)]
        return torch.tensor(ids, dtype=torch.long)

    def gumbel_argmax(self, weights: Tensor, position: Tensor, where: Tensor | None = None) -> Tensor:
        used = [True] * len(weights) if where is None else where.tolist()
        ids = [
            self._win(int(at), (row / row.sum()).tolist()) if use else 0
            for row, at, use in zip(weights, position, used, strict=True)
        ]
        return torch.tensor(ids, dtype=torch.long)

    def uniform(self, draw: Draw, count: int) -> Tensor:
        raise NotImplementedError("numbers from an interval have too many branches to walk")

    def normal(self, draw: Draw, count: int) -> Tensor:
        raise NotImplementedError("numbers from an interval have too many branches to walk")

    def _win(self, position: int, probs: list[float]) -> int:
        """The winner argmin_v E_v / p_v of the race at a position, given the winners so far."""
        probs = [*probs, 0.0][:3]
        field_ = self.races.get(position, _SIMPLEX)
        wins = []
        for i in range(3):
            polygon = list(field_) if probs[i] > 0 else []
            for v in range(3):
                if v != i:
                    polygon = _clip(polygon, i, v, probs)
            wins.append(polygon)
        areas = [_area(polygon) for polygon in wins]
        winner = self.choose([area / sum(areas) for area in areas])
        self.races[position] = tuple(wins[winner])
        return winner


def _is_own(key: object) -> bool:
    """Whether a coin's key names one iteration and position, so that it is never looked at again."""
    return isinstance(key, tuple)


def _clip(polygon: list[Point], i: int, v: int, probs: list[float]) -> list[Point]:
    """The part of a polygon where E_i / p_i <= E_v / p_v."""

    def side(point: Point) -> float:
        return point[v] * probs[i] - point[i] * probs[v]

    kept: list[Point] = []
    for a, b in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        if side(a) >= 0:
            kept.append(a)
        if side(a) * side(b) < 0:
            t = side(a) / (side(a) - side(b))
            kept.append(tuple(x + t * (y - x) for x, y in zip(a, b, strict=True)))  # type: ignore[arg-type]
    return kept


def _area(polygon: list[Point]) -> float:
    return 0.5 * abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(polygon, polygon[1:] + polygon[:1], strict=True)))


def advance(decoder: Decoder, model: Table, rounds: int) -> tuple[int, ...] | None:
    """Drive a decoder for some rounds of Forward and Decision, without any of the driver's machinery.

    Returns:
        The tokens if the canvas is full by then. Otherwise the decoder waits for the answer to its next Forward.
    """
    answer: Tensor | tuple[int, ...] | None = None
    while True:
        try:
            item = decoder.send(answer)
        except StopIteration as stop:
            return tuple(stop.value.tolist())
        if isinstance(item, Forward):
            if rounds == 0:
                return None
            rounds -= 1
            answer = model.probs(item)
        else:
            assert isinstance(item, Decision)
            answer = tuple(item.readback.tolist())


def exact_distribution(
    make: Callable[[Chance], Decoder],
    model: Table,
    live: tuple[str, ...],
    coin_key: Callable[[Draw, int], object] | None = None,
) -> dict[tuple[int, ...], float]:
    """Probability of every output of a decoder.

    Branches that lead to the same state after a round are merged and walked on once. `live` names the decoder's
    variables that make up its state between two rounds; what chance remembers (coins in use, races) belongs to it
    too.
    """
    probs: defaultdict[tuple[int, ...], float] = defaultdict(float)
    level: dict[object, tuple[tuple[int, ...], float]] = {None: ((), 1.0)}
    rounds = 0
    while level:
        rounds += 1
        following: dict[object, tuple[tuple[int, ...], float]] = {}
        for path, weight in level.values():
            scale = 0.0
            todo = [path]
            while todo:
                chance = Enumerator(todo.pop()) if coin_key is None else Enumerator(todo.pop(), coin_key)
                decoder = make(chance)
                tokens = advance(decoder, model, rounds)
                scale = scale or weight / chance.weight_of(len(path))
                todo += [sibling for sibling in chance.siblings if len(sibling) > len(path)]
                if tokens is not None:
                    probs[tokens] += scale * chance.weight
                    continue
                assert decoder.gi_frame is not None
                variables = decoder.gi_frame.f_locals
                key = (*(_fingerprint(variables[name]) for name in live), chance.memory())
                first, total = following.get(key, (tuple(chance.taken), 0.0))
                following[key] = (first, total + scale * chance.weight)
        level = following
    return dict(probs)


def _fingerprint(value: object) -> object:
    if isinstance(value, Tensor):
        return (tuple(value.shape), value.numpy().tobytes())
    if is_dataclass(value):
        return tuple(_fingerprint(getattr(value, f.name)) for f in fields(value))
    return value


def largest_error(probs: dict[tuple[int, ...], float], reference: dict[tuple[int, ...], float]) -> float:
    return max(abs(probs.get(key, 0.0) - reference.get(key, 0.0)) for key in probs.keys() | reference.keys())
