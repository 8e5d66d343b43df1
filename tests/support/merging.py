"""The exact output distribution of a decoder, where branches that lead to the same state are walked on once."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from torch import Tensor

from engines.protocol import Decoder
from engines.sampling.chance import Chance, Draw
from engines.testing.enumeration import Answer, Distribution, Enumerator, Path, advance

CoinKey = Callable[[Draw, int], object]


@dataclass
class Remembering(Enumerator):
    """An Enumerator that says what it remembers, and lets other draws share a number than those of one name."""

    coin_key: CoinKey | None = None

    def memory(self) -> object:
        """What later draws depend on, apart from the path. A number of its own name is never used again."""
        shared = () if self.coin_key is None else tuple(sorted(self.intervals.items(), key=str))
        return shared, tuple(sorted(race for race in self.races.items() if race[0] not in self.settled))

    def _key(self, draw: Draw, position: int) -> object:
        return super()._key(draw, position) if self.coin_key is None else self.coin_key(draw, position)


class _EnoughError(Exception):
    """A decoder has had its answers."""


def _some(answer: Answer, rounds: int) -> Answer:
    """The first answers; behind them the decoder is left waiting."""
    left = iter(range(rounds))

    def first(request: Any) -> Any:
        if next(left, None) is None:
            raise _EnoughError
        return answer(request)

    return first


def _branches(
    path: Path, make: Callable[[Chance], Decoder], answer: Answer, coin_key: CoinKey | None, rounds: int
) -> Iterator[tuple[Remembering, Any, tuple[int, ...] | None]]:
    """Every branch of a decoder that begins with a path, at its end, or before the answer behind some rounds."""
    todo = [path]
    while todo:
        chance = Remembering(todo.pop(), coin_key=coin_key)
        decoder = make(chance)
        try:
            tokens = advance(decoder, _some(answer, rounds), chance)
        except _EnoughError:
            tokens = None
        yield chance, decoder, tokens
        todo += chance.siblings


def exact_distribution(
    make: Callable[[Chance], Decoder], answer: Answer, live: Sequence[str], coin_key: CoinKey | None = None
) -> Distribution:
    """Probability of every output; `live` names the decoder's variables that make up its state between two rounds.

    What chance remembers (numbers in use, races) belongs to the state, too.
    """
    probs: defaultdict[tuple[int, ...], float] = defaultdict(float)
    # By state: one path that leads there, its probability, and that of all paths that do.
    level: dict[object, tuple[Path, float, float]] = {None: ((), 1.0, 1.0)}
    rounds = 0
    while level:
        rounds += 1
        following: dict[object, tuple[Path, float, float]] = {}
        for path, own, total in level.values():
            for chance, decoder, tokens in _branches(path, make, answer, coin_key, rounds):
                weight = total / own * chance.weight
                if tokens is not None:
                    probs[tokens] += weight
                    continue
                variables = decoder.gi_frame.f_locals
                key = (*(_fingerprint(variables[name]) for name in live), chance.memory())
                first, alone, before = following.get(key, (tuple(chance.taken), chance.weight, 0.0))
                following[key] = (first, alone, before + weight)
        level = following
    return dict(probs)


def _fingerprint(value: object) -> object:
    if isinstance(value, Tensor):
        return (tuple(value.shape), value.numpy().tobytes())
    if is_dataclass(value):
        return tuple(_fingerprint(getattr(value, f.name)) for f in fields(value))
    return value
