"""Prompt lookup decoding (Saxena, 2023): drafts are copied from the text itself. An example of a custom method.

    C            the text so far, prompt included
    x_1 .. x_W   what followed an earlier occurrence of the last `match` tokens of C; nothing if there is none
    p            the target's distributions after the text and after every draft

The drafts are certain, so q is 1 at x_i, and x_i is accepted with probability p_i(x_i). The first rejected draft is
replaced by a sample from p_i without x_i. That is the rule of speculative decoding, so the output distribution is the
target's.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch.nn.functional import one_hot

from draftscope.engines.ar.end_of_sequence import keep_final_fates, truncate_at_eos
from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.methods.method import Method, no_deviation
from draftscope.engines.protocol import Decision, Decoder, Task, as_ints, as_probs
from draftscope.engines.sampling.coupling import residual, verify_drafts
from draftscope.engines.sampling.distributions import GuidedSampling
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.engines.sampling.verification import fates_with_bonus
from draftscope.engines.settings import SettingInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(GuidedSampling):
    """Settings: every field describes how it is shown and which values it takes."""

    match: Annotated[int, SettingInfo("Match", "Tokens that must have stood together before.", 1, 8, 1)] = 2
    drafts: Annotated[int, SettingInfo("Drafts", "Tokens that are copied, at most.", 1, 32, 1)] = 4


def decode(task: Task, config: Config, rng: RandomSource) -> Decoder:
    """Look up, verify, go on."""
    done = torch.empty(0, dtype=torch.long, device=task.device)
    text, iteration, ended = list(task.prompt_ids), 0, 0
    while (n := len(done)) < task.length and not ended:
        num_drafts = min(config.drafts, task.length - n - 1)
        x = torch.tensor(look_up(text, config.match)[:num_drafts], dtype=torch.long, device=task.device)
        q, W = one_hot(x, task.vocab_size).double(), len(x)

        # Ask for a forward pass: the final tokens, then the drafts. What is sent back are distributions [W + 1, V].
        p = as_probs((yield ProbsRequest(torch.cat([done, x]), num_final=n, num_cached=max(n - 1, 0))))
        position = torch.arange(n, n + W + 1, device=task.device)
        verdict = verify_drafts(x, q, p[:W], rng, DrawKey("verify", iteration, position[:W]), until_rejection=True)
        r, slot = verdict.rejection, torch.arange(W + 1, device=task.device)
        left = torch.cat([residual(q, p[:W]), p[W:]])
        drawn = rng.categorical(left, DrawKey("residual", iteration, position), where=slot == r)
        token = torch.where(slot < r, torch.cat([x, drawn[W:]]), drawn)

        # Record the decision. The driver sends back `readback` as integers, on the host.
        gain, end = truncate_at_eos(task, token, r + 1)
        answer = yield Decision(
            position,
            token,
            keep_final_fates(gain, fates_with_bonus(r, W)),
            readback=torch.cat([gain[None], end[None], token]),
            draft=x,
            p=p[:W],
            q=q,
            accept_prob=verdict.accept_prob,
            uniform=verdict.uniform,
        )
        gained, ended, *tokens = as_ints(answer)
        done, text = torch.cat([done, token[:gained]]), text + tokens[:gained]
        iteration += 1
    return done


def look_up(text: list[int], match: int) -> list[int]:
    """Return what followed the most recent earlier occurrence of the last `match` tokens of a text."""
    end = text[len(text) - match :]
    starts = (i for i in range(len(text) - match - 1, -1, -1) if text[i : i + match] == end)
    start = next(starts, None)
    return [] if start is None else text[start + match :]


METHOD = Method(
    name="prompt-lookup",
    title="Prompt lookup",
    family="discrete-ar",
    config=Config,
    decode=decode,
    summary="drafts are copied from the text itself",
    paper="",
    deviation=no_deviation,
)
