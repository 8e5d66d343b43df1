"""Predictions of a pass about its block, on runs whose every number is known."""

from dataclasses import replace

import pytest
from support.handmade import make, step
from support.psd_runs import Plan, speculated

from draftscope.analysis.oracle import OracleChoice, oracle_savings
from draftscope.analysis.prediction import contributions, forecasts, rank_sequences
from draftscope.traces.schema import Canvas, Step

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


TEXT = Canvas(kind="text", shape=(6,))


def choices(*steps: Step, **config: object) -> tuple[str, str, tuple[OracleChoice, ...]]:
    best = oracle_savings(make("method", TEXT, steps, config=config))
    assert best
    return best.setting, best.unit, best.choices


def test_rejected_and_dropped_drafts_need_not_have_been_made() -> None:
    steps = (
        step("0:1=drafted 1:2=drafted 2:3=drafted", role="draft"),
        step("0:1=accepted 1:9=resampled 2:3=discarded", draft=(1, 2, 3)),
        step("2:4=accepted 3:5=accepted 4:6=bonus", draft=(4, 5, None)),
        step("5:7=sampled"),
    )
    assert choices(*steps) == ("draft length", "drafts", (OracleChoice(1, 3, 1), OracleChoice(2, 2, 2)))


def test_a_window_reaches_as_far_as_the_last_draft_that_stays() -> None:
    steps = (
        step("0:1=resampled 1:2=kept 2:3=changed 3:4=kept 4:5=changed 5:6=drafted", draft=(9, 2, 8, 4, 8, None)),
        step("1:2=accepted 2:3=accepted 3:7=resampled 4:5=kept 5:6=kept", draft=(2, 3, 4, 5, 6)),
        step("4:5=accepted 5:8=resampled", draft=(5, 6)),
    )
    # 3:4 stays for a pass, but is rejected then; 4:5 is new after the first pass and stays from there on.
    assert choices(*steps) == (
        "window",
        "drafts",
        (OracleChoice(0, 5, 2), OracleChoice(1, 5, 4), OracleChoice(2, 2, 1)),
    )
