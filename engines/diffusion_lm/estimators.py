"""How likely a draft is to pass, by the distribution it was drawn from alone (S2D2, arXiv 2603.25702, App. A.5).

    entropy          exp(-beta H / log V)        power            confidence ^ gamma
    renyi            sum of P(v)^2               hard_entropy     1 if H / log V < t
    margin           1 if margin >= t            clipped_margin   min(1, k margin), in the released code only
    random           a uniform number

where the margin is the likeliest token's probability less the next one's.
"""

from typing import Final, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from engines.sampling.coupling import entropy_bits

Estimator = Literal["entropy", "power", "renyi", "hard_entropy", "margin", "clipped_margin", "random"]
TABLE: Final = ("random", "entropy", "power", "renyi", "hard_entropy", "margin")
"""The estimators of the paper's Table 4."""


def entropy_share(probs: Float[Tensor, "m V"]) -> Float[Tensor, " m"]:
    """Entropy over that of the uniform distribution, in 0 ... 1."""
    bits: Tensor = entropy_bits(probs) / torch.tensor(float(probs.shape[-1])).log2()
    return bits


def margin(probs: Float[Tensor, "m V"]) -> Float[Tensor, " m"]:
    """The likeliest token's probability less the next one's."""
    best = probs.topk(2).values
    return best[:, 0] - best[:, 1]


def shape(probs: Float[Tensor, "m V"]) -> dict[str, Float[Tensor, " m"]]:
    """What the estimates look at, by the names of traces.measures."""
    return {"margin": margin(probs), "entropy_share": entropy_share(probs)}


def acceptance(
    probs: Float[Tensor, "m V"], confidence: Float[Tensor, " m"], coin: Float[Tensor, " m"], exponent: float, cut: float
) -> dict[str, Float[Tensor, " m"]]:
    """Every estimate, by name; `exponent` is beta, gamma and k, `cut` is t."""
    share, gap = entropy_share(probs), margin(probs)
    return {
        "random": coin,
        "entropy": (-exponent * share).exp(),
        "power": confidence**exponent,
        "renyi": probs.square().sum(-1),
        "hard_entropy": (share < cut).to(probs.dtype),
        "margin": (gap >= cut).to(probs.dtype),
        "clipped_margin": (exponent * gap).clamp(max=1.0),
    }


def expected(estimate: Float[Tensor, " L"]) -> Float[Tensor, ""]:
    """K^, how many drafts of a span pass before the first rejection: sum of products of estimates (eq. 5)."""
    return estimate.cumprod(0).sum()
