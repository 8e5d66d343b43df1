"""Language models over tiny vocabularies, given by tables, and the exact distribution of a decoder on them."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product

import torch
from support.enumeration import Enumerator
from torch import Tensor

from engines.diffusion_lm.request import BlockForward
from engines.diffusion_lm.sequence import TextTask
from engines.protocol import Decision, Decoder
from engines.sampling.chance import Chance
from traces.schema import Canvas

State = tuple[int, ...]
END = 99


@dataclass
class Conditionals:
    """A model that answers a row with open positions by any distribution at all, the same whenever it is asked again.

    With `joint`, the distributions are the conditionals of one joint distribution, so that the order of decoding does
    not matter.
    """

    length: int
    vocabulary: int
    seed: int
    joint: bool = False
    known: dict[tuple[State, int], Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.noise = torch.Generator().manual_seed(self.seed)
        shape = [self.vocabulary] * self.length
        weights = torch.rand(shape, generator=self.noise, dtype=torch.float64) ** 3 + 0.02
        self.table = weights / weights.sum()

    @property
    def task(self) -> TextTask:
        canvas = Canvas(kind="text", shape=(self.length,), block=self.length)
        return TextTask(canvas, self.vocabulary, torch.device("cpu"), None, (), self.vocabulary, (END,))

    def probs(self, state: State, position: int) -> Tensor:
        if state[position] != self.vocabulary:  # nobody wants the distribution of a token that is there
            return torch.full((self.vocabulary,), torch.nan, dtype=torch.float64)
        if self.joint:
            seen = self.table[tuple(slice(None) if t == self.vocabulary else slice(t, t + 1) for t in state)]
            others = [i for i in range(self.length) if i != position]
            marginal = seen.sum(others) if others else seen
            return marginal / marginal.sum()
        if (state, position) not in self.known:
            weights = torch.rand(self.vocabulary, generator=self.noise, dtype=torch.float64) + 0.05
            self.known[state, position] = weights / weights.sum()
        return self.known[state, position]

    def all_probs(self, request: BlockForward) -> Tensor:
        """For requests that hold the whole text in every row."""
        rows = [
            torch.stack([self.probs(tuple(row.tolist()), int(place)) for place in request.position[request.read]])
            for row in request.tokens
        ]
        return torch.stack(rows)


def outputs(make: Callable[[Chance], Decoder], models: dict[str, Conditionals]) -> Iterator[tuple[State, float]]:
    """Every branch of a decoder: its tokens and its probability."""
    todo: list[tuple[int, ...]] = [()]
    while todo:
        path = todo.pop()
        chance = Enumerator(path)
        decoder, answer = make(chance), None
        while True:
            try:
                item = decoder.send(answer)  # type: ignore[arg-type]
            except StopIteration as stop:
                yield tuple(stop.value.tolist()), chance.weight
                break
            if isinstance(item, BlockForward):
                answer = item.cut(models[item.role].all_probs(item))  # type: ignore[assignment]
            else:
                assert isinstance(item, Decision)
                answer = tuple(item.readback.long().tolist())  # type: ignore[assignment]
        todo += [sibling for sibling in chance.siblings if len(sibling) > len(path)]


def probs_of(make: Callable[[Chance], Decoder], models: dict[str, Conditionals]) -> dict[State, float]:
    distribution: defaultdict[State, float] = defaultdict(float)
    for tokens, weight in outputs(make, models):
        distribution[tokens] += weight
    return dict(distribution)


def sequential(target: Conditionals, drafter: Conditionals) -> dict[State, float]:
    """The distribution of the target when it decodes one token a pass in the order the drafter would choose."""
    distribution: dict[State, float] = {}
    for tokens in product(range(target.vocabulary), repeat=target.length):
        state, weight = [target.vocabulary] * target.length, 1.0
        while target.vocabulary in state:
            open_ = [i for i, token in enumerate(state) if token == target.vocabulary]
            surest = max(open_, key=lambda i: float(drafter.probs(tuple(state), i).max()))
            weight *= float(target.probs(tuple(state), surest)[tokens[surest]])
            state[surest] = tokens[surest]
        distribution[tokens] = weight
    return distribution
