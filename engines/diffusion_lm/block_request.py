"""Forward requests of the family diffusion-lm."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from draftscope.engines.diffusion_lm.masks import prefix_mask, run_lengths
from draftscope.engines.protocol import Role
from draftscope.traces.schema import Mask


@dataclass(frozen=True, slots=True)
class BlockRequest:
    """Ask a diffusion language model for the distributions of some of the tokens fed, given the finished ones."""

    tokens: Int[Tensor, "K n"]
    """Rows are drafts to be looked at side by side; on the CPU, as everything here, or on the model's device."""
    position: Int[Tensor, " n"]
    """Counted from the prompt's beginning; two tokens may share one."""
    output_index: Int[Tensor, " m"]
    """Which of the n outputs are wanted."""
    finished: int
    """Positions before them, which the KV cache holds."""
    attention_mask: Bool[Tensor, "n n"]
    """Attention mask among the input tokens, shape [n, n]; True means visible. See engines.diffusion_lm.masks."""
    num_to_cache: int = 0
    """Leading tokens, the same in all rows, that are finished now: they stay in the KV cache."""
    ahead: int = 0
    """Last tokens that only the last row needs: what is read of them in other rows is not used."""
    cache_mask: Bool[Tensor, " s"] | None = None
    """Which stored positions are seen, where those are not the first `finished` ones: an approximate cache."""
    labels: Callable[[], tuple[str, ...]] | None = None
    """Returns names of the tokens after `num_to_cache`, for a picture of the mask; None for no picture."""
    role: Role = "self"
    mode: str = "draft"

    def count_tokens(self, rows: int, prefix: int) -> tuple[int, int]:
        """Return the rows evaluated, and the tokens fed over all of them."""
        count, width = self.tokens.shape
        return count, count * width - (count - 1) * (self.num_to_cache + self.ahead)

    def in_one_row(self) -> "BlockRequest":
        """Return the request with its rows concatenated, none of which attends to another, if they share the cache."""
        count, width = self.tokens.shape
        keep, end = self.num_to_cache, width - self.ahead
        if count == 1 or not (keep or self.finished):
            return self
        step = torch.where(self.output_index < keep, 0, torch.arange(count)[:, None] * (end - keep))
        inner = self.attention_mask[keep:end, keep:end]
        return replace(
            self,
            tokens=torch.cat([self.tokens[0, :keep], self.tokens[:, keep:end].flatten(), self.tokens[-1, end:]])[None],
            position=torch.cat([self.position[:keep], self.position[keep:end].repeat(count), self.position[end:]]),
            output_index=(self.output_index + step).flatten(),
            attention_mask=prefix_mask(
                self.attention_mask[:keep, :keep],
                torch.block_diag(*[inner] * (count - 1), self.attention_mask[keep:, keep:]),
            ),
        )

    def trim(self, all_probs: Tensor) -> Tensor:
        """Return the requested distributions [K, m, V], out of padded ones; [m, V] for a single row."""
        count, wanted = self.tokens.shape[0], self.output_index.shape[0]
        return all_probs[0, :wanted] if count == 1 else all_probs[:count, :wanted]

    def recorded_mask(self) -> Mask | None:
        """Return the attention mask to record.

        All final tokens, now or earlier, are one column that is visible to all.
        """
        if self.labels is None or not (labels := self.labels()):
            return None
        past = ("finished",) if self.finished or self.num_to_cache else ()
        seen = self.attention_mask[self.num_to_cache :, self.num_to_cache :]
        seen = torch.cat([torch.ones(len(seen), len(past), dtype=torch.bool), seen], 1)
        return Mask(queries=labels, keys=past + labels, runs=run_lengths(seen))
