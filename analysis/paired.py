"""Replicates: the same prompts and seeds decoded in two ways, compared pair by pair.

A difference within a pair leaves out what prompt and seed decide, so its interval is narrower than that of two means.
The interval is Student's: mean ± t * s / sqrt(n) over n independent differences, with the 97.5 % quantile t of n - 1
degrees of freedom. Several seeds of one prompt depend on the prompt: with several prompts, the differences of a prompt
are averaged first, and n counts prompts. Ratios are compared as differences of logarithms.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import atan, cos, exp, log, pi, prod, sin, sqrt
from statistics import fmean, stdev
from typing import Final, Literal

from draftscope.analysis.seeds import seconds, target_forwards
from draftscope.traces.schema import Trace

LEVEL: Final = 0.95
"""Share of intervals that contain the true value, if differences are normally distributed."""


@dataclass(frozen=True, slots=True)
class Paired:
    """A paired comparison of one number.

    Args:
        mean: Mean difference of second and first, or the geometric mean of their ratios.
        low: Lower end of the interval; None for a single unit.
        high: Upper end.
        units: Independent differences: prompts, or seeds of a single prompt.
        pairs: Pairs of runs.
        unit: What is counted as a unit.
        neutral: Value that says that both are equal: 0 for differences, 1 for ratios.
    """

    mean: float
    low: float | None
    high: float | None
    units: int
    pairs: int
    unit: Literal["prompt", "seed"]
    neutral: float
    by_pair: Mapping["Key", float] = field(default_factory=dict)
    """Difference or ratio of every pair, in the order of the first runs."""

    @property
    def differs(self) -> bool | None:
        """Whether the interval leaves out the neutral value; None without an interval."""
        if self.low is None or self.high is None:
            return None
        return not self.low <= self.neutral <= self.high


Key = tuple[str, int]
"""Prompt and seed."""
Number = Callable[[Trace], float | None]


def per_token(of: Number) -> Number:
    """Return a number for every token, as runs may differ in length."""

    def rate(trace: Trace) -> float | None:
        value = of(trace)
        return value / trace.summary.tokens if value is not None and trace.summary.tokens else None

    return rate


seconds_per_token: Final = per_token(seconds)
passes_per_token: Final = per_token(target_forwards)


def pairs_of(first: Sequence[Trace], second: Sequence[Trace]) -> dict[Key, tuple[Trace, Trace]]:
    """Return the complete runs of two arms that share prompt and seed; of several, the last.

    Args:
        first: Runs of one arm; those without a seed are left out.
        second: Runs of the other arm.

    Returns:
        Prompt and seed -> the run of each arm, in the order of `first`.
    """
    one, other = (
        {(trace.prompt, trace.seed): trace for trace in runs if trace.seed is not None and trace.summary.complete}
        for runs in (first, second)
    )
    return {key: (one[key], other[key]) for key in one if key in other}


def paired_difference(first: Sequence[Trace], second: Sequence[Trace], of: Number) -> Paired | None:
    """Return the mean of `of(second) - of(first)` over pairs of runs with its interval.

    Args:
        first: Runs of one arm.
        second: Runs of another; runs pair by prompt and seed.
        of: A number of a run; pairs where it is None are left out.

    Returns:
        Mean and 95 % interval over prompts or, with one prompt, over seeds; None without pairs.
    """
    return _paired(first, second, of, lambda a, b: b - a, 0.0)


def paired_ratio(first: Sequence[Trace], second: Sequence[Trace], of: Number) -> Paired | None:
    """Return the geometric mean of `of(first) / of(second)` over pairs with its interval.

    For a cost, such as seconds per token, it is how many times the second is as fast.

    Args:
        first: Runs of one arm.
        second: Runs of another; runs pair by prompt and seed.
        of: A number of a run; pairs where it is None or not positive are left out.

    Returns:
        Mean and 95 % interval over prompts or, with one prompt, over seeds; None without pairs.
    """
    found = _paired(first, second, of, lambda a, b: log(a / b) if a > 0 and b > 0 else None, 0.0)
    if found is None:
        return None
    low, high = (None if end is None else exp(end) for end in (found.low, found.high))
    ratios = {key: exp(value) for key, value in found.by_pair.items()}
    return Paired(exp(found.mean), low, high, found.units, found.pairs, found.unit, 1.0, ratios)


def _paired(
    first: Sequence[Trace],
    second: Sequence[Trace],
    of: Number,
    difference: Callable[[float, float], float | None],
    neutral: float,
) -> Paired | None:
    by_pair: dict[Key, float] = {}
    by_prompt: dict[str, list[float]] = {}
    for key, (one, other) in pairs_of(first, second).items():
        before, after = of(one), of(other)
        apart = None if before is None or after is None else difference(before, after)
        if apart is not None:
            by_pair[key] = apart
            by_prompt.setdefault(key[0], []).append(apart)
    if not by_pair:
        return None
    several = len(by_prompt) > 1
    units = [fmean(each) for each in by_prompt.values()] if several else next(iter(by_prompt.values()))
    mean, low, high = interval(units)
    return Paired(mean, low, high, len(units), len(by_pair), "prompt" if several else "seed", neutral, by_pair)


def interval(values: Sequence[float], level: float = LEVEL) -> tuple[float, float | None, float | None]:
    """Return the mean of values and its interval by Student's distribution.

    Args:
        values: Independent values, at least one.
        level: Coverage of the interval.

    Returns:
        Mean, lower end and upper end; None for the ends of a single value.
    """
    mean = fmean(values)
    if len(values) < 2:
        return mean, None, None
    half = t_quantile(level, len(values) - 1) * stdev(values) / sqrt(len(values))
    return mean, mean - half, mean + half


def t_quantile(level: float, freedom: int) -> float:
    """Return t such that a number of Student's distribution is between -t and t with probability `level`.

    Args:
        level: Probability in (0, 1).
        freedom: Degrees of freedom, at least 1.
    """
    low, high = 0.0, 1.0
    while student(high, freedom) < level:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if student(middle, freedom) < level else (low, middle)
    return (low + high) / 2


def student(t: float, freedom: int) -> float:
    """Return the probability that a number of Student's distribution is between -t and t, in closed form.

    Abramowitz and Stegun, Handbook of Mathematical Functions (1972), 26.7.3 and 26.7.4.

    Args:
        t: Limit, at least 0.
        freedom: Degrees of freedom, at least 1.
    """
    angle = atan(t / sqrt(freedom))
    ratios = [(k - 1) / k for k in range(2 + freedom % 2, freedom - 1, 2)]
    terms = [prod(ratios[:n]) * cos(angle) ** (2 * n) for n in range(len(ratios) + 1)]
    if freedom % 2 == 0:
        return sin(angle) * sum(terms)
    return 2 / pi * (angle + (sin(angle) * cos(angle) * sum(terms) if freedom > 1 else 0.0))


def compared(first: Sequence[Trace], second: Sequence[Trace]) -> Mapping[str, Paired]:
    """Return the paired comparisons that can be made of two ways of decoding, by name.

    Args:
        first: Runs of the way that is compared with, usually ordinary decoding.
        second: Runs of the other way.
    """
    found = {
        "Times as fast": paired_ratio(first, second, seconds_per_token),
        "Times the tokens per target pass": paired_ratio(first, second, passes_per_token),
        "Target passes": paired_difference(first, second, target_forwards),
        "Seconds": paired_difference(first, second, seconds),
    }
    return {name: paired for name, paired in found.items() if paired is not None}
