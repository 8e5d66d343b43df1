"""What the canvas holds after each step, and files that earlier versions of the program recorded."""

from pathlib import Path

import pytest
from support import handmade

from traces import Fate, outcomes, read, state_after, states
from visualizers import supported
from visualizers.page import standalone

OLD = sorted((Path(__file__).parents[1] / "data" / "traces").glob("*.json.gz"))


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
    assert outcomes(step) == {1: (4, Fate.ACCEPTED, 0), 2: (5, Fate.ACCEPTED, 1), 3: (None, Fate.REJECTED, 3)}
    step = handmade.step("0:1=drafted 0:2=discarded 0:3=kept 0:4=rejected", rows=4, row=(0, 1, 2, 3))
    assert outcomes(step) == {0: (3, Fate.KEPT, 2)}


@pytest.mark.parametrize("name", handmade.ALL)
def test_the_iterator_agrees_with_single_states_and_ends_in_the_output(name: str) -> None:
    trace = handmade.ALL[name]()
    walked = list(states(trace))
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
