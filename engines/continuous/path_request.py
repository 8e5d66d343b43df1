"""Forward requests of the family continuous-ar, and results with the denoising path of each token."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from draftscope.engines.continuous.gaussians import Gaussians, concat_rows
from draftscope.engines.protocol import CausalRequest
from draftscope.engines.sampling.coupling import CouplingResult


@dataclass(frozen=True, slots=True)
class DenoiseRequest:
    """Ask for one position to be denoised from N states, each with noise of its own."""

    row: Int[Tensor, "1"]
    """Index of the position among the requested ones."""
    left: Int[Tensor, " N"]
    """Steps that each still has to take; 0 where x is the token."""
    x: Float[Tensor, "N D"]
    """The states to go on from."""
    noise: Float[Tensor, "N S D"]
    """x_T, then that of every step, of which the last `left` are used."""


@dataclass(frozen=True, slots=True)
class DenoiseResult:
    """The answer to a DenoiseRequest."""

    distributions: Gaussians
    """Distributions of the steps, from the first that any of the states had left, [n, N]."""
    states: Float[Tensor, "N S D"]
    """x_T .. x_0, with x in place of those before it."""


@dataclass(frozen=True, slots=True)
class PathContinuation:
    """Continuation of the position at which the target leaves the given paths."""

    row: Int[Tensor, "1"]
    """Index of the position among the requested ones."""
    left: Int[Tensor, "1"]
    """Steps that the target took by itself there."""
    states: Float[Tensor, "1 S D"]
    """x_T .. x_0, of which the last `left` are its own."""
    tries: Float[Tensor, "1"]
    capped: Bool[Tensor, "1"]
    """Whether the proposals ran out, so that a plain sample of the target is used."""
    verdict: CouplingResult | None = None
    """The verdicts on the paths that were followed."""

    @property
    def token(self) -> Float[Tensor, "1 D"]:
        """The end of the path."""
        return self.states[:, -1]


def whole_paths(row: int, noise: Float[Tensor, "N S D"]) -> DenoiseRequest:
    """Return a request for whole paths of the target at one position.

    Args:
        row: Index of the position in the block.
        noise: x_T, then the noise of every step, for each of N paths.
    """
    steps = torch.full((len(noise),), noise.shape[1] - 1, device=noise.device)
    return DenoiseRequest(torch.full((1,), row, device=noise.device), steps, noise[:, 0], noise)


def resampled_path(row: int, states: Float[Tensor, "1 S D"], tries: int, *, capped: bool = False) -> PathContinuation:
    """Return a whole path of the target as the continuation at a position.

    Args:
        row: Index of the position in the block.
        states: States x_T .. x_0 of the path.
        tries: Proposals that it took to find it.
        capped: Whether none was accepted, so that the path is a plain sample.
    """
    index = torch.full((1,), row, device=states.device)
    left, plain = torch.full_like(index, states.shape[1] - 1), torch.full_like(index, capped, dtype=torch.bool)
    return PathContinuation(index, left, states, states.new_full((1,), tries), plain)


PathVerification: TypeAlias = Generator[DenoiseRequest, DenoiseResult, PathContinuation]
"""Decides where paths are left, and asks for as much denoising as that takes."""


@dataclass(frozen=True, slots=True)
class GivenPaths:
    """Paths for the target to follow; where it leaves them is decided once its distributions along them are known."""

    states: Float[Tensor, "W S D"]
    """x_T .. x_0 of the drafts."""
    verify: Callable[[Gaussians], PathVerification]
    """Called with the target's distributions of all n steps, [n, W]."""


PathDensity: TypeAlias = Callable[[Tensor], Tensor]
"""Called with paths x_T .. x_0 [N, S, D]; gives the logarithms of their densities [N], that of x_T left out."""


@dataclass(frozen=True, slots=True)
class Paths:
    """How W tokens came to be, up to the distribution of the last step. A GMM head has no path: its S is 0."""

    distributions: Gaussians
    """The distributions of all n steps, [n, W]: entry k leads from states k to k + 1, the last one to the token."""
    states: Float[Tensor, "W S D"]
    """x_T .. x_1."""
    continuation: PathContinuation | None = None
    """Continuation if paths were given; then `states` has one more row, for the position after them."""
    densities: tuple[PathDensity, ...] = ()
    """For drafts: by row, the density of any path of that token."""

    @property
    def last(self) -> Gaussians:
        """The distribution of x_0 given x_1, W rows."""
        return self.distributions[-1]

    @property
    def log_std(self) -> Float[Tensor, " W"]:
        """Sum over all steps but the last, and components, of the logarithms of standard deviations (Eq. 8)."""
        return self.distributions.std[:-1].log().sum((0, -1, -2))

    def rows(self, index: slice) -> "Paths":
        """Some of the tokens."""
        return Paths(self.distributions[:, index], self.states[index], densities=self.densities[index])


def projection_plane(like: Float[Tensor, "... D"]) -> Float[Tensor, "D 2"]:
    """The plane that paths are shown in: no component counts more, and all runs share it (traces.schema.PathPair)."""
    ones = like.new_ones(like.shape[-1])
    signs = ones.clone()
    signs[1::2] = -1
    signs = signs - signs.mean()
    return torch.stack([ones / ones.norm(), signs / signs.norm().clamp(min=1)], 1)


Steer: TypeAlias = Callable[[int, Gaussians, Tensor], Tensor]
"""Called with a step's index, its distribution and the x_{t-1} that the noise makes; gives the one to go on with."""


def join(paths: Sequence[Paths]) -> Paths:
    """Paths of several positions as one."""
    if len(paths) == 1:
        return paths[0]
    return Paths(
        concat_rows([path.distributions for path in paths], 1),
        torch.cat([path.states for path in paths]),
        densities=tuple(density for path in paths for density in path.densities),
    )


@dataclass(frozen=True, slots=True)
class PathRequest(CausalRequest):
    """Ask for the denoising paths of positions `done` .. done + W - 1, each given the tokens before it."""

    noise: Float[Tensor, "W T D"]
    """x_T, then the noise of every step but the last; W is at most one more than there are drafts."""
    guidance: Float[Tensor, " W"]
    """Scale of classifier-free guidance, where the session is guided."""
    num_visible_missing: int = 0
    """Trailing tokens that the model is not to see, where it can do without."""
    steer: Steer | None = None
    """Has a say in where the steps before the last one lead."""
    pick: Float[Tensor, " W"] | None = None
    """Uniform: has a mixture of Gaussians draw a path in closed form and choose by this; without it there is none."""
    follow: GivenPaths | None = None
    """Paths of drafts to follow instead of the noise; the position after them is requested as well."""

    @property
    def num_requested(self) -> int:
        """Number of positions whose paths are requested."""
        return len(self.noise)


def as_paths(answer: Any) -> Paths:
    """The answer to a PathRequest."""
    assert isinstance(answer, Paths)
    return answer
