"""The one door to randomness.

Every draw names what it is for: a purpose, an iteration, positions. A seeded draw is a hash of that name and nothing
else, so a run can be repeated, batched, or moved to another device without changing a draw; and a test can put an
enumerator in place of the seed and walk every branch of a decoder with its exact probability.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from draftscope.engines.settings import ConfigError, format_value

MAX_SEED: Final = 2**31 - 1
"""Seeds are whole numbers from 0 to this."""
SAME_NOISE_PURPOSES: Final = ("sample", "draft", "residual")
"""Purposes of draws that the noise of a position can replace."""
_ROUNDED: Final = 1e-5
"""By how much of itself a number in a trace may differ from what was drawn."""
CHUNK_NUMEL: Final = 2**17
"""Numbers that a CPU handles together, about what its cache has room for."""
NUMPY_MAX_NUMEL: Final = 2**16
"""Numbers up to which numpy hashes them faster than torch."""
_AHEAD: Final = 32
"""Iterations whose numbers are made together: one by one, calls would take longer than numbers."""
_NOTHING: Final = range(0), range(0), ()


def parse_seed(value: object) -> int:
    """Return a seed.

    Raises:
        ConfigError: If the value is not an integer within the limits.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SEED:
        problem = "is empty" if value is None or value == "" else f"{format_value(value)} is not allowed"
        raise ConfigError(f"seed: {problem}; use a whole number from 0 to {MAX_SEED}.")
    return value


@dataclass(frozen=True, slots=True)
class DrawKey:
    """The name of a draw. Two draws with the same name are the same draw."""

    purpose: str
    iteration: int
    position: Int[Tensor, " W"]

    def subkey(self, name: str) -> "DrawKey":
        """A draw of its own for a part of what this one is for."""
        return DrawKey(f"{self.purpose} {name}", self.iteration, self.position)

    def select(self, rows: Tensor) -> "DrawKey":
        """Return the key for some of the positions."""
        return DrawKey(self.purpose, self.iteration, self.position.index_select(0, rows))


@dataclass(frozen=True, slots=True)
class UniformOverride:
    """Replaces one recorded uniform draw, to show what would have followed."""

    position: int
    recorded: float
    """The seed's, to the six digits that a trace keeps: it tells this verdict from others at the position."""
    replacement: float


@runtime_checkable
class RandomSource(Protocol):
    """Source of random numbers for methods, vectorised over W positions."""

    same_noise: bool
    """Whether tokens and drafts are picked by the Gumbel noise of their position alone; a method sets it."""

    def accept(
        self, prob: Float[Tensor, " W"], draw: DrawKey, *, until_rejection: bool = False
    ) -> tuple[Bool[Tensor, " W"], Float[Tensor, " W"]]:
        """Accept or reject at every position.

        Args:
            prob: Acceptance probabilities.
            draw: Key of the draws.
            until_rejection: Whether the caller ignores everything after the first rejection.

        Returns:
            The verdicts, True with probability `prob`, and the uniform numbers that were compared with it.
        """

    def categorical(
        self, weights: Float[Tensor, "W V"], draw: DrawKey, where: Bool[Tensor, " W"] | None = None
    ) -> Int[Tensor, " W"]:
        """Draw one id per row in proportion to `weights`.

        Args:
            weights: Non-negative weights, which need not sum to 1.
            draw: Key of the draws.
            where: Rows that the caller uses; the ids of others mean nothing.
        """

    def gumbel_argmax(
        self, weights: Float[Tensor, "W V"], position: Int[Tensor, " W"], where: Bool[Tensor, " W"] | None = None
    ) -> Int[Tensor, " W"]:
        """Return argmax(log weights + G), with Gumbel noise G fixed for every (position, id) throughout the run.

        Args:
            weights: Non-negative weights, which need not sum to 1.
            position: Positions of the rows.
            where: Rows that the caller uses; the ids of others mean nothing.
        """

    def uniform(self, draw: DrawKey, count: int) -> Float[Tensor, "W N"]:
        """Return uniform numbers on (0, 1), float64; the i-th depends on nothing but its name and i.

        Args:
            draw: Key of the draws.
            count: Numbers per position, N.
        """

    def normal(self, draw: DrawKey, count: int) -> Float[Tensor, "W N"]:
        """Return standard normal numbers, float64; the i-th depends on nothing but its name and i.

        Args:
            draw: Key of the draws.
            count: Numbers per position, N.
        """


Integers: TypeAlias = Any
"""int64 numbers: a tensor, or on a CPU a numpy array, which takes a fraction of the time where there are few."""

# SplitMix64 (Steele, Lea and Flood, 2014), in two's complement because torch has no unsigned arithmetic.
_GOLDEN: Final = 0x9E3779B97F4A7C15 - 2**64
_MIX1: Final = 0xBF58476D1CE4E5B9 - 2**64
_MIX2: Final = 0x94D049BB133111EB - 2**64


def _shift(x: Tensor, bits: int) -> Tensor:
    return (x >> bits) & ((1 << (64 - bits)) - 1)  # a logical shift


def _mix(x: Integers) -> Integers:
    """Mix the bits of numbers; arrays in place."""
    if isinstance(x, np.ndarray):
        bits = x.view(np.uint64)
        bits ^= bits >> 30
        bits *= _MIX1 % 2**64
        bits ^= bits >> 27
        bits *= _MIX2 % 2**64
        bits ^= bits >> 31
        return x
    x = (x ^ _shift(x, 30)) * _MIX1
    x = (x ^ _shift(x, 27)) * _MIX2
    return x ^ _shift(x, 31)


def _uniform(hashed: Integers) -> Tensor:
    """Hashes to float64 in the open interval (0, 1)."""
    if isinstance(hashed, np.ndarray):
        return torch.from_numpy(((hashed.view(np.uint64) >> 11) + 0.5) * 2.0**-53)
    return (_shift(hashed, 11).double() + 0.5) * 2.0**-53


def sample_in_chunks(where: Bool[Tensor, " W"], count: int, do: Callable[[Tensor], Tensor]) -> Int[Tensor, " W"]:
    """Return one id a row, on a CPU; a few rows at a time, whose numbers stay in the processor's cache.

    Args:
        where: Rows that need an id; the others get 0.
        count: Numbers in a row.
        do: Makes the ids of the rows with given indices.
    """
    ids, rows, step = (
        torch.zeros_like(where, dtype=torch.long),
        where.nonzero().squeeze(1),
        max(1, CHUNK_NUMEL // count),
    )
    for first in range(0, rows.shape[0], step):
        chunk = rows[first : first + step]
        ids.index_copy_(0, chunk, do(chunk))
    return ids


class SeededRandom:
    """Counter-based randomness: every number is a hash of (seed, sample, purpose, iteration, position, id)."""

    def __init__(self, seed: int, sample: int = 0, turned: Sequence[UniformOverride] = ()) -> None:
        self.same_noise = False
        self._turned = turned
        self._root = _mix(_mix(np.array([seed]) * _GOLDEN) + np.array([sample + 1]) * _GOLDEN)
        self._races: dict[tuple[int, int], Tensor] = {}
        self._tables: dict[str, tuple[range, range, tuple[Tensor, ...]]] = {}  # uniform, by iteration and position

    def accept(
        self, prob: Float[Tensor, " W"], draw: DrawKey, *, until_rejection: bool = False
    ) -> tuple[Bool[Tensor, " W"], Float[Tensor, " W"]]:
        """Accept or reject at every position."""
        uniform = self._uniform(draw)
        for turned in self._turned:
            near = (uniform - turned.recorded).abs() <= _ROUNDED * turned.recorded
            uniform = torch.where(near & (draw.position == turned.position), turned.replacement, uniform)
        return uniform < prob, uniform

    def categorical(
        self, weights: Float[Tensor, "W V"], draw: DrawKey, where: Bool[Tensor, " W"] | None = None
    ) -> Int[Tensor, " W"]:
        """Inverts the cumulative sum, in float64."""
        if self.same_noise and draw.purpose in SAME_NOISE_PURPOSES:
            return self.gumbel_argmax(weights, draw.position, where)

        if where is not None and weights.device.type == "cpu":
            return sample_in_chunks(
                where, weights.shape[-1], lambda rows: self.categorical(weights[rows], draw.select(rows))
            )
        uniform, W = self._uniform(draw), weights.shape[0]
        # The first id whose cumulative weight exceeds the target; an id of weight zero never does so first.
        if W == 1 or (W and weights.stride(0) == 0):  # one distribution for all rows
            total = weights[0].cumsum(-1, dtype=torch.float64)
            return torch.searchsorted(total[:-1], uniform * total[-1], right=True)
        total = weights.cumsum(-1, dtype=torch.float64)  # [W, V]
        ids = torch.searchsorted(total, uniform[:, None] * total[:, -1:], right=True)
        return ids.squeeze(-1).clamp_(max=weights.shape[-1] - 1)

    def gumbel_argmax(
        self, weights: Float[Tensor, "W V"], position: Int[Tensor, " W"], where: Bool[Tensor, " W"] | None = None
    ) -> Int[Tensor, " W"]:
        """Returns the id of the least E / weight, E exponential, because the noise is -log(E)."""
        if weights.device.type != "cpu":
            return (-self.uniform(DrawKey("gumbel", 0, position), weights.shape[-1]).log() / weights).argmin(-1)
        wanted = torch.ones_like(position, dtype=torch.bool) if where is None else where
        self._keep_races(position[wanted], weights.shape[-1])

        def best(rows: Tensor) -> Tensor:
            races = [self._races[position, weights.shape[-1]] for position in position[rows].tolist()]
            return (torch.stack(races) / weights[rows]).argmin(-1)

        return sample_in_chunks(wanted, weights.shape[-1], best)

    def _keep_races(self, position: Int[Tensor, " W"], count: int) -> None:
        """Have E of these positions and no others: a window asks for most of its positions again."""
        keys = [(position, count) for position in position.tolist()]
        new = [position for position, _ in keys if (position, count) not in self._races]
        for chunk in torch.tensor(new, dtype=torch.long).split(max(1, CHUNK_NUMEL // count)):
            exponential = -self.uniform(DrawKey("gumbel", 0, chunk), count).log()
            self._races |= {
                (position, count): row.clone() for position, row in zip(chunk.tolist(), exponential, strict=True)
            }
        self._races = {key: self._races[key] for key in keys}

    def uniform(self, draw: DrawKey, count: int) -> Float[Tensor, "W N"]:
        """Return uniform numbers."""
        key = self._key(draw.purpose, draw.iteration, draw.position)
        if isinstance(key, np.ndarray) and key.size * count <= NUMPY_MAX_NUMEL:
            return _uniform(_mix(key[:, None] + np.arange(1, count + 1) * _GOLDEN))
        key = torch.as_tensor(key)
        return _uniform(_mix(key[:, None] + torch.arange(1, count + 1, device=key.device) * _GOLDEN))

    def normal(self, draw: DrawKey, count: int) -> Float[Tensor, "W N"]:
        """Inverts the distribution function, one uniform number each."""
        return cast(Tensor, torch.special.ndtri(self.uniform(draw, count)))

    def _streams(self, purpose: str, iterations: Integers) -> Integers:
        return _mix((iterations + 1) * _GOLDEN + _mix(self._root + np.array([zlib.crc32(purpose.encode())]) * _GOLDEN))

    def _key(self, purpose: str, iteration: int, position: Tensor) -> Integers:
        positions = position.numpy() if position.device.type == "cpu" else position
        return _mix((positions + 1) * _GOLDEN + int(self._streams(purpose, np.array([iteration]))[0]))

    def _uniform(self, draw: DrawKey) -> Tensor:
        """A number for every position; on a CPU those of the iterations and positions to come are made with it."""
        purpose, iteration, position = draw.purpose, draw.iteration, draw.position
        position_list = position.tolist() if position.device.type == "cpu" else ()
        low, high = (min(position_list), max(position_list)) if position_list else (0, NUMPY_MAX_NUMEL)
        if _AHEAD * (high - low + 2 * _AHEAD) > NUMPY_MAX_NUMEL:  # positions that lie far apart
            return _uniform(_mix(self._key(purpose, iteration, position)))
        iterations, positions, rows = self._tables.get(purpose, _NOTHING)
        if not (iteration in iterations and low in positions and high in positions):
            iterations, positions = range(iteration, iteration + _AHEAD), range(low, high + 2 * _AHEAD)
            keys = (np.array(positions) + 1) * _GOLDEN + self._streams(purpose, np.array(iterations))[:, None]
            rows = _uniform(_mix(_mix(keys))).unbind()
            self._tables[purpose] = iterations, positions, rows
        row = rows[iteration - iterations.start]
        if position_list == [*range(low, high + 1)]:
            return row[low - positions.start : high + 1 - positions.start]
        return row.index_select(0, position - positions.start)
