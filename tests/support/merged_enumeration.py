"""The exact output distribution of a decoder, where branches that lead to the same state are walked on once."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass

from torch import Tensor

from draftscope.engines.protocol import Decoder
from draftscope.engines.sampling.random_source import RandomSource
from draftscope.engines.testing.enumeration import Answer, Distribution, Enumerator, Path, run_decoder


def _first(answer: Answer, rounds: int) -> Answer:
    """Return the first answers; StopIteration after them leaves the decoder waiting."""
    left = iter(range(rounds))
    return lambda request: (next(left), answer(request))[1]


def exact_distribution(make: Callable[[RandomSource], Decoder], answer: Answer, live: Sequence[str]) -> Distribution:
    """Probability of every output; `live` names the decoder's variables that make up its state between two rounds.

    Races of which more may be drawn belong to the state, too. Numbers of a name of their own are never used again.
    """
    probs: defaultdict[tuple[int, ...], float] = defaultdict(float)
    # By state: one path that leads there, its probability, and that of all paths that do.
    level: dict[object, tuple[Path, float, float]] = {None: ((), 1.0, 1.0)}
    rounds = 0
    while level:
        rounds += 1
        following: dict[object, tuple[Path, float, float]] = {}
        for begun, own_weight, total in level.values():
            todo = [begun]
            while todo:
                rng = Enumerator(todo.pop())
                decoder = make(rng)
                try:
                    tokens = run_decoder(decoder, _first(answer, rounds), rng)
                except StopIteration:
                    tokens = None
                todo += rng.siblings
                weight = total / own_weight * rng.weight
                if tokens is not None:
                    probs[tokens] += weight
                    continue
                variables = decoder.gi_frame.f_locals
                races = tuple(sorted(race for race in rng.races.items() if race[0] not in rng.settled))
                key = (*(_fingerprint(variables[name]) for name in live), races)
                first, alone, before = following.get(key, (tuple(rng.choices), rng.weight, 0.0))
                following[key] = (first, alone, before + weight)
        level = following
    return dict(probs)


def _fingerprint(value: object) -> object:
    if isinstance(value, Tensor):
        return (tuple(value.shape), value.numpy().tobytes())
    if is_dataclass(value):
        return tuple(_fingerprint(getattr(value, f.name)) for f in fields(value))
    return value
