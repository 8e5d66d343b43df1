"""Sessions of bidirectional networks: positions see all visible ones, so a prefix is a row and nothing is cached."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from draftscope.engines.continuous.path_request import PathRequest


class StackedRows:
    """The backbone session: a row for every prefix that is asked about, twice that with guidance."""

    def __init__(
        self,
        network: Callable[[Tensor, Tensor, Tensor], Tensor],
        orders: Int[Tensor, "B N"],
        labels: Shaped[Tensor, "B R ..."],
        buffer: int,
    ) -> None:
        """Combine rows of several sequences in one network.

        Args:
            network: Called with the tokens [B, N, D] in raster order, their visibility [B, N] and the rows' labels
                [B, ...]; returns conditions [B, N, H].
            orders: Orders of generation.
            labels: Conditions of the rows of a sequence: with guidance first the prompt, then none.
            buffer: Additional positions of every row.
        """
        self.rows = labels.shape[1]
        self.network, self._order, self._labels, self._buffer = network, orders, labels, buffer

    def cost(self, request: PathRequest) -> tuple[int, int]:
        """Rows, and tokens fed over all of them: every row is whole."""
        rows = self.rows * (1 if request.num_visible_missing else request.num_requested)
        return rows, rows * (self._order.shape[1] + self._buffer)

    def logits(self, requests: Mapping[int, PathRequest]) -> Tensor:
        """Return conditions [B, R, W, H]."""
        parts = [self._stack(sequence, request) for sequence, request in requests.items()]
        out = self.network(*(torch.cat([part[i] for part in parts]) for i in range(3)))  # [rows, N, H]
        conditions, start = [], 0
        for (sequence, request), (tokens, _, _) in zip(requests.items(), parts, strict=True):
            output = out[start : start + len(tokens)].unflatten(0, (self.rows, -1))  # [R, prefixes, N, H]
            start += len(tokens)
            cells = self._order[sequence, request.num_final : request.num_final + request.num_requested]
            row = (
                torch.zeros_like(cells)
                if request.num_visible_missing
                else torch.arange(len(cells), device=cells.device)
            )
            conditions.append(output[:, row, cells].transpose(0, 1))  # [W, R, H], to be padded along W
        return torch.nn.utils.rnn.pad_sequence(conditions, batch_first=True).transpose(1, 2)

    def _stack(self, sequence: int, request: PathRequest) -> tuple[Tensor, Tensor, Tensor]:
        """A sequence's rows: tokens, who is visible, labels; [R * prefixes, ...]."""
        order, known = self._order[sequence], len(request.tokens)
        tokens = torch.zeros(1, len(order), request.tokens.shape[1], device=order.device)
        tokens[0, order[:known]] = request.tokens.float()
        lengths = (
            [known - request.num_visible_missing]
            if request.num_visible_missing
            else range(request.num_final, request.num_final + request.num_requested)
        )
        visible = torch.zeros(len(lengths), len(order), dtype=torch.bool, device=order.device)
        for row, length in enumerate(lengths):
            visible[row, order[:length]] = True
        labels = self._labels[sequence].repeat_interleave(len(lengths), 0)
        return tokens.expand(len(labels), -1, -1), visible.repeat(self.rows, 1), labels
