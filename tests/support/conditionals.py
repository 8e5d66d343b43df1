"""Masked language models over tiny vocabularies, given by tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import torch
from torch import Tensor

from draftscope.engines.diffusion_lm.block_request import BlockRequest
from draftscope.engines.diffusion_lm.block_sequence import TextTask
from draftscope.engines.testing.enumeration import Distribution
from draftscope.engines.testing.toy_models import NO_END
from draftscope.traces.schema import Canvas

State = tuple[int, ...]


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
        """The text in one block, without a prompt."""
        canvas = Canvas(kind="text", shape=(self.length,), block=self.length)
        return TextTask(canvas, self.vocabulary, torch.device("cpu"), eos_token_ids=(NO_END,), mask=self.vocabulary)

    def probs(self, state: State, position: int) -> Tensor:
        """The distribution [V] of a position of a text in which the id `vocabulary` is a mask."""
        if state[position] != self.vocabulary:  # no one wants the distribution of a token that is there
            return torch.full((self.vocabulary,), torch.nan, dtype=torch.float64)
        if (state, position) not in self.known:
            self.known[state, position] = self._marginal(state, position) if self.joint else self._any()
        return self.known[state, position]

    def forward(self, request: BlockRequest) -> Tensor:
        """The distributions that a request asks for, which holds the whole text in every row."""
        positions: Sequence[int] = request.position[request.output_index].tolist()
        rows = [
            torch.stack([self.probs(tuple(row), position) for position in positions]) for row in request.tokens.tolist()
        ]
        return request.trim(torch.stack(rows))

    def _any(self) -> Tensor:
        weights = torch.rand(self.vocabulary, generator=self.noise, dtype=torch.float64) + 0.05
        return weights / weights.sum()

    def _marginal(self, state: State, position: int) -> Tensor:
        seen = self.table[tuple(slice(None) if t == self.vocabulary else slice(t, t + 1) for t in state)]
        others = [i for i in range(self.length) if i != position]
        marginal = seen.sum(others) if others else seen
        return marginal / marginal.sum()


def sequential(target: Conditionals, drafter: Conditionals) -> Distribution:
    """The distribution of the target when it decodes one token a pass in the order the drafter would choose."""
    distribution: Distribution = {}
    for tokens in product(range(target.vocabulary), repeat=target.length):
        state, weight = [target.vocabulary] * target.length, 1.0
        while target.vocabulary in state:
            open_ = [i for i, token in enumerate(state) if token == target.vocabulary]
            surest = max(open_, key=lambda i: float(drafter.probs(tuple(state), i).max()))
            weight *= float(target.probs(tuple(state), surest)[tokens[surest]])
            state[surest] = tokens[surest]
        distribution[tokens] = weight
    return distribution
