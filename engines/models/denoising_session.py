"""Sessions of models whose tokens are vectors: a backbone gives conditions, a head turns noise into tokens."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from engines.continuous.denoising import ContinuousSampling, Denoiser, Schedule, along, go_on, walk
from engines.continuous.gaussians import Gaussians, together
from engines.continuous.paths import Branch, Led, Paths, Steer
from engines.continuous.request import PathForward
from engines.protocol import Lap


@runtime_checkable
class Backbone(Protocol):
    """A session that gives conditions as others give logits, [B, R, W, H]."""

    def logits(self, requests: Any) -> Tensor:
        """See `engines.models.discrete.DiscreteSession.logits`."""
        ...

    def cost(self, request: Any) -> tuple[int, int]:
        """See `engines.protocol.Session.cost`."""
        ...


Conditioned = Callable[[Tensor, Schedule], Denoiser]
"""A diffusion head: conditions [M, H] and the schedule at hand to what denoises M tokens."""
Mix = Callable[[Tensor], Gaussians]
"""A GMM head: conditions [M, H] to the distribution of the tokens."""


@dataclass(frozen=True, slots=True)
class Head:
    """The one head or the other."""

    conditioned_on: Conditioned | None = None
    mix: Mix | None = None


class ContinuousSession:
    """Lanes of one model: conditions from its backbone, paths from its head."""

    def __init__(self, backbone: Backbone, head: Head) -> None:
        self._backbone, self._head = backbone, head

    @torch.inference_mode()
    def answer(self, requests: Mapping[int, PathForward], sampling: ContinuousSampling, lap: Lap) -> dict[int, Paths]:
        """See `engines.protocol.Session.answer`."""
        conditions = self.conditions(requests)
        lap("forward", next(iter(conditions.values())))
        paths = self.paths(requests, conditions, sampling)
        lap("logits", next(iter(paths.values())).last.mean)
        return {lane: paths[lane] for lane in requests}

    @torch.inference_mode()
    def conditions(self, requests: Mapping[int, PathForward]) -> Mapping[int, Float[Tensor, "R W H"]]:
        """One forward pass of the backbone: by lane, what the head is conditioned on at the positions asked for."""
        conditions = self._backbone.logits(requests)
        return {lane: conditions[i, :, : r.wanted] for i, (lane, r) in enumerate(requests.items())}

    @torch.inference_mode()
    def paths(
        self, requests: Mapping[int, PathForward], conditions: Mapping[int, Tensor], sampling: ContinuousSampling
    ) -> Mapping[int, Paths]:
        """Run the head for all lanes at once, whose tokens lie end to end in one batch; the answers by lane."""
        found: dict[int, Paths] = {}
        for way, do in ((False, self._walk), (True, self._follow)):
            lanes = [lane for lane, request in requests.items() if (request.follow is not None) is way]
            if lanes:
                done = do([requests[lane] for lane in lanes], [conditions[lane] for lane in lanes], sampling)
                found |= dict(zip(lanes, done, strict=True))
        return found

    def _walk(
        self, asked: Sequence[PathForward], conditions: Sequence[Tensor], sampling: ContinuousSampling
    ) -> list[Paths]:
        """Tokens by their noise."""
        condition = torch.cat([*conditions], 1)  # [R, M, H]
        noise = torch.cat([request.noise for request in asked])
        if self._head.mix is not None:
            distribution = self._head.mix(condition[0])
            tempered = Gaussians(distribution.log_weight, distribution.mean, sampling.temperature * distribution.std)
            whole = Paths(tempered, noise[:, :0])
        else:
            scale = torch.cat([request.guidance for request in asked])
            whole = walk(self._denoiser(condition, scale, sampling), noise, sampling, _steering(asked))
        return [whole.rows(own) for own in _slices([request.wanted for request in asked])]

    def _follow(
        self, asked: Sequence[PathForward], conditions: Sequence[Tensor], sampling: ContinuousSampling
    ) -> list[Paths]:
        """Tokens along paths of drafts; one a lane is led on where they are left."""
        follows = [request.follow for request in asked if request.follow is not None]
        counts = [len(follow.states) for follow in follows]
        states = torch.cat([follow.states for follow in follows])
        condition = torch.cat([c[:, :count] for c, count in zip(conditions, counts, strict=True)], 1)
        scale = torch.cat([r.guidance[:count] for r, count in zip(asked, counts, strict=True)])
        distributions = along(self._denoiser(condition, scale, sampling), states, sampling)
        own = _slices(counts)
        branches = [
            follow.leave(tuple(distribution[o] for distribution in distributions))
            for follow, o in zip(follows, own, strict=True)
        ]
        condition = torch.cat([c[:, branch.row] for c, branch in zip(conditions, branches, strict=True)], 1)
        scale = torch.cat([r.guidance[branch.row] for r, branch in zip(asked, branches, strict=True)])
        x, left, noise = (torch.cat([getattr(b, part) for b in branches]) for part in ("x", "left", "noise"))
        last, led = go_on(self._denoiser(condition, scale, sampling), x, left, noise, sampling)
        return [
            _led(
                states[o],
                tuple(distribution[o] for distribution in distributions),
                branch,
                last[i : i + 1],
                led[i : i + 1],
            )
            for i, (o, branch) in enumerate(zip(own, branches, strict=True))
        ]

    def cost(self, request: PathForward) -> tuple[int, int]:
        """See `engines.protocol.Session.cost`."""
        return self._backbone.cost(request)

    def _denoiser(
        self, condition: Float[Tensor, "R M H"], scale: Float[Tensor, " M"], sampling: ContinuousSampling
    ) -> Denoiser:
        """The head conditioned, and guided: eps of both rows mixed, v of the conditional one."""
        assert self._head.conditioned_on is not None
        denoise = self._head.conditioned_on(condition.flatten(0, 1), sampling.schedule)
        if len(condition) == 1:
            return denoise

        def guided(x: Tensor, schedule: Schedule, i: int) -> tuple[Tensor, Tensor]:
            eps, v = denoise(x.repeat(2, 1), schedule, i)
            conditional, unconditional = eps.chunk(2)
            weight = scale[:, None].to(eps.dtype)
            return unconditional + weight * (conditional - unconditional), v[: len(x)]

        return guided


def _slices(counts: Sequence[int]) -> list[slice]:
    """Where each of several groups of rows lies among all."""
    ends = torch.tensor(counts).cumsum(0).tolist()
    return [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]


def _led(states: Tensor, distributions: tuple[Gaussians, ...], branch: Branch, last: Gaussians, led: Tensor) -> Paths:
    """The answer of one lane: followed rows, with what was led on in its place; its own row is the last one.

    Args:
        states: of the drafts [W, n + 1, D].
        distributions: of all n steps.
        branch: where the target left them.
        last: distribution of the last step of what was led on.
        led: its states [1, n + 1, D], from where it left.
    """
    rows = torch.cat([states, led])
    steps = torch.arange(states.shape[1], device=states.device)
    followed = steps < states.shape[1] - 1 - branch.left
    rows = rows.index_copy(0, branch.row, torch.where(followed[:, None], rows[branch.row], led))
    return Paths(together([distributions[-1], last]), rows[:, :-1], distributions[:-1], Led(branch, led[:, -1]))


def _steering(asked: Sequence[PathForward]) -> Steer | None:
    """The lanes' steers as one, each having a say over its own tokens."""
    if all(request.steer is None for request in asked):
        return None

    def steer(i: int, distribution: Gaussians, x: Tensor) -> Tensor:
        parts, start = [], 0
        for request in asked:
            own = slice(start, start + request.wanted)
            start = own.stop
            if request.steer is None or i > request.steered:
                parts.append(x[own])
            else:
                parts.append(request.steer(i, distribution[own], x[own]))
        return torch.cat(parts)

    return steer
