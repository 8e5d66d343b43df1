"""SCD, arXiv 2510.24211: Jacobi decoding with coupled drafts."""

from statistics import correlation, fmean

from benchmarks._runs import prompts
from benchmarks.claims.conclusion import Effect, difference, runs
from traces.pairing import Estimate
from traces.schema import Trace
from traces.stats import agreement_by_age, mean_difference, token_difference

WINDOW = 64
YOUNG, OLD = 2, 8
"""Iterations that a place has been drafted for, before and from which on its acceptance is compared."""


def effects(seeds: int) -> dict[str, list[Effect]]:
    """Of pictures of as many prompts, decoded with every coupling and strength."""
    alone, maximal, gumbel = (_runs(seeds, coupling=name) for name in ("none", "maximal", "gumbel"))
    half = _runs(seeds, coupling="maximal", alpha=0.5)
    without, most, own, halved = (
        [float(trace.summary.forwards) for trace in traces] for traces in (alone, maximal, gumbel, half)
    )
    changed = [_changed(trace) for trace in alone]
    one = difference("share changed, one apart, GS-SJD over MC-SJD", map(_changed, gumbel), map(_changed, maximal))
    far, near = ([_changed(trace, 3) for trace in traces] for traces in (maximal, gumbel))
    count = len(changed)  # without correlation its standard error is 1 / sqrt(n - 1), as the spread of n values
    related = Estimate(correlation(changed, without), (count / (count - 1)) ** 0.5, count)
    return {
        "Fig. 2": [Effect("correlation", related)],
        "Fig. 3": [
            difference("rise of β, coupled over uncoupled", map(_rise, maximal), map(_rise, alone)),
            difference("β of old drafts, coupled over uncoupled", map(_old, maximal), map(_old, alone)),
        ],
        "Fig. 5": [
            difference("passes, α = 0.5 over 1", halved, most),
            difference("passes, α = 0 over 0.5", without, halved),
        ],
        "Fig. 6": [one, difference("three apart, MC-SJD over GS-SJD", far, near)],
        "Table 1": [
            difference("passes, SJD over MC-SJD", without, most),
            difference("passes, SJD over GS-SJD", without, own),
        ],
        "Tables 1, 2": [difference("passes, MC-SJD over GS-SJD", most, own)],
    }


def _runs(count: int, **values: object) -> list[Trace]:
    return runs("scd", "studio-image", prompts("studio-image", count), window=WINDOW, **values)


def _changed(trace: Trace, iterations: int = 1) -> float:
    """Mean share of pending drafts that differ so many iterations apart."""
    return mean_difference(token_difference(trace.steps, iterations)) or 0.0


def _old(trace: Trace) -> float:
    """Mean β of drafts that have been there for long."""
    return fmean(row.mean for row in agreement_by_age(trace.steps) if row.age >= OLD)


def _rise(trace: Trace) -> float:
    """How much larger it is than that of young ones."""
    return _old(trace) - fmean(row.mean for row in agreement_by_age(trace.steps) if row.age <= YOUNG)
