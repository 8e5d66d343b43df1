"""The acceptance rate of a draft with its 95 % interval, over all prompts and by kind of prompt.

The rate is that of a draft whose predecessors were accepted: accepted drafts over those that decided something, that is
all up to the first rejection. Where an engine counts drafts beyond it as well, the rate follows from the mean accepted
length, taking every pass to have the same number of drafts and every draft the same rate (arXiv 2211.17192, eq. 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from statistics import NormalDist

from draftscope.analysis.acceptance import PositionAcceptance
from draftscope.analysis.break_even import acceptance_for

_Z = NormalDist().inv_cdf(0.975)
_MANY = 30
"""Number of prompts from which their mean is taken as normally distributed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCounts:
    """Drafts of one prompt, or of one pass."""

    accepted: float
    judged: float | None
    """Drafts up to the first rejection of each pass; None where the engine does not count them."""
    passes: float = 0
    """Passes that verified drafts; needed without `judged`."""
    drafts: float = 0
    """All drafts of these passes; needed without `judged`."""
    kind: str = ""
    """Kind of prompt; empty for an unnamed one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceRate:
    """An estimate over many drafts."""

    kind: str
    """Kind of prompt; empty for all of them."""
    rate: float
    low: float
    high: float
    prompts: int
    drafts: int
    """Accepted or rejected."""

    def __str__(self) -> str:
        """The rate with its interval."""
        return f"{self.rate:.0%} ({self.low:.0%} to {self.high:.0%})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceEvidence:
    """Acceptance that was measured, and where."""

    source: str
    """In words, as the verdict names it."""
    rates: tuple[AcceptanceRate, ...]
    """Over all prompts, then by kind where the source names at least two kinds."""
    drafts: int = 0
    """Draft length; 0 if unknown."""


def evidence(source: str, counts: Sequence[DraftCounts], drafts: int = 0) -> AcceptanceEvidence | None:
    """Return the acceptance of some prompts; None if none of their drafts was verified.

    Args:
        source: Where it was measured.
        counts: One for each prompt.
        drafts: Draft length; 0 if unknown.
    """
    by_kind: dict[str, list[DraftCounts]] = {}
    for one in counts:
        by_kind.setdefault(one.kind, []).append(one)
    overall = rate_of(counts)
    if overall is None:
        return None
    kinds = [rate for kind, those in by_kind.items() if kind and (rate := rate_of(those, kind))]
    return AcceptanceEvidence(source=source, rates=(overall, *(kinds if len(kinds) > 1 else ())), drafts=drafts)


def rate_of(counts: Sequence[DraftCounts], kind: str = "") -> AcceptanceRate | None:
    """Return the rate over all drafts of some prompts.

    Drafts of a prompt depend on each other, so the interval comes from how far prompts are apart; it is never narrower
    than that of as many independent drafts, which alone serves for a single prompt.

    Args:
        counts: Counts of each prompt.
        kind: Kind of these prompts, for the label; empty for all kinds.

    Returns:
        The rate with its 95 % interval; None if no draft was verified.
    """
    used = [one for one in counts if (one.passes if one.judged is None else one.judged) > 0]
    if not used:
        return None
    accepted = fsum(one.accepted for one in used)
    if any(one.judged is None for one in used):
        passes, drafts = fsum(one.passes for one in used), fsum(one.drafts for one in used)
        length = max(drafts / passes, accepted / passes)
        yields = [accepted / passes, *_interval([(one.accepted, one.passes) for one in used])]
        rate, *ends = (acceptance_for(1 + min(max(0.0, each), length), length) or 0.0 for each in yields)
        judged = accepted / rate if rate > 0 else passes
    else:
        judged = fsum(one.judged or 0.0 for one in used)
        rate, ends = accepted / judged, [*_interval([(one.accepted, one.judged or 0.0) for one in used])]
    low, high = _wilson(rate, judged)
    low, high = min([low, *ends]), max([high, *ends])
    return AcceptanceRate(
        kind=kind, rate=rate, low=max(0.0, low), high=min(1.0, high), prompts=len(used), drafts=round(judged)
    )


def counts_of(positions: PositionAcceptance, kind: str = "") -> DraftCounts:
    """Return the counts of a run, or of the sums of an engine, that knows positions.

    Args:
        positions: Verdicts by draft position, and the number of passes.
        kind: Kind of the prompts, for a rate by kind; empty for none.
    """
    judged = [each.judged for each in positions.positions]
    known = None if None in judged else sum(filter(None, judged))
    accepted = sum(each.accepted for each in positions.positions)
    # Without them a pass has a draft at every position.
    drafts = positions.passes * len(positions.positions)
    return DraftCounts(accepted=accepted, judged=known, passes=positions.passes, drafts=drafts, kind=kind)


def hand_set(rate: float, spread: float) -> AcceptanceRate:
    """Return a rate that a user gives.

    Args:
        rate: Acceptance rate, 0 to 1.
        spread: How far the rate may be off in both directions, cut at 0 and 1.
    """
    low, high = max(0.0, rate - spread), min(1.0, rate + spread)
    return AcceptanceRate(kind="", rate=rate, low=low, high=high, prompts=0, drafts=0)


def _interval(pairs: Sequence[tuple[float, float]]) -> tuple[float, float] | tuple[()]:
    """The interval over prompts; nothing for a single prompt."""
    return ratio_interval(pairs) if len(pairs) > 1 else ()


def ratio_interval(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the ends of the 95 % interval of a ratio of two sums over at least two independent parts.

    Source: the ratio estimator of cluster sampling, as in `draftscope.analysis.seeds.over_runs`.
    """
    count = len(pairs)
    size = fsum(below for _, below in pairs) / count
    ratio = fsum(above for above, _ in pairs) / (size * count)
    residuals = fsum(((above - ratio * below) / size) ** 2 for above, below in pairs)
    error = sqrt(residuals / (count - 1) / count) * _quantile(count - 1)
    return ratio - error, ratio + error


def _quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t: exact for 1 and 2 degrees, else by its expansion in 1 / freedom.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    if freedom >= _MANY:
        return _Z
    if freedom <= 2:
        return (12.706, 4.303)[freedom - 1]
    first = (_Z**3 + _Z) / 4
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    third = (3 * _Z**7 + 19 * _Z**5 + 17 * _Z**3 - 15 * _Z) / 384
    return _Z + first / freedom + second / freedom**2 + third / freedom**3


def _wilson(rate: float, trials: float) -> tuple[float, float]:
    """Return Wilson's interval of a share of independent trials."""
    shrink = _Z * _Z / trials
    middle = (rate + shrink / 2) / (1 + shrink)
    half = _Z * sqrt(rate * (1 - rate) / trials + shrink / (4 * trials)) / (1 + shrink)
    return middle - half, middle + half
