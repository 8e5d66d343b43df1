"""SCD, arXiv 2510.24211: Jacobi decoding with coupled drafts."""

from statistics import correlation, fmean

from benchmarks._runs import prompts
from benchmarks.claims.conclusion import Conclusion, Effect, difference, runs
from traces.pairing import Estimate
from traces.schema import Trace
from traces.stats import agreement_by_age, mean_difference, token_difference

WINDOW = 64
YOUNG, OLD = 2, 8
"""Iterations that a place has been drafted for, before and from which on its acceptance is compared."""


def conclusions(seeds: int) -> list[Conclusion]:
    """Pictures of as many prompts, decoded with every coupling and strength."""
    alone, maximal, gumbel = (_runs(seeds, coupling=name) for name in ("none", "maximal", "gumbel"))
    half = _runs(seeds, coupling="maximal", alpha=0.5)
    passes = [[float(trace.summary.forwards) for trace in traces] for traces in (alone, maximal, gumbel, half)]
    changed = [_changed(trace) for trace in alone]
    return [
        Conclusion(
            "Fig. 2",
            "Within uncoupled runs, passes rise with the share of drafts that change",
            [Effect("correlation", _correlation(changed, passes[0]))],
        ),
        Conclusion(
            "Fig. 3",
            "Drafts come to agree more with the model with coupling than without",
            [
                difference("rise of β, coupled over uncoupled", map(_rise, maximal), map(_rise, alone)),
                difference("β of old drafts, coupled over uncoupled", map(_old, maximal), map(_old, alone)),
            ],
        ),
        Conclusion(
            "Fig. 5",
            "Passes fall with the strength of the coupling",
            [
                difference("passes, α = 0.5 over 1", passes[3], passes[1]),
                difference("passes, α = 0 over 0.5", passes[0], passes[3]),
            ],
        ),
        Conclusion(
            "Fig. 6",
            "Maximal coupling changes fewer drafts in one iteration, Gumbel coupling in three",
            [
                difference(
                    "share changed, one apart, GS-SJD over MC-SJD", map(_changed, gumbel), map(_changed, maximal)
                ),
                difference(
                    "three apart, MC-SJD over GS-SJD",
                    [_changed(trace, 3) for trace in maximal],
                    [_changed(trace, 3) for trace in gumbel],
                ),
            ],
        ),
        Conclusion(
            "Table 1",
            "Either coupling takes fewer passes than none",
            [
                difference("passes, SJD over MC-SJD", passes[0], passes[1]),
                difference("passes, SJD over GS-SJD", passes[0], passes[2]),
            ],
        ),
        Conclusion(
            "Tables 1, 2",
            "Gumbel coupling takes fewer passes than maximal coupling",
            [difference("passes, MC-SJD over GS-SJD", passes[1], passes[2])],
        ),
        Conclusion("Tables 3, 5, 6", "Janus-Pro and Lumina-mGPT gain as much", needs="their weights and a GPU"),
    ]


def _runs(count: int, **values: object) -> list[Trace]:
    return runs("scd", "studio-image", prompts("studio-image", count), window=WINDOW, **values)


def _changed(trace: Trace, iterations: int = 1) -> float:
    """Mean share of pending drafts that differ so many iterations apart."""
    mean = mean_difference(token_difference(trace.steps, iterations))
    return mean.share if mean else 0.0


def _correlation(xs: list[float], ys: list[float]) -> Estimate:
    """Pearson's, with its standard error where there is none, 1 / sqrt(n - 1), as the spread of n values."""
    count = len(xs)
    return Estimate(correlation(xs, ys), (count / (count - 1)) ** 0.5, count)


def _old(trace: Trace) -> float:
    """Mean β of drafts that have been there for long."""
    return fmean(row.mean for row in agreement_by_age(trace.steps) if row.age >= OLD)


def _rise(trace: Trace) -> float:
    """How much larger it is than that of young ones."""
    return _old(trace) - fmean(row.mean for row in agreement_by_age(trace.steps) if row.age <= YOUNG)
