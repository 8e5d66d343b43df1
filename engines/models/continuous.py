"""Sessions of models whose tokens are vectors: a backbone gives conditions, a head turns noise into tokens."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from engines.decoding import PathForward, Role
from engines.denoising import ContinuousSampling, Schedule, walk
from engines.gaussians import Gaussians
from engines.paths import Paths, Steer


@runtime_checkable
class Denoising(Protocol):
    """A session of continuous tokens."""

    rows: int
    """Rows per sequence: 2 with classifier-free guidance."""
    prefix: int
    """Prompt tokens a row is fed before its first canvas token."""

    def conditions(self, requests: Mapping[int, PathForward]) -> Mapping[int, Tensor]:
        """One forward pass of the backbone for the lanes that ask.

        Returns:
            By lane, what the head is told at the positions asked for [R, W, H].
        """
        ...

    def paths(
        self, requests: Mapping[int, PathForward], conditions: Mapping[int, Tensor], sampling: ContinuousSampling
    ) -> Mapping[int, Paths]:
        """Run the head for all lanes at once; the answers by lane."""
        ...

    def cost(self, request: PathForward) -> tuple[int, int]:
        """Rows evaluated for a request, and tokens fed over all of them."""
        ...


@runtime_checkable
class Backbone(Protocol):
    """A session that gives conditions as others give logits, [B, R, W, H]."""

    rows: int
    prefix: int

    def logits(self, requests: Any) -> Tensor:
        """See `engines.models.base.Session.logits`."""
        ...

    def cost(self, request: PathForward) -> tuple[int, int]:
        """See `Denoising.cost`."""
        ...


Estimate = Callable[[Tensor, Tensor, Schedule, int], tuple[Tensor, Tensor]]
"""A diffusion head: noisy tokens [M, D], conditions [M, H], schedule and index of a step to eps and v [M, D]."""
Mix = Callable[[Tensor], Gaussians]
"""A GMM head: conditions [M, H] to the law of the tokens."""


@dataclass(frozen=True, slots=True)
class Head:
    """The one head or the other."""

    estimate: Estimate | None = None
    mix: Mix | None = None


class ContinuousSession:
    """Lanes of one model: conditions from its backbone, paths from its head."""

    def __init__(self, backbone: Backbone, head: Head) -> None:
        self._backbone, self._head = backbone, head
        self.rows, self.prefix = backbone.rows, backbone.prefix

    @torch.inference_mode()
    def conditions(self, requests: Mapping[int, PathForward]) -> Mapping[int, Tensor]:
        """See `Denoising.conditions`."""
        told = self._backbone.logits(requests)
        return {lane: told[i, :, : r.wanted] for i, (lane, r) in enumerate(requests.items())}

    @torch.inference_mode()
    def paths(
        self, requests: Mapping[int, PathForward], conditions: Mapping[int, Tensor], sampling: ContinuousSampling
    ) -> Mapping[int, Paths]:
        """See `Denoising.paths`. The tokens of all lanes lie end to end in one batch."""
        asked = list(requests.values())
        told = torch.cat([conditions[lane] for lane in requests], 1)  # [R, M, H]
        noise = torch.cat([request.noise for request in asked])
        if self._head.mix is not None:
            law = self._head.mix(told[0])
            tempered = Gaussians(law.log_weight, law.mean, sampling.temperature * law.std)
            whole = Paths(tempered, noise[:, :0])
        else:
            scale = torch.cat([request.guidance for request in asked])
            whole = walk(self._denoiser(told, scale), noise, sampling, _steering(asked))
        ends = torch.tensor([request.wanted for request in asked]).cumsum(0).tolist()
        return {
            lane: whole.rows(slice(end - r.wanted, end)) for (lane, r), end in zip(requests.items(), ends, strict=True)
        }

    def cost(self, request: PathForward) -> tuple[int, int]:
        """See `Denoising.cost`."""
        return self._backbone.cost(request)

    def _denoiser(self, told: Float[Tensor, "R M H"], scale: Float[Tensor, " M"]) -> Any:
        """The head with its conditions filled in, and guided: eps of both rows mixed, v of the conditional one."""
        estimate = self._head.estimate
        assert estimate is not None
        rows = len(told)
        flat = told.flatten(0, 1)

        def denoise(x: Tensor, schedule: Schedule, i: int) -> tuple[Tensor, Tensor]:
            eps, v = estimate(x.repeat(rows, 1), flat, schedule, i)
            if rows == 1:
                return eps, v
            conditional, unconditional = eps.chunk(2)
            weight = scale[:, None].to(eps.dtype)
            return unconditional + weight * (conditional - unconditional), v[: len(x)]

        return denoise


def _steering(asked: Sequence[PathForward]) -> Steer | None:
    """The lanes' steers as one, each having a say over its own tokens."""
    if all(request.steer is None for request in asked):
        return None

    def steer(i: int, law: Gaussians, x: Tensor) -> Tensor:
        parts, start = [], 0
        for request in asked:
            own = slice(start, start + request.wanted)
            start = own.stop
            if request.steer is None or i > request.steered:
                parts.append(x[own])
            else:
                parts.append(request.steer(i, law[own], x[own]))
        return torch.cat(parts)

    return steer


class DenoisingPair:
    """Two models under one decoder; every request goes to the session of its role."""

    def __init__(self, sessions: Mapping[Role, Denoising]) -> None:
        """Sessions of the same lanes and tokens."""
        self._sessions = sessions
        first = next(iter(sessions.values()))
        self.rows, self.prefix = first.rows, first.prefix

    def conditions(self, requests: Mapping[int, PathForward]) -> Mapping[int, Tensor]:
        """See `Denoising.conditions`."""
        told: dict[int, Tensor] = {}
        for role, asked in _by_role(requests).items():
            told |= self._sessions[role].conditions(asked)
        return told

    def paths(
        self, requests: Mapping[int, PathForward], conditions: Mapping[int, Tensor], sampling: ContinuousSampling
    ) -> Mapping[int, Paths]:
        """See `Denoising.paths`."""
        found: dict[int, Paths] = {}
        for role, asked in _by_role(requests).items():
            found |= self._sessions[role].paths(asked, conditions, sampling)
        return found

    def cost(self, request: PathForward) -> tuple[int, int]:
        """See `Denoising.cost`."""
        return self._sessions[request.role].cost(request)


def _by_role(requests: Mapping[int, PathForward]) -> dict[Role, dict[int, PathForward]]:
    roles: dict[Role, dict[int, PathForward]] = {}
    for lane, request in requests.items():
        roles.setdefault(request.role, {})[lane] = request
    return roles
