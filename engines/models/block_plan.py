"""A pass of a diffusion language model at a fixed shape: all that its rows are told, as one piece of memory.

What changes from pass to pass is made on the host, so it goes to the device in one copy, and the network's inputs are
views of what arrived there.
"""

from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from engines.diffusion_lm.request import BlockForward

_NUMBERS: Final = 4
"""Per token fed: its position, where it is stored, which token is read in its place, and its id."""
_LONG: Final = torch.long.itemsize


@dataclass(frozen=True, slots=True)
class PlanShape:
    """The size of a plan."""

    rows: int
    width: int
    slots: int
    """Of the cache, with a spare one at the end; 0 where nothing is looked at and nothing is kept."""

    @property
    def _numbers(self) -> int:
        return self.rows * (1 + _NUMBERS * self.width)

    def blank(self) -> tuple[Tensor, "BlockPlan"]:
        """A plan on the host in which every token is padding, which sees itself, and the memory that it lies in."""
        memory = torch.zeros(self._numbers * _LONG + self.rows * (self.slots + self.width**2), dtype=torch.uint8)
        plan = self.plan(memory)
        plan.store.fill_(self.slots - 1)
        plan.among.diagonal(dim1=1, dim2=2).fill_(True)
        return memory, plan

    def plan(self, memory: Tensor) -> "BlockPlan":
        """The plan that lies in some memory."""
        end = self._numbers * _LONG
        numbers = memory[:end].view(torch.long)
        position, store, read, ids = numbers[self.rows :].view(_NUMBERS, self.rows, self.width)
        past, among = memory[end:].view(torch.bool).split([self.rows * self.slots, self.rows * self.width**2])
        past, among = past.view(self.rows, self.slots), among.view(self.rows, self.width, self.width)
        return BlockPlan(numbers[: self.rows], position, store, read, ids, past, among)


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """Views of a plan's memory."""

    lane: Int[Tensor, " R"]
    """Whose finished tokens a row sees."""
    position: Int[Tensor, "R W"]
    store: Int[Tensor, "R W"]
    """The slots where tokens are kept; the spare one for those that are not."""
    read: Int[Tensor, "R W"]
    """Which outputs are wanted, left-aligned."""
    ids: Int[Tensor, "R W"]
    past: Bool[Tensor, "R S"]
    """Which slots a row sees."""
    among: Bool[Tensor, "R W W"]
    """Who sees whom among the tokens fed."""

    def write(self, first: int, lane: int, request: BlockForward) -> None:
        """Put the rows of a lane into the plan, from row `first` on."""
        rows, fed = request.tokens.shape
        own, kept = slice(first, first + rows), request.keep
        self.lane[own] = lane
        self.position[own, :fed] = request.position
        self.store[first, :kept] = request.position[:kept]
        self.read[own, : len(request.read)] = request.read
        if request.tokens.device == self.ids.device:
            self.ids[own, :fed] = request.tokens
        if request.past is None:
            self.past[own, : request.finished] = True
        else:
            self.past[own, : len(request.past)] = request.past
        self.among[own, :fed, :fed] = request.seen
