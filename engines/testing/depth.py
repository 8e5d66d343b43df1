"""A language model whose every output is a digest of exactly what it sees, layer by layer, as in a transformer.

`Depth` is the model, `DepthModel` the same with prompts and a cache, for the driver. Equal inputs give equal
distributions to the last bit, and anything that leaks in changes them beyond recognition.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from math import prod
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import pad

from engines.diffusion_lm.request import BlockForward
from engines.diffusion_lm.sequence import Row, TextTask, text_canvas
from engines.models.sessions.discrete import DiscreteSession
from engines.protocol import Family
from engines.testing.enumeration import Distribution
from traces.schema import Legend, ModelCard, Output

NO_END: Final = 99
"""An id that no model draws."""


@dataclass
class Depth:
    """The model and, as it answers one decoder at a time, its cache."""

    vocabulary: int
    layers: int = 3
    seed: int = 0
    shift: bool = False
    sharpness: float = 2.0
    """How far its opinions are from uniform."""
    finished: list[tuple[int, list[int]]] = field(default_factory=list)
    """Position and states, layer by layer, of the tokens in the cache."""

    def task(self, length: int, prompt: tuple[int, ...] = (), end: int = NO_END, block: int = 1) -> TextTask:
        """A text behind a prompt of ids; the mask's id is `vocabulary`."""
        canvas, device = text_canvas(length, block, len(prompt)), torch.device("cpu")
        return TextTask(
            canvas, self.vocabulary, device, prompt=prompt, mask=self.vocabulary, ends=(end,), shift=self.shift
        )

    def answer(self, request: BlockForward) -> Tensor:
        """The distributions that a request asks for; one that finds nothing finished begins a new text."""
        return request.cut(self.all_probs(request))

    def all_probs(self, request: BlockForward) -> Tensor:
        """Distributions [K, m, V] of a request; see `answer`."""
        past = self.finished = self.finished[: request.finished]
        rows = [self._states(past, request, tokens) for tokens in request.tokens.tolist()]
        self.finished = past + list(zip(request.position.tolist(), rows[0], strict=True))[: request.keep]
        read = request.read.tolist()
        return torch.stack(
            [torch.stack([_probs(self.vocabulary, self.sharpness, states[i][-1]) for i in read]) for states in rows]
        )

    def _states(self, past: list[tuple[int, list[int]]], request: BlockForward, tokens: list[int]) -> list[list[int]]:
        """What is known at every token of a row, layer by layer."""
        position, seen = request.position.tolist(), request.seen.tolist()
        states = [[hash((self.seed, token))] for token in tokens]
        for layer in range(self.layers):
            known = [(at, state[layer]) for at, state in past]
            fed = [(at, state[layer]) for at, state in zip(position, states, strict=True)]
            for i, row in enumerate(seen):
                seen_here = sorted(known + [token for token, visible in zip(fed, row, strict=True) if visible])
                states[i].append(hash((position[i], tuple(seen_here))))
        return states

    def conditionals(self, tokens: tuple[int, ...], prompt: tuple[int, ...] = ()) -> Tensor:
        """The distributions [N, V] that ordinary decoding, block size 1, draws these tokens from."""
        row, probs = Row(self.task(len(tokens), prompt), 1), []
        for position, token in enumerate(tokens, len(prompt)):
            probs.append(self.all_probs(row.look())[0, 0])
            row.fill([position], [token])
        return torch.stack(probs)

    def joint(self, length: int, prompt: tuple[int, ...] = ()) -> Distribution:
        """The distribution of the text under block size 1."""
        return {
            tokens: prod(self.conditionals(tokens, prompt)[range(length), tokens].tolist())
            for tokens in product(range(self.vocabulary), repeat=length)
        }


@cache
def _probs(vocabulary: int, sharpness: float, state: int) -> Tensor:
    weights = torch.rand(vocabulary, generator=torch.Generator().manual_seed(state % 2**63), dtype=torch.float64)
    weights = weights.pow(sharpness) + 0.05
    return weights / weights.sum()


LETTERS: Final = ".abcdefg"
"""The vocabulary; the stop ends a text. The id behind the last is the mask."""
END: Final = 0


class DepthModel:
    """A block-causal model of eight letters."""

    tokens = LETTERS
    families: tuple[Family, ...] = ("diffusion-lm",)
    parameters = 0

    def __init__(self, seed: int = 0) -> None:
        self.depth = Depth(len(LETTERS), seed=seed, sharpness=6)
        self.card = ModelCard(id="depth")
        self.device, self.dtype = torch.device("cpu"), torch.float64

    def make_task(self, prompt: str, config: Any) -> TextTask:
        """See `engines.protocol.Model.make_task`."""
        if not prompt or not set(prompt) < set(LETTERS):
            raise ValueError(f"prompt: {prompt!r} must be made of the letters {LETTERS[1:]}.")
        size = int(getattr(config, "size", 1))
        return replace(self.depth.task(config.length, tuple(map(LETTERS.index, prompt)), END, size), card=self.card)

    def start(self, tasks: Sequence[TextTask], guided: bool) -> "DepthSession":
        """See `engines.protocol.Model.start`."""
        return DepthSession([replace(self.depth, finished=[]) for _ in tasks])

    def legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """See `engines.protocol.Model.legend`."""
        return Legend(vocabulary=dict(enumerate(LETTERS)), ends=(END,))

    def output(self, tokens: Sequence[int | None]) -> Output:
        """See `engines.protocol.Model.output`."""
        text = "".join("-" if token is None else LETTERS[token] for token in tokens)
        return Output(tokens=tuple(tokens), text=text.partition(LETTERS[END])[0])


class DepthSession(DiscreteSession):
    """A model and its cache for every sequence."""

    def __init__(self, models: Sequence[Depth]) -> None:
        self._models = models

    def logits(self, requests: Mapping[int, BlockForward]) -> Tensor:
        """See `DiscreteSession.logits`."""
        logs = [self._models[i].all_probs(request).log() for i, request in requests.items()]  # [K, m, V] each
        most, longest = (max(log.shape[axis] for log in logs) for axis in (0, 1))
        padded = [pad(log, (0, 0, 0, longest - log.shape[1], 0, most - log.shape[0])) for log in logs]
        return torch.stack(padded)[:, :, None]
