"""A language model whose every output is a digest of exactly what it sees, layer by layer, as in a transformer.

Equal inputs give equal distributions to the last bit, and anything that leaks in changes them beyond recognition: what
a mask hides, what a cache stores and how deep a dependency reaches can be told apart without any tolerance.
"""

from dataclasses import dataclass, field
from functools import cache
from itertools import product

import torch
from torch import Tensor

from engines.diffusion_lm.request import BlockForward
from engines.diffusion_lm.sequence import Row, TextTask
from traces.schema import Canvas

NO_END = 99


@dataclass
class Depth:
    """The model and, as it answers one decoder at a time, its cache."""

    vocabulary: int
    layers: int = 3
    seed: int = 0
    shift: bool = False
    finished: list[tuple[int, list[int]]] = field(default_factory=list)
    """Position and states, layer by layer, of the tokens in the cache."""

    def task(self, length: int, prompt: tuple[int, ...] = (), end: int = NO_END) -> TextTask:
        canvas, device = Canvas(kind="text", shape=(length,)), torch.device("cpu")
        return TextTask(canvas, self.vocabulary, device, None, prompt, self.vocabulary, (end,), self.shift)

    def all_probs(self, request: BlockForward) -> Tensor:
        """Distributions [1, m, V] of a request; a request that finds nothing finished begins a new text."""
        past = self.finished = self.finished[: request.finished]
        (tokens,) = request.tokens.tolist()
        position, seen = request.position.tolist(), request.seen.tolist()
        states = [[hash((self.seed, token))] for token in tokens]
        for layer in range(self.layers):
            known = [(at, state[layer]) for at, state in past]
            fed = [(at, state[layer]) for at, state in zip(position, states, strict=True)]
            for i, row in enumerate(seen):
                seen_here = sorted(known + [token for token, visible in zip(fed, row, strict=True) if visible])
                states[i].append(hash((position[i], tuple(seen_here))))
        self.finished = past + list(zip(position, states, strict=True))[: request.keep]
        return torch.stack([_probs(self.vocabulary, states[i][-1]) for i in request.read.tolist()])[None]

    def joint(self, length: int, prompt: tuple[int, ...] = ()) -> dict[tuple[int, ...], float]:
        """The distribution of the text under block size 1."""
        probs = {}
        for tokens in product(range(self.vocabulary), repeat=length):
            row, weight = Row(self.task(length, prompt), 1), 1.0
            for i, token in enumerate(tokens):
                weight *= float(self.all_probs(row.look())[0, 0, token])
                row.fill([len(prompt) + i], [token])
            probs[tokens] = weight
        return probs


@cache
def _probs(vocabulary: int, state: int) -> Tensor:
    weights = torch.rand(vocabulary, generator=torch.Generator().manual_seed(state % 2**63), dtype=torch.float64)
    weights = weights.pow(2) + 0.05
    return weights / weights.sum()
