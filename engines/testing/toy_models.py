"""Models small enough to enumerate, for the driver and for proofs.

`Table` has a random distribution for every prefix, `ToyFieldModel` has vectors in closed form. Every output of
`ToyBlockModel` is a digest of exactly what it attends to, layer by layer, as in a transformer: equal inputs give equal
distributions to the last bit, and any further input changes them completely. `DepthModel` adds prompts and a cache.
"""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from typing import Any, Final, TypeVar

import torch
from jaxtyping import Float
from numpy.polynomial.hermite_e import hermegauss
from torch import Tensor
from torch.distributions import Normal
from torch.nn.functional import pad
from typing_extensions import override

from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.continuous.denoising import ContinuousTask
from draftscope.engines.continuous.gaussians import Gaussians
from draftscope.engines.continuous.path_request import PathRequest
from draftscope.engines.diffusion_lm.block_request import BlockRequest
from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, TextTask, text_canvas
from draftscope.engines.models.sessions.denoising import ContinuousSession, Head
from draftscope.engines.models.sessions.discrete import DiscreteSession
from draftscope.engines.models.toys.toy_field import FieldBackbone, ToyField, conditioned_denoiser, neighbours
from draftscope.engines.models.toys.toy_raster import Weights
from draftscope.engines.protocol import Family, Task
from draftscope.engines.testing.enumeration import Distribution
from draftscope.traces.schema import Canvas, Legend, ModelCard, Output

LETTERS: Final = "abcdefgh"
MAX_ROWS: Final = 100_000
"""Maximum rows of a table that is sampled as a whole; rows of a larger one are sampled on first use."""


R = TypeVar("R", ProbsRequest, PathRequest)


class FedTokens:
    """Simulated cache of a model without one: checks that tokens said to be cached were fed, by sequence."""

    def __init__(self) -> None:
        self._fed: dict[int, Tensor] = {}

    def seen(self, sequence: int, request: R) -> R:
        """Return a request as a cached model sees it: cached tokens are those that were fed earlier.

        Args:
            sequence: Sequence that the request is of.
            request: The request.

        Raises:
            ValueError: If it has more cached tokens than were fed.
        """
        fed = self._fed.get(sequence, request.tokens[:0])
        if request.num_cached > len(fed):
            raise ValueError(f"cached: {request.num_cached} tokens are said to be cached, and {len(fed)} were fed.")
        tokens = torch.cat([fed[: request.num_cached], request.tokens[request.num_cached :]])
        self._fed[sequence] = tokens
        return replace(request, tokens=tokens)


@dataclass(frozen=True, slots=True)
class TableTask(Task):
    """A text whose lines have two positions, for drafts that look to their left."""

    @override
    @property
    def row_width(self) -> int:
        return 2


class _Hashed(dict[tuple[int, ...], Tensor]):
    """Rows that are sampled on first use, if there are too many prefixes to sample them all."""

    def __init__(self, seed: int, drawn: Callable[[torch.Generator], Tensor]) -> None:
        super().__init__()
        self._seed, self._drawn = seed, drawn

    def __missing__(self, prefix: tuple[int, ...]) -> Tensor:
        self[prefix] = self._drawn(torch.Generator().manual_seed(hash((self._seed, prefix)) % 2**63))
        return self[prefix]


def until_end(tokens: tuple[int, ...], ends: Collection[int], mask: int | None = None) -> tuple[int, ...]:
    """Return a text up to the first id that ends one; all of it if there is none.

    Args:
        tokens: Ids of the text.
        ends: Ids that end one.
        mask: Id that may follow the end; if anything else follows, all of the text is returned. None allows anything.
    """
    index = next((i + 1 for i, token in enumerate(tokens) if token in ends), len(tokens))
    return tokens[:index] if mask is None or set(tokens[index:]) <= {mask} else tokens


class Table:
    """Causal model whose distributions are sampled once per prefix; `free` makes them independent of the prefix.

    Tables of one seed rank their tokens alike; `sharpness` is their distance from uniform: at 8, many rows are nearly
    certain and some are even. A prompt and ids that end texts, which its task may have, change no distribution.
    """

    token_space = "table"
    num_parameters = 0
    families: tuple[Family, ...] = ("discrete-ar",)

    def __init__(self, length: int, vocabulary: int, seed: int, *, free: bool = False, sharpness: float = 2.0) -> None:
        self._sharpness = sharpness
        generator = torch.Generator().manual_seed(seed)
        self.device, self.dtype = torch.device("cpu"), torch.float64
        self.task = TableTask(Canvas(kind="text", shape=(length,)), vocabulary, self.device)
        self.card = ModelCard(id="table")
        self._rows: dict[tuple[int, ...], Tensor] = _Hashed(seed, self._random)
        self._answers: dict[tuple[int, tuple[int, ...]], Tensor] = {}
        for n in range(length + 1 if vocabulary**length <= MAX_ROWS else 0):
            shared = self._random(generator)
            for prefix in itertools.product(range(vocabulary), repeat=n):
                self._rows[prefix] = shared if free else self._random(generator)

    def _random(self, generator: torch.Generator) -> Tensor:
        probs = torch.rand(self.task.vocab_size, generator=generator, dtype=torch.float64).pow(self._sharpness) + 0.02
        return probs / probs.sum()

    def forward(self, request: ProbsRequest) -> Tensor:
        """The distributions [W + 1, V] that a request asks for; no one may write into them."""
        key = (request.num_final, tuple(request.tokens.tolist()))
        if key not in self._answers:
            done, tokens = key
            self._answers[key] = torch.stack([self._rows[tokens[:i]] for i in range(done, len(tokens) + 1)])
        return self._answers[key]

    def conditionals(self, tokens: tuple[int, ...]) -> Tensor:
        """The distributions [N, V] that ordinary decoding draws these tokens from."""
        return torch.stack([self._rows[tokens[:i]] for i in range(len(tokens))])

    def joint(self) -> Distribution:
        """The distribution of ordinary decoding, multiplied out; a text that ends early is shorter."""
        rows = {prefix: row.tolist() for prefix, row in self._rows.items()}
        texts = itertools.product(range(self.task.vocab_size), repeat=self.task.length)
        return {
            tokens: prod(rows[tokens[:i]][token] for i, token in enumerate(tokens))
            for tokens in {until_end(text, self.task.eos_token_ids) for text in texts}
        }

    def make_task(self, prompt: str, config: Any) -> Task:
        """Build the task. A table takes no prompt."""
        if prompt:
            raise ValueError("prompt: a table draws without a prompt; leave it empty.")
        return self.task

    def open_session(self, tasks: Sequence[Task], guided: bool) -> "TableSession":
        """Open a session, one sequence per task."""
        return TableSession(self, guided)

    def make_legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """Return what is needed to draw a trace."""
        return Legend(vocabulary={i: LETTERS[i] for i in range(self.task.vocab_size)})

    def render_output(self, tokens: Sequence[int | None]) -> Output:
        """Return the tokens in readable form."""
        return Output(tokens=tuple(tokens), text="".join("-" if t is None else LETTERS[t] for t in tokens))


class TableSession(DiscreteSession):
    """Looks distributions up, for the tokens that its cache would hold. Without a condition all tokens are alike."""

    def __init__(self, table: Table, guided: bool) -> None:
        self._table, self._fed_tokens, self.rows = table, FedTokens(), 1 + guided

    @override
    def logits(self, requests: Mapping[int, ProbsRequest]) -> Tensor:
        logs = [self._table.forward(self._fed_tokens.seen(i, request)).log() for i, request in requests.items()]
        conditional = torch.nn.utils.rnn.pad_sequence(logs, batch_first=True)
        return torch.stack([conditional, torch.zeros_like(conditional)][: self.rows], 1)


SHAPE: Final = (2, 4)
TARGET: Final = Weights(0.55, 0.5, -0.2, 0.25)
SMALL: Final = Weights(0.3, 0.3, 0.2, 0.3)
"""Far enough from the target that what it drafts is rejected often."""


class ToyFieldModel(ToyField):
    """A toy field that remembers what it was fed, as a model with a cache does.

    A `mixed` one mixes two Gaussians, so that it drafts with paths in closed form.
    """

    def __init__(self, weights: Weights = TARGET, *, mixed: bool = False) -> None:
        super().__init__("target" if weights is TARGET else "small", weights, torch.device("cpu"), SHAPE)
        self._mixed = mixed

    @override
    def make_task(self, prompt: str, config: Any) -> ContinuousTask:
        return replace(super().make_task(prompt, config), mixture=self._mixed)

    @override
    def open_session(self, tasks: Sequence[ContinuousTask], guided: bool) -> ContinuousSession:
        head = Head(mix=_two) if self._mixed else Head(conditioned_on=conditioned_denoiser)
        return ContinuousSession(RememberingBackbone(self._weights, self.shape), head)


def _two(condition: Tensor) -> Gaussians:
    """Return two Gaussians of unequal weight and width, on both sides of the mean of a cell."""
    mean, std = condition[:, None, :-1], condition[:, None, -1:].expand(-1, 1, condition.shape[1] - 1)
    weight = mean.new_tensor([0.6, 0.4]).log().expand(len(mean), -1)
    return Gaussians(weight, torch.cat([mean - 0.3 * std, mean + 0.6 * std], 1), torch.cat([0.8 * std, 1.1 * std], 1))


class RememberingBackbone(FieldBackbone):
    """The closed form, of the tokens that a cache would hold."""

    def __init__(self, weights: Weights, shape: tuple[int, int]) -> None:
        super().__init__(weights, shape)
        self._fed_tokens = FedTokens()

    @override
    def logits(self, requests: Mapping[int, PathRequest]) -> Tensor:
        return super().logits({i: self._fed_tokens.seen(i, request) for i, request in requests.items()})


_NODES: Final = 24
"""Nodes of the quadrature over a component."""


def misfit(samples: Float[Tensor, "B N D"]) -> tuple[float, float]:
    """Mean square and largest of the z-scores of all means and covariances of what is left to chance in each cell.

    They are standard normal and independent where the distribution is that of the target. Components are repeats.
    """
    depends = neighbours(TARGET, SHAPE)
    x = samples.transpose(1, 2).flatten(0, 1)  # [B * D, N]
    e = (x - x @ depends.T) / TARGET.std
    count, one = len(e), torch.eye(len(depends), dtype=torch.float64)
    scores = ((e.T @ e / count - one) / ((1 + one) / count).sqrt())[torch.triu(torch.ones_like(one)) > 0]
    scores = torch.cat([e.mean(0) * count**0.5, scores])
    return float(scores.square().mean()), float(scores.abs().max())


def share_of_drafter(samples: Float[Tensor, "B N D"]) -> tuple[float, float]:
    """Return the estimated share of components that follow the drafter instead of the target, and its standard error.

    It is 0 where the distribution is that of the target. The statistic is q / (p + q), whose means under p and q are
    known; one number finds a smaller bias than the many of `misfit` do.
    """
    x = samples.transpose(1, 2).flatten(0, 1)
    p, q = (Normal(x @ neighbours(weights, SHAPE).T, weights.std) for weights in (TARGET, SMALL))
    nodes, weights = map(torch.from_numpy, hermegauss(_NODES))

    def preference(values: Tensor) -> Tensor:
        log_ratio: Tensor = q.log_prob(values) - p.log_prob(values)
        return log_ratio.sigmoid()

    def means(law: Normal) -> tuple[Tensor, Tensor]:
        """Mean of the preference and of its square at every component."""
        values = torch.stack([preference(law.mean + law.stddev * node) for node in nodes], -1)
        return values @ weights / weights.sum(), values.square() @ weights / weights.sum()

    (expected, square), (drafted, _) = means(p), means(q)
    apart = float((drafted - expected).sum())
    share = float((preference(x) - expected).sum()) / apart
    return share, float((square - expected.square()).sum()) ** 0.5 / apart


NO_END: Final = 99
"""An id that no model draws."""


@dataclass
class ToyBlockModel:
    """The model and, as it answers one decoder at a time, its cache."""

    vocabulary: int
    layers: int = 3
    seed: int = 0
    shift: bool = False
    sharpness: float = 2.0
    """How far its distributions are from uniform."""
    floor: float = 0.05
    """Weight of the least likely id before weights are normalised; the likeliest one has at most 1 more."""
    agreed: tuple[int, float] = (0, 0.0)
    """A seed, and the share of positions at which all models with it agree, whatever they attend to."""
    finished: list[tuple[int, list[int]]] = field(default_factory=list)
    """Position and states, layer by layer, of the tokens in the cache."""

    def task(self, length: int, prompt: tuple[int, ...] = (), end: int = NO_END, block: int = 1) -> TextTask:
        """Return the task of a text; the mask id is `vocabulary`.

        Args:
            length: Tokens of the text.
            prompt: Ids before it.
            end: Id that ends it; by default none does.
            block: Positions of a block.
        """
        canvas, device = text_canvas(length, block, len(prompt)), torch.device("cpu")
        return TextTask(
            canvas,
            self.vocabulary,
            device,
            prompt_ids=prompt,
            mask=self.vocabulary,
            eos_token_ids=(end,),
            shift=self.shift,
        )

    def forward(self, request: BlockRequest) -> Tensor:
        """The distributions that a request asks for; one that finds nothing finished begins a new text."""
        return request.trim(self.all_probs(request))

    def all_probs(self, request: BlockRequest) -> Tensor:
        """Distributions [K, m, V] of a request; see `answer`."""
        past = self.finished = self.finished[: request.finished]
        rows = [self._states(past, request, tokens) for tokens in request.tokens.tolist()]
        self.finished = past + list(zip(request.position.tolist(), rows[0], strict=True))[: request.num_to_cache]
        read, position = request.output_index.tolist(), request.position.tolist()
        return torch.stack([torch.stack([self._probs(position[i], states[i][-1]) for i in read]) for states in rows])

    def _probs(self, position: int, state: int) -> Tensor:
        """The distribution [V] after a state."""
        seed, share = self.agreed
        agreed = hash((seed, position))
        return _probs(self.vocabulary, self.sharpness, self.floor, agreed if agreed % 1000 < 1000 * share else state)

    def _states(self, past: list[tuple[int, list[int]]], request: BlockRequest, tokens: list[int]) -> list[list[int]]:
        """Return the states of every token of a row, layer by layer."""
        position, seen = request.position.tolist(), request.attention_mask.tolist()
        states = [[hash((self.seed, token))] for token in tokens]
        for layer in range(self.layers):
            known = [(at, state[layer]) for at, state in past]
            fed = [(at, state[layer]) for at, state in zip(position, states, strict=True)]
            for i, row in enumerate(seen):
                seen_here = sorted(known + [token for token, visible in zip(fed, row, strict=True) if visible])
                states[i].append(hash((position[i], tuple(seen_here))))
        return states

    def conditionals(self, tokens: tuple[int, ...], prompt: tuple[int, ...] = ()) -> Tensor:
        """Return the distributions [N, V] that ordinary decoding, block size 1, draws tokens from.

        Args:
            tokens: The N tokens; each distribution is given those before it.
            prompt: Ids before them.
        """
        row, probs = BlockSequence(self.task(len(tokens), prompt), 1), []
        for position, token in enumerate(tokens, len(prompt)):
            probs.append(self.all_probs(row.request_open_positions())[0, 0])
            row.fill([position], [token])
        return torch.stack(probs)

    def joint(self, length: int, prompt: tuple[int, ...] = (), end: int = NO_END) -> Distribution:
        """Return the distribution of the text under block size 1; a text that ends early is shorter.

        Args:
            length: Tokens of a text that does not end early.
            prompt: Ids before it.
            end: Id that ends it; by default none does.
        """
        texts = itertools.product(range(self.vocabulary), repeat=length)
        return {
            tokens: prod(self.conditionals(tokens, prompt)[range(len(tokens)), tokens].tolist())
            for tokens in {until_end(text, (end,)) for text in texts}
        }


@cache
def _probs(vocabulary: int, sharpness: float, floor: float, state: int) -> Tensor:
    weights = torch.rand(vocabulary, generator=torch.Generator().manual_seed(state % 2**63), dtype=torch.float64)
    weights = weights.pow(sharpness) + floor
    return weights / weights.sum()


NAMES: Final = ".abcdefg"
"""Vocabulary; the full stop ends a text. The id after the last is the mask."""
END: Final = 0


class DepthModel:
    """A block-causal model of eight letters."""

    token_space = NAMES
    families: tuple[Family, ...] = ("diffusion-lm",)
    num_parameters = 0

    def __init__(
        self, seed: int = 0, *, is_sure: bool = False, agreed: tuple[int, float] = (0, 0.0), shift: bool = False
    ) -> None:
        """Start with distributions that are nearly certain at most positions if the model `is_sure`."""
        sharpness, floor = (60.0, 0.002) if is_sure else (6.0, 0.05)
        self.depth = ToyBlockModel(len(NAMES), seed=seed, sharpness=sharpness, floor=floor, agreed=agreed, shift=shift)
        self.card = ModelCard(id="depth")
        self.device, self.dtype = torch.device("cpu"), torch.float64

    def make_task(self, prompt: str, config: Any) -> TextTask:
        """Build the decoding task of a prompt."""
        if not prompt or not set(prompt) < set(NAMES):
            raise ValueError(f"prompt: {prompt!r} must consist of the letters {NAMES[1:]}.")
        size = int(getattr(config, "size", 1))
        return replace(self.depth.task(config.length, tuple(map(NAMES.index, prompt)), END, size), card=self.card)

    def open_session(self, tasks: Sequence[TextTask], guided: bool) -> "DepthSession":
        """Open a session, one sequence per task."""
        return DepthSession([replace(self.depth, finished=[]) for _ in tasks])

    def make_legend(self, canvases: Mapping[int, Sequence[int | None]], mentioned: Collection[int] = ()) -> Legend:
        """Return what is needed to draw a trace."""
        return Legend(vocabulary=dict(enumerate(NAMES)), ends=(END,))

    def render_output(self, tokens: Sequence[int | None]) -> Output:
        """Return the tokens in readable form."""
        text = "".join("-" if token is None else NAMES[token] for token in tokens)
        return Output(tokens=tuple(tokens), text=text.partition(NAMES[END])[0])


class DepthSession(DiscreteSession):
    """A model and its cache for every sequence."""

    def __init__(self, models: Sequence[ToyBlockModel]) -> None:
        self._models = models

    @override
    def logits(self, requests: Mapping[int, BlockRequest]) -> Tensor:
        logs = [self._models[i].all_probs(request).log() for i, request in requests.items()]  # [K, m, V] each
        max_width, longest = (max(log.shape[axis] for log in logs) for axis in (0, 1))
        padded = [pad(log, (0, 0, 0, longest - log.shape[1], 0, max_width - log.shape[0])) for log in logs]
        return torch.stack(padded)[:, :, None]
