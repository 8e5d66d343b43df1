"""The canvas after each step, also for traces with counts only and for files that earlier versions recorded."""

from dataclasses import replace
from pathlib import Path

import pytest
from support import handmade
from support.handmade import coarse

from draftscope.traces import (
    Fate,
    canvas_states,
    check,
    dumps,
    expand_counts,
    loads,
    position_updates,
    read,
    state_after,
)
from draftscope.traces.replay import PENDING
from draftscope.visualizers import supported
from draftscope.visualizers.player_page import standalone

OLD = sorted((Path(__file__).parents[2] / "data" / "traces").glob("*.json.gz"))


def test_after_a_step_there_are_final_tokens_drafts_and_open_positions() -> None:
    state = state_after(handmade.scd(), 0)
    assert state.tokens == state.fates == (None,) * 6
    assert (state.step, state.decoded, state.tokens.count(None)) == (0, 0, 6)
    state = state_after(handmade.scd(), 1)
    assert state.tokens == (1, 4, 5, 6, None, None)
    assert state.final == (True, True, False, False, False, False)
    assert state.fates == (Fate.ACCEPTED, Fate.RESAMPLED, Fate.DRAFTED, Fate.DRAFTED, None, None)
    assert (state.step, state.decoded, state.tokens.count(None)) == (1, 2, 2)
    state = state_after(handmade.s2d2(), 2)
    assert state.tokens == (4, 8, None, None)
    assert state.fates[2] is Fate.DISCARDED
    assert (state.decoded, state.tokens.count(None)) == (2, 2)
    assert state_after(handmade.simsd(), 3).tokens == (None, None, 5, None)
    trace = handmade.s2d2()
    assert state_after(trace, 3).tokens[3] == 9
    assert state_after(trace, 4).tokens[3] == 7
    assert state_after(trace, 4).decoded == 4


def test_among_rows_the_final_token_counts() -> None:
    step = handmade.psd().steps[1]
    assert position_updates(step) == {1: (4, Fate.ACCEPTED, 0), 2: (5, Fate.ACCEPTED, 1), 3: (None, Fate.REJECTED, 3)}
    step = handmade.step("0:1=drafted 0:2=discarded 0:3=kept 0:4=rejected", rows=4, row=(0, 1, 2, 3))
    assert position_updates(step) == {0: (3, Fate.KEPT, 2)}


@pytest.mark.parametrize("name", handmade.ALL)
def test_the_iterator_agrees_with_single_states_and_ends_in_the_output(name: str) -> None:
    trace = handmade.ALL[name]()
    walked = list(canvas_states(trace))
    assert walked == [state_after(trace, k) for k in range(len(trace.steps) + 1)]
    end = walked[-1]
    assert trace.output.tokens == tuple(t if f else None for t, f in zip(end.tokens, end.final, strict=True))


@pytest.mark.one_quick
@pytest.mark.parametrize("path", OLD, ids=lambda path: path.name)
def test_an_old_trace_opens_replays_and_is_drawn(path: Path) -> None:
    trace = read(path)
    assert trace.summary.complete and trace.summary.drafts is None
    assert state_after(trace, len(trace.steps)).tokens == trace.output.tokens
    figures = supported([trace])
    assert len(figures) > 5
    if trace.method == "cspd":  # from before the methods parted: a setting that is no more, and fewer columns
        assert trace.config["whole"] is True and "whole" in standalone([trace], "An old run")
        wanted = {"ratios", "distances", "trajectories", "divergence", "along", "ratio-means"}
        assert wanted <= {figure.name for figure in figures}
    for figure in figures:
        assert figure.draw([trace]).data


COUNTS = [
    {"accepted": 3, "window": 4, "committed": 4},
    {"accepted": 0, "window": 4, "committed": 1},
    {"accepted": 2, "window": 2, "committed": 3},
]
A, R, B = Fate.ACCEPTED, Fate.RESAMPLED, Fate.BONUS


def test_counts_fill_the_canvas_in_order() -> None:
    trace = loads(coarse(COUNTS, 8))
    assert [state.decoded for state in canvas_states(trace)] == [0, 4, 5, 8]
    assert state_after(trace, 3).fates == (A, A, A, R, R, A, A, B)
    assert not PENDING & set(state_after(trace, 3).fates)
    summary = trace.summary
    assert (summary.complete, summary.tokens, summary.forwards, summary.judged, summary.accepted) == (True, 8, 3, 7, 5)


def test_passes_without_counts_of_drafts_accept_or_sample() -> None:
    trace = loads(coarse([{"accepted": 2}, {"accepted": 0}, {"accepted": 3}], 6))
    assert state_after(trace, 3).fates == (A,) * 5 + (None,)
    assert (trace.summary.complete, trace.summary.acceptance) == (False, 1.0)
    assert loads(coarse([{"accepted": 0, "window": 0, "committed": 1}], 1)).steps[0].fate == (Fate.SAMPLED,)


def test_tokens_come_from_the_output_where_it_has_them() -> None:
    trace = loads(coarse(COUNTS, 8, output={"tokens": [5, 6, 7, 8, 9, 10, 11, 12], "text": "a b"}))
    assert state_after(trace, 2).tokens == (5, 6, 7, 8, 9, None, None, None)
    assert trace.steps[2].token == (10, 11, 12)


def test_traces_with_positions_are_left_as_they_are() -> None:
    coarse_trace = loads(coarse(COUNTS, 8))
    assert loads(dumps(coarse_trace)) == expand_counts(coarse_trace) == coarse_trace
    for trace in (maker() for maker in handmade.ALL.values()):
        assert expand_counts(trace) is trace


def test_ids_may_be_missing_where_positions_are_known() -> None:
    trace = handmade.ar()
    steps = tuple(replace(step, token=(), top=None) for step in trace.steps)
    bare = replace(trace, steps=steps, output=replace(trace.output, tokens=()))
    check(bare)
    assert state_after(loads(dumps(bare)), 3).tokens == (None,) * 4
    again = loads(dumps(replace(trace, steps=steps)))
    assert again.steps[1].token == trace.steps[1].token
