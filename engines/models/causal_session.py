"""Decode many sequences in lockstep on one causal transformer, each at its own length.

Keys and values sit in a preallocated buffer, one slot per position. A pass writes the slots of the tokens it feeds
and the mask lets every query see the slots at or before its own position. Rolling back needs no work: a slot holding
a rejected draft lies behind every later query until the token that replaces it overwrites the slot.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from engines.ar.request import Forward
from engines.continuous.request import PathForward
from engines.models.discrete import DiscreteSession


class SlotLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values [rows, heads, slots, dim] of one layer; `slots` is shared by all layers of a cache."""

    keys: Tensor | None
    values: Tensor

    def __init__(self, slots: "Slots") -> None:
        super().__init__()
        self._slots = slots

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write this pass's keys and values and return those that may be seen."""
        at = self._slots
        if self.keys is None:
            heads, dim = key_states.shape[1], key_states.shape[3]
            self.keys = key_states.new_zeros(at.rows, heads, at.count, dim)
            self.values = torch.zeros_like(self.keys)
        if at.contiguous is not None:
            self.keys[:, :, at.contiguous] = key_states
            self.values[:, :, at.contiguous] = value_states
            return self.keys[:, :, : at.end], self.values[:, :, : at.end]
        # [rows, 1] with [rows, T] picks (row, slot); the heads axis moves behind, hence the transposes.
        self.keys[at.row, :, at.index] = key_states.transpose(1, 2)
        self.values[at.row, :, at.index] = value_states.transpose(1, 2)
        picked = at.row.flatten()
        return self.keys[picked, :, : at.end], self.values[picked, :, : at.end]


class Slots:
    """Where the current pass writes and how far it may look."""

    def __init__(self, rows: int, count: int) -> None:
        self.rows, self.count = rows, count
        self.end = 0
        self.contiguous: slice | None = None
        self.row = self.index = torch.empty(0, dtype=torch.long)


class CausalSession(DiscreteSession):
    """The session of a causal transformer. See the module for how rollback works.

    Args:
        network: called as network(ids [n, T], positions [n, T], cache, mask [n, 1, T, S]); gives logits [n, T, V].
            Where tokens are continuous, ids are [n, T, D].
        prefixes: input ids before the first canvas position [lanes, rows, prefix], with an axis D where tokens have.
        length: canvas length.
        layers: number of cached layers.
    """

    def __init__(
        self,
        network: Callable[..., Tensor],
        prefixes: Int[Tensor, "B R P"] | Float[Tensor, "B R P D"],
        length: int,
        layers: int,
    ) -> None:
        lanes, self.rows, self.prefix = prefixes.shape[:3]
        self._network, self._prefixes = network, prefixes
        # One slot more than positions takes the padding of lanes that ask for fewer tokens than others.
        self._slots = Slots(lanes * self.rows, self.prefix + length + 1)
        self._cache = Cache(layers=[SlotLayer(self._slots) for _ in range(layers)])
        self._fed = [0] * lanes

    @torch.inference_mode()
    def logits(self, requests: Mapping[int, Forward | PathForward]) -> Tensor:
        """See `engines.models.discrete.DiscreteSession.logits`."""
        lanes, asked = list(requests), list(requests.values())
        starts = [min(self._fed[lane], self.prefix + r.cached) for lane, r in requests.items()]
        inputs = [self._inputs(lane, r, start) for lane, r, start in zip(lanes, asked, starts, strict=True)]
        ids, positions = self._pad(inputs, starts)
        self._aim(lanes, starts, positions)
        hidden_from = torch.arange(self._slots.end, device=ids.device)
        mask = torch.zeros(len(ids), 1, ids.shape[1], self._slots.end, device=ids.device)
        mask.masked_fill_(hidden_from > positions[:, None, :, None], torch.finfo(mask.dtype).min)
        out = self._network(ids, positions.clamp(max=self._slots.count - 2), self._cache, mask)  # [lanes * rows, T, V]
        for lane, request in requests.items():
            self._fed[lane] = self.prefix + len(request.tokens)
        return self._slice(out, starts, asked)

    def _inputs(self, lane: int, request: Forward | PathForward, start: int) -> Tensor:
        """Input ids [rows, T] of a lane from position `start` of prefix and canvas on."""
        canvas = request.tokens.expand(self.rows, *request.tokens.shape).to(self._prefixes.dtype)
        if start >= self.prefix:
            return canvas[:, start - self.prefix :]
        return torch.cat([self._prefixes[lane, :, start:], canvas], 1)

    def _pad(self, inputs: Sequence[Tensor], starts: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Ids and positions [lanes * rows, T]; padding sits in the spare slot."""
        width = max(i.shape[1] for i in inputs)
        inner = (0, 0) * (inputs[0].ndim - 2)
        ids = torch.cat([torch.nn.functional.pad(i, (*inner, 0, width - i.shape[1])) for i in inputs])
        offset = torch.arange(width, device=ids.device)
        first = torch.tensor(starts, device=ids.device).repeat_interleave(self.rows)[:, None]
        count = torch.tensor([i.shape[1] for i in inputs], device=ids.device).repeat_interleave(self.rows)[:, None]
        return ids, torch.where(offset < count, first + offset, self._slots.count - 1)

    def _aim(self, lanes: Sequence[int], starts: Sequence[int], positions: Tensor) -> None:
        """Tell the cache layers where this pass writes."""
        slots, width = self._slots, positions.shape[1]
        every_row = len(lanes) * self.rows == slots.rows
        same = len(set(starts)) == 1 and every_row and len(lanes) == 1
        slots.end = min(slots.count, max(starts) + width) if same else slots.count
        slots.contiguous = slice(starts[0], starts[0] + width) if same else None
        row = torch.tensor(lanes, device=positions.device)[:, None] * self.rows
        row = (row + torch.arange(self.rows, device=positions.device)).reshape(-1, 1)
        slots.row, slots.index = row, positions

    def _slice(self, out: Tensor, starts: Sequence[int], asked: Sequence[Forward | PathForward]) -> Tensor:
        """The rows that were asked for, left-aligned: [lanes, rows, T', V]."""
        out = out.reshape(len(asked), self.rows, *out.shape[1:])
        widths = [r.wanted for r in asked]
        firsts = [self.prefix + r.done - 1 - start for r, start in zip(asked, starts, strict=True)]
        if len(set(firsts)) == 1:
            return out[:, :, firsts[0] : firsts[0] + max(widths)]
        offset = torch.tensor(firsts, device=out.device)[:, None] + torch.arange(max(widths), device=out.device)
        index = offset.clamp(max=out.shape[2] - 1)[:, None, :, None].expand(-1, self.rows, -1, out.shape[-1])
        return out.gather(2, index)
