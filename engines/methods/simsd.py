"""SimSD: a small diffusion language model drafts for a large one (arXiv 2606.02544).

The drafter phi reveals gamma tokens of a block at positions o_1 .. o_gamma; the target theta verifies them in one pass
over [D | M], the drafted tokens and a mask copy of each, under a temporal mask; docs/methods/simsd.md.
"""

from dataclasses import dataclass
from itertools import count
from typing import Annotated, Any, Final, Literal

import torch

from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, BlockSettings, Size, TextTask
from draftscope.engines.diffusion_lm.simsd_drafting import Chosen, Pick, choose_surest, draft_pass
from draftscope.engines.diffusion_lm.simsd_layouts import LAYOUTS, Drafts, Order, RopeCopy, Verifier
from draftscope.engines.methods.method import DRAFT_ORDER, Reference
from draftscope.engines.protocol import (
    Decision,
    Decoder,
    SubDecoder,
    as_ints,
    as_probs,
)
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.engines.sampling.verification import divergences, fates, verify_in_order
from draftscope.engines.settings import ConfigError, SettingInfo
from draftscope.engines.transfer import to_device


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(BlockSettings):
    """Settings of SimSD."""

    block: Annotated[
        Size, SettingInfo("Block size", "How many tokens are decoded together; the paper takes 4 and 8.")
    ] = "8"
    drafter: Annotated[
        Literal["small", "itself"],
        SettingInfo("Drafter", "What drafts: a smaller model, or the target itself, for comparison."),
    ] = "small"
    gamma: Annotated[
        int, SettingInfo("Drafts", "Drafts (gamma) before the target verifies. 0 is the whole block.", 0, 32, 1)
    ] = 4
    draft_threshold: Annotated[
        float,
        SettingInfo("Drafter's threshold", "Confidence from which drafts share a pass. 1 is one a pass.", 0, 1, 0.05),
    ] = 0.5
    verifier: Verifier = "eq1"
    rope_copy: RopeCopy = True
    order: Order = "draft"
    verdict: Annotated[
        Literal["match", "ratio", "plain"],
        SettingInfo(
            "Verdict",
            "match: accept the target's most likely token. ratio: accept with probability min(1, p / q), else sample "
            "from the residual (p - q)+. plain: else sample from p, which is biased.",
        ),
    ] = "match"
    rest: Annotated[  # plain: ignore
        Literal["fallback", "truncate"],
        SettingInfo(
            "When fewer than gamma masks remain", "fallback: the target fills them in. truncate: they are drafted."
        ),
    ] = "truncate"

    def __post_init__(self) -> None:
        if self.gamma > self.size:
            raise ConfigError(f"gamma: {self.gamma} is more than a block of {self.size} has tokens; lower it or use 0.")


_PUBLISHED: Final = {
    "mode": "sample",
    "temperature": 1.0,
    "top_p": 1.0,
    "drafter": "small",
    "gamma": 0,
    "draft_threshold": 1.0,
    "verifier": "eq1",
    "rope_copy": True,
    "order": "draft",
    "verdict": "ratio",
    "rest": "fallback",
}
PRESETS: Final[dict[str, dict[str, object]]] = {
    f"As published, block {size}": {"block": size, **_PUBLISHED} for size in ("4", "8")
}
"""Section 4.1: gamma is the block, one draft a pass, and the target decodes alone where fewer masks remain."""


ANY_ORDER: Final = "What the target gives in the order of drafting; ordinary decoding goes from left to right."


def deviation(config: Config) -> str:
    """Return how the distribution deviates from that of the baseline."""
    reasons, several = [], config.size > 1 and config.gamma != 1
    if config.verifier == "eq1" and several:
        reasons.append("verified in one pass, a draft has a say in its own verdict, through the masks of later ones")
    if config.verifier == "2L" and config.size > 1:
        reasons.append("the verification sees no masks at other open positions, unlike the target in training")
    if not config.rope_copy and config.verifier != "exact":
        reasons.append("the mask copies of drafts have other positions than the drafts")
    if config.order == "position" and several:
        reasons.append("drafts are verified from left to right, each as if those drafted before it were final")
    if config.verdict == "plain":
        reasons.append("a rejected draft is redrawn from the target's distribution instead of the residual")
    if config.verdict == "ratio" and config.mode == "greedy":
        reasons.append("most likely tokens are verified by p / q as if they had been sampled")
    if config.verdict == "match" and config.mode == "sample":
        reasons.append("a draft stays only if the target finds it likeliest")
    if reasons:
        return f"Not what the target by itself gives: {'; '.join(reasons)}."
    return ANY_ORDER if config.size > 1 else ""


def reference(config: Config) -> Reference:
    """Return what the output equals: where one draft is made a pass, the order is a function of the tokens so far."""
    in_order = config.draft_threshold == 1 and config.rest == "truncate" and config.verdict == "ratio"
    return DRAFT_ORDER if in_order and deviation(config) == ANY_ORDER else ""


def decode(task: TextTask, config: Config, rng: RandomSource) -> Decoder:
    """Draft a block with a small model, and verify its tokens in that order in one pass of a large one.

    Raises:
        ConfigError: For a model that attends to the whole text, or a verifier that this model cannot have.
    """
    if task.full:
        raise ConfigError("model: simsd needs blocks, and this one attends to the whole text; use blockwise.")
    if task.shift and (config.verifier == "2L" or not config.rope_copy):
        setting = "verifier: '2L'" if config.verifier == "2L" else "rope_copy: false"
        raise ConfigError(f"{setting} is for models whose tokens are read in place; set verifier=exact.")
    row, passes = BlockSequence(task, config.size, carry=False), count()
    block, width, greedy = None, 0, config.mode == "greedy"
    while not row.ended:
        if row.block != block:
            block, width = row.block, min(config.gamma or config.size, len(row.open))
        gamma = min(width, len(row.open))
        if gamma < width and config.rest == "fallback":
            request = row.request_open_positions("fallback", "target")
            pick = Pick(rng, next(passes), config.draft_threshold, greedy)
            ((chosen_position, token, _),) = yield from choose_surest(row, request, row.open, pick)
            row.fill([chosen_position], [token])
            continue
        ids = row.tokens.clone()
        drafts: list[Chosen] = []
        while (num_drafts := len(drafts)) < gamma and len(open_ := row.before_end(ids)):
            max_count = gamma - num_drafts if config.draft_threshold < 1 else 1
            pick = Pick(rng, next(passes), config.draft_threshold, greedy, num_drafts, max_count)
            drafts += yield from draft_pass(row, ids, open_, pick)
        position, tokens, q = zip(*drafts, strict=True)
        judged = Drafts(torch.tensor(position), torch.tensor(tokens), torch.stack(q))
        yield from _verify(row, judged, config, rng, next(passes))
    return row.tokens[row.prompt_length :]


def _verify(row: BlockSequence, drafts: Drafts, config: Config, rng: RandomSource, number: int) -> SubDecoder[None]:
    """One pass of the target over all drafts (eq. 2)."""
    gamma = len(drafts.token)
    probs = as_probs(
        (yield row.request_layout(LAYOUTS[config.verifier](row, drafts, config.rope_copy), "verify", "target"))
    )
    p = probs.diagonal().movedim(-1, 0) if config.verifier == "exact" and gamma > 1 else probs
    rank: Any = slice(None) if config.order == "draft" else to_device(drafts.position.argsort(), p.device)
    position, x = (to_device(column, p.device)[rank] for column in (drafts.position, drafts.token))
    q, p = drafts.q[rank], p[rank]
    verdict = verify_in_order(x, (q, p), config.verdict, rng, DrawKey("verify", number, position))
    block, left = row.number, len(row.open)
    answer = yield Decision(
        position - row.prompt_length,
        verdict.token,
        readback=torch.cat([verdict.rejection[None], position, verdict.token]),
        draft=x,
        p=p,
        q=q,
        probs=p,
        accept_prob=verdict.accept_prob,
        uniform=verdict.uniform,
        deferred_fields=lambda: {
            "fate": fates(verdict.rejection, gamma),
            "measures": {"order": torch.arange(gamma, dtype=p.dtype, device=p.device)[rank], **divergences(x, q, p)},
            "step_measures": {"block": block, "open": left, "committed": (verdict.rejection + 1).clamp(max=gamma)},
        },
    )
    rejection, *final = as_ints(answer)
    row.fill(final[:gamma][: rejection + 1], final[gamma:][: rejection + 1])
