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
from torch.nn.utils.rnn import pad_sequence
from transformers.cache_utils import Cache

from engines.ar.request import Forward
from engines.diffusion_lm.request import BlockForward
from engines.models.sessions.causal import CacheLayer, seat
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

    row: list[int]
    """[rows] of the cache that a row sees; these are the first ones."""
    end: int
    """Slots before those of what is only looked at."""
    stores: list[tuple[int, int, slice | Tensor, int]]
    """Row, row of the cache, slots and number of the leading tokens that are stored now."""
    in_order: bool
    """Whether all that is stored lies where it is looked at."""


class BlockLayer(CacheLayer):
    """The KV cache [sequences, heads, slots, dim] of finished tokens in one layer."""

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
        rows, end = len(at.row), at.end + key_states.shape[2]
        if at.row[-1] == rows - 1 and end <= self.keys.shape[2]:
            # A row for every sequence: what is looked at lies behind what is finished.
            keys, values = self.keys[:rows], self.values[:rows]
            keys[:, :, at.end : end], values[:, :, at.end : end] = key_states, value_states
            if not at.in_order:
                self._store(at, key_states, value_states)
            return keys[:, :, :end], values[:, :, :end]
        past = [buffer[:, :, : at.end][at.row] for buffer in (self.keys, self.values)]
        self._store(at, key_states, value_states)
        return torch.cat([past[0], key_states], 2), torch.cat([past[1], value_states], 2)

    def _store(self, at: Pass, key_states: Tensor, value_states: Tensor) -> None:
        assert self.keys is not None
        for row, place, where, count in at.stores:
            where = where if isinstance(where, slice) else where.to(self.keys.device)  # that of the layer
            self.keys[place][:, where] = key_states[row, :, :count]
            self.values[place][:, where] = value_states[row, :, :count]


class BlockSession(DiscreteSession):
    """The session of a diffusion language model: sequences of at most `slots` positions, prompt included."""

    def __init__(self, network: Network, sequences: int, slots: int) -> None:
        self._network, self.device = network, network.device
        self._pass = Pass([], 0, [], True)
        self._cache = Cache(layers=[BlockLayer(sequences, slots, lambda: self._pass) for _ in range(network.layers)])
        self._holders = list(range(sequences))

    @torch.inference_mode()
    def logits(self, requests: Mapping[int, BlockForward]) -> Tensor:
        """See `DiscreteSession.logits`: of the tokens in `read`, [B, K, 1, T, V]."""
        sequences = seat(self._holders, requests, self._cache.layers)
        asked, device = [requests[sequence] for sequence in sequences], self._network.device
        counts = [len(request.tokens) for request in asked]
        row = [i for i, count in enumerate(counts) for _ in range(count)]
        end = max(request.finished if request.past is None else len(request.past) for request in asked)
        stores = [(row.index(i), i, _slots(r, device), r.keep) for i, r in enumerate(asked) if r.keep]
        in_order = all(isinstance(where, slice) and where.start == end for _, _, where, _ in stores)
        if not in_order:  # what is stored elsewhere lies before what is looked at
            end = max(end, *(int(request.position[: request.keep].max()) + 1 for request in asked if request.keep))
        self._pass = Pass(row, end, stores, in_order)
        ids, positions, read = (
            _end_to_end(parts)
            for parts in (
                [request.tokens for request in asked],
                [request.position.expand(count, -1) for request, count in zip(asked, counts, strict=True)],
                [request.read.expand(count, -1) for request, count in zip(asked, counts, strict=True)],
            )
        )
        mask = torch.where(_seen(asked, ids.shape[1], end), 0.0, torch.finfo(torch.float32).min)
        mask = (mask if len(row) == len(asked) else mask[row])[:, None]
        hidden = self._network.hidden(ids.to(device), positions.to(device), mask.to(device), self._cache)
        states = hidden[torch.arange(len(row), device=device)[:, None], to_device(read, device)]
        logits = self._network.head(pad_sequence(states.split(counts), batch_first=True))
        logits[..., self._network.mask].fill_(-torch.inf)
        if sequences != [*requests]:
            logits = logits[[sequences.index(sequence) for sequence in requests]]
        return logits.unsqueeze(-3)


def _end_to_end(parts: Sequence[Tensor]) -> Tensor:
    """Rows of several widths, with zeros behind the shorter ones."""
    if len(parts) == 1:
        return parts[0]
    together = parts[0].new_zeros(sum(map(len, parts)), max(part.shape[1] for part in parts))
    first = 0
    for part in parts:
        together[first : first + len(part), : part.shape[1]] = part
        first += len(part)
    return together


def _slots(request: BlockForward, device: torch.device) -> slice | Tensor:
    """Where the leading tokens are stored: at their positions, which mostly follow each other."""
    position = request.position[: request.keep]
    places = position.tolist()
    in_a_row = slice(places[0], places[0] + request.keep)
    return in_a_row if places == [*range(in_a_row.start, in_a_row.stop)] else position.to(device)


def _seen(asked: Sequence[BlockForward], width: int, end: int) -> Tensor:
    """Who sees whom [B, T, S + T], in a pass of `width` tokens over `end` slots."""
    seen = torch.zeros(len(asked), width, end + width, dtype=torch.bool)
    seen[:, :, :end] = (torch.arange(end) < torch.tensor([[request.finished] for request in asked]))[:, None]
    for row, request in zip(seen, asked, strict=True):
        count = len(request.position)
        if request.past is not None:
            row[:, :end] = pad(request.past, (0, end - len(request.past)))
        row[:count, end : end + count] = request.seen
        if count < width:
            row[count:, end:] = True  # nobody is left without a key
    return seen


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
