"""Paired comparisons of replicates: Student's quantiles by a printed table, and intervals worked out by hand."""

from dataclasses import replace
from math import exp, log, sqrt

import pytest
from support import handmade

from draftscope.analysis.paired import (
    compared,
    interval,
    paired_difference,
    paired_ratio,
    pairs_of,
    seconds_per_token,
    student,
    t_quantile,
)
from draftscope.analysis.seeds import target_forwards
from draftscope.traces.schema import Trace

RUN = handmade.ar()


def run(prompt: str, seed: int | None, forwards: int = 10, seconds: float = 1.0, complete: bool = True) -> Trace:
    summary = replace(RUN.summary, forwards=forwards, seconds=seconds, complete=complete, tokens=4)
    return replace(RUN, prompt=prompt, seed=seed, steps=(), summary=summary)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (7, 2.365), (10, 2.228), (19, 2.093), (30, 2.042), (120, 1.980)],
)
def test_quantiles_are_those_of_the_printed_table(freedom: int, quantile: float) -> None:
    assert t_quantile(0.95, freedom) == pytest.approx(quantile, abs=6e-4)
    assert student(t_quantile(0.95, freedom), freedom) == pytest.approx(0.95, abs=1e-12)


def test_the_interval_of_four_differences() -> None:
    mean, low, high = interval([1, 2, 3, 6])  # s² = 14 / 3
    half = 3.18245 * sqrt(14 / 3) / 2
    assert (mean, low, high) == (3, pytest.approx(3 - half, abs=1e-4), pytest.approx(3 + half, abs=1e-4))
    assert interval([5.0]) == (5.0, None, None)


def test_pairs_share_prompt_and_seed_and_stopped_runs_are_left_out() -> None:
    first = [run("a", 0), run("a", 1), run("b", 0), run("c", None), run("d", 0)]
    second = [run("a", 1, 7), run("a", 0, 8), run("b", 0, 5, complete=False), run("c", None), run("e", 0)]
    assert list(pairs_of(first, second)) == [("a", 0), ("a", 1)]
    found = paired_difference(first, second, target_forwards)
    assert found and (found.mean, found.units, found.pairs, found.unit) == (-2.5, 2, 2, "seed")
    assert found.by_pair == {("a", 0): -2, ("a", 1): -3} and found.differs is False  # two seeds say little: t = 12.7
    assert paired_difference(first, [run("z", 0)], target_forwards) is None


def test_of_several_prompts_each_counts_once_however_many_seeds_it_has() -> None:
    first = [run("a", seed) for seed in range(10)] + [run("b", 0)]
    second = [run("a", seed, 8) for seed in range(10)] + [run("b", 0, 4)]
    found = paired_difference(first, second, target_forwards)
    assert found and (found.mean, found.units, found.pairs, found.unit) == (-4, 2, 11, "prompt")


def test_ratios_are_geometric_means_per_token() -> None:
    first = [run("a", 0, seconds=2.0), run("a", 1, seconds=8.0), run("a", 2, seconds=1.0)]
    second = [run("a", seed, seconds=1.0) for seed in range(3)]
    found = paired_ratio(first, second, seconds_per_token)
    logs = [log(2), log(8), log(1)]
    mean, low, _ = interval(logs)
    assert found and low is not None
    assert (found.mean, found.low) == (pytest.approx(exp(mean)), pytest.approx(exp(low)))
    assert found.neutral == 1 and found.differs is False and [*found.by_pair.values()] == pytest.approx([2, 8, 1])
    assert set(compared(first, second)) == {
        "Times as fast",
        "Times the tokens per target pass",
        "Target passes",
        "Seconds",
    }
    untimed = [run("a", seed, seconds=0) for seed in range(3)]
    assert set(compared(first, untimed)) == {"Times the tokens per target pass", "Target passes"}


def test_a_difference_that_is_the_same_in_every_pair_has_an_interval_of_no_width() -> None:
    found = paired_difference([run("a", k) for k in range(3)], [run("a", k, 7) for k in range(3)], target_forwards)
    assert found and (found.low, found.mean, found.high, found.differs) == (-3, -3, -3, True)
