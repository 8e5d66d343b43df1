"""Released decoding loops written out naively: whole rows, no cache, an independent forward for every pass."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Forward = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Logits [n, V] of tokens at their positions under a mask."""


class Released:
    """Greedy decoding by confidence, block by block."""

    def __init__(
        self, forward: Forward, known: int, mask: int, ends: Sequence[int], *, attention: str, shift: bool
    ) -> None:
        """Take a model; `attention` over what is finished is by "blocks", "causal", or "full" over all of the row."""
        self.forward, self.known, self.mask, self.ends = forward, known, mask, tuple(ends)
        self.attention, self.shift, self.passes = attention, shift, 0

    def decode(
        self, prompt: Sequence[int], length: int, size: int, threshold: float, *, part: int = 0, edit: float = 1.0
    ) -> list[int]:
        """Return the answer, masks after its end included."""
        ids = [*prompt, *[self.mask] * length]
        grid = self.attention == "blocks"
        first = len(prompt) // size * size if grid else len(prompt)
        while first < len(ids) and not self.ended(ids, len(prompt)):
            stop = min(first + size, len(ids))
            if self.shift and self.attention != "full" and ids[first] == self.mask:  # the pass that stores is enough
                ids[first] = int(self.probs(ids, first, first, size).argmax(-1)[-1])
                continue
            self.block(ids, len(prompt), (first, stop, size), threshold, part or size, edit)
            first = stop
        return ids[len(prompt) :]

    def block(
        self, ids: list[int], num_prompt: int, where: tuple[int, int, int], threshold: float, part: int, edit: float
    ) -> None:
        """Fill a block, sub-block by sub-block; then edit it until nothing changes."""
        first, stop, size = where
        opening, edits = True, 0
        while not self.ended(ids, num_prompt) and any(ids[i] == self.mask for i in range(first, stop)):
            probs = self.read(ids, first, stop, size)
            masked = [i for i in range(first, stop) if ids[i] == self.mask]
            inside = [i for i in masked if (i - first) // part == (masked[0] - first) // part]
            best = max(inside, key=lambda i: float(probs[i].max()))
            chosen = [i for i in inside if i == best or float(probs[i].max()) >= threshold]
            carried = opening and self.shift and self.attention == "full" and ids[first] == self.mask
            chosen += [first] if carried and first not in chosen else []
            filled = [i for i in range(max(first, num_prompt), stop) if ids[i] != self.mask]
            self.put(ids, chosen + self.edits(ids, filled, probs, edit), probs)
            opening = False
        while edit < 1 and edits < 16:
            filled = [i for i in range(max(first, num_prompt), stop) if ids[i] != self.mask]
            probs = self.read(ids, first, stop, size)
            if not (changed := self.edits(ids, filled, probs, edit)):
                return
            self.put(ids, changed, probs)
            edits += 1

    def edits(self, ids: list[int], filled: Sequence[int], probs: Tensor, edit: float) -> list[int]:
        """Which tokens are replaced."""
        return [i for i in filled if edit < 1 and float(probs[i].max()) > edit and int(probs[i].argmax()) != ids[i]]

    def put(self, ids: list[int], where: Sequence[int], probs: Tensor) -> None:
        for i in where:
            ids[i] = int(probs[i].argmax())

    def ended(self, ids: Sequence[int], num_prompt: int) -> bool:
        """Return whether there is an end with no mask before it."""
        answer = ids[num_prompt:]
        stops = [i for i, token in enumerate(answer) if token in self.ends]
        return self.mask not in (answer[: stops[0]] if stops else answer)

    def read(self, ids: Sequence[int], first: int, stop: int, size: int) -> Tensor:
        """Distributions [N, V] by the position that they are of."""
        probs = self.probs(ids, first, stop, size)
        return torch.cat([probs[:1], probs[:-1]]) if self.shift else probs

    def probs(self, ids: Sequence[int], first: int, stop: int, size: int) -> Tensor:
        """Distributions [N, V] by the position that they are read at."""
        self.passes += 1
        row = torch.tensor(ids if self.attention == "full" else ids[:stop])
        positions = torch.arange(len(row))
        block = positions // size if self.attention == "blocks" else positions.clamp(max=first)
        seen = torch.ones(len(row), len(row)).bool() if self.attention == "full" else block[:, None] >= block[None, :]
        logits = self.forward(row, positions, seen)[:, : self.known]
        logits[:, self.mask] = -torch.inf
        return logits.softmax(-1)
