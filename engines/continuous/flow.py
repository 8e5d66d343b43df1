"""How a flow draws a token at random: the stochastic equation of SiT (arXiv 2401.08740), as xAR does (2502.20388).

Between a clean token x_0 and noise lies x_t = (1 - t) x_0 + t noise, and a flow's network estimates the velocity u of
that way. From u follows the score s = -(x_t + (1 - t) u) / t, and a step of dt < 0 is a diagonal Gaussian:

    x_{t + dt} = x_t + dt (u - t s) + sqrt(2 t |dt|) noise
"""

import math
from dataclasses import dataclass, fields
from functools import cache
from typing import Final

import torch

from draftscope.engines.continuous.denoising import ContinuousSampling, Schedule

LAST: Final = 40
"""Time at which the release's last step starts, in thousandths."""


@dataclass(frozen=True, slots=True)
class Flow(Schedule):
    """Schedule of flow times; networks take them in thousandths."""

    time: tuple[float, ...]

    def custom_step(self, i: int) -> tuple[float, float, float]:
        """Return the coefficients of step i; the network's output is a velocity."""
        t = self.time[i]
        dt = (self.time[i - 1] if i else 0.0) - t
        return 1 + dt, dt * (2 - t), math.sqrt(2 * t * -dt)


@cache
def flow_schedule(steps: int, last: int = 0) -> Flow:
    """Return a schedule of evenly spread times, from pure noise on.

    Args:
        steps: How many.
        last: Time of the last step in thousandths; 0 for that of the release.
    """
    times = torch.linspace(1.0, (last or LAST) / 1000, steps, dtype=torch.float64).flip(0)
    thousandths = (times.float() * 1000).long()  # in single precision and cut off, as the release tells them
    return Flow(tuple(thousandths.tolist()), tuple((1 - times).square().tolist()), tuple(times.tolist()))


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSampling(ContinuousSampling):
    """Sampling settings of flow models."""

    @property
    def schedule(self) -> Flow:
        """The times that are visited."""
        return flow_schedule(self.steps, self.last_timestep)


def as_flow_sampling(sampling: ContinuousSampling) -> FlowSampling:
    """Settings as those of a flow."""
    return FlowSampling(**{field.name: getattr(sampling, field.name) for field in fields(ContinuousSampling)})
