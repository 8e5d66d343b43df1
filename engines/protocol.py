"""Interfaces between methods, models and the driver.

A method is a generator that requests forward passes and holds no model. It yields a `ForwardRequest`, receives the
result, yields a `Decision` on it, receives the few integers of it that it needs on the host, and so on until its canvas
is full; it returns the tokens. Every request is answered by exactly one Decision: that pair becomes one step of the
trace. A `Model` opens a `Session` for sequences that are decoded together, and the session answers their requests. The
driver is responsible for batching, timing, recording, pausing and stopping.
"""

import math
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from draftscope.traces.schema import Canvas, Fate, Legend, Mask, ModelCard, Output

Family = Literal["discrete-ar", "diffusion-lm", "continuous-ar"]
"""Requirement of a method on a model. discrete-ar: the distributions of all positions after a prefix in one causal
pass. diffusion-lm: those of any positions of a partly masked text. continuous-ar: the denoising paths of tokens that
are vectors, after a prefix in one causal pass."""
Role: TypeAlias = Literal["draft", "target", "self"]
FATE_CODES: Final = {fate: code for code, fate in enumerate(Fate)}
UNUSED_ENTRY: Final = -1
"""Fate code of a column entry that a step turned out not to have."""
_NONE: Final = torch.empty(0, dtype=torch.long)


@dataclass(frozen=True, slots=True)
class Task:
    """Decoding task: the canvas and what a method may know about its tokens. Models add what they need."""

    canvas: Canvas
    vocab_size: int
    device: torch.device
    embedding: Float[Tensor, "V D"] | None = None
    """Embeddings of the tokens, for methods that compare them."""
    prompt_ids: tuple[int, ...] = ()
    """Tokens before the canvas, where they are of the same vocabulary."""
    eos_token_ids: tuple[int, ...] = ()
    """End-of-sequence ids."""
    renderer: "Renderer | None" = field(default=None, kw_only=True)
    """Renderer of this canvas if it depends on the prompt; by default the model."""
    rendered_prompt: str = field(default="", kw_only=True)
    """The prompt as the model reads it, where that is a text."""
    chat: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """How the prompt was put to the model, for the trace: see `draftscope.engines.models.chat.RenderedPrompt`."""

    @property
    def length(self) -> int:
        """Positions of the canvas."""
        return math.prod(self.canvas.shape)

    @property
    def row_width(self) -> int:
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
        """Purpose of the pass, as recorded in the trace."""

    def count_tokens(self, rows: int, prefix: int) -> tuple[int, int]:
        """Return the rows evaluated, and the tokens fed over all of them.

        Args:
            rows: Rows of the sequence, 2 with guidance.
            prefix: Tokens of the prompt, which the first pass feeds.
        """

    def recorded_mask(self) -> Mask | None:
        """The attention mask, where there is something to see."""


@dataclass(frozen=True, slots=True)
class CausalRequest:
    """Common part of requests to models that decode from left to right."""

    tokens: Int[Tensor, " n"] | Float[Tensor, "n D"]
    """Final tokens, then drafts."""
    num_final: int
    """How many tokens are final."""
    num_cached: int
    """How many tokens, from the left, went through the model unchanged in earlier passes."""
    role: Role = field(default="target", kw_only=True)
    mode: str = field(default="causal", kw_only=True)

    def count_tokens(self, rows: int, prefix: int) -> tuple[int, int]:
        """Return the rows evaluated, and the tokens fed over all of them: at least one in every row.

        Args:
            rows: Rows of the sequence, 2 with guidance.
            prefix: Tokens of the prompt, which are fed where nothing is final yet.
        """
        return rows, rows * max(self.tokens.shape[0] - self.num_cached + (0 if self.num_final else prefix), 1)

    def recorded_mask(self) -> Mask | None:
        """Return the attention mask to record: None."""
        return None


@dataclass(frozen=True, slots=True)
class DraftGraph:
    """Drafts that were evaluated in parallel, one row of the pass each, and their outcome."""

    parents: tuple[tuple[int, ...], ...]
    """Rows that a row builds on, for each of K rows; they precede it."""
    positions: tuple[tuple[int, ...], ...]
    """Positions that a row fills."""
    accepted: Bool[Tensor, " K"]
    accepted_by_parent: Bool[Tensor, "K K"]
    """Whether row p let row k pass."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision of a method on a result. Columns have E entries, stay on the model's device, and are not modified."""

    position: Int[Tensor, " E"]
    token: Int[Tensor, " E"] | Float[Tensor, "E D"]
    fate: Int[Tensor, " E"] = _NONE
    """Codes of FATE_CODES, or UNUSED_ENTRY; none where they are among the details."""
    readback: Int[Tensor, " R"] | Bool[Tensor, " R"] = field(kw_only=True)
    """Values that the decoder needs on the host; they are sent back as a tuple of integers."""
    draft: Int[Tensor, " W"] | Float[Tensor, "W D"] | None = None
    """Columns that speak of drafts cover the first W <= E entries."""
    p: Float[Tensor, "W V"] | None = None
    """Distributions the drafts were verified against."""
    q: Float[Tensor, "W V"] | None = None
    """Distributions the drafts were drawn from."""
    probs: Float[Tensor, "E V"] | None = None
    """Distributions whose most likely tokens are recorded with each entry."""
    consecutive_iterations: bool = False
    """Whether p and q belong to successive iterations, so that it matters how draws from them go together."""
    accept_prob: Float[Tensor, " W"] | None = None
    uniform: Float[Tensor, " W"] | None = None
    measures: Mapping[str, Tensor] = field(default_factory=dict)
    """The method's own columns [W], named in traces.measures."""
    step_measures: Mapping[str, float | Tensor] = field(default_factory=dict)
    """The method's own numbers of the step, named in traces.measures; tensors have one element."""
    row: Int[Tensor, " E"] | None = None
    """Row of the pass that an entry speaks of, where there are several."""
    graph: DraftGraph | None = None
    denoising_paths: Float[Tensor, "W S C"] | None = None
    """How the drafts were denoised: draft and target in the plane, two numbers each, and their squared distance, at
    x_T .. x_0; where the target follows the drafts' paths also log p / q of the step that led there, 0 for x_T."""
    deferred_fields: Callable[[], Mapping[str, Any]] | None = None
    """Works out fields, by name, for the record alone, when it is written."""

    def resolve(self) -> "Decision":
        """Return the decision with its deferred fields."""
        return self if self.deferred_fields is None else replace(self, deferred_fields=None, **self.deferred_fields())


T = TypeVar("T")
SubDecoder: TypeAlias = Generator[ForwardRequest | Decision, Any, T]
"""Some passes of a method. It is sent the answer to a request, of a type that its family fixes, and to a Decision its
`readback` as integers."""
Decoder: TypeAlias = SubDecoder[Tensor]


def as_probs(answer: Any) -> Tensor:
    """Return the result of a request for distributions: [W, V], or [K, W, V] for several rows; float64."""
    assert isinstance(answer, Tensor)
    return answer


def as_ints(answer: Any) -> tuple[int, ...]:
    """The answer to a Decision: its `readback` on the host."""
    assert isinstance(answer, tuple)
    return answer


StageCallback: TypeAlias = Callable[[Literal["forward", "logits"], Tensor], None]
"""Called by a session when a stage of an answer is done, with a tensor that the stage made: the network, then what
makes distributions of its output. The driver waits for the tensor and stops the time."""


@dataclass(frozen=True, slots=True)
class ForwardResult:
    """Result of a session for one request."""

    value: Any
    """Value that the decoder receives, on the model's device: distributions [W, V] or [K, W, V], or `Paths`."""
    rows: int
    """Rows evaluated."""
    query_tokens: int
    """Tokens fed over all rows."""


@runtime_checkable
class Session(Protocol):
    """Sequences that are decoded together; caches live here."""

    def forward(self, requests: Mapping[int, Any], sampling: Any, lap: StageCallback) -> Mapping[int, ForwardResult]:
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

    def make_legend(self, canvases: Mapping[int, Sequence[Any]], mentioned: Collection[int] = ()) -> Legend:
        """Return what is needed to draw a trace.

        Args:
            canvases: Tokens by step.
            mentioned: Further tokens that the trace mentions.
        """

    def render_output(self, tokens: Sequence[Any]) -> Output:
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
        """Data type of the network's computations."""

    @property
    def token_space(self) -> object:
        """Meaning of the tokens. Models for which this is equal can draft for each other."""

    @property
    def num_parameters(self) -> int:
        """Numbers that its network was trained to; 0 for a formula."""

    def make_task(self, prompt: str, config: Any) -> Task:
        """Return the decoding task of a prompt.

        Args:
            prompt: Text of the user; empty for a model that reads none.
            config: Config of the method, for the settings that decide on the task, such as `length` and `guidance`.

        Raises:
            ValueError: If the model cannot read the prompt or lacks a setting; the message has the remedy.
        """

    def open_session(self, tasks: Sequence[Any], guided: bool) -> Session:
        """Open a session, one sequence per task.

        Args:
            tasks: Tasks of `make_task`.
            guided: Whether every sequence has an unconditional row, too.
        """


@runtime_checkable
class HasChat(Protocol):
    """A model whose prompts go through the chat template of a tokenizer."""

    @property
    def prompt(self) -> str:
        """The prompt as text, if the model was built with one; empty otherwise."""

    def with_chat(self, chat: Any) -> Model:
        """Return the same model with other chat options (`draftscope.engines.models.chat.ChatOptions`)."""


@runtime_checkable
class ReadsTarget(Protocol):
    """A drafter that reads the ids of its target, and may have another vocabulary."""

    def drafting_for(self, target: Model, tasks: Sequence[Task]) -> Model:
        """Return the same model as a drafter for a target.

        Args:
            target: The model whose distributions verify the drafts.
            tasks: Tasks of the target.

        Raises:
            ValueError: If it cannot draft for this target.
        """


@runtime_checkable
class SharesPrompt(Protocol):
    """A drafter that must be given the prompt of its target, because it has no prompt of its own."""

    device: torch.device

    def with_prompt_of(self, other: Any) -> Model:
        """Return the same network with the prompt of another model."""


@runtime_checkable
class OpensDrafterSession(Protocol):
    """A drafter that reads what the session of its target computes, such as hidden states."""

    def open_drafter_session(self, session: Any, tasks: Sequence[Any]) -> Session:
        """Open a session on top of the session of the target, one sequence per task.

        Args:
            session: Session of the target, which keeps what its last pass computed.
            tasks: Tasks of the drafter.
        """


@runtime_checkable
class ReadsClips(Protocol):
    """A model that continues video clips."""

    def prompt_for(self, data: bytes) -> str:
        """Return the prompt for a video file.

        Raises:
            ValueError: If the file cannot be read or has too few frames.
        """
