"""Approximate KV caches, which reuse entries of an earlier pass; docs/methods/blockwise.md.

A token whose output is read at its left neighbour is fed again with it: a right-shifted model feeds all tokens while
the first token of a block is open, or, delayed, the token before every open one.
"""

from dataclasses import replace
from typing import Final, Literal, get_args

import torch

from draftscope.engines.diffusion_lm.block_request import BlockRequest
from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, PassLayout
from draftscope.engines.settings import ConfigError

Name = Literal["exact", "prefix", "dual", "delayed"]
DEVIATION: Final = "an approximate cache keeps what an earlier pass computed, when less of the text was known"


class ApproximateCache:
    """Asks a row's passes of a model that keeps what is no longer exact."""

    def __init__(self, row: BlockSequence, name: Name, refresh: int) -> None:
        """Begin with nothing stored; raises ConfigError for a cache that the model of the row has no use for."""
        assert name in get_args(Name) and name != "exact"
        if not row.task.full and name != "dual":
            raise ConfigError(
                f"cache: {name} is for models that look at the whole text at once, and this one stores finished blocks "
                "as they are; use exact, or dual with a sub_block."
            )
        self._row, self._name, self._refresh = row, name, refresh
        self._unit, self._passes = -1, 0
        self._stored = torch.zeros(len(row.tokens), dtype=torch.bool)

    def request_open_positions(self, read: torch.Tensor) -> BlockRequest:
        """Request the open positions, all of which must be in `read`, as `BlockSequence.request_open_positions`."""
        row = self._row
        if row.reuses_store_pass:
            return row.request_open_positions(read=read)
        return self._delayed(read) if self._name == "delayed" else self._around(read)

    def _around(self, read: torch.Tensor) -> BlockRequest:
        row, unit, start = self._row, self._row.sub_block_positions, self._row.sub_block_positions.start
        anew = self._unit != start or (row.task.shift and int(row.tokens[start]) == row.task.mask)
        self._unit = start
        if anew:
            request = row.request_open_positions(read=read)
            return replace(request, num_to_cache=len(request.position), labels=None)
        last = len(row.tokens) if row.task.full else row.block.stop
        fed = torch.arange(start, unit.stop if self._name == "dual" else last)
        return self._request(fed, torch.arange(last) if row.task.full else torch.arange(row.block.stop), 0, read)

    def _delayed(self, read: torch.Tensor) -> BlockRequest:
        row = self._row
        final = row.tokens != row.task.mask
        if self._passes % self._refresh == 0:
            self._stored = torch.zeros_like(final)
        self._passes += 1
        wanted = ~self._stored
        if row.task.shift:
            wanted[read - 1] = True
        order = torch.cat([(wanted & final).nonzero(), (wanted & ~final).nonzero()]).squeeze(1)
        known = self._stored.nonzero().squeeze(1)
        num_stored = int((wanted & final).sum())
        request = self._request(order, known, num_stored, read)
        self._stored = final
        return request

    def _request(self, fed: torch.Tensor, known: torch.Tensor, keep: int, read: torch.Tensor) -> BlockRequest:
        """Feed some positions, which see each other and of the `known` ones those that are not fed."""
        row = self._row
        past = torch.zeros(int(known.max()) + 1 if len(known) else 0, dtype=torch.bool)
        past[known] = True
        past[fed[fed < len(past)]] = False
        index_of = {int(position): index for index, position in enumerate(fed)}
        read = torch.tensor([index_of[i - int(row.task.shift)] for i in read.tolist()], dtype=torch.long)
        everybody = torch.ones(len(fed), len(fed), dtype=torch.bool)
        layout = PassLayout(tokens=row.tokens[None, fed], position=fed, read=read, seen=everybody)
        return replace(row.request_layout(layout, "draft"), cache_mask=past, num_to_cache=keep, labels=None)
