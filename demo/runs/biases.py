"""Tokens of every way of judging drafts beside the distribution they should follow. Knows nothing of the page."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from engines.continuous.mixture2d import MODES, Mode, Plane, counted, distribution, edges, sample, total_variation
from engines.sampling.chance import SeededChance
from visualizers.figures.bias import Bias, Judged

TOKENS: Final = 40_000
"""Of every mode."""
_AT_ONCE: Final = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What was counted of one mode."""

    mode: Mode
    cells: Tensor
    """Share of the tokens in every cell."""
    kept: float
    """Share of the drafts."""
    tries: float | None
    """Proposals per rejected draft; None where none was rejected."""
    capped: float
    """Share of the tokens that are a plain draw, as no proposal was taken in time."""


@dataclass(frozen=True, slots=True)
class Biases:
    """The distributions of target and draft, and what was drawn."""

    plane: Plane
    target: Tensor
    draft: Tensor
    tallies: tuple[Tally, ...]

    def picture(self) -> Bias:
        """The same for a figure."""
        plane, off = self.plane, "" if self.plane.align else "not "
        return Bias(
            edges=edges().tolist(),
            target=self.target.tolist(),
            draft=self._judged("draft", self.draft),
            drawn=[self._judged(tally.mode, tally.cells) for tally in self.tallies],
            said=f"draft's variances {plane.variance:g} times the true ones, means {plane.shift:g} to the right, "
            f"{plane.steps} steps, {off}aligned; {TOKENS:,} tokens each",
        )

    def _judged(self, name: str, cells: Tensor) -> Judged:
        return Judged(name=name, cells=cells.tolist(), total_variation=total_variation(cells, self.target))


def conduct(plane: Plane, stopped: Callable[[], bool] = lambda: False) -> Iterator[int | Biases]:
    """Draw tokens under every mode; yields how many are drawn now and then, and at last what came of them.

    It ends early, before the next 8,000 tokens, once `stopped` says so.
    """
    target, draft = (distribution(head, plane.sampling) for head in (plane.target, plane.draft))
    chance, tallies = SeededChance(0), list[Tally]()
    for k, mode in enumerate(MODES):
        counts, sums = torch.zeros_like(target), torch.zeros(3, dtype=torch.float64)
        for first in range(0, TOKENS, _AT_ONCE):
            if stopped():
                return
            drawn = sample(mode, plane, torch.arange(first, first + _AT_ONCE), chance)
            counts = counts + counted(drawn.token)
            sums += torch.stack([part.sum().double() for part in (drawn.kept, drawn.tries, drawn.capped)])
            yield k * TOKENS + first + _AT_ONCE
        kept, tries, capped = sums.tolist()
        rejected = TOKENS - kept
        each = tries / rejected if rejected and mode != "vanilla" else None
        share = {"kept": kept / TOKENS, "capped": capped / TOKENS}
        tallies.append(Tally(mode=mode, cells=counts / TOKENS, tries=each, **share))
    yield Biases(plane, target, draft, tuple(tallies))
