"""Speculative decoding with a small draft model (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318).

The reference for all other methods. Symbols follow Leviathan's Alg. 1:

    x_1 .. x_gamma   drafts, each sampled from q_i, the drafter's distribution given all earlier tokens and drafts
    p_1 .. p_gamma+1 the target's distributions at the same positions and the next one, all from one forward pass
    n (here `r`)     drafts accepted: the first uniform number above p_i(x_i) / q_i(x_i) ends them

The token after the accepted drafts is sampled from (p - q)+ at the first rejection, or from the target's own
distribution if all drafts were accepted. The output distribution is the baseline's, whatever the drafter: a small
model, a layer that reads the target's hidden states (EAGLE-3, arXiv 2503.01840), the target itself, or the text so far,
in which the longest repeated suffix is found and continued (prompt lookup; its drafts are certain, q_i is 1 at x_i).
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor

from draftscope.engines.ar.end_of_sequence import keep_final_fates, truncate_at_eos
from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.ar.prompt_lookup import LONGEST_MATCH, copied_drafts, look_up
from draftscope.engines.protocol import FATE_CODES, Decision, Decoder, SubDecoder, Task, as_ints, as_probs
from draftscope.engines.sampling.coupling import sample_residual, verify_drafts
from draftscope.engines.sampling.distributions import GuidedSampling
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.engines.sampling.verification import fates_with_bonus
from draftscope.engines.settings import ConfigError, SettingInfo
from draftscope.traces.schema import Fate

MAX_DRAFTS = 64
EAGLE_DRAFTERS = ("eagle", "lookup-eagle")
"""Settings of `drafter` by which the target's hidden states are read."""
_SHORTEST_MATCH = {"lookup": 1, "lookup-eagle": 2}
"""Minimum length of a match, by drafter; other drafters look nothing up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(GuidedSampling):
    """Settings of speculative decoding."""

    gamma: Annotated[
        int,
        SettingInfo("Draft length", "Drafts (gamma) before a verification. 0 is ordinary decoding.", 0, MAX_DRAFTS, 1),
    ] = 4
    drafter: Annotated[
        Literal["small", "lookup", "itself", "eagle", "lookup-eagle"],
        SettingInfo(
            "Drafter",
            "small: a smaller model. lookup: what followed the same tokens before. itself: the target. eagle, where "
            "there is one: a layer trained to read the target's hidden states. lookup-eagle: lookup where two tokens "
            "match, or else eagle.",
        ),
    ] = "small"
    lookup_gamma: Annotated[
        int,
        SettingInfo(
            "Draft length of a lookup",
            "Drafts before a verification where they are looked up, which takes no pass of the drafter.",
            1,
            MAX_DRAFTS,
            1,
            {"drafter": ("lookup-eagle",)},
        ),
    ] = 8
    adaptive: Annotated[
        bool,
        SettingInfo("Adapt the draft length", "Draft two more after all were accepted, one fewer after a rejection."),
    ] = False


def decode(task: Task, config: Config, rng: RandomSource) -> Decoder:
    """Draft tokens with a small model or by copying, and verify them in one pass of the target.

    Raises:
        ConfigError: If the canvas has fewer positions than there are drafts.
    """
    if config.gamma >= task.length:
        raise ConfigError(
            f"gamma: {config.gamma} drafts do not fit an output of {task.length} tokens; use 0 to {task.length - 1}."
        )
    return _decode(task, config, rng)


def _decode(task: Task, config: Config, rng: RandomSource) -> Decoder:
    rng.same_noise = config.same_noise
    done, positions = (
        torch.empty(0, dtype=torch.long, device=task.device),
        torch.arange(task.length, device=task.device),
    )
    context, num_cached, min_match = (
        list(task.prompt_ids),
        (0, 0),
        _SHORTEST_MATCH.get(config.drafter, LONGEST_MATCH + 1),
    )
    copied_to = len(context)
    longest = config.lookup_gamma if config.drafter == "lookup-eagle" and config.gamma else config.gamma
    lengths = {"draft": config.gamma, "lookup": longest}
    iteration, ended = 0, False
    while (n := len(done)) < task.length and not ended:
        # Draft (Alg. 1, first loop). The target always adds one token, so the last position needs no draft.
        max_drafts = task.length - n - 1
        if config.drafter in EAGLE_DRAFTERS and not iteration:
            max_drafts = 0  # the target has yet to read the prompt
        found = look_up(context, copied_to, min_match)
        copied = context[found : found + min(lengths["lookup"], max_drafts)]
        source = "lookup" if copied or config.drafter == "lookup" else "draft"
        if source == "draft":
            x, q = yield from _draft(task, done, min(lengths["draft"], max_drafts), num_cached[1], rng)
        else:
            x, q = copied_drafts(copied, task)
        W = len(x)

        # Verify all drafts in one pass. There is no draft after them, so q is 0.
        request = ProbsRequest(
            torch.cat([done, x]), num_final=n, num_cached=num_cached[0], mode="verify" if W else "causal"
        )
        p = as_probs((yield request))  # [W + 1, V]
        position = positions[n : n + W + 1]
        verdict = verify_drafts(x, q[:W], p[:W], rng, DrawKey("verify", iteration, position[:W]), until_rejection=True)
        r = verdict.rejection

        # The token after the accepted drafts.
        slot = positions[: W + 1]
        drawn = sample_residual(
            torch.zeros_like(position), q, p, rng, DrawKey("residual", iteration, position), slot == r
        )
        after = torch.cat([torch.where(slot[:W] < r, x, drawn[:W]), drawn[W:]])
        answer = yield Decision(
            position,
            after,
            readback=torch.cat([r[None], after]),
            draft=x,
            p=p[:W],
            q=q[:W],
            accept_prob=verdict.accept_prob,
            uniform=verdict.uniform,
            deferred_fields=partial(_details, task, after, r, W),
        )
        kept_drafts, *tokens = as_ints(answer)
        gained = next((i for i in range(kept_drafts) if tokens[i] in task.eos_token_ids), kept_drafts) + 1
        done, ended = torch.cat([done, after[:gained]]), tokens[gained - 1] in task.eos_token_ids
        context, copied_to = context + tokens[:gained], found + gained
        num_cached = (n + gained - 1, min(n + gained, n + W) - 1)
        if config.adaptive and W:
            lengths[source] = min(max(lengths[source] + (2 if gained > W else -1), 1), MAX_DRAFTS)
        iteration += 1
    return done


def _draft(
    task: Task, done: Tensor, count: int, num_cached: int, rng: RandomSource
) -> SubDecoder[tuple[Tensor, Tensor]]:
    """Draw at most `count` drafts [W], one pass of the drafter each, with their distributions and zeros [W + 1, V].

    A draft that ends the text is the last one. The drafter has cached `num_cached` tokens.
    """
    tokens, probs = done, list[Tensor]()
    drafted = torch.full((1,), FATE_CODES[Fate.DRAFTED], device=done.device)
    for n in range(len(done), len(done) + count):
        q = as_probs(
            (yield ProbsRequest(tokens, num_final=n, num_cached=max(num_cached, 0), role="draft", mode="draft"))
        )  # [1, V]
        position = torch.full((1,), n, device=done.device)
        token = rng.categorical(q, DrawKey("draft", n, position))
        (drawn,) = as_ints((yield Decision(position, token, drafted, readback=token, probs=q)))
        tokens, num_cached = torch.cat([tokens, token]), n
        probs.append(q)
        if drawn in task.eos_token_ids:
            break
    nothing = torch.zeros(1, task.vocab_size, dtype=torch.float64, device=done.device)
    return tokens[len(done) :], torch.cat([*probs, nothing])


def _details(task: Task, after: Tensor, r: Tensor, W: int) -> dict[str, Tensor]:
    return {"fate": keep_final_fates(truncate_at_eos(task, after, r + 1)[0], fates_with_bonus(r, W))}
