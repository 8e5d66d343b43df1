"""Ordinary autoregressive decoding: one token per forward pass. The baseline of every comparison."""

from dataclasses import dataclass

import torch

from engines.ar.probs_request import Forward
from engines.protocol import FATE_CODES, Decision, Decoder, Task, ask_numbers, ask_probs
from engines.sampling.distributions import GuidedSampling
from engines.sampling.random_source import Chance, Draw
from traces.schema import Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(GuidedSampling):
    """Ordinary decoding has no settings but those of sampling."""


def decode(task: Task, config: Config, chance: Chance) -> Decoder:
    """Draw every token from its own distribution."""
    chance.same_noise = config.same_noise
    done = torch.empty(0, dtype=torch.long, device=task.device)
    fate = torch.full((1,), FATE_CODES[Fate.SAMPLED], device=task.device)
    place, ended = torch.arange(task.length, device=task.device), False
    while (n := done.shape[0]) < task.length and not ended:
        p = ask_probs((yield Forward(done, done=n, cached=max(n - 1, 0))))  # [1, V]
        position = place[n : n + 1]
        token = chance.categorical(p, Draw("sample", n, position))
        (drawn,) = ask_numbers((yield Decision(position, token, fate, readback=token)))
        done, ended = torch.cat([done, token]), drawn in task.ends
    return done
