"""Predictions of a pass about its block, on runs whose every number is known."""

from dataclasses import replace

import pytest
from support.psd_runs import Plan, speculated

from draftscope.analysis.prediction import contributions, forecasts, rank_sequences

ONE_BLOCK = Plan(blocks=1, num_final=(0,))


def test_a_forecast_says_when_each_candidate_became_final() -> None:
    first, second, *_ = forecasts(speculated(ONE_BLOCK).steps)
    assert first.candidates == (1, 2, 3, 4, 5, 6, 7)
    assert first.decoded == (1, 2, 3, 4, 5, 6, 7)
    assert first.turn == (0, 1, 2, 3, 4, 5, 6)
    assert all(first.unchanged)
    assert second.candidates == (2, 3, 4, 5, 6, 7)
    steps = speculated(Plan(blocks=1)).steps
    assert [sum(fate.final for fate in step.fate) for step in steps] == [1, 3, 2, 2]
    assert forecasts(steps)[0].decoded == (1, 1, 1, 2, 2, 3, 3)


def test_rank_sequences_end_at_the_first_surprise() -> None:
    steps = speculated(ONE_BLOCK).steps
    assert rank_sequences(steps, 3)[:2] == [(1, 2, 3), (1, 2, 3)]
    assert rank_sequences(steps, 8)[-1] == (1,)
    first = replace(steps[0], token=(1, 2, 9, *steps[0].token[3:]))
    other = [first, *steps[1:]]
    assert rank_sequences(other, 8)[0] == (1,)  # the second position to come was foreseen with another token


def test_a_pass_is_shared_out_over_the_bins_it_spans() -> None:
    steps = speculated(Plan(blocks=1, num_final=(0, 3))).steps
    for bins, expected in ((4, [0, 3, 0, 2]), (2, [3, 2]), (8, [0, 0, 1.5, 1.5, 0, 0, 1, 1]), (3, [1, 2, 2])):
        speculative = [one.percent for one in contributions([steps], bins) if one.mechanism == "speculative"]
        assert speculative == pytest.approx([100 * tokens / 8 for tokens in expected])
    assert contributions([]) == ()
