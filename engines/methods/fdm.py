"""FDM-style decoding: look one step ahead before a token is chosen (after Mo et al., arXiv 2512.04135).

An interpretation of published summaries, see docs/methods/fdm-style.md; the paper was not available.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor

from draftscope.engines.diffusion_lm import draft_rows as branches
from draftscope.engines.diffusion_lm import unmasking
from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, GreedyOnly, TextTask
from draftscope.engines.diffusion_lm.draft_graphs import ROOT, Graph, sibling_nodes
from draftscope.engines.protocol import Decoder, SubDecoder, as_ints
from draftscope.engines.sampling.random_source import RandomSource
from draftscope.engines.settings import SettingInfo
from draftscope.engines.transfer import to_device


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(GreedyOnly):
    """Settings of FDM-style decoding."""

    k: Annotated[
        int,
        SettingInfo(
            "Candidates", "Masks (k) tried in parallel before one is filled in. 1 decodes by confidence.", 1, 16, 1
        ),
    ] = 3
    tau: Annotated[
        float,
        SettingInfo("Threshold", "Confidence from which tokens are revealed without being tried out.", 0.0, 1.0, 0.05),
    ] = 0.9
    floor: Annotated[
        float,
        SettingInfo(
            "Floor", "Masks below this confidence are not tried out, unless there are no others.", 0.0, 1.0, 0.05
        ),
    ] = 0.3


def deviation(config: Config) -> str:
    """Return how the distribution deviates from that of block size 1."""
    return unmasking.deviation_text({}, config.size > 1)


def decode(task: TextTask, config: Config, rng: RandomSource) -> Decoder:
    """Reveal what is sure, try out the rest, until the text ends."""
    branches.check_size(task, config.size, sibling_nodes(config.k))
    row, drafts, graph = BlockSequence(task, config.size), None, ROOT
    while not row.ended:
        drafts, graph = yield from _step(row, branches.build_rows(row, drafts, graph), config)
    return row.tokens[row.prompt_length :]


def _step(
    row: BlockSequence, rows: branches.DraftRows, config: Config
) -> SubDecoder[tuple[branches.RankedDrafts | None, Graph]]:
    """One pass over the block, or over its candidate states: what is left to draft, and the candidates."""
    probs = yield from branches.row_probs(row, rows)
    score = _score(probs, to_device(rows.filled, probs.device), rows)
    best = branches.best_row(row, rows, probs, score)
    confidence = best.confidence
    sure = unmasking.above_threshold(confidence, best.position, config.tau)  # H
    candidates = (confidence >= config.floor).sum().clamp(1, config.k)
    chosen = torch.where((sure.sum() > 1) | (candidates == 1), unmasking.at_least_one(sure, confidence), False)
    decision = branches.reveal(row, best, chosen, sure, best.max_prob)
    counts = decision.step_measures
    decision = replace(
        decision,
        readback=torch.cat(
            [decision.readback, torch.as_tensor(counts["unmasked"])[None] > 0, sure.sum()[None], candidates[None]]
        ),
        step_measures={**counts, "confident": sure.sum()},
    )
    if rows.drafts is not None:
        decision = branches.with_scores(decision, rows, score, best.index)
    *answer, stale, num_given, count = as_ints((yield decision))
    left = branches.apply_answer(row, rows, tuple(answer), best.probs)
    return (None, ROOT) if stale else (left, sibling_nodes(count, num_given))


def _score(probs: Tensor, filled: Tensor, rows: branches.DraftRows) -> Tensor:
    """By which states are compared [K]: the candidate's log probability less the entropy, in nats, of the rest."""
    if (drafts := rows.drafts) is None:
        return probs.new_zeros(1)
    entropy_rest = torch.where(filled, 0.0, torch.special.entr(probs).sum(-1)).sum(-1)
    last = to_device(torch.tensor([node[-1] for node in rows.graph.nodes]), probs.device)  # the candidate's rank
    order = to_device(drafts.rank.argsort(), probs.device)
    return drafts.probs.amax(-1)[order[last - 1]].log() - entropy_rest
