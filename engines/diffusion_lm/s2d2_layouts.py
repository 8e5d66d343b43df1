"""Passes in which a block-diffusion model verifies itself: distributions of block size 1 for a span of drafts.

Source: S2D2 (arXiv 2603.25702), section 4.2.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from draftscope.engines.diffusion_lm import masks
from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, PassLayout
from draftscope.engines.diffusion_lm.routing import Route, RouterSettings
from draftscope.engines.settings import SettingInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanSettings(RouterSettings):
    """Settings of what the passes see."""

    ar_cache: Annotated[
        bool, SettingInfo("AR cache", "Store finished tokens as a left-to-right model sees them, for exact verdicts.")
    ] = True
    causal_draft: Annotated[
        bool,
        SettingInfo("Partly causal drafts", "Tokens before the first mask do not see what comes later while drafting."),
    ] = False
    layout: Annotated[
        Literal["minimal", "full"],
        SettingInfo(
            "Verifier input", "A verification is fed up to the last draft (minimal) or the whole block (full)."
        ),
    ] = "minimal"


@dataclass(frozen=True, slots=True)
class FilledSpan:
    """Drafts of a pass for the verification: the positions still open, of which the first L are the span."""

    span: Int[Tensor, " L"]
    """On the CPU."""
    filled: Int[Tensor, " T"]
    """The row with the drafts in it, on the CPU."""
    position: Int[Tensor, " m"]
    token: Int[Tensor, " m"]
    confidence: Float[Tensor, " m"]
    probs: Float[Tensor, "m V"]
    route: Route


def drafting(row: BlockSequence, settings: SpanSettings) -> Tensor | None:
    """Return the attention mask within the block of a draft pass: eq. 4, or None for full attention.

    Args:
        row: Sequence, with its block and its open positions.
        settings: `causal_draft` and block size.
    """
    if not settings.causal_draft or settings.size == 1:
        return None
    return masks.drafting_mask(row.block.stop - row.block.start, int(row.open[0]) - row.block.start)


def verification_layout(
    row: BlockSequence, span: Int[Tensor, " L"], filled: Int[Tensor, " T"], settings: SpanSettings
) -> PassLayout:
    """Return the verifier's input for a span.

    [F | M] under eq. 3: the block with its drafts, and mask copies of the span. A right-shifted model needs no copies:
    a causal pass over F gives the distribution of a token at its left neighbour.

    Args:
        row: Sequence, with its block.
        span: Positions with drafts that are verified, consecutive.
        filled: Tokens of the sequence with the drafts in place.
        settings: Layout: "full" has the rest of the block and copies of all of it, too.
    """
    start, is_full = row.block.start, settings.layout == "full"
    stop = row.block.stop if is_full else int(span[-1]) + (0 if row.task.shift else 1)
    position = torch.arange(start, stop)
    copied = span[:0] if row.task.shift else position if is_full else span
    if row.task.shift:
        seen, read = masks.block_causal(len(position), 1), span - start - 1
    else:
        seen, read = masks.verifier(len(position), int(copied[0]) - start), len(position) + span - copied[0]
    return PassLayout(
        tokens=torch.cat([filled[position], torch.full_like(copied, row.task.mask)])[None],
        position=torch.cat([position, copied]),
        read=read,
        seen=seen,
        drafted=len(position),
    )
