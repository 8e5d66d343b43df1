"""LoPA, lookahead parallel decoding: several orders of filling side by side (Xu et al., arXiv 2512.16229, Alg. 1).

B_0 is the block as it is, and B_j has the j-th most confident open position filled in; docs/methods/lopa.md.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch

from draftscope.engines.diffusion_lm import draft_rows as branches
from draftscope.engines.diffusion_lm import unmasking
from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, GreedyOnly, TextTask
from draftscope.engines.diffusion_lm.draft_graphs import star
from draftscope.engines.protocol import Decoder, SubDecoder, as_ints
from draftscope.engines.sampling.random_source import RandomSource
from draftscope.engines.settings import SettingInfo
from draftscope.engines.transfer import to_device


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(GreedyOnly):
    """Settings of LoPA."""

    k: Annotated[
        int, SettingInfo("Branches", "Copies of the block (k), each with one more draft, compared in a pass.", 0, 16, 1)
    ] = 3
    tau: unmasking.Threshold = 0.9
    ranking: Annotated[
        Literal["confidence", "entropy"],
        SettingInfo("Ranking", "Copies and drafts are compared by the likeliest tokens' probability, or by entropy."),
    ] = "confidence"


def deviation(config: Config) -> str:
    """Return how the distribution deviates from that of block size 1."""
    several = config.size > 1
    return unmasking.deviation_text(
        {"the draft of the branch that wins is not verified": several and config.k > 0}, several
    )


def decode(task: TextTask, config: Config, rng: RandomSource) -> Decoder:
    """Branch, compare, reveal, until the text ends."""
    branches.check_size(task, config.size, star(config.k))
    row, drafts = BlockSequence(task, config.size), None
    while not row.ended:
        drafts = yield from _step(row, branches.build_rows(row, drafts, star(config.k)), config)
    return row.tokens[row.prompt_length :]


def _step(row: BlockSequence, rows: branches.DraftRows, config: Config) -> SubDecoder[branches.RankedDrafts | None]:
    """One pass over all branches."""
    probs = yield from branches.row_probs(row, rows)
    filled = to_device(rows.filled, probs.device)
    value = probs.amax(-1) if config.ranking == "confidence" else torch.special.entr(probs).sum(-1).neg()
    left = (~filled).sum(-1)
    mean = torch.where(filled, 0.0, value).sum(-1) / left
    score = torch.where(left > 0, mean, 1.0)  # C(B_j); nothing is more promising than a full block
    best = branches.best_row(row, rows, probs, score)
    passed = unmasking.above_threshold(best.confidence, best.position, config.tau)
    chosen = unmasking.at_least_one(passed, best.confidence)
    decision = branches.reveal(row, best, chosen, passed, value[best.index[None]][0])
    if rows.drafts is not None and config.k:
        decision = branches.with_scores(decision, rows, score, best.index)
    return branches.apply_answer(row, rows, as_ints((yield decision)), best.probs)
