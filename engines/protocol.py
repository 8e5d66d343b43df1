"""The form of a method: a generator that asks for forward passes.

A decoder holds no model. It yields a `Forward`, is sent the distributions that the forward pass gave, yields a
`Decision` on them, is sent the few integers of it that it needs on the host, and so on until its canvas is full; it
returns the tokens. Every Forward is answered by exactly one Decision: that pair becomes one step of the trace.
Batching, devices, timing, recording, pausing and stopping are the driver's business.
"""

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from engines.continuous.paths import Follow, Paths, Steer, Walks
from engines.diffusion_lm.masks import runs
from traces.schema import Canvas, Fate, Mask

Role: TypeAlias = Literal["draft", "target", "self"]
FATE_CODES: Final = {fate: code for code, fate in enumerate(Fate)}
NO_ENTRY: Final = -1
"""Fate code of a column entry that a step turned out not to have."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be decoded: the canvas and what a method may know about its tokens. Models add what they need."""

    canvas: Canvas
    vocabulary: int
    device: torch.device
    embedding: Float[Tensor, "V D"] | None = None
    """Where tokens lie, for methods that compare them."""

    @property
    def length(self) -> int:
        """Positions of the canvas."""
        return math.prod(self.canvas.shape)

    @property
    def row_length(self) -> int:
        """Positions per raster row; `length` for text."""
        return self.canvas.shape[-1]


@dataclass(frozen=True, slots=True)
class Forward:
    """Ask for the distributions of positions `done` .. len(tokens), each given the tokens before it."""

    tokens: Int[Tensor, " n"]
    """Final tokens, then drafts."""
    done: int
    """How many tokens are final."""
    cached: int
    """How many tokens, from the left, went through the model unchanged in earlier passes."""
    role: Role = "target"
    mode: str = "causal"

    def cost(self, rows: int, prefix: int) -> tuple[int, int]:
        """Rows evaluated, and tokens fed over all of them, where a lane has `rows` rows and `prefix` prompt tokens."""
        return rows, rows * max(len(self.tokens) - self.cached + (0 if self.done else prefix), 1)

    @property
    def wanted(self) -> int:
        """Positions whose distributions are asked for."""
        return len(self.tokens) - self.done + 1

    def cut(self, all_probs: Tensor) -> Tensor:
        """The distributions that were asked for, out of padded ones [T, V]."""
        return all_probs[: self.wanted]

    def drawn(self) -> Mask | None:
        """The attention mask, where there is something to see."""
        return None


@dataclass(frozen=True, slots=True)
class BlockForward:
    """Ask a diffusion language model for the distributions of some of the tokens fed, given the finished ones."""

    tokens: Int[Tensor, "K n"]
    """Rows are drafts to be looked at side by side; on the CPU, as everything here."""
    position: Int[Tensor, " n"]
    """Counted from the prompt's beginning; two tokens may share one."""
    read: Int[Tensor, " m"]
    """Which of the n outputs are wanted."""
    finished: int
    """Positions before them whose keys and values the cache holds."""
    seen: Bool[Tensor, "n n"]
    """Who sees whom among the tokens fed; see engines.diffusion_lm.masks."""
    keep: int = 0
    """Leading tokens, of the first row, that are finished now: their keys and values stay in the cache."""
    labels: tuple[str, ...] = ()
    """Names of the tokens behind `keep`, for a picture of the mask; none for no picture."""
    role: Role = "self"
    mode: str = "draft"

    def cost(self, rows: int, prefix: int) -> tuple[int, int]:
        """See `Forward.cost`."""
        count, width = self.tokens.shape
        return count, count * width

    def cut(self, all_probs: Tensor) -> Tensor:
        """The distributions that were asked for [K, m, V], out of padded ones; [m, V] for a single row."""
        all_probs = all_probs[: len(self.tokens), : len(self.read)]
        return all_probs[0] if len(self.tokens) == 1 else all_probs

    def drawn(self) -> Mask | None:
        """See `Forward.drawn`. All that is finished, now or before, is one column, which everybody sees."""
        if not self.labels:
            return None
        past = ("finished",) if self.finished or self.keep else ()
        seen = self.seen[self.keep :, self.keep :]
        seen = torch.cat([torch.ones(len(seen), len(past), dtype=torch.bool), seen], 1)
        return Mask(queries=self.labels, keys=past + self.labels, runs=runs(seen))


@dataclass(frozen=True, slots=True)
class PathForward:
    """Ask for the denoising paths of positions `done` .. done + W - 1, each given the tokens before it."""

    tokens: Float[Tensor, "n D"]
    """Final tokens, then drafts."""
    done: int
    """How many tokens are final."""
    cached: int
    """How many tokens, from the left, went through the model unchanged in earlier passes."""
    noise: Float[Tensor, "W T D"]
    """x_T, then the noise of every step but the last; W is at most one more than there are drafts."""
    guidance: Float[Tensor, " W"]
    """Scale of classifier-free guidance, where the session is guided."""
    role: Role = "target"
    mode: str = "causal"
    unseen: int = 0
    """Trailing tokens that the model is not to see, where it can do without."""
    steer: Steer | None = None
    """Has a say in where the steps of index `steered` .. 1 lead."""
    steered: int = 0
    follow: Follow | None = None
    """Paths of drafts to follow in place of the noise; the position behind them is asked for, too."""

    @property
    def wanted(self) -> int:
        """Positions whose paths are asked for."""
        return len(self.noise)

    def cost(self, rows: int, prefix: int) -> tuple[int, int]:
        """See `Forward.cost`."""
        return rows, rows * max(len(self.tokens) - self.cached + (0 if self.done else prefix), 1)

    def drawn(self) -> Mask | None:
        """See `Forward.drawn`."""
        return None


@dataclass(frozen=True, slots=True)
class DraftGraph:
    """Drafts that were looked at side by side, one row of the pass each, and what became of them."""

    parents: tuple[tuple[int, ...], ...]
    """Rows whose tokens a row builds on, for each of K rows; they stand before it."""
    positions: tuple[tuple[int, ...], ...]
    """Positions that a row fills."""
    accepted: Bool[Tensor, " K"]
    vouched: Bool[Tensor, "K K"]
    """Whether row p let row k pass."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a method made of the distributions. Columns have E entries and stay on the model's device."""

    position: Int[Tensor, " E"]
    token: Int[Tensor, " E"] | Float[Tensor, "E D"]
    fate: Int[Tensor, " E"]
    """Codes of FATE_CODES, or NO_ENTRY."""
    readback: Int[Tensor, " R"]
    """What the decoder wants to know on the host; it is sent back as a tuple."""
    draft: Int[Tensor, " W"] | Float[Tensor, "W D"] | None = None
    """Columns that speak of drafts cover the first W <= E entries."""
    p: Float[Tensor, "W V"] | None = None
    """Distributions the drafts were judged by."""
    q: Float[Tensor, "W V"] | None = None
    """Distributions the drafts were drawn from."""
    probs: Float[Tensor, "E V"] | None = None
    """Distributions whose likeliest tokens are worth keeping beside each entry."""
    successive: bool = False
    """Whether p and q belong to successive iterations, so that it matters how draws from them go together."""
    accept_prob: Float[Tensor, " W"] | None = None
    coin: Float[Tensor, " W"] | None = None
    numbers: Mapping[str, Tensor] = field(default_factory=dict)
    """The method's own columns [W], named in traces.measures."""
    signals: Mapping[str, float | Tensor] = field(default_factory=dict)
    """The method's own numbers of the step, named in traces.measures; tensors have one element."""
    row: Int[Tensor, " E"] | None = None
    """Row of the pass that an entry speaks of, where there are several."""
    graph: DraftGraph | None = None
    walks: Walks | None = None
    """How the drafts were denoised, for the record alone."""


Request: TypeAlias = Forward | BlockForward | PathForward
Answer: TypeAlias = Float[Tensor, "*K W V"] | Paths | tuple[int, ...] | None
Decoder: TypeAlias = Generator[Request | Decision, Answer, Tensor]


def ask_probs(answer: Answer) -> Tensor:
    """The answer to a Forward: distributions [W + 1, V], float64."""
    assert isinstance(answer, Tensor)
    return answer


def ask_paths(answer: Answer) -> Paths:
    """The answer to a PathForward."""
    assert isinstance(answer, Paths)
    return answer


def ask_numbers(answer: Answer) -> tuple[int, ...]:
    """The answer to a Decision: its `readback` on the host."""
    assert isinstance(answer, tuple)
    return answer
