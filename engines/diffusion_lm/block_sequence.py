"""Block-by-block decoding with a diffusion language model: the sequence, its blocks, and their forward requests.

Blocks are on a grid that starts with the prompt, so the first block may contain the end of the prompt. Bidirectional
models have no grid, nor do models whose final tokens attend only to earlier tokens (openPangu): their blocks start
where the prompt ends. A final block is not committed by a pass of its own: its tokens lead the next block's first pass,
which stores them in the KV cache. A right-shifted model is the exception: the pass that stores a block predicts the
next one's first token, and so precedes it (Fast-dLLM v2, arXiv 2509.26328). Block size 1 is autoregressive decoding,
one token per pass.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from typing_extensions import override

from draftscope.engines.diffusion_lm import masks
from draftscope.engines.diffusion_lm.block_request import BlockRequest
from draftscope.engines.protocol import Decision, Role, Task
from draftscope.engines.sampling.distributions import MAX_OUTPUT_TOKENS, Sampling
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.engines.settings import ConfigError, SettingInfo
from draftscope.engines.transfer import to_device
from draftscope.traces.schema import Canvas, ModelCard

Size = Literal["1", "2", "4", "8", "16", "32"]
SubSize = Literal["block", "1", "2", "4", "8", "16"]


def text_canvas(length: int, size: int, before: int) -> Canvas:
    """Return the canvas of an answer on a grid of blocks that starts with the prompt.

    Args:
        length: Positions of the answer; a block that exceeds it is recorded up to its end.
        size: Positions of a block.
        before: Tokens before the answer, so that its first block is `before % size` positions shorter.
    """
    offset = before % size
    return Canvas(kind="text", shape=(length,), block=min(size, length + offset), block_offset=offset)


@dataclass(frozen=True, slots=True)
class TextTask(Task):
    """Text to decode after a prompt."""

    mask: int = 0
    """Mask id, of open positions."""
    shift: bool = False
    """Whether the output at i - 1 predicts token i."""
    full: bool = False
    """Whether every token sees every other, so that nothing can be cached."""
    card: ModelCard | None = None
    """Card of the model, by which its calibrations are found."""
    causal: bool = False
    """Whether final tokens attend only to earlier tokens; a block in progress attends to all of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSampling(Sampling):
    """Sampling settings of all decoders of diffusion language models."""

    length: Annotated[
        int,
        SettingInfo(
            "Length", "The most tokens of the text, its end included; it may end sooner.", 8, MAX_OUTPUT_TOKENS, 8
        ),
    ] = 64
    mode: Annotated[
        Literal["sample", "greedy"],
        SettingInfo("Tokens", "greedy takes the likeliest token; sample draws one by its probability."),
    ] = "greedy"

    @property
    def size(self) -> int:
        """Tokens of a block of the canvas; with 1 the text grows from left to right."""
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSettings(TextSampling):
    """Settings of decoders that go from block to block."""

    block: Annotated[
        Size, SettingInfo("Block size", "Tokens decoded together, in any order. 1 is ordinary decoding, left to right.")
    ] = "8"

    @property
    @override
    def size(self) -> int:
        return int(self.block)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubBlockSettings(BlockSettings):
    """Settings of decoders that may go through a block part by part, as Fast-dLLM v2 does."""

    sub_block: Annotated[
        SubSize,
        SettingInfo("Sub-block", "Tokens of a block revealed in turn, while all of it is seen; block is all at once."),
    ] = "block"
    reuse_store_pass: Annotated[
        bool,
        SettingInfo("Carry", "On right-shifted models, the pass that stores a block gives the next one's first token."),
    ] = True

    def __post_init__(self) -> None:
        if self.part > self.size or self.size % self.part:
            raise ConfigError(
                f"sub_block: {self.sub_block} does not divide a block of {self.size}; lower it or use block."
            )

    @property
    def part(self) -> int:
        """The size of a sub-block, which may be the block's."""
        return self.size if self.sub_block == "block" else int(self.sub_block)


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyOnly(BlockSettings):
    """Settings of decoders that are defined for likeliest tokens alone."""

    mode: Annotated[
        Literal["greedy"], SettingInfo("Tokens", "greedy, the likeliest token: the method is defined for nothing else.")
    ] = "greedy"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassLayout:
    """Layout of the unfinished tokens for one pass, after the final ones."""

    tokens: Int[Tensor, "K n"]
    position: Int[Tensor, " n"]
    read: Int[Tensor, " m"]
    """Which of the n outputs are wanted; -1 is the last finished token's."""
    seen: Bool[Tensor, "b b"] | None
    """Attention mask among unfinished tokens, shape [b, b]; None if each attends to its block and earlier blocks."""
    drafted: int = 0
    """How many tokens, from the left, may be drafts; for the picture of the mask."""


class BlockSequence:
    """Prompt and answer while they are decoded; lives on the CPU. Positions are counted from the prompt's beginning."""

    def __init__(
        self, task: TextTask, size: int, *, causal: bool = False, part: int | None = None, carry: bool = True
    ) -> None:
        """Start with masks after the prompt; with `causal`, final tokens are stored with causal attention."""
        self.task, self.size, self._causal = task, size, causal or task.causal
        self._part, self._carry = part or size, carry
        self.prompt_length = len(task.prompt_ids)
        self.tokens = torch.tensor([*task.prompt_ids, *[task.mask] * task.length])
        self._held_ids = self.tokens.numpy()  # the same numbers, for a few of which numpy takes a fraction of the time
        self._length = len(self.tokens)
        self._origin = self.prompt_length if task.full or task.causal else self.prompt_length // size * size
        self._first = self._origin
        self._stored: dict[Role, int] = {}  # tokens in the KV cache of a model

    @property
    def block(self) -> slice:
        """The positions of the block under way."""
        return slice(self._first, min(self._first + self.size, self._length))

    @property
    def number(self) -> int:
        """Which block of the answer is under way, from 0."""
        return (self._first - self._origin) // self.size

    @property
    def progress(self) -> float:
        """Share of the sub-block that this run has decoded."""
        positions = self.sub_block_positions
        num_tokens: int = positions.stop - max(positions.start, self.prompt_length)
        return (num_tokens - len(self.open)) / self._part

    @property
    def sub_block_positions(self) -> slice:
        """The positions of the sub-block under way: the first one with an open position."""
        inside = next(iter(self._masked), self._first) - self._first
        start = self._first + inside // self._part * self._part
        return slice(start, min(start + self._part, self.block.stop))

    @property
    def open(self) -> Int[Tensor, " m"]:
        """Positions that the next pass may fill: the open ones of the sub-block under way, or the one to be carried."""
        stop = (
            self._first + 1
            if self.reuses_store_pass
            else self.block.stop
            if self._part == self.size
            else self.sub_block_positions.stop
        )
        return torch.tensor([position for position in self._masked if position < stop], dtype=torch.long)

    @property
    def reuses_store_pass(self) -> bool:
        """Whether the next pass stores the block before, which predicts this one's first token, and does no more."""
        ahead = self.task.shift and not self.task.full and (self._carry or self.size == 1)
        return ahead and int(self._held_ids[self._first]) == self.task.mask

    @property
    def _masked(self) -> list[int]:
        """Open positions of the block under way."""
        block_ids = self._held_ids[self.block].tolist()
        return [position for position, token in enumerate(block_ids, self._first) if token == self.task.mask]

    @property
    def span(self) -> Int[Tensor, " m"]:
        """The first run of open positions of the block, without one that the block before predicts."""
        positions = [position for position in self.open.tolist() if not (self.task.shift and position == self._first)]
        return torch.tensor(
            [position for i, position in enumerate(positions) if position == positions[0] + i], dtype=torch.long
        )

    @property
    def written(self) -> Int[Tensor, " m"]:
        """Positions of the block under way that hold a token of the answer which a pass over the block predicts."""
        position = torch.arange(max(self.block.start, self.prompt_length), self.block.stop)
        return position[(self.tokens[position] != self.task.mask) & ~self.carried(position)]

    def before_end(self, ids: Int[Tensor, " T"]) -> Int[Tensor, " m"]:
        """Return the open positions of the block before an end token in `ids`: later ones are not part of the text."""
        inside, start = ids[self.block].tolist(), self.block.start
        ends = (
            i for i, token in enumerate(inside) if token in self.task.eos_token_ids and start + i >= self.prompt_length
        )
        known = inside[: next(ends, len(inside))]
        return torch.tensor([start + i for i, token in enumerate(known) if token == self.task.mask], dtype=torch.long)

    def next_block(self, drafts: Int[Tensor, " m"]) -> Int[Tensor, " s"]:
        """Return the next block, if it is visible to this one, filled with `drafts`, as it is stored.

        Empty after an end.
        """
        stop, task, filled = self.block.stop, self.task, {*self._held_ids[self.block].tolist(), *drafts.tolist()}
        exact = not (task.shift or task.full or self._causal) and filled.isdisjoint(task.eos_token_ids)
        return torch.arange(stop, min(stop + self.size, self._length) if exact else stop)

    @property
    def block_is_full(self) -> bool:
        """Whether the block under way has no open position that counts."""
        return not self._masked or self.ended

    @property
    def ended(self) -> bool:
        """Whether an end token with no open position before it exists, or all positions are filled."""
        answer, mask = self._held_ids[self.prompt_length :].tolist(), self.task.mask
        return mask not in answer or any(end in answer[: answer.index(mask)] for end in self.task.eos_token_ids)

    def fill(self, position: Sequence[int], token: Sequence[int]) -> None:
        """Make tokens final, and go on to the next block if this one is full.

        Args:
            position: Positions, counted from the prompt's beginning.
            token: A token for each of them.
        """
        self._held_ids[position] = token
        self.move_on()

    def write(self, position: Int[Tensor, " m"], answer: Sequence[int]) -> bool:
        """Make those tokens final that an answer selects, and stay in the block.

        Args:
            position: Positions of the decision.
            answer: Its readback: a token for every position, and then 1 or 0 for each.

        Returns:
            Whether any token was selected.
        """
        positions = position.tolist()
        chosen = {index: answer[i] for i, index in enumerate(positions) if answer[len(positions) + i]}
        self._held_ids[[*chosen]] = [*chosen.values()]
        return bool(chosen)

    def decision(
        self,
        position: Int[Tensor, " m"],
        decided: tuple[Tensor, Callable[[], Tensor], Tensor],
        probs: Float[Tensor, "m V"],
        confidence: Float[Tensor, " m"],
        **signals: float | Tensor,
    ) -> Decision:
        """Return the decision of a pass, whose readback goes to `write`.

        Args:
            position: Positions, counted from the prompt's beginning.
            decided: Tokens, a function that returns their fates, and flags of those that become final.
            probs: Distributions at the positions.
            confidence: What the policy ranked them by.
            signals: Further numbers of the step, by name.
        """
        token, fate, accepted = decided
        canvas_position, readback = (
            to_device(position - self.prompt_length, probs.device),
            torch.cat([token, accepted.long()]),
        )
        signals = {"block": self.number, **signals}

        def details() -> dict[str, Any]:
            counts = {"committed": accepted.sum(), **signals}
            return {"fate": fate(), "measures": {"confidence": confidence}, "step_measures": counts}

        return Decision(canvas_position, token, readback=readback, probs=probs, deferred_fields=details)

    def move_on(self) -> None:
        """Go on to the next block if this one is full."""
        while not self._masked and self.block.stop < self._length:
            self._first = self.block.stop

    def request_open_positions(
        self,
        mode: str = "draft",
        role: Role = "self",
        seen: Bool[Tensor, "n n"] | None = None,
        read: Int[Tensor, " m"] | None = None,
        tokens: Int[Tensor, "K T"] | None = None,
        blocks: int = 1,
    ) -> BlockRequest:
        """Request the distributions of the open positions, or of those in `read`, with the block as it is.

        Args:
            mode: Purpose of the pass.
            role: Model that is asked.
            seen: Attention mask of the block instead of the default.
            read: Positions to read.
            tokens: Rows to evaluate instead of the current tokens.
            blocks: Number of later blocks that are visible as well.
        """
        lead, last = self._lead(role), self._length if self.task.full else self._first + blocks * self.size
        if self.reuses_store_pass:  # the token before predicts this one; there is nothing else to feed
            last, seen = lead.stop, None
        position = torch.arange(lead.start, min(last, self._length))
        tokens = (self.tokens[None] if tokens is None else tokens)[:, lead.start : last].clone()
        read = (self.open if read is None else read) - (lead.start + self.task.shift)
        return self._request(PassLayout(tokens=tokens, position=position, read=read, seen=seen), lead, mode, role)

    def carried(self, position: Int[Tensor, " m"]) -> Bool[Tensor, " m"]:
        """Which open positions the block before predicts: only a block's first pass gives their distribution."""
        return (position == self._first) & self.task.shift

    def request_layout(self, layout: PassLayout, mode: str, role: Role = "self") -> BlockRequest:
        """Return a request for a layout, led by the final tokens that the model has not stored.

        They count as stored from now on, so the request must be sent.

        Args:
            layout: Tokens of the pass with their positions and their attention mask.
            mode: Purpose of the pass, for the trace.
            role: Which of two models runs it.
        """
        lead, fed = self._lead(role), layout
        if lead.start < lead.stop:
            before = torch.arange(lead.start, lead.stop)
            tokens = torch.cat([self.tokens[lead].expand(len(layout.tokens), -1), layout.tokens], 1)
            position, read = torch.cat([before, layout.position]), layout.read + len(before)
            fed = replace(layout, tokens=tokens, position=position, read=read)
        return self._request(fed, lead, mode, role)

    def _lead(self, role: Role) -> slice:
        """Return the final tokens that the model of this role has not stored; from now on they count as stored."""
        if self.task.full:
            return slice(0, 0)
        stored, self._stored[role] = self._stored.get(role, 0), self._first
        return slice(stored, self._first)

    def _request(self, fed: PassLayout, lead: slice, mode: str, role: Role) -> BlockRequest:
        """Return a request for an input that begins with `lead`; masks and drafts cover what follows it."""
        position, keep, seen = fed.position, lead.stop - lead.start, fed.seen
        size, causal = (self._length, False) if self.task.full else (self.size, self._causal)
        if seen is None:
            seen = masks.block_causal(len(position), size, keep, causal=causal)
        elif keep:
            seen = masks.prefix_mask(masks.block_causal(keep, size, keep, causal=causal), seen)
        labels = partial(self._labels, fed, keep, self._masked if fed.drafted else ())
        return BlockRequest(fed.tokens, position, fed.read, lead.start, seen, keep, labels=labels, role=role, mode=mode)

    def _labels(self, fed: PassLayout, keep: int, open_: Collection[int]) -> tuple[str, ...]:
        """T for a final token, P for the prompt's, D for a draft, M for a mask, with the position in the answer."""
        names = []
        both = zip(fed.position[keep:].tolist(), fed.tokens[0, keep:].tolist(), strict=True)
        for i, (position, token) in enumerate(both):
            final = "P" if position < self.prompt_length else "T"
            letter = "M" if token == self.task.mask else "D" if i < fed.drafted and position in open_ else final
            names.append(f"{letter}{position if letter == 'P' else position - self.prompt_length}")
        return tuple(names)


def sample_open_positions(
    probs: Float[Tensor, "m V"], position: Int[Tensor, " m"], iteration: int, rng: RandomSource, mode: str
) -> tuple[Int[Tensor, " m"], Float[Tensor, " m"]]:
    """Return a token for every open position, and its probability, by which policies rank it.

    Args:
        probs: Distributions at the positions.
        position: Positions, for the keys of the draws.
        iteration: Number of the iteration, for the keys of the draws.
        rng: Random source.
        mode: "greedy" for the most likely tokens, else they are sampled.
    """
    if mode == "greedy":
        confidence, token = probs.max(-1)
        return token, confidence
    token = rng.categorical(probs, DrawKey("draft", iteration, to_device(position, probs.device)))
    return token, probs.gather(1, token[:, None]).squeeze(1)
