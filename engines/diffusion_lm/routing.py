"""Routers: whether the drafts of a span are worth a verification (S2D2, arXiv 2603.25702, section 4.3, App. A.5, A.6).

What a router sees and remembers stays on the model's device, so that routing costs no read back to the host.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Annotated, Final, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from draftscope.engines.diffusion_lm.block_sequence import SubBlockSettings
from draftscope.engines.sampling.coupling import entropy_bits
from draftscope.engines.settings import ConfigError, SettingInfo

Estimator = Literal["entropy", "power", "renyi", "hard_entropy", "margin", "clipped_margin", "random"]
TABLE: Final = ("random", "entropy", "power", "renyi", "hard_entropy", "margin")
_SPAN: Final = {"router": ("span",)}
_SCORE: Final = {"router": ("score",)}
_SCORES: Final = {"router": ("score", "hysteresis")}
_HYSTERESIS: Final = {"router": ("hysteresis",)}
_BANDIT: Final = {"router": ("bandit",)}
_STRENGTH: Final = {"estimator": ("entropy", "power", "clipped_margin")}
_CUT: Final = {"estimator": ("hard_entropy", "margin")}


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSettings(SubBlockSettings):
    """Settings of routers."""

    router: Annotated[
        Literal["always", "span", "score", "hysteresis", "bandit", "never"],
        SettingInfo(
            "Router",
            "When drafts are verified. span: if enough follow one another. score, hysteresis: if enough are expected "
            "to be accepted. bandit: if verifying has paid so far.",
        ),
    ] = "always"
    span_threshold: Annotated[
        int, SettingInfo("Shortest span", "The fewest drafts in a row that are verified. 1 is always.", 1, 33, 1, _SPAN)
    ] = 2
    score_threshold: Annotated[
        float, SettingInfo("Score threshold", "The score from which on drafts are verified.", -10.0, 32.0, 0.5, _SCORE)
    ] = 0.0
    verification_cost: Annotated[
        float,
        SettingInfo("Cost c", "Tokens a verification must gain; subtracted in the score.", 0.0, 8.0, 0.25, _SCORES),
    ] = 1.0
    scoring: Annotated[
        Literal["static", "dynamic"],
        SettingInfo(
            "Score",
            "static: the cost counts once. dynamic: once for every token above the threshold.",
            active_if=_SCORES,
        ),
    ] = "static"
    switch_on: Annotated[
        float, SettingInfo("Switch on", "Verifying is switched on from this score on.", -10.0, 32.0, 0.5, _HYSTERESIS)
    ] = 1.0
    switch_off: Annotated[
        float, SettingInfo("Switch off", "Verifying is switched off below this score.", -10.0, 32.0, 0.5, _HYSTERESIS)
    ] = -5.0
    exploration: Annotated[
        float, SettingInfo("Exploration", "How much rarely tried actions are tried (beta).", 0.0, 10.0, 0.1, _BANDIT)
    ] = 1.0
    bins: Annotated[
        Literal["1,2,2", "2,1,2", "2,2,1", "2,2,2", "4,4,4"],
        SettingInfo("Bins", "Classes of span, progress and entropy that gains are noted for.", active_if=_BANDIT),
    ] = "2,2,2"
    estimator: Annotated[
        Estimator, SettingInfo("Estimator", "How a draft's chance to pass is estimated before it is verified.")
    ] = "entropy"
    exponent: Annotated[
        float,
        SettingInfo(
            "Estimator strength",
            "Higher expects fewer drafts to pass (clipped_margin: more).",
            0.0,
            5.0,
            0.05,
            _STRENGTH,
        ),
    ] = 1.0
    estimator_cutoff: Annotated[
        float,
        SettingInfo(
            "Estimator cut", "margin: lead over the next. hard_entropy: share of the most.", 0.0, 1.0, 0.01, _CUT
        ),
    ] = 0.1  # the margin of least error in the paper's Table 4

    threshold: Annotated[
        float,
        SettingInfo("Threshold", "Confidence from which a token is revealed without verification.", 0.0, 1.0, 0.05),
    ] = 0.9
    steps: Annotated[
        int,
        SettingInfo(
            "Steps per block", "The most steps per block; each reveals its share. 0: one token a step.", 0, 32, 1
        ),
    ] = 0

    def __post_init__(self) -> None:
        SubBlockSettings.__post_init__(self)
        if self.steps > self.size:
            raise ConfigError(
                f"steps: {self.steps} is more than a block of {self.size} has tokens; use 0 to {self.size}."
            )
        if self.router == "hysteresis" and self.switch_on <= self.switch_off:
            raise ConfigError(
                f"switch_on: {self.switch_on:g} must be above switch_off, {self.switch_off:g}; raise it or lower that."
            )

    @property
    def buckets(self) -> tuple[int, int, int]:
        """Bins of span, progress and entropy."""
        span, progress, entropy = map(int, self.bins.split(","))
        return span, progress, entropy


def entropy_share(probs: Float[Tensor, "m V"]) -> Float[Tensor, " m"]:
    """Entropy over that of the uniform distribution, in 0 ... 1."""
    return entropy_bits(probs) / torch.tensor(float(probs.shape[-1])).log2()


def margin(probs: Float[Tensor, "m V"]) -> Float[Tensor, " m"]:
    """The likeliest token's probability less the next one's."""
    best = probs.topk(2).values
    return best[:, 0] - best[:, 1]


def spread(probs: Float[Tensor, "m V"]) -> dict[str, Float[Tensor, " m"]]:
    """Return margins and shares of entropy by the names that traces have for them."""
    return {"margin": margin(probs), "entropy_share": entropy_share(probs)}


def estimates(
    probs: Float[Tensor, "m V"],
    confidence: Float[Tensor, " m"],
    uniform: Float[Tensor, " m"],
    exponent: float,
    cut: float,
) -> dict[str, Float[Tensor, " m"]]:
    """Return every estimate of the acceptance probability of the drafts, by name.

    Args:
        probs: Distributions that the drafts come from.
        confidence: Probability of each draft in its distribution.
        uniform: Uniform number of each, the estimate "random".
        exponent: beta of "entropy", gamma of "power" and k of "clipped_margin".
        cut: t, the threshold of "hard_entropy" and "margin".
    """
    share, gap = entropy_share(probs), margin(probs)
    return {
        "random": uniform,
        "entropy": (-exponent * share).exp(),
        "power": confidence**exponent,
        "renyi": probs.square().sum(-1),
        "hard_entropy": (share < cut).to(probs.dtype),
        "margin": (gap >= cut).to(probs.dtype),
        "clipped_margin": (exponent * gap).clamp(max=1.0),
    }


def expected_accepted(estimate: Float[Tensor, " L"]) -> Float[Tensor, ""]:
    """K^, how many drafts of a span pass before the first rejection: sum of products of estimates (eq. 5)."""
    return estimate.cumprod(0).sum()


@dataclass(frozen=True, slots=True)
class RouterInput:
    """Input of a router in one step: the drafts of the span that would be verified."""

    probs: Float[Tensor, "L V"]
    """The distributions they were drawn from."""
    confidence: Float[Tensor, " L"]
    uniform: Float[Tensor, " L"]
    """Uniform numbers, for the random estimate."""
    confident: Int[Tensor, ""]
    """N_hi, open positions of the block, or sub-block, above the threshold."""
    progress: float
    """Share of the block, or sub-block, that this run has decoded."""


@dataclass(frozen=True, slots=True)
class RouterState:
    """State of a router for one sequence. Actions are 0, do not verify, and 1, verify."""

    switch: Bool[Tensor, ""]
    visits: Float[Tensor, "buckets 2"]
    rewards: Float[Tensor, "buckets 2"]
    """Sums of tokens per forward pass."""


@dataclass(frozen=True, slots=True)
class Route:
    """A decision."""

    verify: Bool[Tensor, ""]
    memory: RouterState
    estimate: Callable[[], Float[Tensor, " L"]]
    """Works out the chance of each draft to pass, for the record, as the signals are."""
    signals: Callable[[], Mapping[str, Tensor | float]] = dict
    bucket: Int[Tensor, " 1"] | None = None
    """Bucket in which the bandit records the result."""


def initial_state(settings: RouterSettings, device: torch.device) -> RouterState:
    """Return the memory of a sequence that starts: switched off, nothing tried.

    Args:
        settings: Number of buckets of span, progress and entropy.
        device: Device of the model.
    """
    span, progress, entropy = settings.buckets
    table = torch.zeros(span * progress * entropy, 2, dtype=torch.float64, device=device)
    return RouterState(torch.zeros((), dtype=torch.bool, device=device), table, table)


def route(settings: RouterSettings, view: RouterInput, memory: RouterState) -> Route:
    """Decide whether to verify (Alg. 4). Without a span there is nothing to decide.

    Args:
        settings: Router, estimator, and their thresholds.
        view: Distributions and confidence of the span, and the progress.
        memory: Memory of the sequence.
    """
    count, device = len(view.probs), view.probs.device
    if not count:
        return Route(torch.zeros((), dtype=torch.bool, device=device), memory, lambda: view.confidence)
    exponent, cut = settings.exponent, settings.estimator_cutoff
    by_name = cache(partial(estimates, view.probs, view.confidence, view.uniform, exponent, cut))

    def score() -> Tensor:
        cost = settings.verification_cost * (view.confident if settings.scoring == "dynamic" else 1)
        return expected_accepted(by_name()[settings.estimator]) - cost  # eq. 6

    bucket: Tensor | None = None
    further: dict[str, Tensor] = {}
    if settings.router == "hysteresis":
        verify = torch.where(memory.switch, score() >= settings.switch_off, score() >= settings.switch_on)
        memory, further = replace(memory, switch=verify), {"switch": verify.double()}
    elif settings.router == "bandit":
        verify, bucket, further = _bandit(settings, view, memory)
    elif settings.router == "score":
        verify = score() >= settings.score_threshold
    else:
        known = {"always": True, "never": False, "span": count >= settings.span_threshold}
        verify = torch.full((), known[settings.router], device=device)

    def signals() -> dict[str, Tensor | float]:
        expected = {name: expected_accepted(estimate) for name, estimate in by_name().items()}
        measures = {"expected_accepted": expected[settings.estimator], "score": score(), "verify": verify.double()}
        return {"span": count, **measures, **further, **{f"expected_accepted_{name}": expected[name] for name in TABLE}}

    return Route(verify, memory, lambda: by_name()[settings.estimator], signals, bucket)


def update_state(route: Route, committed: Int[Tensor, ""]) -> RouterState:
    """Return the memory after a decision (eq. 18).

    Args:
        route: The decision.
        committed: Tokens that it made final; the reward is their number per pass.
    """
    if route.bucket is None:
        return route.memory
    here = (route.bucket, route.verify.long()[None])
    reward = committed / (1 + route.verify.double())
    visits = route.memory.visits.index_put(here, torch.ones_like(reward)[None], accumulate=True)
    rewards = route.memory.rewards.index_put(here, reward[None], accumulate=True)
    return replace(route.memory, visits=visits, rewards=rewards)


def _bandit(
    settings: RouterSettings, view: RouterInput, memory: RouterState
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Eq. 16. What was never tried comes first, and verifying wins a tie."""
    spans, progresses, entropies = settings.buckets
    span = _bin((len(view.probs) - 1) / max(settings.part - 1, 1), spans)
    entropy = (entropy_share(view.probs).mean() * entropies).long().clamp(max=entropies - 1)
    bucket = (span * progresses + _bin(view.progress, progresses)) * entropies + entropy
    bucket = bucket[None]  # an index without dimensions would be read back to the host
    n = memory.visits.index_select(0, bucket)[0]
    mean = memory.rewards.index_select(0, bucket)[0] / n
    step = memory.visits.sum() + 1  # t counts this decision, too
    bound = mean + settings.exploration * (step.log() / n).sqrt()
    ahead = torch.where(n == 0, torch.inf, bound)
    verify = ahead[1] >= ahead[0]
    chosen = verify.long()[None]
    signals = {"bucket": bucket.double(), "bucket_visits": n.sum()}
    return verify, bucket, signals | {"bandit_mean": mean.gather(0, chosen), "bandit_bound": bound.gather(0, chosen)}


def _bin(share: float, count: int) -> int:
    """Which of `count` equal parts of 0 ... 1."""
    return min(count - 1, int(count * share))
