"""Ordinary autoregressive decoding of continuous tokens: one token per forward pass. The baseline of its family."""

from dataclasses import dataclass

import torch

from engines.continuous.denoising import ContinuousSampling, ContinuousTask, noise_at
from engines.continuous.drafting import Block, alone
from engines.protocol import Decoder
from engines.sampling.chance import Chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(ContinuousSampling):
    """Ordinary decoding has no settings but those of sampling."""


def decode(task: ContinuousTask, config: Config, chance: Chance) -> Decoder:
    """Denoise every token given the ones before it."""
    done = torch.empty(0, task.width, dtype=torch.float64, device=task.device)
    while (n := len(done)) < task.length:
        position = torch.full((1,), n, device=task.device)
        noise, guidance = noise_at(position, task, config.steps, chance), config.guidance_at(position, task)
        token = yield from alone(Block(done, 0, position, noise, guidance, iteration=n), max(n - 1, 0))
        done = torch.cat([done, token])
    return done
