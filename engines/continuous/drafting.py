"""Drafting continuous tokens: blocks that are drafted and verified together, and what can be said of the two paths."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from engines.continuous.denoising import Noise
from engines.continuous.gaussians import Gaussians
from engines.continuous.paths import Paths, Steer, join
from engines.continuous.rejection import Judge, settle
from engines.continuous.request import PathForward, ask_paths
from engines.protocol import FATE_CODES, Decision
from engines.sampling.chance import Chance, Draw
from traces.schema import Fate


@dataclass(frozen=True, slots=True)
class Block:
    """Positions n, n + 1 ... that are drafted and verified together."""

    done: Float[Tensor, "n D"]
    """Final tokens."""
    W: int
    """How many positions are drafted; the rest are the target's own."""
    position: Int[Tensor, " E"]
    noise: Noise
    guidance: Float[Tensor, " E"]
    iteration: int

    def __getitem__(self, index: slice) -> "Block":
        """Some of the positions."""
        return Block(self.done, 1, self.position[index], self.noise[index], self.guidance[index], self.iteration)

    def draw(self, purpose: str) -> Draw:
        """The name of a draw at the drafted positions."""
        return Draw(purpose, self.iteration, self.position[: self.W])

    def placed(self, token: Float[Tensor, "E D"], fate: Fate, distribution: Gaussians) -> Decision:
        """Tokens drawn from their own distributions."""
        code = torch.full_like(self.position, FATE_CODES[fate])
        numbers = {"last_std": distribution.std.mean((-1, -2)), "noise_norm": self.noise.last.norm(dim=-1)}
        return Decision(self.position, token, code, code[:0], numbers=numbers | {"guidance": self.guidance})


def draft(
    block: Block, cached: int, *, mean: bool = False
) -> Generator[PathForward | Decision, Any, tuple[Tensor, Paths | None]]:
    """Draft the block's tokens one by one, one forward pass each.

    Args:
        block: what is to be drafted.
        cached: see `PathForward.cached`, for the first of them.
        mean: take the last step's mean for the token instead of a draw.

    Returns:
        Drafts [W, D] and the paths they came by; None without drafts.
    """
    tokens, paths = block.done, []
    for i in range(block.W):
        one = block[i : i + 1]
        asked = PathForward(tokens, len(tokens), cached, one.noise.path, one.guidance, role="draft", mode="draft")
        paths.append(ask_paths((yield asked)))
        distribution = paths[-1].last
        token = distribution.mean[:, 0] if mean else one.noise.draw(distribution)
        yield one.placed(token, Fate.DRAFTED, distribution)
        cached, tokens = len(tokens), torch.cat([tokens, token])
    return tokens[len(block.done) :], join(paths) if paths else None


def tying(block: Block, drawn: Paths, most: int, chance: Chance) -> Steer:
    """Couple the target's denoising steps before the last one to the drafts', each maximally; see `rejection.settle`.

    A step's draw follows the target's distribution given the target's own path whatever the draft did, so the path
    keeps its distribution, too; and where both paths meet, their next distributions are nearly the same.
    """

    def steer(i: int, distribution: Gaussians, x: Tensor) -> Tensor:
        k = len(drawn.distributions) - i  # step i leads from states k to k + 1
        judge = Judge(
            "exact", distribution[: block.W], drawn.distributions[k], torch.zeros_like(block.guidance[: block.W])
        )
        y = settle(judge, drawn.states[:, k + 1], most, chance, block.draw(f"tie {i}")).token
        return torch.cat([y, x[block.W :]])

    return steer


def compared(judge: Judge, x: Tensor, y: Tensor, both: tuple[Paths, Paths]) -> Mapping[str, Tensor]:
    """Measures of drafts x beside y, what the target makes of the same noise, from the paths of draft and target."""
    drawn, paths = both
    numbers = {
        "log_density_target": judge.p.log_density(x),
        "log_density_draft": judge.q.log_density(x),
        "log_variance_ratio": judge.log_sigma,
        "distance_squared": (x - y).square().sum(-1),
        "noise_norm": judge.q.noise(x)[:, 0].norm(dim=-1),
        "last_std": judge.p.std.mean((-1, -2)),
    }
    if drawn.distributions:
        before = drawn.states[:, -1] - paths.states[: len(x), -1]
        numbers["distance_squared_before"] = before.square().sum(-1)
    return numbers
