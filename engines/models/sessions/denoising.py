"""Sessions of models whose tokens are vectors: a backbone gives conditions, a head turns noise into tokens."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from draftscope.engines.continuous.denoising import (
    ConditionedDenoiser,
    ContinuousSampling,
    Denoiser,
    Schedule,
    denoise,
    path_distributions,
    resume_denoising,
)
from draftscope.engines.continuous.gaussian_bridges import make_bridge
from draftscope.engines.continuous.gaussians import Gaussians
from draftscope.engines.continuous.path_request import (
    DenoiseRequest,
    DenoiseResult,
    PathContinuation,
    PathRequest,
    Paths,
    PathVerification,
    Steer,
)
from draftscope.engines.protocol import ForwardResult, StageCallback


@runtime_checkable
class Backbone(Protocol):
    """A session that gives conditions as others give logits, [B, R, W, H]."""

    def logits(self, requests: Any) -> Tensor:
        """Run one forward pass and return the conditions [B, R, W, H], padded."""
        ...

    def cost(self, request: Any) -> tuple[int, int]:
        """Return the rows evaluated for a request, and the tokens fed over all of them."""
        ...


@dataclass(frozen=True, slots=True)
class Head:
    """The one head or the other."""

    conditioned_on: Callable[[Tensor, Schedule], Denoiser] | None = None
    """Diffusion head: from conditions [M, H] and the schedule to the denoiser of M tokens."""
    mix: Callable[[Tensor], Gaussians] | None = None
    """A GMM head: conditions [M, H] to the distribution of the tokens."""


class ContinuousSession:
    """Sequences of one model: conditions from its backbone, paths from its head."""

    def __init__(self, backbone: Backbone, head: Head) -> None:
        self._backbone, self._head = backbone, head

    @torch.inference_mode()
    def forward(
        self, requests: Mapping[int, PathRequest], sampling: ContinuousSampling, lap: StageCallback
    ) -> dict[int, ForwardResult]:
        """Run one forward pass; values are `Paths`."""
        conditions = self.conditions(requests)
        lap("forward", next(iter(conditions.values())))
        paths = self.paths(requests, conditions, sampling)
        lap("logits", next(iter(paths.values())).last.mean)
        return {
            sequence: ForwardResult(paths[sequence], *self._backbone.cost(request))
            for sequence, request in requests.items()
        }

    @torch.inference_mode()
    def conditions(self, requests: Mapping[int, PathRequest]) -> Mapping[int, Float[Tensor, "R W H"]]:
        """Run the backbone once; returns by sequence the conditions of the head at the requested positions."""
        conditions = self._backbone.logits(requests)
        return {sequence: conditions[i, :, : r.num_requested] for i, (sequence, r) in enumerate(requests.items())}

    @torch.inference_mode()
    def paths(
        self, requests: Mapping[int, PathRequest], conditions: Mapping[int, Tensor], sampling: ContinuousSampling
    ) -> Mapping[int, Paths]:
        """Run the head once for all sequences that draft, and once for all that follow given paths.

        Args:
            requests: Request of each sequence.
            conditions: Conditions of its tokens, as the backbone gives them.
            sampling: Guidance, temperature and noise of the run.

        Returns:
            Denoising paths of each sequence.
        """
        answers: dict[int, Paths] = {}
        for way, do in ((False, self._walk), (True, self._follow)):
            sequences = [sequence for sequence, request in requests.items() if (request.follow is not None) is way]
            if sequences:
                done = do([requests[i] for i in sequences], [conditions[i] for i in sequences], sampling)
                answers |= dict(zip(sequences, done, strict=True))
        return answers

    def _walk(
        self, requests: Sequence[PathRequest], conditions: Sequence[Tensor], sampling: ContinuousSampling
    ) -> list[Paths]:
        """Tokens by their noise."""
        condition = torch.cat([*conditions], 1)  # [R, M, H]
        noise = torch.cat([request.noise for request in requests])
        if self._head.mix is not None:
            distributions = _mixed(
                self._head.mix(condition[0]), noise, [request.pick for request in requests], sampling
            )
        else:
            scale = torch.cat([request.guidance for request in requests])
            rows = _Rows(self._head, condition, scale, sampling)
            distributions = denoise(rows.all_rows, noise, sampling, _steering(requests))
            if any(request.role == "draft" for request in requests):
                distributions = replace(
                    distributions, densities=tuple(partial(rows.log_density, row) for row in range(len(noise)))
                )
        return [distributions.rows(part) for part in _slices([request.num_requested for request in requests])]

    def _follow(
        self, requests: Sequence[PathRequest], conditions: Sequence[Tensor], sampling: ContinuousSampling
    ) -> list[Paths]:
        """Tokens along paths of drafts; one a sequence goes on by itself where they are left."""
        follows = [request.follow for request in requests if request.follow is not None]
        wanted, counts = (
            _slices([request.num_requested for request in requests]),
            [len(follow.states) for follow in follows],
        )
        scale = torch.cat([request.guidance for request in requests])
        rows = _Rows(self._head, torch.cat([*conditions], 1), scale, sampling)
        states = torch.cat([follow.states for follow in follows])
        positions = torch.arange(len(scale), device=states.device)
        followed = [positions[part][:count] for part, count in zip(wanted, counts, strict=True)]
        distributions = path_distributions(
            rows.some_rows(torch.cat(followed) if len(requests) > 1 else slice(counts[0])), states, sampling
        )
        slices = _slices(counts)
        verifications = [follow.verify(distributions[:, o]) for follow, o in zip(follows, slices, strict=True)]
        ended = _verify(verifications, [positions[each] for each in wanted], rows, sampling)
        return [_with_continuation(states[o], distributions[:, o], one) for o, one in zip(slices, ended, strict=True)]


class _Rows:
    """The conditions of some tokens, and the head conditioned on them as far as it has been."""

    def __init__(
        self, head: Head, condition: Float[Tensor, "R M H"], scale: Float[Tensor, " M"], sampling: ContinuousSampling
    ) -> None:
        assert head.conditioned_on is not None
        self._conditioned_on = head.conditioned_on
        self._condition, self._scale, self._sampling = condition, scale, sampling

    @cached_property
    def all_rows(self) -> Denoiser:
        return self._denoiser(self._condition, self._scale)

    def some_rows(self, index: slice | Int[Tensor, " N"]) -> Denoiser:
        """The head, conditioned on some of the tokens; a slice copies nothing."""
        if len(self._condition) == 1 and isinstance(self.all_rows, ConditionedDenoiser):
            return self.all_rows.rows(index)
        return self._denoiser(self._condition[:, index], self._scale[index])

    def one(self, index: Int[Tensor, "1"], count: int) -> Denoiser:
        """The head, conditioned on one token, for `count` noisy ones."""
        alone = self.some_rows(slice(int(index), int(index) + 1))
        return alone if isinstance(alone, ConditionedDenoiser) else self.some_rows(index.expand(count))

    def log_density(self, row: int, states: Float[Tensor, "N S D"]) -> Float[Tensor, " N"]:
        """Logarithms of the densities of paths of one token."""
        distributions = path_distributions(
            self.one(torch.full((1,), row, device=states.device), len(states)), states, self._sampling
        )
        return distributions.log_density(states[:, 1:].transpose(0, 1)).sum(0)

    def _denoiser(self, condition: Float[Tensor, "R M H"], scale: Float[Tensor, " M"]) -> Denoiser:
        """The head conditioned, and guided: eps of both rows mixed, v of the conditional one."""
        denoise = self._conditioned_on(condition.flatten(0, 1), self._sampling.schedule)
        if len(condition) == 1:
            return denoise

        def guided(x: Tensor, schedule: Schedule, i: int) -> tuple[Tensor, Tensor]:
            eps, v = denoise(x.repeat(2, 1), schedule, i)
            conditional, unconditional = eps.chunk(2)
            weight = scale[:, None].to(eps.dtype)
            return unconditional + weight * (conditional - unconditional), v[: len(x)]

        return guided


def _mixed(tokens: Gaussians, noise: Tensor, picks: Sequence[Tensor | None], sampling: ContinuousSampling) -> Paths:
    """Return a mixture's tokens: sampled directly, or by paths in closed form if these are requested."""
    present = [pick for pick in picks if pick is not None]
    if len(present) == len(picks):
        return make_bridge(tokens, sampling).sample_path(noise, torch.cat(present))
    tempered = Gaussians(tokens.log_weight, tokens.mean, sampling.temperature * tokens.std)
    return Paths(tempered[None], noise[:, :0])


def _verify(
    verifications: Sequence[PathVerification], positions: Sequence[Tensor], rows: _Rows, sampling: ContinuousSampling
) -> list[PathContinuation]:
    """Run what decides where each sequence leaves its paths, denoising together what a round asks for."""
    ended: dict[int, PathContinuation] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(verifications)))
    while answers:
        requested: dict[int, DenoiseRequest] = {}
        for sequence, denoised in answers.items():
            try:
                requested[sequence] = verifications[sequence].send(denoised)
            except StopIteration as stop:
                ended[sequence] = stop.value
        answers = {}
        if requested:
            x, left, noise = (
                torch.cat([getattr(a, part) for a in requested.values()]) for part in ("x", "left", "noise")
            )
            index = [positions[sequence][one.row] for sequence, one in requested.items()]
            indices = [at.expand(len(one.x)) for at, one in zip(index, requested.values(), strict=True)]
            denoise = rows.one(index[0], len(x)) if len(requested) == 1 else rows.some_rows(torch.cat(indices))
            distributions, states = resume_denoising(denoise, x, left, noise, sampling)
            slices = _slices([len(one.x) for one in requested.values()])
            answers = {
                sequence: DenoiseResult(distributions[:, o], states[o])
                for sequence, o in zip(requested, slices, strict=True)
            }
    return [ended[sequence] for sequence in range(len(verifications))]


def _slices(counts: Sequence[int]) -> list[slice]:
    """Return the slice of each of several groups of rows."""
    return [slice(end - count, end) for end, count in zip(accumulate(counts), counts, strict=True)]


def _with_continuation(states: Tensor, distributions: Gaussians, continuation: PathContinuation) -> Paths:
    """Return the result of one sequence: followed rows, with the continuation inserted; its own row is the last one.

    Drafts have the states [W, n + 1, D], and `distributions` are the target's distributions of all steps along them.
    """
    rows = torch.cat([states, continuation.states])
    steps = torch.arange(states.shape[1], device=states.device)
    followed = steps < states.shape[1] - 1 - continuation.left
    rows = rows.index_copy(
        0, continuation.row, torch.where(followed[:, None], rows[continuation.row], continuation.states)
    )
    return Paths(distributions, rows[:, :-1], continuation)


def _steering(requests: Sequence[PathRequest]) -> Steer | None:
    """The sequences' steers as one, each having a say over its own tokens."""
    if all(request.steer is None for request in requests):
        return None

    steers = [request.steer or (lambda i, distribution, x: x) for request in requests]
    slices = _slices([request.num_requested for request in requests])

    def steer(i: int, distribution: Gaussians, x: Tensor) -> Tensor:
        return torch.cat([one(i, distribution[o], x[o]) for one, o in zip(steers, slices, strict=True)])

    return steer
