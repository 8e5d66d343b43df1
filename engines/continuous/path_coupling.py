"""Coupling the target's denoising steps to the draft's before the last one is judged."""

import torch
from torch import Tensor

from engines.continuous.drafting import Block
from engines.continuous.gaussians import Gaussians
from engines.continuous.paths import Paths, Steer
from engines.continuous.rejection import DensityRatio, settle
from engines.sampling.chance import Chance


def tying(block: Block, drawn: Paths, most: int, chance: Chance) -> Steer:
    """Couple the target's denoising steps before the last one to the drafts', each maximally; see `rejection.settle`.

    A step's draw follows the target's distribution given the target's own path whatever the draft did, so the path
    keeps its distribution, too; and where both paths meet, their next distributions are nearly the same.

    Args:
        block: the drafted positions, and the target's own behind them.
        drawn: paths of the drafts.
        most: proposals for the replacement of a state before a plain draw stands in.
        chance: where uniform numbers and proposals come from.
    """

    def steer(i: int, distribution: Gaussians, x: Tensor) -> Tensor:
        k = len(drawn.whole) - 1 - i  # step i leads from states k to k + 1
        no_sigma = torch.zeros_like(block.guidance[: block.W])
        ratio = DensityRatio("exact", distribution[: block.W], drawn.whole[k], no_sigma)
        y = settle(ratio, drawn.states[:, k + 1], most, chance, block.draw(f"tie {i}")).token
        return torch.cat([y, x[block.W :]])

    return steer
