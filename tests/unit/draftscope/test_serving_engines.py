"""Traces of other engines: from steps and counts, and from the responses of vLLM, SGLang and llama.cpp."""

import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import draftscope as ds
from draftscope.analysis.acceptance import acceptance_of
from draftscope.analysis.summary_text import summary_text
from draftscope.serving_formats import parsed, samples
from draftscope.traces import Fate, check, dumps, loads
from draftscope.traces.schema import Sums

PASSES = (1, 4, 1, 5, 3)
"""Tokens that each pass of a request brought; the first read the prompt."""


def outputs(cumulative: bool = False, passes: tuple[int, ...] = PASSES) -> list[Any]:
    outputs, seen = [], 0
    for index, count in enumerate(passes):
        start, seen = seen, seen + count
        completion = SimpleNamespace(token_ids=list(range(0 if cumulative else start, seen)))
        finished = index == len(passes) - 1
        fields = {"prompt": "Once", "prompt_token_ids": [7, 8, 9], "outputs": [completion], "finished": finished}
        outputs.append(SimpleNamespace(**fields))
    return outputs


def metrics(drafts: int, proposed: int, accepted: int, by_position: list[int]) -> list[Any]:
    counts = {"num_drafts": drafts, "num_draft_tokens": proposed, "num_accepted_tokens": accepted}
    counters = [SimpleNamespace(name=f"vllm:spec_decode_{name}", value=value) for name, value in counts.items()]
    return [*counters, SimpleNamespace(name="vllm:spec_decode_num_accepted_tokens_per_pos", values=by_position)]


def response(**meta: Any) -> dict[str, Any]:
    """Return a response of SGLang's /generate."""
    base = {"id": "1", "finish_reason": {"type": "length", "length": 16}, "prompt_tokens": 3, "completion_tokens": 14}
    return {"text": "upon a time", "output_ids": list(range(14)), "meta_info": base | meta}


SPECULATED = {
    "spec_accept_rate": 9 / 16, "spec_accept_length": 14 / 4, "spec_accept_token_num": 9, "spec_draft_token_num": 16,
    "spec_verify_ct": 4, "spec_accept_histogram": [1, 0, 1, 1, 1],
}  # fmt: skip


def accepted(trace: ds.Trace) -> list[int]:
    return [step.fate.count(Fate.ACCEPTED) for step in trace.steps]


@pytest.mark.parametrize("cumulative", [False, True])
def test_the_stream_of_a_request_to_vllm(cumulative: bool) -> None:
    trace = ds.from_vllm(outputs(cumulative), "owner/large", speculative_tokens=4, cumulative=cumulative)
    check(trace)
    assert loads(dumps(trace)) == trace
    assert accepted(trace) == [0, 3, 0, 4, 2]
    assert trace.output.tokens == tuple(range(14))
    assert (trace.method, trace.prompt, trace.model.id) == ("vLLM", "Once", "owner/large")
    assert [step.call.query_tokens for step in trace.steps] == [3, 5, 5, 5, 5]
    summary = trace.summary
    assert (summary.complete, summary.forwards, summary.judged, summary.accepted) == (True, 5, 4 + 1 + 4 + 3, 9)
    assert trace.steps[3].fate[-1] is Fate.BONUS
    assert trace.steps[1].fate[-1] is Fate.RESAMPLED
    assert "assumed to have verified 4 drafts" in trace.note


def test_the_counters_of_vllm_between_two_moments() -> None:
    """Nine passes accepted 6, 4, 4 and 1 drafts at the four positions: 3 passes none, 2 one, 3 three and 1 all."""
    before = metrics(1, 4, 2, [1, 1, 0, 0])
    trace = ds.from_vllm(metrics(10, 40, 17, [7, 5, 4, 1]), "owner/large", speculative_tokens=4, before=before)
    check(trace)
    assert loads(dumps(trace)) == trace
    assert trace.sums == Sums(
        tokens=24,
        forwards=9,
        verifications=9,
        drafts=36,
        accepted=15,
        accepted_by_position=(6, 4, 4, 1),
        judged_by_position=(9, 6, 4, 4),
    )
    assert "nothing on single passes" in trace.note
    two = metrics(10, 40, 17, [7, 5, 4, 1]) + metrics(1, 4, 1, [1, 0, 0, 0])
    assert ds.from_vllm(two, "owner/large").sums.accepted_by_position == (8, 5, 4, 1)


def test_drafts_of_several_lengths_leave_unknown_how_many_were_verified_at_a_position() -> None:
    """Ten drafts of 1 to 4 tokens: of those that ended after their first token, some were not rejected."""
    trace = ds.from_vllm(metrics(10, 25, 16, [8, 5, 2, 1]), "owner/large")
    assert trace.sums.judged_by_position == ()
    assert (trace.summary.judged, trace.summary.acceptance) == (0, None)
    assert (trace.summary.accepted, trace.summary.drafts) == (16, 25)
    assert "Some drafts were shorter than others" in trace.note
    figure = ds.figure("by-place", trace)
    assert list(figure.data[-1].y) == [80, 50, 20, 10]
    assert "16 of 25 drafts; the number of verified ones is not known" in summary_text(trace)


TEXT = """\
# HELP vllm:spec_decode_num_drafts_total Number of drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 1300.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.79e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="a \\"b\\" {c}"} 5200.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 2600.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 1000.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 800.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="2"} 500.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="3"} 300.0
vllm:gpu_cache_usage_perc{engine="0"} NaN
"""


@pytest.mark.parametrize("form", [TEXT, TEXT.encode(), TEXT.splitlines(), [*samples(parsed(TEXT))]])
def test_the_text_of_metrics(form: Any) -> None:
    trace = ds.from_vllm(form, "m", speculative_tokens=4)
    assert (trace.summary.accepted, trace.summary.forwards, trace.summary.tokens) == (2600, 1300, 3900)
    assert trace.sums.accepted_by_position == (1000, 800, 500, 300)
    half = re.sub(r"(\d+)00\.0", lambda match: str(int(match[1]) * 50), TEXT)
    assert ds.from_vllm(form, "m", before=half).summary.forwards == 650


def test_as_many_drafts_as_a_server_counts_are_read_at_once() -> None:
    """More passes than a trace may have steps; the sums are those of a published run."""
    counters = [
        {"name": "vllm:spec_decode_num_drafts", "value": 31214},
        {"name": "vllm:spec_decode_num_draft_tokens", "value": 93642},
        {"name": "vllm:spec_decode_num_accepted_tokens", "value": 37294},
        {"name": "vllm:spec_decode_num_accepted_tokens_per_pos", "values": [20601, 11237, 5456]},
    ]
    trace = ds.from_vllm(counters, "m", speculative_tokens=3)
    assert (trace.summary.accepted, trace.summary.forwards) == (37294, 31214)
    rates = acceptance_of([trace])
    assert [round(position.marginal, 2) for position in rates.positions] == [0.66, 0.36, 0.17]
    assert len(dumps(trace)) < 1000


def test_earlier_readers_take_sums_for_a_run_without_steps() -> None:
    """A reader of version 1.3 leaves out the field that it does not know."""
    document = json.loads(dumps(ds.from_vllm(TEXT, "m")))
    assert document.pop("sums")["accepted"] == 2600 and "summary" not in document
    trace = loads(json.dumps(document | {"version": "1.3"}).encode())
    assert (trace.summary.tokens, trace.steps, trace.method) == (0, (), "vLLM")


def test_a_stream_of_an_openai_style_route_of_vllm() -> None:
    chunks, first = [], {"prompt_token_ids": [7, 8, 9]}
    for index, count in enumerate(PASSES):
        start = sum(PASSES[:index])
        end = "length" if index == len(PASSES) - 1 else None
        choice = {"text": "x" * count, "token_ids": [*range(start, start + count)], "finish_reason": end}
        chunks.append(f"data: {json.dumps({'choices': [choice], **(first if not index else {})})}\n")
    chunks += ['data: {"choices": [], "usage": {"completion_tokens": 14}}', "data: [DONE]"]
    trace = ds.from_vllm("\n".join(chunks), "m", speculative_tokens=4)
    assert accepted(trace) == [0, 3, 0, 4, 2]
    assert (trace.steps[0].call.query_tokens, trace.output.text, trace.summary.complete) == (3, "x" * 14, True)


def test_the_histogram_of_a_request_to_sglang() -> None:
    trace = ds.from_sglang(response(**SPECULATED), "owner/large")
    check(trace)
    assert trace.sums.accepted_by_position == (3, 3, 2, 1)
    assert trace.sums.judged_by_position == (4, 3, 3, 2)
    assert trace.config["speculative_tokens"] == 4
    assert trace.extensions["sglang"]["spec_accept_length"] == 3.5
    assert "nothing on single passes" in trace.note
    log = [response(**SPECULATED), response(**SPECULATED)]
    lines = "\n".join(["server is up", *map(json.dumps, log)])
    assert ds.from_sglang(lines, "owner/large").sums.accepted_by_position == (6, 6, 4, 2)
    nested = {"choices": [{"meta_info": log[0]["meta_info"], "message": {"content": "x"}, "finish_reason": "stop"}]}
    assert ds.from_sglang(nested, "owner/large").sums == trace.sums
    assert ds.from_sglang(nested, "owner/large").output.text == "x"
    renamed = {
        "spec_verify_ct": 4, "spec_num_proposed_drafts": 16, "spec_num_correct_drafts": 9,
        "spec_correct_drafts_histogram": [1, 0, 1, 1, 1],
    }  # fmt: skip
    assert ds.from_sglang(response(**renamed), "owner/large").sums == trace.sums
    cut = response(**SPECULATED | {"completion_tokens": 9})
    assert ds.from_sglang(cut, "owner/large").summary.tokens == 9


@pytest.mark.parametrize("incremental", [False, True])
def test_the_stream_of_a_request_to_sglang(incremental: bool) -> None:
    chunks, seen = [], 0
    for count in PASSES:
        start, seen = seen, seen + count
        ids = list(range(start if incremental else 0, seen))
        done = {"finish_reason": {"type": "length"}} | SPECULATED if seen == 14 else {"finish_reason": None}
        chunks.append(
            {"text": "", "output_ids": ids, "meta_info": {"prompt_tokens": 3, "completion_tokens": seen} | done}
        )
    trace = ds.from_sglang(chunks, "owner/large")
    check(trace)
    assert accepted(trace) == [0, 3, 0, 4, 2]
    assert trace.output.tokens == tuple(range(14))
    assert trace.summary.complete
    for chunk in chunks:
        del chunk["output_ids"]
    assert ds.from_sglang(chunks, "owner/large").output.tokens == ()


def chunks(passes: tuple[tuple[int, int], ...] = ((0, 0), (4, 3), (4, 0), (0, 0), (2, 2)), **about: Any) -> list[Any]:
    """Return the stream of llama.cpp's server for passes of (drafted, accepted) tokens: a chunk per token, and the
    last."""
    messages: list[dict[str, Any]] = []
    timings = {"prompt_n": 5, "prompt_ms": 20.0, "predicted_n": 0, "draft_n": 0, "draft_n_accepted": 0}
    timings["predicted_ms"] = 0.0
    for drafted, passed in passes:
        timings = {**timings, "predicted_ms": timings["predicted_ms"] + 2.0 + drafted}
        timings["draft_n"] += drafted
        timings["draft_n_accepted"] += passed
        timings["predicted_n"] += passed + 1
        for _ in range(passed + 1):
            messages.append({"content": "x", "tokens": [len(messages)], "stop": False, "timings": {**timings, **about}})
    return [*messages, {"content": "", "tokens": [], "stop": True, "timings": {**timings, **about}}]


def test_the_stream_of_a_request_to_llama_cpp() -> None:
    trace = ds.from_llama_cpp(chunks(), "owner/large", prompt="Once")
    check(trace)
    assert loads(dumps(trace)) == trace
    assert accepted(trace) == [0, 3, 0, 0, 2]
    assert [step.call.query_tokens for step in trace.steps] == [5, 5, 5, 1, 3]
    assert [step.call.milliseconds.total for step in trace.steps] == [22, 6, 6, 2, 4]
    assert trace.output.tokens == tuple(range(10)) and trace.output.text == "x" * 10 and trace.summary.complete
    assert (trace.summary.judged, trace.summary.accepted) == (4 + 1 + 2, 5)
    assert trace.extensions["llama.cpp"]["draft_n"] == 10
    for chunk in (ids := chunks()):
        del chunk["tokens"]
    assert ds.from_llama_cpp(ids[:-1], "owner/large").output.tokens == ()


def test_a_stream_of_the_chat_route_of_llama_cpp() -> None:
    timings = {"prompt_n": 10, "prompt_ms": 50.0, "predicted_n": 1, "predicted_ms": 9.0}
    later = timings | {"predicted_n": 3, "predicted_ms": 30.0, "draft_n": 4, "draft_n_accepted": 1}
    deltas = [("Once", None, timings), (" upon a", None, later), (None, "stop", later)]
    stream = [
        {"choices": [{"finish_reason": end, "delta": {"content": text} if text else {}}], "timings": counted}
        for text, end, counted in deltas
    ]
    for form in (stream, "\n\n".join(f"data: {json.dumps(chunk)}" for chunk in stream) + "\n\ndata: [DONE]"):
        trace = ds.from_llama_cpp(form, "m")
        assert (trace.output.text, trace.summary.complete, accepted(trace)) == ("Once upon a", True, [0, 1])


def test_tokens_that_come_one_by_one_after_the_counts_of_their_pass() -> None:
    """The form of the server since tokens of one pass are sent apart; the last pass is cut by the length."""
    counts = [(1, 0, 0), (2, 4, 0), (3, 7, 2), (4, 7, 2), (5, 7, 2), (6, 11, 5), (7, 11, 5)]
    timings = [
        {
            "prompt_n": 5,
            "prompt_ms": 1.0,
            "predicted_n": n,
            "predicted_ms": 2.0 * n,
            "draft_n": d,
            "draft_n_accepted": a,
        }
        for n, d, a in counts
    ]
    stream = [{"content": "x", "tokens": [index], "timings": each} for index, each in enumerate(timings)]
    trace = ds.from_llama_cpp([*stream, {"content": "", "stop": True, "timings": timings[-1]}], "m")
    assert [step.signals["accepted"] for step in trace.steps] == [0, 0, 2, 2]
    assert [step.signals["committed"] for step in trace.steps] == [1, 1, 3, 2]
    assert [step.call.milliseconds.total for step in trace.steps] == [3, 2, 6, 4]
    assert (trace.output.tokens, trace.summary.tokens) == (tuple(range(7)), 7)


def test_whole_responses_of_llama_cpp_have_sums() -> None:
    timings = {"prompt_n": 10, "prompt_ms": 5.0, "predicted_n": 12, "predicted_ms": 20.0}
    one = {"content": "x", "stop": True, "timings": timings | {"draft_n": 22, "draft_n_accepted": 4}}
    trace = ds.from_llama_cpp(one, "m")
    assert trace.sums == Sums(tokens=12, forwards=8, drafts=22, accepted=4, seconds=0.025)
    assert (trace.output.text, trace.summary.seconds) == ("x", 0.025)
    assert acceptance_of([trace]) is None
    both = ds.from_llama_cpp("\n".join(map(json.dumps, [one, {**one, "timings": timings}])), "m")
    assert both.sums == Sums(tokens=24, forwards=20, drafts=22, accepted=4, seconds=0.05)


def test_the_metrics_of_llama_cpp() -> None:
    text = TEXT.replace("vllm:", "llamacpp:")
    trace = ds.from_llama_cpp(
        text, "m", before="llamacpp:spec_decode_num_drafts_total 100\nllamacpp:spec_decode_num_draft_tokens_total 400"
    )
    assert (trace.summary.forwards, trace.summary.accepted) == (1200, 2600)


TOTALS = {name: value for name, value in SPECULATED.items() if name != "spec_accept_histogram"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ds.from_vllm([], "a", speculative_tokens=4), "source: is empty"),
        (lambda: ds.from_vllm(outputs(), "a", speculative_tokens=3), "5 tokens came at once where a pass brings"),
        (lambda: ds.from_vllm(outputs(passes=(14,)), "a", speculative_tokens=4), "ask for SamplingParams"),
        (lambda: ds.from_vllm(outputs(), "a", speculative_tokens=4, cumulative=True), "leave out cumulative=True"),
        (lambda: ds.from_vllm(metrics(0, 0, 0, [0, 0]), "a", speculative_tokens=2), "engine that speculates"),
        (lambda: ds.from_vllm(metrics(5, 10, 5, [2, 3]), "a"), "metrics of one engine, read at one time"),
        (lambda: ds.from_vllm(TEXT, "a", speculative_tokens=2), "is 2 where the counters have 4 positions"),
        (lambda: ds.from_vllm("vllm:requests 3", "a"), r"found: 'vllm:requests'; known: vllm:spec_decode_num_drafts"),
        (lambda: ds.from_vllm(outputs(), "a"), "give num_speculative_tokens of the engine"),
        (lambda: ds.from_vllm({"id": 1, "choices": [{"text": "x"}]}, "a", speculative_tokens=1), "found: 'id', 'ch"),
        (lambda: ds.from_vllm("<html>busy</html>", "a"), "source: is empty"),
        (lambda: ds.from_sglang("sglang:spec_accept_length 2.1", "a"), "found: 'sglang:spec_accept_length'; known"),
        (lambda: ds.from_sglang(response(), "a"), "give SGLang's speculative_num_steps"),
        (lambda: ds.from_sglang(response(**TOTALS), "a"), "only sums; give the responses of a stream"),
        (lambda: ds.from_sglang(response(**SPECULATED), "a", speculative_tokens=2), "is 2 where a pass accepted 4"),
        (
            lambda: ds.from_llama_cpp([{"content": "x"}], "a"),
            'no chunk has timings; give the chunks of a request with "s',
        ),
        (
            lambda: ds.from_llama_cpp(chunks()[-2:], "a"),
            "10 tokens came at once, 5 of them drafts that passed; give the",
        ),
        (lambda: ds.from_llama_cpp(chunks(draft_n=0), "a"), "drafts that passed; give the chunks"),
    ],
)
def test_what_cannot_be_told_is_refused_with_a_remedy(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()
