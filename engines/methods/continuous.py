"""Ordinary autoregressive decoding of continuous tokens: one token per forward pass. The baseline of its family."""

from dataclasses import dataclass

import torch

from engines.continuous.denoising import ContinuousSampling, ContinuousTask, noise_at
from engines.continuous.request import PathForward, ask_paths
from engines.protocol import FATE_CODES, Decision, Decoder, ask_numbers
from engines.sampling.chance import Chance
from traces.schema import Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(ContinuousSampling):
    """Ordinary decoding has no settings but those of sampling."""


def decode(task: ContinuousTask, config: Config, chance: Chance) -> Decoder:
    """Denoise every token given the ones before it."""
    done = torch.empty(0, task.width, dtype=torch.float64, device=task.device)
    fate = torch.full((1,), FATE_CODES[Fate.SAMPLED], device=task.device)
    nothing = torch.empty(0, dtype=torch.long, device=task.device)
    while (n := len(done)) < task.length:
        position = torch.full((1,), n, device=task.device)
        noise = noise_at(position, task, config.steps, chance)
        guidance = config.guidance_at(position, task)
        request = PathForward(done, done=n, cached=max(n - 1, 0), noise=noise.path, guidance=guidance)
        distribution = ask_paths((yield request)).last
        token = noise.draw(distribution)
        numbers = {
            "last_std": distribution.std.mean((-1, -2)),
            "noise_norm": noise.last.norm(dim=-1),
            "guidance": guidance,
        }
        ask_numbers((yield Decision(position, token, fate, readback=nothing, numbers=numbers)))
        done = torch.cat([done, token])
    return done
