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
    to_target: float
    """Total variation."""
    to_draft: float


@dataclass(frozen=True, slots=True)
class Biases:
    """The distributions of target and draft, and what was drawn."""

    plane: Plane
    target: Tensor
    draft: Tensor
    tallies: tuple[Tally, ...]

    @property
    def draft_to_target(self) -> float:
        """Total variation between the two distributions."""
        return total_variation(self.draft, self.target)

    def picture(self) -> Bias:
        """The same for a figure."""
        plane, own = self.plane, self.draft_to_target
        aligned = "" if plane.align else "not "
        return Bias(
            edges=edges().tolist(),
            target=self.target.tolist(),
            draft=Judged(name="draft", cells=self.draft.tolist(), total_variation=own),
            drawn=[
                Judged(name=tally.mode, cells=tally.cells.tolist(), total_variation=tally.to_target)
                for tally in self.tallies
            ],
            said=f"draft's variances {plane.variance:g} times the true ones, means {plane.shift:g} to the right, "
            f"{plane.steps} steps, {aligned}aligned; {TOKENS:,} tokens each",
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the drawing has come."""

    done: int
    total: int
    biases: Biases | None = None
    """Once all is drawn."""


def conduct(plane: Plane, stopped: Callable[[], bool] = lambda: False) -> Iterator[Progress]:
    """Draw tokens under every mode; ends early, before the next 8,000 tokens, once `stopped` says so."""
    target, draft = (distribution(head, plane.sampling) for head in (plane.target, plane.draft))
    chance, tallies, total = SeededChance(0), [], len(MODES) * TOKENS
    for k, mode in enumerate(MODES):
        counts, parts = torch.zeros_like(target), []
        for first in range(0, TOKENS, _AT_ONCE):
            if stopped():
                return
            drawn = sample(mode, plane, torch.arange(first, first + _AT_ONCE), chance)
            counts = counts + counted(drawn.token)
            parts.append([float(part.sum()) for part in (drawn.kept, drawn.tries, drawn.capped)])
            yield Progress(k * TOKENS + first + _AT_ONCE, total)
        kept, tries, capped = (sum(column) for column in zip(*parts, strict=True))
        share, rejected = counts / TOKENS, TOKENS - kept
        tallies.append(
            Tally(
                mode=mode,
                cells=share,
                kept=kept / TOKENS,
                tries=tries / rejected if rejected and mode != "vanilla" else None,
                capped=capped / TOKENS,
                to_target=total_variation(share, target),
                to_draft=total_variation(share, draft),
            )
        )
    yield Progress(total, total, Biases(plane, target, draft, tuple(tallies)))
