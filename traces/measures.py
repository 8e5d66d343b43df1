"""Names of measures that methods may record, each with meaning and unit.

A name is added here once and then means the same in every trace, figure and tooltip. Names that begin with `x_` are
free for experiments: they are kept and shown unchanged. How a token was committed is recorded by its fate, not by a
measure: by a policy `unmasked`, by speculation `accepted`, by rescue `fallback`.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from draftscope.traces.limits import POSITIONS, STEPS


@dataclass(frozen=True, slots=True)
class Measure:
    """A named number: where it applies, what it says, in which unit and range."""

    per: Literal["position", "step"]
    label: str
    meaning: str
    unit: str = ""
    low: float | None = None
    high: float | None = None


_PER_POSITION: Final[dict[str, tuple[Any, ...]]] = {
    # Distributions of successive iterations at one position (SCD section 3): q is the old one, p the new one.
    "age": ("Age", "iterations the position has been in the window", "iterations", 0, STEPS),
    "initial": ("Initial draft", "1 if the verified draft was not sampled from the model", "", 0, 1),
    "tv": ("Total variation", "distance of the new distribution from the draft's distribution", "", 0, 1),
    "collision_independent": ("Collision, independent", "sum of p q: two separate draws agree", "", 0, 1),
    "collision_maximal": ("Collision, maximal", "1 - TV: agreement under maximal coupling", "", 0, 1),
    "collision_gumbel": ("Collision, Gumbel", "agreement when both draws share Gumbel noise", "", 0, 1),
    "entropy": ("Entropy", "entropy of the new distribution", "bits", 0),
    "draft_entropy": ("Draft entropy", "entropy of the distribution the draft was drawn from", "bits", 0),
    "support": ("Support", "tokens the new distribution gives any probability", "tokens", 1),
    # One distribution at one position.
    "confidence": ("Confidence", "probability by which the policy ranks the token", "", 0, 1),
    "margin": ("Margin", "likeliest token's probability minus the next one's", "", 0, 1),
    "entropy_share": ("Relative entropy", "entropy over the entropy of a uniform distribution", "", 0, 1),
    # Verification by a distribution other than the drafting one (S2D2 B, SimSD D; q drafts, p verifies).
    "ratio": ("Ratio", "p / q of the draft, before it is cut to 1 or tempered", "", 0),
    "residual_mass": ("Residual mass", "what a rejection is resampled from: sum of (p - q)+", "", 0, 1),
    # A verdict over a group of interchangeable tokens (GSD): min(1, group_p / group_q).
    "group_p": ("p of the group", "sum of p over the tokens of the draft's group", "", 0),
    "group_q": ("q of the group", "q, added up over the same tokens", "", 0),
    "group_size": ("Group size", "tokens in the sums, the draft included", "tokens", 1),
    "estimate": ("Estimated acceptance", "the router's guess that the draft will pass", "", 0, 1),
    "kl": ("KL divergence", "of the verifying distribution from the drafting distribution", "nats", 0),
    "cross_entropy": ("Cross entropy", "- log p of the draft", "nats", 0),
    "agrees": ("Agreement", "1 if the draft is the target's most likely token", "", 0, 1),
    "p_exact": ("p, exact", "p under a verifier that sees exactly the drafts before", "", 0, 1),
    # Draft order and draft graphs (PSD C, SimSD D).
    "rank": ("Rank", "place in the policy's ranking of open positions", "", 0),
    "level": ("Level", "drafts that the draft builds on, itself included; 0 without", "drafts", 0),
    "order": ("Draft order", "place in the order in which drafts were made", "", 0, POSITIONS),
    "branch_score": ("Branch score", "by which the row that fills the position is compared"),
    # Continuous tokens (CSpD B; densities, so p and q stay empty).
    "log_density_target": ("Log density, target", "log density of the draft, target head", "nats"),
    "log_density_draft": ("Log density, draft", "log density of the draft, draft head", "nats"),
    "log_variance_ratio": ("Log Sigma", "Sigma: draft over target std along the path", "nats"),
    "log_ratio": ("Log ratio", "log of the ratio that is compared with the uniform number", "nats"),
    "path_log_ratio": ("Log ratio, path", "target over draft density of the whole path", "nats"),
    "path_log_ratio_highest": ("Log ratio, path, highest", "the same up to the step where it is highest", "nats", 0),
    "soft_log_ratio": ("Log ratio, softened", "the same with distances divided by 42, no Sigma", "nats"),
    "distance_squared": ("Squared distance", "between draft's and target's token", "", 0),
    "distance_squared_before": ("Squared distance before", "between both tokens one denoising step earlier", "", 0),
    "noise_norm": ("Noise norm", "length of the token's noise in standard deviations", "", 0),
    "noise_norm_target": ("Noise norm, target", "distance from the target's mean in its standard deviations", "", 0),
    "last_std": ("Last std", "standard deviation of the last denoising step", "", 0),
    "last_std_draft": ("Last std, draft", "standard deviation of the draft's last step", "", 0),
    "last_mean_distance": ("Distance of means", "between the means of the draft's and the target's last step", "", 0),
    "last_place": ("Projection of the draft", "along the line from the draft's mean, at 0, towards the target's"),
    "last_place_token": ("Projection of the token", "as for the draft, of the token that the position holds"),
    "tries": ("Tries", "draws until the residual was hit", "draws", 0),
    "capped": ("Capped", "1 when the tries ran out and a fallback was drawn", "", 0, 1),
    "guidance": ("Guidance", "scale of classifier-free guidance at the token"),
    "temperature": ("Temperature", "temperature at the token", "", 0),
}
_PER_STEP: Final[dict[str, tuple[Any, ...]]] = {
    "accepted": ("Accepted", "drafts accepted in the step", "tokens", 0),
    "window": ("Window", "drafts verified in the step", "tokens", 0),
    "block": ("Block", "block being decoded, from 0", "", 0),
    "open": ("Open", "open positions of the block before the step", "tokens", 0),
    "confident": ("Confident", "open positions above the confidence threshold", "tokens", 0),
    "committed": ("Committed", "tokens that became final in the step", "tokens", 0),
    # Routing: whether to verify (S2D2 B.2).
    "span": ("Span", "length of the first run of open positions", "tokens", 0),
    "expected_accepted": ("Expected acceptance", "drafts the router expects to pass", "tokens", 0),
    "expected_accepted_random": ("Expected, random", "drafts expected to pass by a random estimate", "tokens", 0),
    "expected_accepted_entropy": ("Expected, entropy", "drafts expected to pass by soft entropy", "tokens", 0),
    "expected_accepted_power": ("Expected, confidence", "drafts expected to pass by confidence power", "tokens", 0),
    "expected_accepted_renyi": ("Expected, Renyi", "drafts expected to pass by Renyi-2 entropy", "tokens", 0),
    "expected_accepted_hard_entropy": (
        "Expected, hard entropy",
        "drafts expected by an entropy threshold",
        "tokens",
        0,
    ),
    "expected_accepted_margin": ("Expected, margin", "drafts expected to pass by a margin threshold", "tokens", 0),
    "score": ("Score", "expected acceptance less the cost of verifying", "tokens"),
    "verify": ("Verify", "1 when the router chose to verify", "", 0, 1),
    "switch": ("Switch", "hysteresis: 1 when verifying is switched on", "", 0, 1),
    "bucket": ("Bucket", "the bandit's bucket, from 0", "", 0),
    "bucket_visits": ("Bucket visits", "decisions made in the bucket before", "", 0),
    "bandit_mean": ("Bandit mean", "mean reward of the chosen action", "tokens per forward", 0),
    "bandit_bound": ("Bandit bound", "upper confidence bound of that action", "tokens per forward", 0),
    # Drafts in rows (PSD C).
    "winner": ("Winner", "row whose drafts were kept", "", 0),
    "speculated": ("Speculated", "tokens gained from drafts of later steps", "tokens", 0),
    "unmasked": ("Unmasked", "tokens gained by the policy itself", "tokens", 0),
}
MEASURES: Final[dict[str, Measure]] = {
    **{name: Measure("position", *row) for name, row in _PER_POSITION.items()},
    **{name: Measure("step", *row) for name, row in _PER_STEP.items()},
}
"""Name -> measure; those above are label, meaning, unit, lowest and highest value."""

FREE_PREFIX: Final = "x_"
