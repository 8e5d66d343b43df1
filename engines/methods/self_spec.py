"""Self-speculation in one pass (Samragh et al., arXiv 2507.11851; Nemotron-Labs-Diffusion, arXiv 2607.05722).

One network verifies the drafts of the last pass and makes those of the next one. Masks follow the drafts: their outputs
are distributions of the tokens after the one that the pass decides itself.

    x_1 .. x_W   drafts, each sampled from q_i, the output of a mask of the last pass
    p_1 .. p_W+1 the network's own distributions at the same positions and the next one
    r            drafts accepted: the first uniform number above p_i(x_i) / q_i(x_i) ends them

The token after the accepted drafts is sampled from (p - q)+ at the first rejection, or from p if all drafts were
accepted. Real tokens attend to the real tokens before them alone, so the output distribution is that of ordinary
decoding, whatever the masks predict. With masks after the last draft only ("linear"), nothing is drafted for the pass
after a rejection; with masks after every draft ("quadratic"), those after the last accepted one are used.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor

from draftscope.engines.ar.end_of_sequence import keep_final_fates, truncate_at_eos
from draftscope.engines.diffusion_lm.block_request import BlockRequest
from draftscope.engines.diffusion_lm.block_sequence import TextSampling, TextTask
from draftscope.engines.protocol import Decision, Decoder, as_ints, as_probs
from draftscope.engines.sampling.coupling import first_rejection, sample_residual, verify_drafts
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.engines.sampling.verification import fates_with_bonus
from draftscope.engines.settings import ConfigError, SettingInfo

MAX_DRAFTS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(TextSampling):
    """Settings of self-speculation in one pass."""

    gamma: Annotated[
        int,
        SettingInfo(
            "Draft length", "Masks after a text; each drafts a token. 0 is ordinary decoding.", 0, MAX_DRAFTS, 1
        ),
    ] = 2
    layout: Annotated[
        Literal["quadratic", "linear"],
        SettingInfo(
            "Masks",
            "quadratic: after every draft, so that every pass verifies drafts. linear: after the last draft alone: "
            "fewer tokens are fed, and nothing is drafted for the pass after a rejection.",
        ),
    ] = "quadratic"


def decode(task: TextTask, config: Config, rng: RandomSource) -> Decoder:
    """Verify, draft, go on.

    Raises:
        ConfigError: If the model's outputs are not right-shifted.
    """
    if not task.shift or task.full:
        raise ConfigError(
            "model: self-spec needs outputs that are shifted by one token, as those of smollm2-block; use method s2d2."
        )
    return _decode(task, config, rng)


def _decode(task: TextTask, config: Config, rng: RandomSource) -> Decoder:
    text, before = [*task.prompt_ids], len(task.prompt_ids)
    positions = torch.arange(task.length, device=task.device)
    x = torch.empty(0, dtype=torch.long, device=task.device)
    q = torch.empty(0, task.vocab_size, dtype=torch.float64, device=task.device)
    drafts, stored, iteration, ended = list[int](), 0, 0, False
    while (n := len(text) - before) < task.length and not ended:
        # One pass over final tokens that are not stored, drafts, and masks: p [W + 1, V], and q of the next drafts. It
        # decides at least one token itself, and so does the next one, which therefore need no draft.
        W, gamma = len(drafts), min(config.gamma, max(task.length - n - 2, 0))
        groups = [*range(W + 1)] if config.layout == "quadratic" else [W]
        probs = as_probs((yield _request(task, [*text[stored:], *drafts], stored, W, gamma, groups)))
        p, masked = probs[: W + 1], probs[W + 1 :].unflatten(0, (len(groups), gamma))

        # Verify, and take the token after the accepted drafts.
        position = positions[n : n + W + 1]
        slot = positions[: W + 1]
        if config.mode == "greedy":
            after, accept_prob, uniform = p.argmax(-1), None, None
            r = first_rejection(x == after[:W])
        else:
            draw = DrawKey("verify", iteration, position[:W])
            verdict = verify_drafts(x, q, p[:W], rng, draw, until_rejection=True)
            r, accept_prob, uniform = verdict.rejection, verdict.accept_prob, verdict.uniform
            none = torch.zeros(1, task.vocab_size, dtype=torch.float64, device=task.device)
            lost, key = slot == r, DrawKey("residual", iteration, position)
            drawn = sample_residual(torch.zeros_like(position), torch.cat([q, none]), p, rng, key, lost)
            after = torch.cat([torch.where(slot[:W] < r, x, drawn[:W]), drawn[W:]])

        # Draft from the masks after the last accepted draft.
        following = masked.index_select(0, r[None])[0] if config.layout == "quadratic" else masked[0]
        if config.mode == "greedy":
            proposed = following.argmax(-1)
        else:
            next_position = n + r + 1 + torch.arange(gamma, device=task.device)
            proposed = rng.categorical(following, DrawKey("draft", iteration, next_position))
        answer = yield Decision(
            position,
            after,
            readback=torch.cat([r[None], after, proposed]),
            draft=x,
            p=p[:W],
            q=q,
            accept_prob=accept_prob,
            uniform=uniform,
            deferred_fields=partial(_details, task, after, r, W),
        )
        num_accepted, *tokens = as_ints(answer)
        gained = next((i for i in range(num_accepted) if tokens[i] in task.eos_token_ids), num_accepted) + 1
        stored, ended = len(text) + gained - 1, tokens[gained - 1] in task.eos_token_ids
        text += tokens[:gained]
        num_kept = min(gamma, max(task.length - n - gained - 1, 0))
        if config.layout == "linear" and num_accepted < W:
            num_kept = 0  # the masks continue a text that was rejected
        drafts, x, q = tokens[W + 1 : W + 1 + num_kept], proposed[:num_kept], following[:num_kept]
        iteration += 1
    written = text[before:]
    return torch.tensor([*written, *[task.mask] * (task.length - len(written))], device=task.device)


def _request(
    task: TextTask, fed: list[int], stored: int, num_drafts: int, gamma: int, groups: list[int]
) -> BlockRequest:
    """Return the request of a pass: tokens that are not stored, of which the last are drafts, and groups of masks.

    A group of `gamma` masks continues the text after some drafts; it attends to that text and to itself.
    """
    count, width = len(fed), len(fed) + len(groups) * gamma
    last_final = count - num_drafts - 1
    seen, position = torch.zeros(width, width, dtype=torch.bool), torch.arange(width)
    seen[:count, :count] = torch.ones(count, count, dtype=torch.bool).tril()
    for number, accepted in enumerate(groups):
        rows = slice(count + number * gamma, count + (number + 1) * gamma)
        seen[rows, : last_final + accepted + 1] = True
        seen[rows, rows] = True
        position[rows] = last_final + accepted + 1 + torch.arange(gamma)
    return BlockRequest(
        tokens=torch.tensor([[*fed, *[task.mask] * (width - count)]]),
        position=stored + position,
        output_index=torch.arange(last_final, width),
        finished=stored,
        attention_mask=seen,
        num_to_cache=count,
        mode="verify" if num_drafts else "draft",
    )


def _details(task: TextTask, after: Tensor, r: Tensor, W: int) -> dict[str, Tensor]:
    return {"fate": keep_final_fates(truncate_at_eos(task, after, r + 1)[0], fates_with_bonus(r, W))}
