"""Copies of a block that differ in which open positions hold a draft already, looked at as rows of one pass."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from draftscope.engines.diffusion_lm import unmasking
from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, TextTask
from draftscope.engines.diffusion_lm.draft_graphs import ROOT, Graph, GraphAcceptance
from draftscope.engines.protocol import FATE_CODES, UNUSED_ENTRY, Decision, DraftGraph, SubDecoder, as_probs
from draftscope.engines.settings import ConfigError
from draftscope.engines.transfer import to_device
from draftscope.traces.schema import Fate

MAX_BYTES: Final = 8 * 2**30
"""Maximum size of the distributions of one pass, as float64 with two copies."""


@dataclass(frozen=True, slots=True)
class RankedDrafts:
    """Drafts of a pass for the next one: a token for every open position of the block, ranked."""

    token: Int[Tensor, " m"]
    rank: Int[Tensor, " m"]
    """Place by falling confidence, from 1. Like the tokens on the CPU."""
    probs: Float[Tensor, "m V"]
    """Distributions the tokens are the likeliest of, on the model's device."""


@dataclass(frozen=True, slots=True)
class DraftRows:
    """Rows of a pass."""

    graph: Graph
    """A row is a node."""
    filled: Bool[Tensor, "K m"]
    """Which of the open positions each row fills, on the CPU."""
    tokens: Int[Tensor, "K T"]
    """Rows as long as the text."""
    position: Int[Tensor, " m"]
    """The open positions, counted from the answer's beginning."""
    drafts: RankedDrafts | None = None
    """Drafts that fill the rows, if there are any."""
    ahead: int = 0
    """Number of last positions that belong to the next block: only the last row, which fills the others, has them."""


@dataclass(frozen=True, slots=True)
class BestRow:
    """The row of a pass that has the best score, at the open positions, on the model's device."""

    index: Int[Tensor, ""]
    position: Int[Tensor, " m"]
    """Counted from the prompt's beginning."""
    filled: Bool[Tensor, " m"]
    """Positions that the row fills with drafts."""
    token: Int[Tensor, " m"]
    """Its drafts, and the most likely tokens elsewhere."""
    max_prob: Float[Tensor, " m"]
    probs: Float[Tensor, "m V"]

    @property
    def confidence(self) -> Float[Tensor, " m"]:
        """Probability of the most likely token, -inf at drafts."""
        return torch.where(self.filled, -torch.inf, self.max_prob)


def build_rows(
    row: BlockSequence, drafts: RankedDrafts | None, graph: Graph, ahead: Int[Tensor, " s"] | None = None
) -> DraftRows:
    """Return the rows of a pass, one for each node whose ranks exist.

    Args:
        row: Sequence, with its open positions.
        drafts: Drafts for them, by rank; None for one row with the current tokens.
        graph: Nodes: sets of ranks that a row fills.
        ahead: Positions of the next block, which no row fills.
    """
    position = row.open
    if drafts is None:
        nothing = torch.zeros_like(position, dtype=torch.bool)
        return DraftRows(ROOT, nothing[None], row.tokens[None], position - row.prompt_length)
    graph = graph.restrict_to(len(position))
    filled = graph.fills(drafts.rank)
    tokens = row.tokens.repeat(len(filled), 1)
    tokens[:, position] = torch.where(filled, drafts.token, row.task.mask)
    if ahead is not None:
        position, filled = torch.cat([position, ahead]), pad(filled, (0, len(ahead)))
    return DraftRows(graph, filled, tokens, position - row.prompt_length, drafts, len(position) - len(drafts.rank))


def row_probs(row: BlockSequence, rows: DraftRows) -> SubDecoder[Float[Tensor, "K m V"]]:
    """Request a pass over the rows, and return their distributions at the open positions.

    Args:
        row: Sequence.
        rows: Result of `build_rows`.
    """
    mode = "draft" if rows.drafts is None else "lookahead"
    probs = as_probs((yield row.request_open_positions(mode, tokens=rows.tokens)))
    return probs.view(len(rows.filled), len(row.open), -1)


def best_row(row: BlockSequence, rows: DraftRows, probs: Float[Tensor, "K m V"], score: Float[Tensor, " K"]) -> BestRow:
    """Return the row with the best score; ties go to the first.

    Args:
        row: Sequence.
        rows: Rows of the pass.
        probs: Their distributions at the open positions.
        score: Score of each row.
    """
    index = score.argmax()
    filled, probs_now = to_device(rows.filled, probs.device)[index[None]][0], probs[index[None]][0]
    max_prob, token = probs_now.max(-1)
    if rows.drafts is not None:
        token = torch.where(filled, to_device(rows.drafts.token, probs.device), token)
    return BestRow(index, to_device(row.open, probs.device), filled, token, max_prob, probs_now)


def reveal(
    row: BlockSequence,
    best: BestRow,
    chosen: Bool[Tensor, " m"],
    confident: Bool[Tensor, " m"],
    value: Float[Tensor, " m"],
) -> Decision:
    """Return the decision to reveal the chosen positions of the best row and its drafts, and to rank the others.

    Args:
        row: The block.
        best: Its best row.
        chosen: Positions to reveal, drafts apart.
        confident: Positions that reach the threshold; the other chosen ones are a fallback.
        value: By which the remaining positions are ranked, highest first.

    Returns:
        A decision that reads back tokens, then ranks, as `apply_answer` takes them.
    """
    accepted = chosen | best.filled | to_device(row.carried(row.open), best.probs.device)
    rank = rank_by_confidence(value, ~accepted)
    return Decision(
        best.position - row.prompt_length,
        best.token,
        unmasking.fates(accepted, chosen & ~confident),
        readback=torch.cat([best.token, rank]),
        probs=best.probs,
        measures={
            "confidence": best.max_prob,
            "rank": torch.where(rank > 0, rank.double(), torch.nan),
            "level": best.filled.double(),
        },
        step_measures={
            "block": row.number,
            "open": len(row.open),
            "winner": best.index,
            "speculated": best.filled.sum(),
            "unmasked": (accepted & ~best.filled).sum(),
            "committed": accepted.sum(),
        },
    )


def rank_by_confidence(confidence: Float[Tensor, " m"], left: Bool[Tensor, " m"]) -> Int[Tensor, " m"]:
    """Return the ranks of positions by falling confidence, from 1, ties by position.

    Args:
        confidence: Confidence at each position.
        left: Positions that are ranked; the others get 0.
    """
    order = torch.where(left, confidence, -torch.inf).argsort(descending=True, stable=True)
    ranks = torch.arange(1, len(order) + 1, device=order.device)
    return torch.zeros_like(order).scatter_(0, order, ranks) * left


def apply_answer(
    row: BlockSequence, rows: DraftRows, answer: Sequence[int], probs: Float[Tensor, "m V"]
) -> RankedDrafts | None:
    """Write an answer into the sequence, and return the drafts that remain; None if there are none.

    Args:
        row: Sequence; its tokens with rank 0 become final.
        rows: Rows of the pass.
        answer: Tokens of the open positions, and then their ranks: those above 0 are drafts, those below are neither.
        probs: Distributions of the open positions, kept with the drafts.
    """
    count = len(answer) // 2
    tokens, ranks = answer[:count], answer[count:]
    row.write(rows.position + row.prompt_length, [*tokens, *(not rank for rank in ranks)])
    row.move_on()
    left = [i for i, rank in enumerate(ranks) if rank > 0]
    if not left:
        return None
    token, rank = torch.tensor([[tokens[i], ranks[i]] for i in left]).unbind(1)
    return RankedDrafts(token, rank, probs[to_device(torch.tensor(left), probs.device)])


def draft_graph(rows: DraftRows, accepted: Bool[Tensor, " K"], accepted_under: Bool[Tensor, "K K"]) -> DraftGraph:
    """Return the rows and their outcome, for the record.

    Args:
        rows: Rows of the pass, with drafts.
        accepted: Whether each row was accepted.
        accepted_under: Whether the row of the first index accepts that of the second.
    """
    graph, drafts = rows.graph, rows.drafts
    assert drafts is not None
    position_of = dict(zip(drafts.rank.tolist(), rows.position.tolist(), strict=False))
    return DraftGraph(
        parents=tuple(graph.parents(k) for k in range(len(graph.nodes))),
        positions=tuple(tuple(position_of[rank] for rank in node) for node in graph.nodes),
        accepted=accepted,
        accepted_by_parent=accepted_under,
    )


def verdicts(
    decision: Decision, rows: DraftRows, outcome: GraphAcceptance, probs: Float[Tensor, "K m V"]
) -> dict[str, Any]:
    """Return the columns of a complete decision: the outcome of all drafts, then the winner's open positions.

    A draft is verified by the row that accepted the smallest accepted set that contains it, or else by the winner; it
    is rejected if a set one larger than the winner's contains it, and dropped unverified otherwise.

    Args:
        decision: Decision on the winner's open positions.
        rows: Rows of the pass, with drafts.
        outcome: Accepted rows, and the winner.
        probs: Distributions of all rows at the open positions.
    """
    drafts = rows.drafts
    assert drafts is not None
    order = to_device(drafts.rank.argsort()[: rows.graph.reach], probs.device)
    filled, winner = to_device(rows.filled, probs.device)[:, order], outcome.winner[None]  # [K, R]
    size, won = filled.sum(-1), filled[winner][0]
    inside = outcome.accepted & ~(filled & ~won).any(-1)
    first = (filled & (inside[:, None] | ~won)).int().argmax(0)  # the smallest set that holds the draft
    verifier = torch.where(won, outcome.accepted_under[:, first].int().argmax(0), winner)
    next_ = (filled | ~won).all(-1) & (size == size[winner] + 1)
    rejected = torch.where((filled & next_[:, None]).any(0), FATE_CODES[Fate.REJECTED], FATE_CODES[Fate.DISCARDED])
    p, draft = probs[verifier, order], to_device(drafts.token, probs.device)[order]
    drafted = {
        "confidence": p.amax(-1),
        "rank": torch.arange(len(order), device=probs.device) + 1.0,
        "level": size[first],
    }
    mine = {"level": torch.zeros_like(decision.position)} | dict(decision.measures)
    return {
        "position": torch.cat([decision.position[order], decision.position]),
        "token": torch.cat([draft, decision.token]),
        "fate": torch.cat([torch.where(won, FATE_CODES[Fate.ACCEPTED], rejected), decision.fate]),
        "draft": draft,
        "p": p,
        "q": drafts.probs[order],
        "probs": torch.cat([p, probs[winner][0]]),
        "measures": {name: torch.cat([drafted[name].double(), column.double()]) for name, column in mine.items()},
        "row": torch.cat([torch.where(won, winner, first), winner.expand(len(decision.position))]),
        "graph": draft_graph(rows, outcome.accepted, outcome.accepted_under),
    }


def with_scores(decision: Decision, rows: DraftRows, score: Float[Tensor, " K"], winner: Int[Tensor, ""]) -> Decision:
    """Return a decision with the drafts that only losing rows hold before its own entries, and with scores.

    Args:
        decision: Decision on the winner's open positions.
        rows: Rows of the pass, with drafts.
        score: Score of each row.
        winner: Index of the winner.
    """
    drafts = rows.drafts
    assert drafts is not None
    order = to_device(drafts.rank.argsort()[: rows.graph.reach], score.device)
    filled = to_device(rows.filled, score.device)
    won, first = filled[winner[None]][0], filled.int().argmax(0)
    lost = torch.where(won[order], UNUSED_ENTRY, FATE_CODES[Fate.DISCARDED])
    missing = torch.full_like(order, torch.nan, dtype=score.dtype)
    winner_score = torch.where(won, score[winner[None]], torch.nan)
    scores = {"branch_score": torch.cat([score[first[order]], winner_score])}
    accepted = torch.arange(len(score), device=score.device) == winner
    accepted_under = torch.zeros(len(score), len(score), dtype=torch.bool, device=score.device)
    return replace(
        decision,
        position=torch.cat([decision.position[order], decision.position]),
        token=torch.cat([to_device(drafts.token, score.device)[order], decision.token]),
        fate=torch.cat([lost, decision.fate]),
        probs=torch.cat([drafts.probs[order], *([] if decision.probs is None else [decision.probs])]),
        measures={name: torch.cat([missing, column]) for name, column in decision.measures.items()} | scores,
        row=torch.cat([first[order], winner.expand(len(decision.position))]),
        graph=draft_graph(rows, accepted, accepted_under),
    )


def check_size(task: TextTask, size: int, graph: Graph) -> None:
    """Raise ConfigError if the distributions of all rows do not fit in memory.

    Args:
        task: Task, which gives the vocabulary size.
        size: Positions of a block.
        graph: One row for each of its nodes.
    """
    rows = len(graph.nodes)
    needed = 3 * 8 * rows * size * task.vocab_size
    if needed > MAX_BYTES:
        raise ConfigError(
            f"graph: {rows} rows with {size} distributions over {task.vocab_size:,} tokens need "
            f"{needed / 2**30:.0f} GiB, more than {MAX_BYTES / 2**30:.0f}; use fewer rows or a smaller block."
        )
