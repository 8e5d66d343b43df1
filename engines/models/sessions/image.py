"""Pictures on a causal transformer whose rows differ: prompts of different lengths, and tokens that end a row.

A prompt that is shorter than the longest is right-aligned in its row: earlier slots are masked out, and positions count
from the prompt's first token, so that every row computes what it would compute alone. That is how a conditional and an
unconditional prompt, or the prompts of several sequences, share a batch.

Some models end every row of the picture with a separate token. It carries no information, so it is not a position of
the canvas: the session feeds it, and reads the first token of a row after it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import torch
from jaxtyping import Int
from torch import Tensor
from typing_extensions import override

from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.models.sessions.causal import CausalSession
from draftscope.engines.transfer import to_device

Prompts = Sequence[Sequence[int]]
"""Ids of a sequence's prompts: the conditional one, and with guidance the unconditional one."""


@dataclass(frozen=True, slots=True)
class PictureShape:
    """Size of pictures."""

    rows: int
    columns: int
    codes: int
    longest: int = 0
    """Positions that the transformer was made for, the prompt's included; 0 where that is not said."""
    line_end: int | None = None
    """Id of the token that ends a row, after those of the codes; None if there is none."""

    @property
    def fed(self) -> int:
        """Tokens of a picture that are fed."""
        return self.rows * (self.columns + (self.line_end is not None))


class PictureSession(CausalSession):
    """The session of pictures."""

    def __init__(
        self,
        network: Callable[..., Tensor],
        prompts: Sequence[Prompts],
        shape: PictureShape,
        layers: int,
        device: torch.device,
    ) -> None:
        """Open a session of a network as `CausalSession` takes it, on a device, with the prompts of every sequence."""
        longest = max(map(len, chain.from_iterable(prompts)))
        filled = [[[*(row[:1] * (longest - len(row))), *row] for row in map(list, sequence)] for sequence in prompts]
        before = [[longest - len(row) for row in sequence] for sequence in prompts]
        self._columns, self._line_end = shape.columns, shape.line_end
        self._before = torch.tensor(before, device=device)
        self._even = not any(chain.from_iterable(before))
        super().__init__(network, torch.tensor(filled, device=device), shape.fed, layers)

    def _forward(self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n T"], mask: Tensor | None) -> Tensor:
        """Run the network, which is given the start of every row's prompt."""
        if self._even:
            return super()._forward(ids, positions, mask)
        before = self._before[self._holders[: len(ids) // self.rows]].reshape(-1, 1)  # [n, 1]
        slot = self._numbers[: self._slots.end]
        # A slot before the prompt attends to itself, because a row that attends to nothing would be not a number.
        padding = (slot < before[..., None, None]) & (slot != positions[:, None, :, None])
        mask = torch.where(padding, torch.finfo(torch.float32).min, 0.0 if mask is None else mask)
        return super()._forward(ids, (positions - before).clamp(min=0), mask)

    @override
    def logits(self, requests: Mapping[int, ProbsRequest]) -> Tensor:  # type: ignore[override]
        if self._line_end is None:
            return super().logits(requests)
        out = super().logits({sequence: self._laid(request) for sequence, request in requests.items()})
        offsets = [
            torch.tensor(
                [self._feed_index(j) - self._feed_index(r.num_final) for j in range(r.num_final, len(r.tokens) + 1)]
            )
            for r in requests.values()
        ]
        index = to_device(torch.nn.utils.rnn.pad_sequence(offsets, batch_first=True), out.device)[:, None, :, None]
        return out.gather(2, index.expand(-1, self.rows, -1, out.shape[-1]))

    def cost(self, request: ProbsRequest) -> tuple[int, int]:
        """Return the rows and fed tokens; the ends of rows are fed, too."""
        return super().cost(request if self._line_end is None else self._laid(request))

    def _feed_index(self, position: int) -> int:
        """Return the index of a canvas position among the fed tokens."""
        return position + position // self._columns

    def _laid(self, request: ProbsRequest) -> ProbsRequest:
        """Return the request with a row end after every complete row."""
        tokens, columns = request.tokens, self._columns
        assert self._line_end is not None
        num_complete = len(tokens) // columns * columns
        ends = tokens.new_full((num_complete // columns, 1), self._line_end)
        laid = torch.cat(
            [torch.cat([tokens[:num_complete].reshape(-1, columns), ends], 1).flatten(), tokens[num_complete:]]
        )
        return replace(
            request,
            tokens=laid,
            num_final=self._feed_index(request.num_final),
            num_cached=self._feed_index(request.num_cached),
        )
