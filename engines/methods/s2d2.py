"""S2D2: a block-diffusion language model drafts and verifies itself (arXiv 2603.25702); docs/methods/s2d2.md.

Symbols follow the paper, apart from p and q: as everywhere in this program q drafts and p verifies.
"""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from draftscope.engines.diffusion_lm import routing, unmasking
from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, TextTask, sample_open_positions
from draftscope.engines.diffusion_lm.s2d2_layouts import FilledSpan, SpanSettings, drafting, verification_layout
from draftscope.engines.diffusion_lm.token_editing import edit_until_stable, fates, propose_edits
from draftscope.engines.protocol import FATE_CODES, UNUSED_ENTRY, Decision, Decoder, SubDecoder, as_ints, as_probs
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.engines.sampling.verification import divergences, verify_in_order
from draftscope.engines.sampling.verification import fates as judged
from draftscope.engines.settings import ConfigError, SettingInfo
from draftscope.engines.transfer import to_device
from draftscope.traces.schema import Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(SpanSettings):
    """Settings of S2D2."""

    verdict: Annotated[
        Literal["match", "ratio"],
        SettingInfo(
            "Verdict", "match: the likeliest token. ratio: with probability min(1, p / q), else from (p - q)+."
        ),
    ] = "match"
    tempering: Annotated[
        float,
        SettingInfo(
            "Tempering", "Power of p / q. Lower accepts more drafts, 0 all.", 0.0, 3.0, 0.25, {"verdict": ("ratio",)}
        ),
    ] = 1.0
    edit_threshold: Annotated[
        float,
        SettingInfo(
            "Edit threshold", "Replace a final token where another has this confidence. 1 is off.", 0.0, 1.0, 0.05
        ),
    ] = 1.0


_SDAR: Final = {"mode": "sample", "verdict": "ratio", "threshold": 0.85}
_GREEDY: Final = {"mode": "greedy", "verdict": "ratio", "block": "32", "ar_cache": False}
_FAST: Final = {**_GREEDY, "threshold": 0.9}
_LLADA: Final = {**_GREEDY, "router": "score", "verification_cost": 4.0}
_SWITCH: Final = {"router": "hysteresis", "scoring": "dynamic"}
PRESETS: Final[dict[str, dict[str, object]]] = {
    "SDAR-1.7B A": {**_SDAR, "block": "4", "router": "span", "span_threshold": 2, "ar_cache": False},
    "SDAR-1.7B B": {**_SDAR, "block": "32", "router": "always"},
    "SDAR-4B A": {**_SDAR, "block": "16", "router": "always"},
    "SDAR-4B B": {**_SDAR, "block": "32", "router": "always"},
    "SDAR-8B A": {**_SDAR, "block": "4", "router": "score"},
    "SDAR-8B B": {**_SDAR, "block": "16", "router": "always"},
    "Fast-dLLM v2 A": {**_FAST, **_SWITCH, "sub_block": "4"},
    "Fast-dLLM v2 B": {**_FAST, **_SWITCH, "sub_block": "16"},
    "Fast-dLLM v2 C": {**_FAST, "router": "span", "span_threshold": 8},
    "LLaDA2.1 conservative": {**_LLADA, "threshold": 0.95, "edit_threshold": 0.9, "score_threshold": -5.0},
    "LLaDA2.1 quality": {**_LLADA, "threshold": 0.7, "edit_threshold": 0.5, "score_threshold": 0.0},
}
"""The paper's configurations (section 5.1); settings they do not name keep their defaults."""


def deviation(config: Config) -> str:
    """Return how the distribution deviates from that of block size 1, the baseline."""
    always = config.router == "always" or (config.router == "span" and config.span_threshold == 1)
    reasons = {
        "passes whose drafts are not verified fill in tokens by confidence": not always,
        "finished tokens are stored as their block sees them, not as they look from left to right": not config.ar_cache,
        "most likely tokens are verified by p / q as if they had been sampled": (config.mode, config.verdict)
        == ("greedy", "ratio"),
        "the ratio p/q is raised to a power": config.verdict == "ratio" and config.tempering != 1,
        "steps that gain too little fill in more by confidence": 0 < config.steps < config.size,
    }
    if config.size == 1:  # drafts and verdicts come from one distribution there
        reasons = dict.fromkeys(reasons, False)
    reasons["a draft stays only if it is the likeliest token"] = (config.mode, config.verdict) == ("sample", "match")
    reasons["tokens that were filled in are replaced"] = config.edit_threshold < 1
    return unmasking.deviation_text(reasons)


def decode(task: TextTask, config: Config, rng: RandomSource) -> Decoder:
    """Draft, and verify if the router decides so.

    Raises:
        ConfigError: If the model is bidirectional.
    """
    if task.full:
        raise ConfigError("model: s2d2 verifies token by token, and this model looks at the whole text; use blockwise.")
    row = BlockSequence(task, config.size, causal=config.ar_cache, part=config.part, carry=config.reuse_store_pass)
    memory = routing.initial_state(config, row.task.device)
    iteration, block, num_steps = 0, row.block, 0
    while not row.ended:
        min_count = unmasking.schedule(config.size, config.steps or config.size, num_steps)
        drafts, route, gained = yield from _draft(row, config, rng, memory, iteration, min_count)
        if drafts is not None:
            gained = gained + (yield from _verify(row, config, rng, drafts, iteration, min_count))
        memory = routing.update_state(route, gained)
        if row.block_is_full:
            yield from edit_until_stable(row, config.edit_threshold)
        row.move_on()
        iteration, num_steps = iteration + 1, num_steps + 1 if row.block == block else 0
        block = row.block
    return row.tokens[row.prompt_length :]


def _draft(
    row: BlockSequence,
    config: Config,
    rng: RandomSource,
    memory: routing.RouterState,
    iteration: int,
    min_count: int,
) -> SubDecoder[tuple[FilledSpan | None, routing.Route, Tensor]]:
    """Run the draft pass and return the drafts for verification (if any), the route, and the tokens gained."""
    position, span, number = row.open, row.span, row.number
    written = row.written if config.edit_threshold < 1 else position[:0]
    both, count, carried = torch.cat([position, written]), len(position), row.carried(position)
    all_probs = as_probs((yield row.request_open_positions(seen=drafting(row, config), read=both)))
    probs, positions, first = all_probs[:count], to_device(both, all_probs.device), int(carried.sum())
    token, confidence = sample_open_positions(probs, position, iteration, rng, config.mode)
    _, uniform = rng.accept(torch.ones_like(confidence), DrawKey("estimate", iteration, positions[:count]))
    inside, sure = slice(first, first + len(span)), (confidence > config.threshold).sum()
    read = routing.RouterInput(probs[inside], confidence[inside], uniform[inside], sure, row.progress)
    route = routing.route(config, read, memory)

    carried = to_device(carried, probs.device)
    ruled = unmasking.dynamic(confidence, config.threshold, min_count) & ~route.verify & ~carried
    chosen = ruled | carried
    repaired, _, edited = propose_edits(all_probs[count:], row.tokens[written], config.edit_threshold)
    after, accepted = torch.cat([token, repaired]), torch.cat([chosen, edited])
    answer = yield Decision(
        positions - row.prompt_length,
        after,
        readback=torch.cat([after, accepted.long(), route.verify.long()[None]]),
        probs=all_probs,
        deferred_fields=lambda: {
            "fate": torch.cat([unmasking.fates(chosen, ruled & (confidence <= config.threshold)), fates(edited)]),
            "measures": {"confidence": confidence, **routing.spread(probs)}
            | {"estimate": torch.cat([uniform[:first] + torch.nan, route.estimate()])},
            "step_measures": {"block": number, "open": count, "committed": chosen.sum(), **route.signals()},
        },
    )
    *numbers, verify = as_ints(answer)
    row.write(both, numbers)
    if not verify or row.ended:
        return None, route, chosen.sum()
    filled, left = row.tokens.clone(), slice(first, count)
    filled[position] = torch.tensor(numbers[:count])
    drafts = FilledSpan(span, filled, positions[left], token[left], confidence[left], probs[left], route)
    return drafts, route, chosen.sum()


def _verify(
    row: BlockSequence, config: Config, rng: RandomSource, drafts: FilledSpan, iteration: int, min_count: int
) -> SubDecoder[Tensor]:
    """The verification pass: the number of tokens gained."""
    x, count = drafts.token, len(drafts.span)
    p = as_probs((yield row.request_layout(verification_layout(row, drafts.span, drafts.filled, config), "verify")))
    q, names = drafts.probs[:count], DrawKey("verify", iteration, drafts.position[:count])
    verdict = verify_in_order(x[:count], (q, p), config.verdict, rng, names, config.tempering)

    passed = torch.arange(count, device=x.device) <= verdict.rejection
    ends = passed & torch.isin(verdict.token, to_device(torch.tensor(row.task.eos_token_ids, dtype=x.dtype), x.device))
    passed &= ends.cumsum(0) == ends  # positions after the end are not decoded
    more = (0, len(x) - count)
    accepted = pad(passed, more)
    topped = unmasking.top_up(drafts.confidence, accepted, min_count)
    token = torch.cat([torch.where(passed, verdict.token, x[:count]), x[count:]])
    gained = (accepted | topped).sum()
    answer = yield Decision(
        drafts.position - row.prompt_length,
        token,
        readback=torch.cat([token, (accepted | topped).long()]),
        draft=x[:count],
        p=p,
        q=q,
        probs=torch.cat([p, drafts.probs[count:]]),
        accept_prob=verdict.accept_prob,
        uniform=verdict.uniform,
        step_measures={"block": row.number, "open": len(x), "committed": gained},
        deferred_fields=lambda: {
            "fate": pad(
                torch.where(passed, judged(verdict.rejection, count), FATE_CODES[Fate.DISCARDED]),
                more,
                value=UNUSED_ENTRY,
            ).masked_fill_(topped, FATE_CODES[Fate.UNMASKED]),
            "measures": {"estimate": drafts.route.estimate(), **divergences(x[:count], q, p)},
        },
    )
    row.write(row.open, as_ints(answer))
    return gained
