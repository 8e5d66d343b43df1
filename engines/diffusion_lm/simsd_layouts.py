"""Layouts by which a diffusion language model judges drafts that were made one after the other, in any order."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from engines.config import Knob
from engines.diffusion_lm import masks
from engines.diffusion_lm.sequence import Layout, Row

Verifier = Annotated[
    Literal["eq1", "exact", "2L"],
    Knob(
        "Verifier",
        "How drafts are verified. eq1: in one pass with the paper's mask, approximate. exact: in a row for every "
        "draft. 2L: in one pass that hides all masks but the draft's own.",
    ),
]
RopeCopy = Annotated[
    bool,
    Knob("RoPE copy", "Masks that stand in for drafts have the drafts' positions.", when={"verifier": ("eq1", "2L")}),
]
Order = Annotated[
    Literal["draft", "position"],
    Knob("Judged in", "Drafts are judged as they were made, as in the paper, or from left to right, as released."),
]


@dataclass(frozen=True, slots=True)
class Drafts:
    """Tokens of the drafter in the order it made them."""

    position: Int[Tensor, " g"]
    token: Int[Tensor, " g"]
    """On the CPU."""
    q: Float[Tensor, "g V"]


def _temporal(row: Row, drafts: Drafts, rope_copy: bool) -> Layout:
    """[final tokens | D | M | masks that were not drafted], eq. 1. Final tokens and those masks see M, but not D."""
    left = row.open[~torch.isin(row.open, drafts.position)]
    seen = masks.amid(masks.temporal(torch.arange(len(drafts.token))), len(_final(row)), len(left))
    return _copies(row, drafts, rope_copy, left, seen)


def _twofold(row: Row, drafts: Drafts, rope_copy: bool) -> Layout:
    """[final tokens | D | M], where a copy sees the drafts before it and itself."""
    final = _final(row)
    lead = torch.ones(len(final), len(final), dtype=torch.bool)
    seen = masks.behind(lead, masks.verifier(len(drafts.token), 0))
    return _copies(row, drafts, rope_copy, row.open[:0], seen)


def _final(row: Row) -> Tensor:
    """Positions of the block under way that hold a token."""
    inside = torch.arange(row.block.start, row.block.stop)
    return inside[row.tokens[inside] != row.task.mask]


def _copies(row: Row, drafts: Drafts, rope_copy: bool, left: Tensor, seen: Tensor) -> Layout:
    final, gamma = _final(row), len(drafts.token)
    copies = drafts.position if rope_copy else row.block.stop + torch.arange(gamma)
    open_ = torch.full((gamma + len(left),), row.task.mask)
    return Layout(
        tokens=torch.cat([row.tokens[final], drafts.token, open_])[None],
        position=torch.cat([final, drafts.position, copies, left]),
        read=len(final) + gamma + torch.arange(gamma),
        seen=seen,
        drafted=len(final) + gamma,
    )


def _rows(row: Row, drafts: Drafts, _: bool) -> Layout:
    """Row r holds the drafts before the r-th: the distributions a target would give one after the other."""
    position = torch.arange(row.block.start, row.block.stop)
    gamma = len(drafts.token)
    tokens = row.tokens[None, position].repeat(gamma, 1)
    places = drafts.position - row.block.start
    for r in range(gamma):
        tokens[r, places[:r]] = drafts.token[:r]
    seen = torch.ones(len(position), len(position), dtype=torch.bool)
    return Layout(tokens=tokens, position=position, read=places, seen=seen)


LAYOUTS: Final = {"eq1": _temporal, "exact": _rows, "2L": _twofold}
