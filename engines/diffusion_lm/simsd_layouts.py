"""Layouts by which a diffusion language model verifies drafts that were made one after the other, in any order."""

from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from draftscope.engines.diffusion_lm import masks
from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, PassLayout
from draftscope.engines.settings import SettingInfo

Verifier = Annotated[
    Literal["eq1", "exact", "2L"],
    SettingInfo(
        "Verifier",
        "How drafts are verified. eq1: in one pass with the paper's mask, approximate. exact: in a row for every "
        "draft. 2L: in one pass that hides all masks but the draft's own.",
    ),
]
RopeCopy = Annotated[
    bool,
    SettingInfo(
        "RoPE copy", "Mask copies of drafts have the drafts' positions.", active_if={"verifier": ("eq1", "2L")}
    ),
]
Order = Annotated[
    Literal["draft", "position"],
    SettingInfo(
        "Verified in", "Drafts are verified in drafting order, as in the paper, or from left to right, as released."
    ),
]


@dataclass(frozen=True, slots=True)
class Drafts:
    """Tokens of the drafter in the order it made them."""

    position: Int[Tensor, " g"]
    token: Int[Tensor, " g"]
    """On the CPU."""
    q: Float[Tensor, "g V"]


def _temporal(row: BlockSequence, drafts: Drafts, rope_copy: bool) -> PassLayout:
    """[final tokens | D | M | masks that were not drafted], eq. 1. Final tokens and those masks see M, but not D."""
    drafted = drafts.position.tolist()
    left = [position for position in row.open.tolist() if position not in drafted]
    layout = _copies(row, drafts, rope_copy, left, masks.temporal(len(drafted), len(_final(row)), len(left)))
    return _read_to_the_left(layout, drafts, row.block.start) if row.task.shift else layout


def _read_to_the_left(layout: PassLayout, drafts: Drafts, start: int) -> PassLayout:
    """The layout for a right-shifted model, which reads the distribution of a draft at the token to its left.

    That token has to look as it did when the draft was made. The last final token before the block and a draft made
    just before the draft do; for any other, a copy that sees what the draft's mask copy sees is fed.
    """
    assert layout.seen is not None
    order, seen = drafts.position.tolist(), layout.seen
    read, copied, rows = list[int](), list[int](), list[Tensor]()
    for k, position in enumerate(order):
        if position == start:
            read.append(-1)
        elif k and order[k - 1] == position - 1:
            read.append(layout.drafted - len(order) + k - 1)
        else:
            visible = seen[layout.read[k]].clone()
            copied.append(int((visible & (layout.position == position - 1)).nonzero()[0]))
            visible[copied[-1]] = False  # the copy replaces it
            read.append(len(seen) + len(rows))
            rows.append(visible)
    if rows:
        seen = torch.cat([pad(seen, (0, len(rows))), torch.cat([torch.stack(rows), torch.eye(len(rows)) > 0], 1)])
    return replace(
        layout,
        tokens=torch.cat([layout.tokens, layout.tokens[:, copied]], 1),
        position=torch.cat([layout.position, layout.position[copied]]),
        read=torch.tensor(read),
        seen=seen,
        drafted=len(seen),
    )


def _twofold(row: BlockSequence, drafts: Drafts, rope_copy: bool) -> PassLayout:
    """[final tokens | D | M], where a copy sees the drafts before it and itself."""
    lead = torch.ones(len(_final(row)), len(_final(row)), dtype=torch.bool)
    return _copies(row, drafts, rope_copy, [], masks.prefix_mask(lead, masks.verifier(len(drafts.token), 0)))


def _final(row: BlockSequence) -> dict[int, int]:
    """Tokens of the block under way by position."""
    block_ids = enumerate(row.tokens[row.block].tolist(), row.block.start)
    return {position: token for position, token in block_ids if token != row.task.mask}


def _copies(row: BlockSequence, drafts: Drafts, rope_copy: bool, left: list[int], seen: Tensor) -> PassLayout:
    final, drafted, block_end = _final(row), drafts.position.tolist(), row.block.stop
    copies = drafted if rope_copy else range(block_end, block_end + len(drafted))
    tokens = [*final.values(), *drafts.token.tolist(), *[row.task.mask] * (len(drafted) + len(left))]
    first = len(final) + len(drafted)
    return PassLayout(
        tokens=torch.tensor([tokens]),
        position=torch.tensor([*final, *drafted, *copies, *left]),
        read=torch.arange(first, first + len(drafted)),
        seen=seen,
        drafted=first,
    )


def _rows(row: BlockSequence, drafts: Drafts, _: bool) -> PassLayout:
    """Row r holds the drafts before the r-th: the distributions a target would give one after the other."""
    position = torch.arange(row.block.start, row.block.stop)
    gamma = len(drafts.token)
    tokens = row.tokens[None, position].repeat(gamma, 1)
    offsets = drafts.position - row.block.start
    for r in range(gamma):
        tokens[r, offsets[:r]] = drafts.token[:r]
    return PassLayout(tokens=tokens, position=position, read=offsets - int(row.task.shift), seen=None)


LAYOUTS: Final = {"eq1": _temporal, "exact": _rows, "2L": _twofold}
