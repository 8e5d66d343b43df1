"""Traces that say less: counts in place of positions, no ids, no summary, no seed."""

from dataclasses import replace

from support import handmade
from support.handmade import coarse

from traces import Fate, check, dumps, filled, loads, state_after, states
from traces.replay import PENDING

COUNTS = [
    {"accepted": 3, "window": 4, "committed": 4},
    {"accepted": 0, "window": 4, "committed": 1},
    {"accepted": 2, "window": 2, "committed": 3},
]
A, R, B = Fate.ACCEPTED, Fate.RESAMPLED, Fate.BONUS


def test_counts_fill_the_canvas_in_order() -> None:
    trace = loads(coarse(COUNTS, 8))
    assert [state.decoded for state in states(trace)] == [0, 4, 5, 8]
    assert state_after(trace, 3).fates == (A, A, A, R, R, A, A, B)
    assert not PENDING & set(state_after(trace, 3).fates)
    made = trace.summary
    assert (made.complete, made.tokens, made.forwards, made.judged, made.accepted) == (True, 8, 3, 7, 5)


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
    assert loads(dumps(coarse_trace)) == filled(coarse_trace) == coarse_trace
    for trace in (maker() for maker in handmade.ALL.values()):
        assert filled(trace) is trace


def test_ids_may_be_missing_where_positions_are_known() -> None:
    trace = handmade.ar()
    steps = tuple(replace(step, token=(), top=None) for step in trace.steps)
    bare = replace(trace, steps=steps, output=replace(trace.output, tokens=()))
    check(bare)
    assert state_after(loads(dumps(bare)), 3).tokens == (None,) * 4
    again = loads(dumps(replace(trace, steps=steps)))
    assert again.steps[1].token == trace.steps[1].token
