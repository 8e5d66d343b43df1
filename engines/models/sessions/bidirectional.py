"""Sessions of bidirectional networks: positions see all visible ones, so a prefix is a row and nothing is cached."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from engines.continuous.path_request import PathForward


class StackedRows:
    """The backbone session: a row for every prefix that is asked about, twice that with guidance."""

    def __init__(
        self,
        network: Callable[[Tensor, Tensor, Tensor], Tensor],
        orders: Int[Tensor, "B N"],
        labels: Shaped[Tensor, "B R ..."],
        buffer: int,
    ) -> None:
        """Rows of several sequences on one network.

        Args:
            network: called with the tokens [B, N, D] in raster order, who of them is visible [B, N] and the rows'
                labels [B, ...]; gives conditions [B, N, H].
            orders: of generation.
            labels: what the rows of a sequence are conditioned on: with guidance the prompt first, then none.
            buffer: places that every row has besides.
        """
        self.rows = labels.shape[1]
        self._network, self._order, self._labels, self._buffer = network, orders, labels, buffer

    def cost(self, request: PathForward) -> tuple[int, int]:
        """Rows, and tokens fed over all of them: every row is whole."""
        rows = self.rows * (1 if request.unseen else request.wanted)
        return rows, rows * (self._order.shape[1] + self._buffer)

    def logits(self, requests: Mapping[int, PathForward]) -> Tensor:
        """See `engines.models.sessions.discrete.DiscreteSession.logits`: conditions [B, R, W, H]."""
        parts = [self._stack(sequence, request) for sequence, request in requests.items()]
        out = self._network(*(torch.cat([part[i] for part in parts]) for i in range(3)))  # [rows, N, H]
        conditions, start = [], 0
        for (sequence, request), (tokens, _, _) in zip(requests.items(), parts, strict=True):
            own = out[start : start + len(tokens)].unflatten(0, (self.rows, -1))  # [R, prefixes, N, H]
            start += len(tokens)
            cells = self._order[sequence, request.done : request.done + request.wanted]
            row = torch.zeros_like(cells) if request.unseen else torch.arange(len(cells), device=cells.device)
            conditions.append(own[:, row, cells].transpose(0, 1))  # [W, R, H], to be padded along W
        return torch.nn.utils.rnn.pad_sequence(conditions, batch_first=True).transpose(1, 2)

    def _stack(self, sequence: int, request: PathForward) -> tuple[Tensor, Tensor, Tensor]:
        """A sequence's rows: tokens, who is visible, labels; [R * prefixes, ...]."""
        order, known = self._order[sequence], len(request.tokens)
        tokens = torch.zeros(1, len(order), request.tokens.shape[1], device=order.device)
        tokens[0, order[:known]] = request.tokens.float()
        lengths = [known - request.unseen] if request.unseen else range(request.done, request.done + request.wanted)
        visible = torch.zeros(len(lengths), len(order), dtype=torch.bool, device=order.device)
        for row, length in enumerate(lengths):
            visible[row, order[:length]] = True
        labels = self._labels[sequence].repeat_interleave(len(lengths), 0)
        return tokens.expand(len(labels), -1, -1), visible.repeat(self.rows, 1), labels
