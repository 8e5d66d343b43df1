"""What a method, a model and the driver promise each other.

A method is a generator that asks for forward passes and holds no model. It yields a `ForwardRequest`, is sent the
answer, yields a `Decision` on it, is sent the few integers of it that it needs on the host, and so on until its canvas
is full; it returns the tokens. Every request is answered by exactly one Decision: that pair becomes one step of the
trace. A `Model` opens a `Session` for sequences that are decoded together, and the session answers their requests.
Batching, timing, recording, pausing and stopping are the driver's business.
"""

import math
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from traces.schema import Canvas, Fate, Legend, Mask, ModelCard, Output

Family = Literal["discrete-ar", "diffusion-lm", "continuous-ar"]
"""What a method needs of a model: discrete-ar gives the distributions of all positions behind a prefix in one causal
pass, diffusion-lm those of any positions of a text that is masked in part, continuous-ar the denoising paths of tokens
that are vectors, behind a prefix in one causal pass."""
Role: TypeAlias = Literal["draft", "target", "self"]
FATE_CODES: Final = {fate: code for code, fate in enumerate(Fate)}
NO_ENTRY: Final = -1
"""Fate code of a column entry that a step turned out not to have."""
_NONE: Final = torch.empty(0, dtype=torch.long)


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be decoded: the canvas and what a method may know about its tokens. Models add what they need."""

    canvas: Canvas
    vocabulary: int
    device: torch.device
    embedding: Float[Tensor, "V D"] | None = None
    """Where tokens lie, for methods that compare them."""
    prompt: tuple[int, ...] = ()
    """Tokens before the canvas, where they are of the same vocabulary."""
    ends: tuple[int, ...] = ()
    """Ids behind which nothing counts."""
    drawing: "Renderer | None" = field(default=None, kw_only=True)
    """Who draws this canvas where it cannot be drawn without the prompt; the model does elsewhere."""
    rendered: str = field(default="", kw_only=True)
    """The prompt as the model reads it, where that is a text."""

    @property
    def length(self) -> int:
        """Positions of the canvas."""
        return math.prod(self.canvas.shape)

    @property
    def row_length(self) -> int:
        """Positions per raster row; `length` for text."""
        return self.canvas.shape[-1]


@runtime_checkable
class ForwardRequest(Protocol):
    """A forward pass that a decoder asks for. Every family has its own kind, in its `request` module."""

    @property
    def role(self) -> Role:
        """Which of two models is asked."""

    @property
    def mode(self) -> str:
        """What the pass is for, as the trace calls it."""

    def cost(self, rows: int, prefix: int) -> tuple[int, int]:
        """Rows evaluated, and tokens fed over all of them, for a sequence of `rows` rows and `prefix` prompt tokens."""

    def drawn(self) -> Mask | None:
        """The attention mask, where there is something to see."""


@dataclass(frozen=True, slots=True)
class CausalForward:
    """What requests to models that go from left to right have in common."""

    tokens: Int[Tensor, " n"] | Float[Tensor, "n D"]
    """Final tokens, then drafts."""
    done: int
    """How many tokens are final."""
    cached: int
    """How many tokens, from the left, went through the model unchanged in earlier passes."""
    role: Role = field(default="target", kw_only=True)
    mode: str = field(default="causal", kw_only=True)

    def cost(self, rows: int, prefix: int) -> tuple[int, int]:
        """See `ForwardRequest.cost`."""
        return rows, rows * max(self.tokens.shape[0] - self.cached + (0 if self.done else prefix), 1)

    def drawn(self) -> Mask | None:
        """See `ForwardRequest.drawn`."""
        return None


@dataclass(frozen=True, slots=True)
class DraftGraph:
    """Drafts that were looked at side by side, one row of the pass each, and what became of them."""

    parents: tuple[tuple[int, ...], ...]
    """Rows whose tokens a row builds on, for each of K rows; they stand before it."""
    positions: tuple[tuple[int, ...], ...]
    """Positions that a row fills."""
    accepted: Bool[Tensor, " K"]
    accepted_under: Bool[Tensor, "K K"]
    """Whether row p let row k pass."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a method made of an answer. Columns have E entries, stay on the model's device, and are not written to."""

    position: Int[Tensor, " E"]
    token: Int[Tensor, " E"] | Float[Tensor, "E D"]
    fate: Int[Tensor, " E"] = _NONE
    """Codes of FATE_CODES, or NO_ENTRY; none where they are among the details."""
    readback: Int[Tensor, " R"] | Bool[Tensor, " R"] = field(kw_only=True)
    """What the decoder wants to know on the host; it is sent back as a tuple of integers."""
    draft: Int[Tensor, " W"] | Float[Tensor, "W D"] | None = None
    """Columns that speak of drafts cover the first W <= E entries."""
    p: Float[Tensor, "W V"] | None = None
    """Distributions the drafts were verified against."""
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
    walks: Float[Tensor, "W S C"] | None = None
    """How the drafts were denoised: draft and target in the plane, two numbers each, and their squared distance, at
    x_T .. x_0; where the target follows the drafts' paths also log p / q of the step that led there, 0 for x_T."""
    details: Callable[[], Mapping[str, Any]] | None = None
    """Works out fields, by name, for the record alone, when it is written."""

    def complete(self) -> "Decision":
        """The same with its details."""
        return self if self.details is None else replace(self, details=None, **self.details())


T = TypeVar("T")
Part: TypeAlias = Generator[ForwardRequest | Decision, Any, T]
"""Some passes of a method. It is sent the answer to a request, of a type that its family fixes, and to a Decision its
`readback` as integers."""
Decoder: TypeAlias = Part[Tensor]


def ask_probs(answer: Any) -> Tensor:
    """The answer to a request for distributions: [W, V], or [K, W, V] where several rows were asked for; float64."""
    assert isinstance(answer, Tensor)
    return answer


def ask_numbers(answer: Any) -> tuple[int, ...]:
    """The answer to a Decision: its `readback` on the host."""
    assert isinstance(answer, tuple)
    return answer


Lap: TypeAlias = Callable[[Literal["forward", "logits"], Tensor], None]
"""Called by a session when a stage of an answer is done, with a tensor that the stage made: the network, then what
makes distributions of its output. The driver waits for the tensor and stops the time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a session gives for one request."""

    value: Any
    """What the decoder is sent, on the model's device: distributions [W, V] or [K, W, V], or `Paths`."""
    rows: int
    """Rows evaluated."""
    query_tokens: int
    """Tokens fed over all rows."""


@runtime_checkable
class Session(Protocol):
    """Sequences that are decoded together; caches live here."""

    def answer(self, requests: Mapping[int, Any], sampling: Any, lap: Lap) -> Mapping[int, Answer]:
        """One forward pass for the sequences that ask.

        Args:
            requests: By sequence, requests of the kind that the model answers.
            sampling: The settings by which network outputs become distributions, a method's Config.
            lap: Stops the time of a stage.

        Returns:
            By sequence, in the order of `requests`.
        """


@runtime_checkable
class Renderer(Protocol):
    """Draws a canvas."""

    def legend(self, canvases: Mapping[int, Sequence[Any]], mentioned: Collection[int] = ()) -> Legend:
        """What is needed to draw a trace.

        Args:
            canvases: The tokens after each step.
            mentioned: Further tokens that the trace speaks of.
        """

    def output(self, tokens: Sequence[Any]) -> Output:
        """The tokens as a person sees them."""


@runtime_checkable
class Model(Renderer, Protocol):
    """A network, or a formula in place of one, with the canvas that it fills."""

    card: ModelCard
    device: torch.device
    families: tuple[Family, ...]
    """Methods of which families it can run, the most natural first."""

    @property
    def dtype(self) -> torch.dtype:
        """What the network computes in."""

    @property
    def tokens(self) -> object:
        """What its tokens mean. Models for which this is equal can draft for each other."""

    @property
    def parameters(self) -> int:
        """Numbers that its network was trained to; 0 for a formula."""

    def make_task(self, prompt: str, config: Any) -> Task:
        """What a prompt asks for.

        Raises:
            ValueError: for a prompt that the model cannot read or a setting it does not have; the message says what
                it can.
        """

    def start(self, tasks: Sequence[Any], guided: bool) -> Session:
        """Open a session, one sequence per task."""
