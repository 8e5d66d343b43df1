"""Causal models small enough to know by heart: one random distribution for every prefix."""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final, TypeVar

import torch
from torch import Tensor

from engines.ar.request import Forward
from engines.continuous.request import PathForward
from engines.models.sessions.discrete import DiscreteSession
from engines.protocol import Family, Task
from traces.schema import Canvas, Legend, ModelCard, Output

LETTERS: Final = "abcdefgh"
MOST_ROWS: Final = 100_000
"""Of a table that is drawn as a whole; of a larger one a row is drawn when it is asked for."""


R = TypeVar("R", Forward, PathForward)


class FedTokens:
    """What a cache would do to a model that has none: tokens said to be cached are those that were fed, by sequence."""

    def __init__(self) -> None:
        self._fed: dict[int, Tensor] = {}

    def seen(self, sequence: int, request: R) -> R:
        """The request as a cached model sees it; ValueError where fewer were fed than are said to be cached."""
        fed = self._fed.get(sequence, request.tokens[:0])
        if request.cached > len(fed):
            raise ValueError(f"cached: {request.cached} tokens are said to be cached, and {len(fed)} were fed.")
        tokens = torch.cat([fed[: request.cached], request.tokens[request.cached :]])
        self._fed[sequence] = tokens
        return replace(request, tokens=tokens)


@dataclass(frozen=True, slots=True)
class TableTask(Task):
    """A text whose lines have two positions, for drafts that look to their left."""

    @property
    def row_length(self) -> int:
        """See `Task.row_length`."""
        return 2


class _Hashed(dict[tuple[int, ...], Tensor]):
    """Rows that are drawn when they are asked for, where there are too many prefixes to draw them all."""

    def __init__(self, seed: int, drawn: Callable[[torch.Generator], Tensor]) -> None:
        super().__init__()
        self._seed, self._drawn = seed, drawn

    def __missing__(self, prefix: tuple[int, ...]) -> Tensor:
        self[prefix] = self._drawn(torch.Generator().manual_seed(hash((self._seed, prefix)) % 2**63))
        return self[prefix]


class Table:
    """A causal model whose distributions are drawn once per prefix; `free` makes them independent of the prefix.

    Those of one seed rank their tokens alike; `sharpness` says how far they are from uniform.
    """

    tokens = "table"
    parameters = 0
    families: tuple[Family, ...] = ("discrete-ar",)

    def __init__(self, length: int, vocabulary: int, seed: int, *, free: bool = False, sharpness: float = 2.0) -> None:
        self._sharpness = sharpness
        generator = torch.Generator().manual_seed(seed)
        self.device, self.dtype = torch.device("cpu"), torch.float64
        self.task = TableTask(Canvas(kind="text", shape=(length,)), vocabulary, self.device)
        self.card = ModelCard(id="table")
        self._rows: dict[tuple[int, ...], Tensor] = _Hashed(seed, self._random)
        self._answers: dict[tuple[int, tuple[int, ...]], Tensor] = {}
        for n in range(length + 1 if vocabulary**length <= MOST_ROWS else 0):
            shared = self._random(generator)
            for prefix in itertools.product(range(vocabulary), repeat=n):
                self._rows[prefix] = shared if free else self._random(generator)

    def _random(self, generator: torch.Generator) -> Tensor:
        probs = torch.rand(self.task.vocabulary, generator=generator, dtype=torch.float64).pow(self._sharpness) + 0.02
        return probs / probs.sum()

    def answer(self, request: Forward) -> Tensor:
        """The distributions [W + 1, V] that a request asks for; no one may write into them."""
        key = (request.done, tuple(request.tokens.tolist()))
        if key not in self._answers:
            done, tokens = key
            self._answers[key] = torch.stack([self._rows[tokens[:i]] for i in range(done, len(tokens) + 1)])
        return self._answers[key]

    def conditionals(self, tokens: tuple[int, ...]) -> Tensor:
        """The distributions [N, V] that ordinary decoding draws these tokens from."""
        return torch.stack([self._rows[tokens[:i]] for i in range(len(tokens))])

    def joint(self) -> dict[tuple[int, ...], float]:
        """The distribution of ordinary decoding, multiplied out."""
        rows = {prefix: row.tolist() for prefix, row in self._rows.items()}
        return {
            tokens: prod(rows[tokens[:i]][token] for i, token in enumerate(tokens))
            for tokens in itertools.product(range(self.task.vocabulary), repeat=self.task.length)
        }

    def make_task(self, prompt: str, config: Any) -> Task:
        """See `engines.protocol.Model.make_task`. A table takes no prompt."""
        if prompt:
            raise ValueError("prompt: a table draws without a prompt; leave it empty.")
        return self.task

    def start(self, tasks: Sequence[Task], guided: bool) -> "TableSession":
        """See `engines.protocol.Model.start`."""
        return TableSession(self, guided)

    def legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """See `engines.protocol.Model.legend`."""
        return Legend(vocabulary={i: LETTERS[i] for i in range(self.task.vocabulary)})

    def output(self, tokens: Sequence[int | None]) -> Output:
        """See `engines.protocol.Model.output`."""
        return Output(tokens=tuple(tokens), text="".join("-" if t is None else LETTERS[t] for t in tokens))


class TableSession(DiscreteSession):
    """Looks distributions up, for the tokens that its cache would hold. Without a condition all tokens are alike."""

    def __init__(self, table: Table, guided: bool) -> None:
        self._table, self._fed_tokens, self.rows = table, FedTokens(), 1 + guided

    def logits(self, requests: Mapping[int, Forward]) -> Tensor:
        """See `DiscreteSession.logits`."""
        logs = [self._table.answer(self._fed_tokens.seen(i, request)).log() for i, request in requests.items()]
        conditional = torch.nn.utils.rnn.pad_sequence(logs, batch_first=True)
        return torch.stack([conditional, torch.zeros_like(conditional)][: self.rows], 1)
