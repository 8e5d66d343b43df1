"""Trace format: a frozen record of a decoding run, complete enough to replay and draw it without a model.

A run is a list of steps, one `Step` per forward pass, so `len(trace.steps)` is the number of function evaluations
(NFE). A step is columnar: entry i of every column belongs to `position[i]`. Positions count from 0 in decoding order
and index the canvas; the prompt has none. Probabilities are linear, not logarithms, unless the name contains `log`. The
records are plain data: `traces.io` checks them, `traces.replay` and `traces.stats` read them. The ranges in
annotations hold for everything that is read or written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field

from draftscope.traces import limits

SCHEMA: Final = "draftscope-trace"
VERSION: Final = "1.4"

Name: TypeAlias = Annotated[str, Field(max_length=limits.NAME_CHARACTERS)]
Text: TypeAlias = Annotated[str, Field(max_length=limits.TEXT_CHARACTERS)]
Sha256: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Int64: TypeAlias = Annotated[int, Field(ge=-limits.MAX_INT - 1, le=limits.MAX_INT)]
Id: TypeAlias = Annotated[int, Field(ge=0, le=limits.MAX_INT)]
"""A token of the vocabulary."""
Token: TypeAlias = Id | tuple[float, ...]
"""A vocabulary id, or the coordinates of a continuous token."""
Scalar: TypeAlias = bool | Int64 | float | Text | None
Probability: TypeAlias = Annotated[float, Field(ge=-limits.TOLERANCE, le=1 + limits.TOLERANCE)]
Probabilities: TypeAlias = tuple[Probability | None, ...]
MeasureValue: TypeAlias = Annotated[float, Field(ge=-limits.MEASURE, le=limits.MEASURE)]
"""One of a method's own numbers."""
Numbers: TypeAlias = tuple[MeasureValue | None, ...]
"""A column of numbers; None where the number does not apply."""
Duration: TypeAlias = Annotated[float, Field(ge=0, le=limits.MILLISECONDS)]
"""Time in milliseconds."""
Seconds: TypeAlias = Annotated[float, Field(ge=0, le=limits.EXACT)]
PositiveCount: TypeAlias = Annotated[int, Field(ge=1, le=limits.CALL_COUNT)]
Count: TypeAlias = Annotated[int, Field(ge=0, le=limits.EXACT)]
Counts: TypeAlias = Annotated[tuple[Count, ...], Field(max_length=limits.RESULT_PLACES)]
"""A count for each position in the draft, the first one first."""
Pixels: TypeAlias = Annotated[int, Field(ge=1, le=limits.PICTURE_PIXELS)]
Points: TypeAlias = tuple[tuple[float, float], ...]


class Fate(StrEnum):
    """Outcome of a step at a position."""

    DRAFTED = "drafted"
    KEPT = "kept"
    CHANGED = "changed"
    REJECTED = "rejected"
    DISCARDED = "discarded"
    SAMPLED = "sampled"
    PREFILLED = "prefilled"
    ACCEPTED = "accepted"
    RESAMPLED = "resampled"
    BONUS = "bonus"
    UNMASKED = "unmasked"
    FALLBACK = "fallback"
    EDITED = "edited"

    @property
    def final(self) -> bool:
        """Whether the token belongs to the output from this step on."""
        return self in _FINAL

    @property
    def judged(self) -> bool:
        """Whether a draft was verified here and its verdict counts towards the acceptance rate."""
        return self in (Fate.ACCEPTED, Fate.RESAMPLED, Fate.REJECTED)

    @property
    def evaluated(self) -> bool:
        """Whether the pass evaluated a draft here: one that it verified, dropped unverified or left pending."""
        return self.judged or self in (Fate.DISCARDED, Fate.KEPT, Fate.CHANGED)

    @property
    def meaning(self) -> str:
        """The fate in words."""
        return FATES[self]


FATES: Final[Mapping[Fate, str]] = {
    Fate.DRAFTED: "a first draft was placed here",
    Fate.KEPT: "the pending draft stays as it was",
    Fate.CHANGED: "a new draft replaced the pending one",
    Fate.REJECTED: "the draft was rejected and the position is open again",
    Fate.DISCARDED: "the draft was dropped unjudged, after a rejection before it",
    Fate.SAMPLED: "drawn from the model's own distribution, no draft involved",
    Fate.PREFILLED: "decoded the ordinary way before speculation starts",
    Fate.ACCEPTED: "the draft was verified and is final",
    Fate.RESAMPLED: "the draft was rejected and replaced by a sample from the residual",
    Fate.BONUS: "extra token of the target after all drafts were accepted",
    Fate.UNMASKED: "revealed by the decoding policy",
    Fate.FALLBACK: "committed by the rule for a step that accepts nothing",
    Fate.EDITED: "a final token was replaced by a repaired one",
}
"""Meaning of each fate, in the order of a legend."""

_FINAL: Final = frozenset(Fate) - {Fate.DRAFTED, Fate.KEPT, Fate.CHANGED, Fate.REJECTED, Fate.DISCARDED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Milliseconds:
    """Time of a step by stage. The stages follow one another; their sum is the step's time."""

    prepare: Duration = 0.0
    """Building the model's input: drafts, masks, cache bookkeeping."""
    forward: Duration = 0.0
    """The network itself."""
    logits: Duration = 0.0
    """From logits to distributions: guidance, temperature, truncation, softmax."""
    decide: Duration = 0.0
    """The method: drawing, verifying, choosing what to keep."""

    @property
    def total(self) -> float:
        """The step's time."""
        return self.prepare + self.forward + self.logits + self.decide


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The forward pass of a step: who ran, how, and what it cost."""

    role: Literal["draft", "target", "self"]
    """`self` is a model that verifies its own drafts."""
    mode: Name
    """Purpose of the pass: causal, diffusion, verify, commit, edit ..."""
    rows: PositiveCount = 1
    """Rows evaluated for this sequence: 2 with classifier-free guidance, K for K drafts verified at once."""
    query_tokens: Annotated[int, Field(ge=0, le=limits.CALL_COUNT)]
    """Tokens fed, over all rows; cached ones are not counted."""
    batch: PositiveCount = 1
    """Sequences that shared the pass. The milliseconds are those of the whole pass."""
    milliseconds: Milliseconds = field(default_factory=Milliseconds)
    """Time of the pass by stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """Attention mask in run-length form.

    `runs[i]` alternates how many keys query i may not and may attend to, from the left.
    """

    queries: tuple[Name, ...]
    """Names of the tokens that attend, one a row."""
    keys: tuple[Name, ...]
    """Names of the tokens that are attended to, one a column."""
    runs: tuple[tuple[int, ...], ...]
    """For each query the lengths of runs of keys, hidden and seen in turn, hidden first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One draft of a draft graph, evaluated as row `row` of the call."""

    row: int
    """Row of the call that evaluates the node."""
    parents: tuple[int, ...]
    """Indices of nodes whose tokens this one builds on; empty for the root."""
    positions: tuple[int, ...]
    """Positions the node fills with drafts, those of its parents among them, the most confident first."""
    accepted: bool
    """Whether the drafts of the node were accepted."""
    vouched_by: tuple[int, ...] = ()
    """Parents under whose distributions everything that the node adds was accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPair:
    """Denoising of draft and target for one verified token: states x_T ... x_0, projected to one plane for all traces.

    The plane depends only on D, the length of tokens. A point is the state's components along u, which is all ones over
    sqrt(D), and along v, which is the signs + - + ... less their mean, normalised to length 1 (all zeros if D is 1).
    """

    draft: Points
    """The draft model's states."""
    target: Points
    """Points of the target. The last one is what it would have sampled itself."""
    distance_squared: tuple[float, ...]
    """Squared distance of the two, of all components, at each of the states."""
    log_ratio: tuple[float, ...] = ()
    """Log of target over draft density of each denoising step of the draft's path, from that of x_T on, one fewer than
    states; present where the target follows that path. `path_log_ratio` is their sum. From 1.3 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Result of one forward pass. Columns that are present have one entry per entry of `position`."""

    call: Call
    """The forward pass."""
    position: tuple[int, ...] = ()
    """Positions of the canvas that the entries are about, in decoding order from 0."""
    token: tuple[Token, ...] = ()
    """Token of the position after the step; the lost draft if the fate (rejected, discarded) leaves it open.

    Missing if the ids are unknown.
    """
    fate: tuple[Fate, ...] = ()
    """Outcome at each position."""
    row: tuple[int, ...] | None = None
    """Row of the pass that the entry belongs to, if several drafts are verified at once."""
    draft: tuple[Token | None, ...] | None = None
    """The draft that was verified or replaced."""
    p: Probabilities | None = None
    """Probability of `draft` under the distribution that verifies it, the target's."""
    q: Probabilities | None = None
    """Probability of `draft` under the distribution it was drawn from, the drafter's."""
    accept_prob: Probabilities | None = None
    """Acceptance probability: the draft is accepted when the uniform number is below it."""
    coin: Probabilities | None = None
    """Uniform random number on (0, 1) that is compared with the acceptance probability."""
    top: tuple[tuple[tuple[Id, Probability], ...], ...] | None = None
    """Likeliest tokens with their probabilities, best first."""
    likely: tuple[tuple[tuple[Id, Probability, Probability], ...] | None, ...] | None = None
    """For verified drafts: id, p and q of the most likely tokens under p, under q and in the residual max(0, p - q),
    k of each, of the draft and of its replacement; each once, by falling p. Since 1.2."""
    numbers: Mapping[Name, Numbers] = field(default_factory=dict)
    """The method's own numbers per position, named in `draftscope.traces.measures`."""
    signals: Mapping[Name, MeasureValue] = field(default_factory=dict)
    """The method's own numbers per step, named in `draftscope.traces.measures`."""
    mask: Mask | None = None
    """Attention mask of the pass, where it is not the causal one."""
    graph: tuple[Node, ...] | None = None
    """Draft graph that the pass evaluates."""
    paths: tuple[PathPair | None, ...] | None = None
    """For verified continuous tokens: denoising paths of draft and target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How the method comes to a verdict, to be filled with a token's own numbers. From 1.2 on.

    In `formula`, {name} is a number or a word of the entry, and {one ? other} the sign between two of them.
    The names are in `traces.explanations`. The first rule of a trace applies that covers the entry's fate and whose
    names the entry has.
    """

    fates: tuple[Fate, ...]
    """Outcomes that the rule explains."""
    formula: Name
    """The rule with names in braces, to be filled with the numbers of an entry."""
    says: Name = ""
    """The rule in a plain sentence."""
    redrawn: Literal["residual", "judge", "likeliest"] | None = None
    """Replacement of a rejected draft: a sample from max(0, p - q), one from p, or the most likely token under p."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """Arrangement of positions in space."""

    kind: Literal["text", "image", "video"]
    """Kind of arrangement."""
    shape: tuple[Annotated[int, Field(ge=1, le=limits.POSITIONS)], ...]
    """Text (length,), image (rows, columns), video (frames, rows, columns)."""
    order: tuple[int, ...] | None = None
    """Cell of each position, cells counted in raster order; None if position i is in cell i."""
    block: int | None = None
    """Positions per block, for models that decode block by block."""
    block_offset: int = 0
    """Positions of the first block that the prompt takes, where blocks are counted from the prompt's beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """A picture of every token: square tiles of `size` pixels in one PNG, `columns` to a row, in the order of ids."""

    png: str
    """data:image/png;base64,..."""
    size: Pixels
    """Side of a tile."""
    columns: Pixels
    """Tiles to a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patches:
    """Pictures of single tokens, where neighbours change how a token looks, laid out as `Tiles` are. From 1.2 on."""

    image: str
    """data:image/png or image/webp, base64."""
    size: Pixels
    """Side of a picture."""
    columns: Pixels
    """Pictures to a row."""
    ids: tuple[Id, ...]
    """Which token each picture shows; those that the steps speak of, as far as there is room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A picture of the canvas after step `step`, for models whose tokens cannot be drawn one by one."""

    step: int
    """Forward passes before the picture; 0 is before any."""
    image: str
    """data:image/png or image/webp, base64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Legend:
    """Data to draw the tokens without the model."""

    vocabulary: Mapping[Id, Name] | None = None
    """Text of the ids that occur."""
    ends: tuple[int, ...] = ()
    """End-of-sequence ids: the summary's tokens go up to the first of them, which is included."""
    tiles: Tiles | None = None
    """A picture of every token, where tokens have one."""
    frames: tuple[Frame, ...] = ()
    """Pictures of the canvas after some steps, where tokens cannot be drawn one by one."""
    patches: Patches | None = None
    """Pictures of single tokens, where neighbours change how a token looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """Which weights ran."""

    id: Name
    """Name of the model, such as OWNER/NAME on a hub."""
    title: Name = ""
    """Name for readers."""
    weights: Mapping[Name, Sha256] = field(default_factory=dict)
    """File name -> sha256. Where a name ends in "(samples)", of a part of a large file: docs/models.md."""
    files: Mapping[Name, Sha256] = field(default_factory=dict)
    """Other files that define the model, such as its config and its tokenizer: file name -> sha256. Since 1.2."""
    licence: Name = ""
    """Licence of the weights, if it is known for the model's family. Since 1.2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Software and hardware of the run."""

    device: Name = ""
    """Processor or GPU."""
    dtype: Name = ""
    """Number format of the weights, such as float32."""
    python: Name = ""
    """Version of Python."""
    platform: Name = ""
    """Operating system."""
    libraries: Mapping[Name, Text] = field(default_factory=dict)
    """Library -> version."""
    commit: Name = ""
    """Commit of this project, with "+dirty" when files had changed; empty when unknown."""
    threads: Annotated[int, Field(ge=1, le=limits.MAX_INT)] | None = None
    """CPU threads that computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Result of the run."""

    tokens: tuple[Token | None, ...] = ()
    """Final token of every position; None where a run stopped early. Empty where the ids are unknown."""
    text: Text | None = None
    """Decoded text."""
    image: str | None = None
    """data:image/png;base64,..."""
    video: tuple[str, ...] = ()
    """Frames, each a data:image/png;base64,..."""
    given: int | None = None  # plain: ignore
    """Frames at the beginning of `video` that were given; the others were decoded, as many for every latent frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Figures derived from the steps by `traces.stats.summarise`, or from sums; a reader may recompute them."""

    complete: bool
    """False when the run was stopped before the canvas was full."""
    tokens: int
    """Final tokens, up to the end of a text."""
    forwards: int
    """NFE: forward passes."""
    tokens_per_forward: float
    """tokens / forwards."""
    judged: int
    """0 where sums leave it unknown."""
    accepted: int
    """Drafts that were verified and accepted."""
    acceptance: float | None
    """accepted / verified, where verified drafts are those up to and including the first rejection of a step."""
    drafts: int | None = None
    """Drafts that the verifying passes evaluated, each counted once per pass: accepted / drafts is the share of this
    work that ended in a token. From 1.1 on; null in older files."""
    query_tokens: int
    """Tokens fed, over all passes and rows."""
    row_forwards: int
    """Sum of rows over forward passes."""
    seconds: float
    """Time of all steps."""
    forward_seconds: float
    """The part of it that the networks took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Counts over all passes of an engine that does not report single ones, in place of steps. From 1.4 on."""

    tokens: Count
    """Tokens that these passes gave."""
    forwards: Count
    """Passes of the target."""
    verifications: Count | None = None
    """Those of them that verified drafts."""
    drafts: Count
    """Drafts that they evaluated."""
    accepted: Count
    """Drafts that were accepted."""
    accepted_by_position: Counts = ()
    """Passes that accepted a draft at each position in the draft; empty where the engine does not report it."""
    judged_by_position: Counts = ()
    """Drafts verified at each position; empty where their number is not known."""
    seconds: Seconds = 0.0
    """Duration of all passes; 0 where not measured."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Trace:
    """One run."""

    schema: Literal["draftscope-trace"] = SCHEMA
    """Name of the format."""
    version: str = VERSION
    """Version of the format: a later 1.x only adds."""
    method: Annotated[Name, Field(min_length=1)]
    """Decoding method, such as scd."""
    variant: Name = ""
    """The published variant of the method whose settings the run has, by the name it is known by; empty for none."""
    model: ModelCard
    """The target."""
    draft_model: ModelCard | None = None
    """Drafter of the run, if the method has one; it may be the target itself."""
    prompt: Text
    """Text that the run continues or draws; empty for a model without prompts."""
    rendered: Text = ""
    """The prompt as the model read it, where that is another text: in a chat template. From 1.2 on."""
    config: Mapping[Name, Scalar]
    """Settings of the method, by name."""
    seed: Int64 | None = None
    """None if a run makes no random draws, or its seed is unknown."""
    created: Name
    """UTC, ISO 8601."""
    environment: Environment = field(default_factory=Environment)
    """Device, number format and libraries."""
    canvas: Canvas
    """Arrangement of the positions."""
    legend: Legend = field(default_factory=Legend)
    """Data to draw the tokens."""
    rules: Annotated[tuple[Rule, ...], Field(max_length=limits.RULES)] = ()
    """The method's own; readers fall back on `coin` and `accept_prob`, or on p and q, where there are none."""
    steps: tuple[Step, ...]
    """Forward passes, in order."""
    sums: Sums | None = None
    """In place of steps; a file with them has no summary, so that earlier readers take it for a run without steps."""
    output: Output
    """Tokens, text, picture or frames that were decoded."""
    summary: Summary
    """Figures that follow from the steps."""
    note: Text = ""
    """Anything a reader should know: a lossy variant, a measured deviation."""
    extensions: Mapping[str, Any] = field(default_factory=dict)
    """A producer's own data, any JSON, under names of its own; readers carry it along and look at nothing in it."""

    def __repr__(self) -> str:
        """The run in one line."""
        summary = self.summary
        seed = "" if self.seed is None else f", seed {self.seed}"
        end = "" if summary.complete else ", incomplete"
        run = printable(f"{self.variant or self.method} on {self.model.id}"[:200])
        return f"<Trace {run}{seed}: {summary.tokens} tokens in {summary.forwards} forward passes{end}>"


def is_later(version: str) -> bool:
    """Whether a version 1.x of the format is a later one than this."""
    minor = version.partition(".")[2]
    return minor.isdecimal() and int(minor) > int(VERSION.partition(".")[2])


def printable(text: str) -> str:
    """The text with a space for every character that could steer a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
