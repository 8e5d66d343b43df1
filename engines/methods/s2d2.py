"""S2D2: a block-diffusion language model drafts and verifies itself (arXiv 2603.25702); docs/methods/s2d2.md.

Symbols follow the paper, apart from p and q: as everywhere in this program q drafts and p verifies.
"""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from engines.diffusion_lm import routing, s2d2_layouts, unmasking
from engines.diffusion_lm.block_sequence import Row, TextTask, propose
from engines.diffusion_lm.token_editing import fates, polish, repair
from engines.protocol import FATE_CODES, NO_ENTRY, Decision, Decoder, Part, ask_numbers, ask_probs
from engines.sampling.random_source import Chance, Draw
from engines.sampling.verification import divergences, verify
from engines.sampling.verification import fates as judged
from engines.settings import ConfigError, Knob
from engines.transfer import to_device
from traces.schema import Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(s2d2_layouts.SpanSettings):
    """Settings of S2D2."""

    verdict: Annotated[
        Literal["match", "ratio"],
        Knob("Verdict", "match: the likeliest token. ratio: with probability min(1, p / q), else from (p - q)+."),
    ] = "match"
    tempering: Annotated[
        float,
        Knob("Tempering", "Power of p / q. Lower accepts more drafts, 0 all.", 0.0, 3.0, 0.25, {"verdict": ("ratio",)}),
    ] = 1.0
    edit: Annotated[
        float,
        Knob("Edit threshold", "Replace a final token where another has this confidence. 1 is off.", 0.0, 1.0, 0.05),
    ] = 1.0


_SDAR: Final = {"mode": "sample", "verdict": "ratio", "threshold": 0.85}
_FAST: Final = {"mode": "greedy", "verdict": "ratio", "threshold": 0.9, "block": "32", "ar_cache": False}
_LLADA: Final = {"mode": "greedy", "verdict": "ratio", "block": "32", "router": "score", "cost": 4.0, "ar_cache": False}
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
    "LLaDA2.1 conservative": {**_LLADA, "threshold": 0.95, "edit": 0.9, "score_threshold": -5.0},
    "LLaDA2.1 quality": {**_LLADA, "threshold": 0.7, "edit": 0.5, "score_threshold": 0.0},
}
"""The paper's configurations (section 5.1); settings they do not name keep their defaults."""


def deviation(config: Config) -> str:
    """What keeps these settings from the distribution of block size 1, ordinary decoding."""
    always = config.router == "always" or (config.router == "span" and config.span_threshold == 1)
    reasons = {
        "passes whose drafts are not verified fill in tokens by confidence": not always,
        "finished tokens are stored as their block sees them, not as they look from left to right": not config.ar_cache,
        "likeliest tokens are judged by p / q as if they had been drawn": (config.mode, config.verdict)
        == ("greedy", "ratio"),
        "the ratio p/q is raised to a power": config.verdict == "ratio" and config.tempering != 1,
        "steps that gain too little fill in more by confidence": 0 < config.steps < config.size,
    }
    if config.size == 1:  # drafts and verdicts come from one distribution there
        reasons = dict.fromkeys(reasons, False)
    reasons["a draft stays only if it is the likeliest token"] = (config.mode, config.verdict) == ("sample", "match")
    reasons["tokens that were filled in are replaced"] = config.edit < 1
    return unmasking.differing(reasons)


@dataclass(frozen=True, slots=True)
class FilledSpan:
    """What a draft pass leaves to a verification: the positions still open, of which the first L are the span."""

    span: Int[Tensor, " L"]
    """On the CPU."""
    filled: Int[Tensor, " T"]
    """The row with the drafts in it, on the CPU."""
    position: Int[Tensor, " m"]
    token: Int[Tensor, " m"]
    confidence: Float[Tensor, " m"]
    probs: Float[Tensor, "m V"]
    route: routing.Route


def decode(task: TextTask, config: Config, chance: Chance) -> Decoder:
    """Draft, and verify where the router says so; raises ConfigError for a bidirectional model."""
    if task.full:
        raise ConfigError(
            "model: s2d2 verifies token by token, and this model looks at the whole text; use method blockwise."
        )
    row = Row(task, config.size, causal=config.ar_cache, part=config.part, carry=config.carry)
    memory = routing.fresh(config, row.task.device)
    iteration, block, taken = 0, row.block, 0
    while not row.ended:
        least = unmasking.schedule(config.size, config.steps or config.size, taken)
        drafts, route, gained = yield from _draft(row, config, chance, memory, iteration, least)
        if drafts is not None:
            gained = gained + (yield from _verify(row, config, chance, drafts, iteration, least))
        memory = routing.learn(route, gained)
        if row.settled:
            yield from polish(row, config.edit)
        row.move_on()
        iteration, taken = iteration + 1, taken + 1 if row.block == block else 0
        block = row.block
    return row.tokens[row.prompt_length :]


def _draft(
    row: Row, config: Config, chance: Chance, memory: routing.Memory, iteration: int, least: int
) -> Part[tuple[FilledSpan | None, routing.Route, Tensor]]:
    """The draft pass: (drafts if they are to be verified, the route, tokens gained)."""
    position, span, number = row.open, row.span, row.number
    written = row.written if config.edit < 1 else position[:0]
    both, count, carried = torch.cat([position, written]), len(position), row.carried(position)
    all_probs = ask_probs((yield row.look(seen=s2d2_layouts.drafting(row, config), read=both)))
    probs, places, first = all_probs[:count], to_device(both, all_probs.device), int(carried.sum())
    token, confidence = propose(probs, position, iteration, chance, config.mode)
    _, coin = chance.keep(torch.ones_like(confidence), Draw("estimate", iteration, places[:count]))
    inside, sure = slice(first, first + len(span)), (confidence > config.threshold).sum()
    progress = (row.part.stop - max(row.part.start, row.prompt_length) - count) / config.part
    route = routing.route(config, routing.View(probs[inside], confidence[inside], coin[inside], sure, progress), memory)

    carried = to_device(carried, probs.device)
    ruled = unmasking.dynamic(confidence, config.threshold, least) & ~route.verify & ~carried
    chosen = ruled | carried
    repaired, _, edited = repair(all_probs[count:], row.tokens[written], config.edit)
    after, kept = torch.cat([token, repaired]), torch.cat([chosen, edited])
    answer = yield Decision(
        places - row.prompt_length,
        after,
        readback=torch.cat([after, kept.long(), route.verify.long()[None]]),
        probs=all_probs,
        details=lambda: {
            "fate": torch.cat([unmasking.fates(chosen, ruled & (confidence <= config.threshold)), fates(edited)]),
            "numbers": {"confidence": confidence, "margin": routing.margin(probs)}
            | {"entropy_share": routing.entropy_share(probs)}
            | {"estimate": torch.cat([coin[:first] + torch.nan, route.estimate()])},
            "signals": {"block": number, "open": count, "committed": chosen.sum(), **route.signals()},
        },
    )
    *numbers, verify = ask_numbers(answer)
    row.write(both, numbers)
    if not verify or row.ended:
        return None, route, chosen.sum()
    filled, left = row.tokens.clone(), slice(first, count)
    filled[position] = torch.tensor(numbers[:count])
    drafts = FilledSpan(span, filled, places[left], token[left], confidence[left], probs[left], route)
    return drafts, route, chosen.sum()


def _verify(row: Row, config: Config, chance: Chance, drafts: FilledSpan, iteration: int, least: int) -> Part[Tensor]:
    """The verification pass: the number of tokens gained."""
    x, count = drafts.token, len(drafts.span)
    p = ask_probs((yield row.feed(s2d2_layouts.judging(row, drafts.span, drafts.filled, config), "verify")))
    q, names = drafts.probs[:count], Draw("verify", iteration, drafts.position[:count])
    verdict = verify(x[:count], (q, p), config.verdict, chance, names, config.tempering)

    passed = torch.arange(count, device=x.device) <= verdict.rejection
    ends = passed & torch.isin(verdict.token, to_device(torch.tensor(row.task.ends, dtype=x.dtype), x.device))
    passed &= ends.cumsum(0) == ends  # what stands behind the end is not decoded
    more = (0, len(x) - count)
    kept = pad(passed, more)
    topped = unmasking.top_up(drafts.confidence, kept, least)
    token = torch.cat([torch.where(passed, verdict.token, x[:count]), x[count:]])
    gained = (kept | topped).sum()
    answer = yield Decision(
        drafts.position - row.prompt_length,
        token,
        readback=torch.cat([token, (kept | topped).long()]),
        draft=x[:count],
        p=p,
        q=q,
        probs=torch.cat([p, drafts.probs[count:]]),
        accept_prob=verdict.accept_prob,
        coin=verdict.coin,
        signals={"block": row.number, "open": len(x), "committed": gained},
        details=lambda: {
            "fate": pad(
                torch.where(passed, judged(verdict.rejection, count), FATE_CODES[Fate.DISCARDED]), more, value=NO_ENTRY
            ).masked_fill_(topped, FATE_CODES[Fate.UNMASKED]),
            "numbers": {"estimate": drafts.route.estimate(), **divergences(x[:count], q, p)},
        },
    )
    row.write(row.open, ask_numbers(answer))
    return gained
