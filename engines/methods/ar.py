"""Ordinary autoregressive decoding: one token per forward pass. The baseline of every comparison."""

from dataclasses import dataclass

import torch

from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.protocol import FATE_CODES, Decision, Decoder, Task, as_ints, as_probs
from draftscope.engines.sampling.distributions import GuidedSampling
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.traces.schema import Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(GuidedSampling):
    """Ordinary decoding has no settings but those of sampling."""


def decode(task: Task, config: Config, rng: RandomSource) -> Decoder:
    """Draw every token from its own distribution."""
    rng.same_noise = config.same_noise
    done = torch.empty(0, dtype=torch.long, device=task.device)
    fate = torch.full((1,), FATE_CODES[Fate.SAMPLED], device=task.device)
    positions, ended = torch.arange(task.length, device=task.device), False
    while (n := done.shape[0]) < task.length and not ended:
        p = as_probs((yield ProbsRequest(done, num_final=n, num_cached=max(n - 1, 0))))  # [1, V]
        position = positions[n : n + 1]
        token = rng.categorical(p, DrawKey("sample", n, position))
        (drawn,) = as_ints((yield Decision(position, token, fate, readback=token)))
        done, ended = torch.cat([done, token]), drawn in task.eos_token_ids
    return done
