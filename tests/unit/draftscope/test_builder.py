"""TraceBuilder: traces of steps or of counts."""

import pytest

import draftscope as ds
from draftscope.traces import Fate, TraceError, check, dumps, loads, state_after
from draftscope.traces.schema import Call, Canvas, ModelCard


def accepted(trace: ds.Trace) -> list[int]:
    return [step.fate.count(Fate.ACCEPTED) for step in trace.steps]


def test_steps_make_a_whole_trace() -> None:
    builder = ds.TraceBuilder("my engine", "owner/model", prompt="Say it.", draft_model="owner/small", seed=3)
    builder.step([0, 1, 2], ["drafted"] * 3, [4, 9, 5], call={"role": "draft", "mode": "draft", "query_tokens": 3})
    builder.step(
        [0, 1, 2],
        ["accepted", "resampled", "discarded"],
        [4, 7, 5],
        draft=[4, 9, 5],
        p=[0.5, 0.1, None],
        q=[0.4, 0.5, 0.9],
        call={"query_tokens": 4, "milliseconds": 7},
        numbers={"x_mine": (1.0, 2.0, None)},
    )
    builder.step([2], ["sampled"], [6])
    trace = builder.trace(text="good morning.")
    check(trace)
    assert loads(dumps(trace)) == trace
    assert (trace.canvas.kind, trace.canvas.shape) == ("text", (3,))
    assert trace.output.tokens == (4, 7, 6)
    summary = trace.summary
    assert (summary.complete, summary.tokens, summary.forwards, summary.judged, summary.accepted) == (True, 3, 3, 2, 1)
    assert summary.query_tokens == 3 + 4 + 1
    assert summary.seconds == pytest.approx(0.007)
    assert trace.draft_model == ModelCard(id="owner/small")


def test_counts_make_a_coarse_trace() -> None:
    builder = ds.TraceBuilder("served", "owner/model")
    for accepted in (3, 0, 4):
        builder.count(accepted, drafted=4, tokens=accepted + 1)
    trace = builder.trace()
    assert (trace.summary.tokens, trace.summary.judged, trace.summary.accepted) == (10, 9, 7)
    assert trace.output.tokens == ()
    assert trace.steps[1].fate == (Fate.RESAMPLED,)
    assert (trace.summary.complete, builder.trace(complete=False).summary.complete) == (True, False)
    known = builder.trace(range(10))
    assert known.output.tokens == tuple(range(10))
    assert known.steps[2].token == (5, 6, 7, 8, 9)


def test_a_picture() -> None:
    builder = ds.TraceBuilder("mine", ModelCard(id="a"), canvas=Canvas(kind="image", shape=(2, 2)))
    builder.step([0, 1], ["sampled"] * 2, [5, 6], call=Call(role="self", mode="causal", query_tokens=2))
    trace = builder.trace()
    assert (trace.summary.complete, trace.output.tokens) == (False, (5, 6, None, None))
    assert state_after(trace, 1).decoded == 2


def test_what_contradicts_itself_is_said() -> None:
    builder = ds.TraceBuilder("mine", "a/b")
    builder.step([0, 0], ["sampled", "sampled"], [1, 2])
    with pytest.raises(TraceError, match="0 appears twice in one row"):
        builder.trace()
    with pytest.raises(ValueError, match="'acepted' is not a valid Fate"):
        builder.step([0], ["acepted"])
    with pytest.raises(TypeError, match="sede: is not a field of a trace's head"):
        ds.TraceBuilder("mine", "a/b", sede=3)
    short = ds.TraceBuilder("mine", "a/b", canvas=Canvas(kind="text", shape=(2,)))
    short.count(3)
    with pytest.raises(TraceError, match="make 3 tokens final where 2 positions are open"):
        short.trace()
