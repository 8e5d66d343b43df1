"""Decode many sequences in lockstep on one diffusion language model, block by block.

The KV cache of finished tokens is a preallocated buffer, one slot per position. A pass feeds some tokens that
see the finished ones and one another as the request's mask says; all it may leave behind are its leading tokens, where
the request declares them finished. Everything else was only looked at, so there is nothing to roll back.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import Cache, DynamicLayer

from engines.ar.request import Forward
from engines.diffusion_lm.request import BlockForward
from engines.models.sessions.discrete import DiscreteSession
from engines.protocol import Answer, Lap
from engines.sampling.distributions import Sampling
from engines.to_device import to_device


@dataclass(frozen=True, slots=True)
class Network:
    """A diffusion language model as its session uses it."""

    hidden: Callable[..., Tensor]
    """hidden(ids [n, T], positions [n, T], mask [n, 1, T, S + T], cache) gives states [n, T, D]."""
    head: Callable[[Tensor], Tensor]
    """States to logits [..., V]."""
    layers: int
    mask: int
    """Id of an open position, which is never predicted."""
    device: torch.device


@dataclass(frozen=True, slots=True)
class Pass:
    """What the cache layers have to know of the current pass."""

    sequence: Tensor
    """[rows] whose finished tokens a row sees."""
    end: int
    """Slots in use by any sequence."""
    stores: list[tuple[int, int, slice | Tensor, int]]
    """Row, sequence, slots and number of the leading tokens that are stored now."""


class BlockLayer(DynamicLayer):  # type: ignore[misc]
    """The KV cache [sequences, heads, slots, dim] of finished tokens in one layer."""

    keys: Tensor | None
    values: Tensor

    def __init__(self, sequences: int, slots: int, current: Callable[[], Pass]) -> None:
        super().__init__()
        self._shape, self._current = (sequences, slots), current

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """The cached K and V before those of this pass; of the latter, keep what is finished now."""
        at = self._current()
        if self.keys is None and not at.stores and not at.end:
            return key_states, value_states
        if self.keys is None:
            sequences, slots = self._shape
            self.keys = key_states.new_zeros(sequences, key_states.shape[1], slots, key_states.shape[3])
            self.values = torch.zeros_like(self.keys)
        end = at.end + key_states.shape[2]
        in_order = all(isinstance(where, slice) and where.start == at.end for _, _, where, _ in at.stores)
        if len(at.sequence) == len(self.keys) == 1 and in_order and end <= self.keys.shape[2]:
            # A single row: what is looked at lies behind what is finished, and what it leaves is where it belongs.
            self.keys[:, :, at.end : end], self.values[:, :, at.end : end] = key_states, value_states
            return self.keys[:, :, :end], self.values[:, :, :end]
        there = self.keys.device  # that of the layer
        past = [buffer[:, :, : at.end][at.sequence.to(there)] for buffer in (self.keys, self.values)]
        for row, sequence, where, count in at.stores:
            where = where if isinstance(where, slice) else where.to(there)
            self.keys[sequence][:, where] = key_states[row, :, :count]
            self.values[sequence][:, where] = value_states[row, :, :count]
        return torch.cat([past[0], key_states], 2), torch.cat([past[1], value_states], 2)


class BlockSession(DiscreteSession):
    """The session of a diffusion language model: sequences of at most `slots` positions, prompt included."""

    def __init__(self, network: Network, sequences: int, slots: int) -> None:
        self._network, self.device = network, network.device
        self._pass: Pass = Pass(torch.empty(0, dtype=torch.long), 0, [])
        self._cache = Cache(layers=[BlockLayer(sequences, slots, lambda: self._pass) for _ in range(network.layers)])

    @torch.inference_mode()
    def logits(self, requests: Mapping[int, BlockForward]) -> Tensor:
        """See `DiscreteSession.logits`: of the tokens in `read`, [B, K, 1, T, V]."""
        asked = list(requests.values())
        width = max(request.tokens.shape[1] for request in asked)
        end = max(request.finished if request.past is None else len(request.past) for request in asked)
        ids = torch.cat([pad(request.tokens, (0, width - request.tokens.shape[1])) for request in asked])
        counts = [len(request.tokens) for request in asked]
        positions = torch.stack([pad(r.position, (0, width - len(r.position))) for r in asked])
        rows = torch.repeat_interleave(torch.arange(len(asked)), torch.tensor(counts))
        device = self._network.device
        entries = zip([sum(counts[:i]) for i in range(len(counts))], requests.items(), strict=True)
        stores = [(row, i, _slots(request, device), request.keep) for row, (i, request) in entries if request.keep]
        self._pass = Pass(torch.tensor(list(requests))[rows].to(device), end, stores)
        seen = torch.stack([_seen(request, width, end) for request in asked])
        mask = torch.zeros(seen.shape).masked_fill_(~seen, torch.finfo(torch.float32).min)[rows, None]
        hidden = self._network.hidden(ids.to(device), positions[rows].to(device), mask.to(device), self._cache)
        return self._read(hidden, asked, counts)

    def _read(self, hidden: Tensor, asked: Sequence[BlockForward], counts: Sequence[int]) -> Tensor:
        most, longest = max(counts), max(len(request.read) for request in asked)
        picked, first = [], 0
        if len(asked) == 1:
            return self._logits(hidden[None, :, to_device(asked[0].read, hidden.device)])
        for request, count in zip(asked, counts, strict=True):
            states = hidden[first : first + count, to_device(request.read, hidden.device)]
            picked.append(pad(states, (0, 0, 0, longest - states.shape[1], 0, most - count)))
            first += count
        return self._logits(torch.stack(picked))

    def _logits(self, states: Tensor) -> Tensor:
        logits = self._network.head(states)
        logits[..., self._network.mask].fill_(-torch.inf)
        return logits.unsqueeze(-3)


def _slots(request: BlockForward, device: torch.device) -> slice | Tensor:
    """Where the leading tokens are stored: at their positions, which mostly follow each other."""
    position, first = request.position[: request.keep], int(request.position[0])
    together = int(position[-1]) - first == request.keep - 1 and bool((position.diff() == 1).all())
    return slice(first, first + request.keep) if together else position.to(device)


def _seen(request: BlockForward, width: int, end: int) -> Tensor:
    """Who sees whom [T, S + T], in a pass of `width` tokens over `end` slots."""
    count = len(request.position)
    stored = torch.arange(end) < request.finished
    if request.past is not None:
        stored = pad(request.past, (0, end - len(request.past)))
    past = stored.expand(width, -1)
    among = pad(request.seen, (0, width - count, 0, width - count))
    padding = torch.arange(width) >= count
    among = among | (padding[:, None] & padding[None, :])  # nobody is left without a key
    return torch.cat([past, among], 1)


class TokenSession:
    """Sequences of a causal language model, or a block-diffusion one with blocks of one token, from left to right.

    A position is predicted at a mask that stands there and sees all tokens before it. To verify drafts, such a mask is
    put beside every one of them, as S2D2 does (arXiv 2603.25702, eq. 3): tokens are causal and see no mask. A
    right-shifted model, as every causal one is, predicts a token at the one before it and needs no masks. What was fed
    stays stored, drafts too: a rejected one's slot is not seen, and is overwritten by the token in its place.
    """

    def __init__(self, blocks: BlockSession, prompts: Sequence[tuple[int, ...]], mask: int, *, shift: bool) -> None:
        """Open a session on one of blocks that serves it alone, with a slot for every position and one more."""
        self._blocks, self._mask, self._shift = blocks, mask, shift
        self._prompts = [torch.tensor(prompt, dtype=torch.long, device=blocks.device) for prompt in prompts]
        self._stored = [0] * len(prompts)

    def answer(self, requests: Mapping[int, Forward], sampling: Sampling, lap: Lap) -> dict[int, Answer]:
        """See `engines.protocol.Session.answer`."""
        translated = {sequence: self._translate(sequence, request) for sequence, request in requests.items()}
        return self._blocks.answer(translated, sampling, lap)

    def _translate(self, sequence: int, request: Forward) -> BlockForward:
        """[tokens that are not stored, drafts | masks], or the tokens alone where outputs are shifted."""
        prompt = self._prompts[sequence]
        text = torch.cat([prompt, request.tokens])  # on the model's device, where it was drawn
        final = len(prompt) + request.done
        # A shifted model reads at the last final token, too.
        stored = min(self._stored[sequence], len(prompt) + request.cached, final - int(self._shift))
        self._stored[sequence] = len(text)
        place = torch.arange(stored, len(text))
        masks = torch.arange(final, len(text) + 1)[: 0 if self._shift else None]
        position = torch.cat([place, masks])
        copy = torch.arange(len(position)) >= len(place)
        before = position[None, :] + copy[:, None].long() <= position[:, None]  # a mask sees what stands before it
        seen = torch.where(copy[None, :], torch.eye(len(position), dtype=torch.bool), before)
        return BlockForward(
            tokens=torch.cat([text[stored:], text.new_full(masks.shape, self._mask)])[None],
            position=position,
            read=torch.arange(final - 1 - stored, len(place)) if self._shift else len(place) + torch.arange(len(masks)),
            finished=stored,
            seen=seen,
            keep=len(place),
            role=request.role,
            mode=request.mode,
        )
