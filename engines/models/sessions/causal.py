"""Batched decoding with one causal transformer, each sequence at its own length.

The KV cache is a preallocated buffer, one slot per position, and the mask lets every query attend to the slots up to
its own. Rolling back needs no work: the slot of a rejected draft comes after every later query until it is overwritten.
The sequences of a pass have consecutive rows of the buffer: some are swapped if they do not.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from typing_extensions import override

from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.continuous.path_request import PathRequest
from draftscope.engines.models.sessions.discrete import DiscreteSession
from draftscope.engines.models.transformers_api import Cache, DynamicLayer
from draftscope.engines.transfer import to_device


class CacheLayer(DynamicLayer):  # type: ignore[misc]
    """The KV cache [rows, heads, slots, dim] of one layer, of which the first `filled` slots were written to."""

    keys: Tensor | None
    values: Tensor
    filled: int = 0

    def swap(self, one: slice, other: slice) -> None:
        """Exchange the KV cache of some rows and of as many others.

        Args:
            one: Rows.
            other: Other rows, none of them in `one`.
        """
        for buffer in (self.keys, self.values) if self.keys is not None else ():
            written = buffer[:, :, : self.filled]
            copy = written[one].clone()
            written[one] = written[other]
            written[other] = copy


def assign_rows(
    holders: list[int], sequences: Collection[int], layers: Iterable[CacheLayer], rows: int = 1
) -> tuple[list[int], slice]:
    """Assign rows of the KV cache that follow each other to the sequences of a pass.

    As few sequences as possible move, each with its cache.

    Args:
        holders: Sequence that each group of rows belongs to; reordered in place.
        sequences: Sequences of the pass, each a holder.
        layers: Caches whose rows are exchanged with their holders.
        rows: Rows of a sequence: 2 with guidance.

    Returns:
        The sequences in the order of their rows, and the rows of all of them.
    """
    count, present = len(sequences), [holder in sequences for holder in holders]
    first = max(range(len(holders) - count + 1), key=lambda index: sum(present[index : index + count]))
    empty = [index for index in range(first, first + count) if not present[index]]
    late = [index for index in (*range(first), *range(first + count, len(holders))) if present[index]]
    for to, origin in zip(empty, late, strict=True):
        holders[to], holders[origin] = holders[origin], holders[to]
        for layer in layers:
            layer.swap(*(slice(index * rows, (index + 1) * rows) for index in (origin, to)))
    return holders[first : first + count], slice(first * rows, (first + count) * rows)


class SlotLayer(CacheLayer):
    """A layer of a cache, whose layers share its `slots`."""

    def __init__(self, slots: "CacheSlots") -> None:
        super().__init__()
        self._slots = slots

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Store K and V of this pass, and return those that its tokens may attend to.

        Args:
            key_states: Keys of this pass, [rows, heads, T, D].
            value_states: Values of this pass, of the same shape.
        """
        at = self._slots
        if self.keys is None:
            heads, dim = key_states.shape[1], key_states.shape[3]
            self.keys = key_states.new_zeros(at.rows, heads, at.count, dim)
            self.values = torch.zeros_like(self.keys)
        keys, values, self.filled = self.keys[at.used], self.values[at.used], max(self.filled, at.end)
        if at.contiguous is not None:
            keys[:, :, at.contiguous] = key_states
            values[:, :, at.contiguous] = value_states
        else:  # [rows, 1] with [rows, T] picks (row, slot); the heads axis moves to the end, so both are transposed
            keys[at.row, :, at.index] = key_states.transpose(1, 2)
            values[at.row, :, at.index] = value_states.transpose(1, 2)
        return keys[:, :, : at.end], values[:, :, : at.end]


class CacheSlots:
    """Which rows take part in the current pass, where it writes and how far it may look."""

    def __init__(self, rows: int, count: int) -> None:
        self.rows, self.count = rows, count
        self.used = slice(rows)
        """Rows that take part."""
        self.end = 0
        self.contiguous: slice | None = None
        """The slots that all of them write, where they are the same."""
        self.row = self.index = torch.empty(0, dtype=torch.long)


class SlotCache(Cache):  # type: ignore[misc]
    """The KV cache of one sequence in a buffer of `count` slots, cut as transformers' DynamicCache is."""

    def __init__(self, layers: int, count: int) -> None:
        self._slots = CacheSlots(1, count)
        super().__init__(layers=[SlotLayer(self._slots) for _ in range(layers)])

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens that are cached."""
        return self._slots.end

    def advance(self, count: int) -> None:
        """Set that the next pass writes `count` tokens after those."""
        start, self._slots.end = self._slots.end, self._slots.end + count
        self._slots.contiguous = slice(start, self._slots.end)

    def crop(self, max_length: int) -> None:
        """Cut off as many tokens as a negative number says."""
        self._slots.end += max_length


class CausalSession(DiscreteSession):
    """Session of a causal transformer with cached layers, over canvases of one length.

    The network is called as network(ids [n, T], positions [n, T], cache, mask [n, 1, T, S]) and returns logits [n, T,
    V]; the mask is additive, None if everything cached is visible. The `prefixes` are input ids before the first canvas
    position. For continuous tokens, all ids have an axis D.
    """

    def __init__(
        self, network: Callable[..., Tensor], prefixes: Shaped[Tensor, "B R P *D"], length: int, layers: int
    ) -> None:
        sequences, self.rows, self.prefix = prefixes.shape[:3]
        self.network, self._prefixes = network, prefixes
        # One slot more than positions takes the padding of sequences that ask for fewer tokens than others.
        self._slots = CacheSlots(sequences * self.rows, self.prefix + length + 1)
        self._layers = [SlotLayer(self._slots) for _ in range(layers)]
        self._cache = Cache(layers=self._layers)
        self._fed = [0] * sequences
        self._holders = list(range(sequences))
        """The sequence whose KV cache the rows hold, row by row."""
        self._numbers = torch.arange(self._slots.count, device=prefixes.device)

    @override
    @torch.inference_mode()
    def logits(self, requests: Mapping[int, ProbsRequest | PathRequest]) -> Tensor:
        sequences, self._slots.used = assign_rows(self._holders, requests, self._layers, self.rows)
        ordered = [requests[sequence] for sequence in sequences]
        starts = [min(self._fed[i], self.prefix + r.num_cached) for i, r in zip(sequences, ordered, strict=True)]
        ids, positions = self._aim([*map(self._inputs, sequences, ordered, starts)], starts)
        logits = self._slice(self._forward(ids, positions, self._mask(positions)), starts, ordered)
        if sequences != [*requests]:
            order = [sequences.index(sequence) for sequence in requests]
            logits = logits[to_device(torch.tensor(order), logits.device)]
        for sequence, request in requests.items():
            self._fed[sequence] = self.prefix + request.tokens.shape[0]
        return logits

    def _mask(self, positions: Tensor) -> Tensor | None:
        """Return the causal mask: the slots after a token's own are hidden; None for a single last token."""
        if positions.shape[1] == 1 and self._slots.contiguous is not None:
            return None
        hidden = self._numbers[: self._slots.end] > positions[:, None, :, None]
        return torch.where(hidden, torch.finfo(torch.float32).min, 0.0)

    def _forward(self, ids: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        """The network's logits."""
        return self.network(ids, positions, self._cache, mask)

    def _inputs(self, sequence: int, request: ProbsRequest | PathRequest, start: int) -> list[Tensor]:
        """Input ids [T] of every row of a sequence from position `start` of prefix and canvas on."""
        canvas = request.tokens[max(start - self.prefix, 0) :]
        if start >= self.prefix:
            return [canvas] * self.rows
        return [torch.cat([before, canvas]) for before in self._prefixes[sequence, :, start:]]

    def _aim(self, inputs: Sequence[list[Tensor]], starts: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Ids and positions [sequences * rows, T], and where the cache writes; padding sits in the spare slot."""
        slots, widths, rows = self._slots, [group[0].shape[0] for group in inputs], [*chain.from_iterable(inputs)]
        slots.end = max(start + width for start, width in zip(starts, widths, strict=True))
        if len(set(starts)) == len(set(widths)) == 1:
            slots.contiguous = slice(starts[0], slots.end)
            ids = torch.stack(rows).to(self._prefixes.dtype)
            return ids, self._numbers[slots.contiguous].expand(len(ids), -1)
        ids, device = pad_sequence(rows, batch_first=True).to(self._prefixes.dtype), rows[0].device
        both = torch.tensor([starts, widths], device=device).repeat_interleave(self.rows, 1)[..., None]
        offset = self._numbers[: ids.shape[1]]
        index = torch.where(offset < both[1], both[0] + offset, slots.count - 1)
        slots.contiguous, slots.row, slots.index = None, torch.arange(len(ids), device=device)[:, None], index
        return ids, index.clamp(max=slots.count - 2)

    def _slice(self, out: Tensor, starts: Sequence[int], requests: Sequence[ProbsRequest | PathRequest]) -> Tensor:
        """Return the requested rows, left-aligned: [sequences, rows, T', V]."""
        out = out.reshape(len(requests), self.rows, *out.shape[1:])
        widths = [r.num_requested for r in requests]
        firsts = [self.prefix + r.num_final - 1 - start for r, start in zip(requests, starts, strict=True)]
        if len(set(firsts)) == 1:
            return out.narrow(2, firsts[0], max(widths))
        offset = to_device(torch.tensor(firsts), out.device)[:, None] + torch.arange(max(widths), device=out.device)
        index = offset.clamp(max=out.shape[2] - 1)[:, None, :, None].expand(-1, self.rows, -1, out.shape[-1])
        return out.gather(2, index)
