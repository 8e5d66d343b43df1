"""What methods of the family diffusion-lm ask for."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from engines.diffusion_lm.masks import behind, runs
from engines.protocol import Role
from traces.schema import Mask


@dataclass(frozen=True, slots=True)
class BlockForward:
    """Ask a diffusion language model for the distributions of some of the tokens fed, given the finished ones."""

    tokens: Int[Tensor, "K n"]
    """Rows are drafts to be looked at side by side; on the CPU, as everything here, or on the model's device."""
    position: Int[Tensor, " n"]
    """Counted from the prompt's beginning; two tokens may share one."""
    read: Int[Tensor, " m"]
    """Which of the n outputs are wanted."""
    finished: int
    """Positions before them, which the KV cache holds."""
    seen: Bool[Tensor, "n n"]
    """Who sees whom among the tokens fed; see engines.diffusion_lm.masks."""
    keep: int = 0
    """Leading tokens, the same in all rows, that are finished now: they stay in the KV cache."""
    ahead: int = 0
    """Last tokens that only the last row needs: what is read of them in other rows is not used."""
    past: Bool[Tensor, " s"] | None = None
    """Which stored positions are seen, where those are not the first `finished` ones: an approximate cache."""
    labels: Callable[[], tuple[str, ...]] | None = None
    """Gives names of the tokens behind `keep`, for a picture of the mask; None for no picture."""
    role: Role = "self"
    mode: str = "draft"

    def cost(self, rows: int, prefix: int) -> tuple[int, int]:
        """See `ForwardRequest.cost`."""
        count, width = self.tokens.shape
        return count, count * width - (count - 1) * (self.keep + self.ahead)

    def in_one_row(self) -> "BlockForward":
        """The same with its rows one behind the other, none of which sees another, where they share what is stored."""
        count, width = self.tokens.shape
        keep, own = self.keep, width - self.ahead
        if count == 1 or not (keep or self.finished):
            return self
        step = torch.where(self.read < keep, 0, torch.arange(count)[:, None] * (own - keep))
        inner = self.seen[keep:own, keep:own]
        return replace(
            self,
            tokens=torch.cat([self.tokens[0, :keep], self.tokens[:, keep:own].flatten(), self.tokens[-1, own:]])[None],
            position=torch.cat([self.position[:keep], self.position[keep:own].repeat(count), self.position[own:]]),
            read=(self.read + step).flatten(),
            seen=behind(self.seen[:keep, :keep], torch.block_diag(*[inner] * (count - 1), self.seen[keep:, keep:])),
        )

    def cut(self, all_probs: Tensor) -> Tensor:
        """The distributions that were asked for [K, m, V], out of padded ones; [m, V] for a single row."""
        count, wanted = self.tokens.shape[0], self.read.shape[0]
        return all_probs[0, :wanted] if count == 1 else all_probs[:count, :wanted]

    def drawn(self) -> Mask | None:
        """See `ForwardRequest.drawn`. All that is finished, now or before, is one column, which everybody sees."""
        if self.labels is None or not (labels := self.labels()):
            return None
        past = ("finished",) if self.finished or self.keep else ()
        seen = self.seen[self.keep :, self.keep :]
        seen = torch.cat([torch.ones(len(seen), len(past), dtype=torch.bool), seen], 1)
        return Mask(queries=labels, keys=past + labels, runs=runs(seen))
