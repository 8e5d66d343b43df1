"""Models small enough to know by heart: one random distribution for every prefix."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engines.ar.request import Forward
from engines.models.discrete import DiscreteSession
from engines.protocol import Task
from engines.sampling.distributions import Sampling
from traces.schema import Canvas, Legend, ModelCard, Output


@dataclass(frozen=True, slots=True)
class TableTask(Task):
    """A text whose lines have `row` positions, for drafts that look to their left."""

    row: int = 2

    @property
    def row_length(self) -> int:
        return self.row


class Table:
    """A causal model whose distributions are drawn once per prefix; `free` makes them independent of the prefix."""

    def __init__(self, length: int, vocabulary: int, seed: int, *, free: bool = False, row_length: int = 2) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.device, self.dtype = torch.device("cpu"), torch.float64
        self.task = TableTask(Canvas(kind="text", shape=(length,)), vocabulary, self.device, None, row_length)
        self.card = ModelCard(id="table")
        self.families, self.tokens = ("discrete-ar",), "table"
        self._probs_of: dict[tuple[int, ...], Tensor] = {}
        for n in range(length + 1):
            shared = self._random(generator)
            for prefix in itertools.product(range(vocabulary), repeat=n):
                self._probs_of[prefix] = shared if free else self._random(generator)

    def _random(self, generator: torch.Generator) -> Tensor:
        probs = torch.rand(self.task.vocabulary, generator=generator, dtype=torch.float64).pow(2) + 0.02
        return probs / probs.sum()

    def probs(self, request: Forward) -> Tensor:
        tokens = tuple(request.tokens.tolist())
        return torch.stack([self._probs_of[tokens[:i]] for i in range(request.done, len(tokens) + 1)])

    def joint(self) -> dict[tuple[int, ...], float]:
        """The distribution of ordinary decoding, multiplied out."""
        probs = {}
        for tokens in itertools.product(range(self.task.vocabulary), repeat=self.task.length):
            factors = [float(self._probs_of[tokens[:i]][tokens[i]]) for i in range(len(tokens))]
            probs[tokens] = torch.tensor(factors, dtype=torch.float64).prod().item()
        return probs

    def pose(self, prompt: str, config: Sampling) -> Task:
        return self.task

    def start(self, tasks: Sequence[Task], guided: bool) -> "TableSession":
        return TableSession(self)

    def legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        return Legend(vocabulary={i: "abcd"[i] for i in range(self.task.vocabulary)})

    def output(self, tokens: Sequence[int | None]) -> Output:
        return Output(tokens=tuple(tokens), text="".join("-" if t is None else "abcd"[t] for t in tokens))


class TableSession(DiscreteSession):
    def __init__(self, table: Table) -> None:
        self._table = table

    def logits(self, requests: Mapping[int, Forward]) -> Tensor:
        logs = [self._table.probs(request).log() for request in requests.values()]
        return torch.nn.utils.rnn.pad_sequence(logs, batch_first=True)[:, None]
