"""Batched decoding with one diffusion language model, block by block.

The KV cache of final tokens is a preallocated buffer, one slot per position. A pass feeds some tokens that attend to
the final ones and to one another as the request's mask specifies; only its leading tokens may be stored, if the request
declares them final. Everything else is only evaluated, so nothing has to be rolled back.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.diffusion_lm.block_request import BlockRequest
from draftscope.engines.diffusion_lm.masks import block_causal, verifier
from draftscope.engines.models.sessions.causal import CacheLayer, assign_rows
from draftscope.engines.models.sessions.discrete import DiscreteSession
from draftscope.engines.models.transformers_api import Cache
from draftscope.engines.protocol import ForwardResult, StageCallback
from draftscope.engines.sampling.distributions import Sampling
from draftscope.engines.transfer import to_device


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


@dataclass(slots=True)
class Pass:
    """Information of the cache layers about the current pass."""

    row: Any
    """Rows of the cache that the rows attend to; a slice of it if the evaluated tokens follow the final ones there."""
    end: int = 0
    """Slots before those of what is only looked at."""
    stores: tuple[Tensor, ...] = ()
    """Row, token, row of the cache and slot of every token that is stored now, where they are not in place."""


class BlockLayer(CacheLayer):
    """The KV cache [sequences, heads, slots, dim] of finished tokens in one layer."""

    def __init__(self, sequences: int, slots: int, current: Pass) -> None:
        super().__init__()
        self._shape, self._current = (sequences, slots), current

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Return K and V of the cached tokens, then those of this pass; of the latter, store what is finished now.

        Args:
            key_states: Keys of this pass, [rows, heads, T, D].
            value_states: Values of this pass, of the same shape.
        """
        at = self._current
        if not (at.end or at.stores or isinstance(at.row, slice)):
            return key_states, value_states
        if self.keys is None:
            sequences, slots = self._shape
            self.keys = key_states.new_zeros(sequences, key_states.shape[1], slots, key_states.shape[3])
            self.values = torch.zeros_like(self.keys)
        device = self.keys.device  # that of the layer
        end = at.end + key_states.shape[2]
        self.filled = max(self.filled, end)
        if isinstance(at.row, slice):
            keys, values = (buffer[at.row, :, :end] for buffer in (self.keys, self.values))
            keys[:, :, at.end :], values[:, :, at.end :] = key_states, value_states
        else:
            keys, values = (buffer[:, :, : at.end][at.row.to(device)] for buffer in (self.keys, self.values))
            keys, values = torch.cat([keys, key_states], 2), torch.cat([values, value_states], 2)
        if at.stores:
            row, token, position, slot = (index.to(device) for index in at.stores)
            self.keys[position, :, slot] = key_states[row, :, token]
            self.values[position, :, slot] = value_states[row, :, token]
        return keys, values


class BlockSession(DiscreteSession):
    """The session of a diffusion language model: sequences of at most `slots` positions, prompt included."""

    def __init__(self, network: Network, sequences: int, slots: int) -> None:
        self.network, self.device, self.slots = network, network.device, slots
        self._pass = Pass(torch.empty(0, dtype=torch.long))
        self._cache = Cache(layers=[BlockLayer(sequences, slots, self._pass) for _ in range(network.layers)])
        self._holders = list(range(sequences))

    @torch.inference_mode()
    def logits(self, requests: Mapping[int, BlockRequest]) -> Tensor:
        """Return the logits of the tokens in `output_index`, [B, K, 1, T, V]."""
        sequences, row_indices = assign_rows(self._holders, requests, self._cache.layers)
        device, requested = self.network.device, [requests[one].in_one_row() for one in sequences]
        counts = [request.tokens.shape[0] for request in requested]
        rows = [i for i, count in enumerate(counts) for _ in range(count)]
        ids = (
            requested[0].tokens
            if len(requested) == 1
            else _stacked([row for request in requested for row in request.tokens])
        )
        positions = _stacked([requested[i].position for i in rows])
        read = to_device(_stacked([requested[i].output_index for i in rows]), device)
        self._aim(requested, rows, ids.shape[1], row_indices.start)
        seen = _seen(requested, ids.shape[1], self._pass.end)
        mask = torch.where(seen, 0.0, torch.finfo(torch.float32).min)
        mask = (mask if len(rows) == len(requested) else mask[rows])[:, None]
        hidden = self.network.hidden(ids.to(device), positions.to(device), mask.to(device), self._cache)
        states = hidden.gather(1, read[..., None].expand(-1, -1, hidden.shape[-1]))
        logits = self.network.head(states)
        logits[..., self.network.mask].fill_(-torch.inf)
        several = any(len(request.tokens) > 1 for request in requests.values())
        logits = _apart(logits.split(counts), [requests[one] for one in sequences]) if several else logits[:, None]
        if sequences != [*requests]:
            logits = logits[to_device(torch.tensor([*map(sequences.index, requests)]), device)]
        return logits.unsqueeze(-3)

    def _aim(self, requests: Sequence[BlockRequest], rows: Sequence[int], width: int, first: int) -> None:
        """Set where a pass of `width` tokens writes, whose sequences have rows of the cache from `first` on."""
        at, stored = (
            self._pass,
            [(i, r.position[: r.num_to_cache].tolist()) for i, r in enumerate(requests) if r.num_to_cache],
        )
        at.end = max(
            request.finished if request.cache_mask is None else len(request.cache_mask) for request in requests
        )
        is_adjacent = all(slots == [*range(at.end, at.end + len(slots))] for _, slots in stored)
        if not is_adjacent:  # what is stored elsewhere lies before what is looked at
            at.end = max(at.end, *(max(slots) + 1 for _, slots in stored))
        can_append = at.end + width <= self.slots and len(rows) == len(requests) and bool(at.end or stored)
        at.row, at.stores = slice(first, first + len(rows)) if can_append else torch.tensor(rows) + first, ()
        if stored and not (can_append and is_adjacent):
            stores = [
                (rows.index(i), token, first + i, slot) for i, slots in stored for token, slot in enumerate(slots)
            ]
            at.stores = to_device(torch.tensor(stores), self.device).unbind(1)


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """Return the parts [T, ...] as rows [B, T, ...], padded at the end; a view if there is only one."""
    return parts[0][None] if len(parts) == 1 else pad_sequence(list(parts), batch_first=True)


def _apart(parts: Sequence[Tensor], requests: Sequence[BlockRequest]) -> Tensor:
    """Return the outputs of every request [B, K, T, V], padded at the end.

    `parts` are [K, T, V], or have the K rows in one.
    """
    sizes = [(len(request.tokens), len(request.output_index)) for request in requests]
    max_rows, widest = map(max, zip(*sizes, strict=True))
    rows = [part[:, : K * T // len(part)].reshape(K, T, -1) for part, (K, T) in zip(parts, sizes, strict=True)]
    return torch.stack([pad(row, (0, 0, 0, widest - row.shape[1], 0, max_rows - len(row))) for row in rows])


def _seen(requests: Sequence[BlockRequest], width: int, end: int) -> Tensor:
    """Return the attention mask [B, T, S + T] in a pass of `width` over `end` slots; padding attends to a key, too."""
    forms = {
        id(request.attention_mask): (request.attention_mask, width - len(request.attention_mask))
        for request in requests
    }  # many share theirs
    wide = {i: pad(pad(s, (0, more)), (0, 0, 0, more), value=True) if more else s for i, (s, more) in forms.items()}
    inside = torch.stack([wide[id(request.attention_mask)] for request in requests])
    if all(request.cache_mask is None and request.finished == end for request in requests):
        return pad(inside, (end, 0), value=True)
    before = torch.arange(end) < torch.tensor([request.finished for request in requests])[:, None]
    for row, request in zip(before, requests, strict=True):
        if request.cache_mask is not None:
            row.copy_(pad(request.cache_mask, (0, end - len(request.cache_mask))))
    return torch.cat([before[:, None].expand(-1, width, -1), inside], 2)


class TokenSession:
    """Sequences of a causal language model, or a block-diffusion one with blocks of one token, from left to right.

    A position is predicted at a mask there that attends to all earlier tokens. To verify drafts, each gets such a mask,
    as in S2D2 (arXiv 2603.25702, eq. 3): tokens are causal and attend to no mask. A right-shifted model, as every
    causal one is, predicts a token at the previous one and needs no masks. Fed tokens stay stored, drafts too: the slot
    of a rejected one is masked out, and overwritten by its replacement.
    """

    def __init__(self, blocks: BlockSession, prompts: Sequence[tuple[int, ...]], mask: int, *, shift: bool) -> None:
        """Open a session on one of blocks that serves it alone, with a slot for every position and one more."""
        self._blocks, self._shift, self._masks = blocks, shift, torch.full((blocks.slots,), mask, device=blocks.device)
        self._prompts = [torch.tensor(prompt, dtype=torch.long, device=blocks.device) for prompt in prompts]
        self._stored = [0] * len(prompts)

    def forward(
        self, requests: Mapping[int, ProbsRequest], sampling: Sampling, lap: StageCallback
    ) -> dict[int, ForwardResult]:
        """Run one forward pass for the requesting sequences."""
        translated = {sequence: self._translate(sequence, request) for sequence, request in requests.items()}
        return self._blocks.forward(translated, sampling, lap)

    def _translate(self, sequence: int, request: ProbsRequest) -> BlockRequest:
        """[tokens that are not stored, drafts | masks], or the tokens alone where outputs are shifted."""
        prompt, tokens = self._prompts[sequence], request.tokens  # on the model's device, where they were drawn
        before = prompt.shape[0]
        final, end = before + request.num_final, before + tokens.shape[0]
        # A shifted model reads at the last final token, too.
        stored = min(self._stored[sequence], before + request.num_cached, final - int(self._shift))
        self._stored[sequence] = end
        fed, masks = end - stored, 0 if self._shift else end + 1 - final
        text = tokens[stored - before :] if stored >= before else torch.cat([prompt[stored:], tokens])
        positions, read, seen = _mask_layout(fed, final - stored, masks)
        return BlockRequest(
            tokens=torch.cat([text, self._masks[:masks]])[None],
            position=stored + positions,
            output_index=read,
            finished=stored,
            attention_mask=seen,
            num_to_cache=fed,
            role=request.role,
            mode=request.mode,
        )


@lru_cache(maxsize=256)
def _mask_layout(fed: int, final: int, masks: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return positions of [fed tokens, of which `final` are final | masks], output indices, and the attention mask."""
    positions = torch.cat([torch.arange(fed), final + torch.arange(masks)])
    read = fed + torch.arange(masks) if masks else torch.arange(final - 1, fed)
    return positions, read, verifier(fed, fed + 1 - masks, 1) if masks else block_causal(fed, 1)
