"""Passes of SimSD in which the surest positions take tokens: those of the drafter, and of a target that fills in alone.

Source: SimSD (arXiv 2606.02544), section 4.1.
"""

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, PassLayout
from draftscope.engines.protocol import (
    FATE_CODES,
    UNUSED_ENTRY,
    Decision,
    ForwardRequest,
    SubDecoder,
    as_ints,
    as_probs,
)
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.engines.transfer import to_device
from draftscope.traces.schema import Fate

Chosen: TypeAlias = tuple[int, int, Tensor]
"""A position, the token put there, and the distribution [V] that it comes from."""


@dataclass(frozen=True, slots=True)
class Pick:
    """How pass `number` puts tokens: as drafts of its round from `order` on, or one that is final, with None."""

    rng: RandomSource
    number: int
    threshold: float
    """Confidence from which further positions share the pass."""
    greedy: bool
    order: int | None = None
    max_count: int = 1
    """How many positions may share the pass: the surest one, and others that reach `threshold`."""


def draft_pass(row: BlockSequence, ids: Tensor, open_: Tensor, pick: Pick) -> SubDecoder[list[Chosen]]:
    """Run one pass of the drafter over the block, and return the drafts of the most confident open positions.

    Positions are chosen by their distributions, not by the tokens drawn there: a choice that favours likely draws would
    make the token's distribution another than q.

    Args:
        row: Sequence, with its block.
        ids: Tokens of the sequence with earlier drafts in place; the new ones are written into it.
        open_: Positions without a draft.
        pick: How many positions are chosen, and how their tokens are drawn.
    """
    position, read = torch.arange(row.block.start, row.block.stop), open_ - (row.block.start + row.task.shift)
    tokens = ids[None, row.block].clone()
    layout = PassLayout(tokens=tokens, position=position, read=read, seen=None, drafted=len(position))
    drafts = yield from choose_surest(row, row.request_layout(layout, "small_draft", "draft"), open_, pick)
    for draft_position, token, _ in drafts:
        ids[draft_position] = token
    return drafts


def choose_surest(
    row: BlockSequence, request: ForwardRequest, position: Tensor, pick: Pick
) -> SubDecoder[list[Chosen]]:
    """Run a pass, and draw tokens at the positions with the most confident distributions, these first.

    A position that only the first pass after the previous block predicts comes before all others.

    Args:
        row: Sequence.
        request: The pass.
        position: Positions that may be chosen, in the order of its distributions.
        pick: How many positions are chosen, and how their tokens are drawn.
    """
    probs = as_probs((yield request))
    carried, best = to_device(row.carried(position), probs.device), probs.max(-1).values
    position, rank = to_device(position, probs.device), best.masked_fill(carried, torch.inf)
    surest = (
        rank.argmax()[None] if pick.max_count == 1 else rank.argsort(descending=True, stable=True)[: pick.max_count]
    )
    here, probs, count = position[surest], probs[surest], len(surest)
    accepted = best[surest] >= pick.threshold
    accepted[0] = True
    draw = DrawKey("draft", pick.number, here)
    token = probs.argmax(-1) if pick.greedy else pick.rng.categorical(probs, draw, where=accepted)
    fate = FATE_CODES[Fate.FALLBACK if pick.order is None else Fate.DRAFTED]
    answer = yield Decision(
        here - row.prompt_length,
        token,
        readback=torch.cat([accepted.sum()[None], here, token]),
        probs=probs,
        step_measures={"block": row.number, "open": len(position), "committed": float(pick.order is None)},
        deferred_fields=lambda: {
            "fate": torch.where(accepted, fate, UNUSED_ENTRY),
            "measures": {"confidence": probs.gather(1, token[:, None]).squeeze(1)}
            | ({} if pick.order is None else {"order": pick.order + torch.ones_like(best[:count]).cumsum(0) - 1}),
        },
    )
    max_index, *chosen = as_ints(answer)
    return list(zip(chosen[:max_index], chosen[count:], probs, strict=False))
