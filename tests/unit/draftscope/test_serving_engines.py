"""Traces of other engines: from steps and counts, and from the responses of vLLM, SGLang and llama.cpp."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import draftscope as ds
from traces import Fate, check, dumps, loads

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
    assert accepted(trace) == [4, 3, 3, 3, 1, 1, 0, 0, 0]
    assert "The order of the passes is not known" in trace.note
    assert trace.extensions["vllm"] == {
        "spec_decode_num_drafts": 9, "spec_decode_num_draft_tokens": 36, "spec_decode_num_accepted_tokens": 15,
    }  # fmt: skip
    two = metrics(10, 40, 17, [7, 5, 4, 1]) + metrics(1, 4, 1, [1, 0, 0, 0])
    assert accepted(ds.from_vllm(two, "owner/large", speculative_tokens=4)).count(1) == 3


def test_the_histogram_of_a_request_to_sglang() -> None:
    trace = ds.from_sglang(response(**SPECULATED), "owner/large")
    check(trace)
    assert accepted(trace) == [4, 3, 2, 0]
    assert trace.config["speculative_tokens"] == 4
    assert trace.extensions["sglang"]["spec_accept_length"] == 3.5
    assert "The order of the passes is not known" in trace.note
    renamed = {
        "spec_verify_ct": 4, "spec_num_proposed_drafts": 16, "spec_num_correct_drafts": 9,
        "spec_correct_drafts_histogram": [1, 0, 1, 1, 1],
    }  # fmt: skip
    assert accepted(ds.from_sglang(response(**renamed), "owner/large")) == [4, 3, 2, 0]


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


TOTALS = {name: value for name, value in SPECULATED.items() if name != "spec_accept_histogram"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ds.from_vllm([], "a", speculative_tokens=4), "source: is empty"),
        (lambda: ds.from_vllm(outputs(), "a", speculative_tokens=3), "5 tokens came at once where a pass brings"),
        (lambda: ds.from_vllm(outputs(passes=(14,)), "a", speculative_tokens=4), "ask for SamplingParams"),
        (lambda: ds.from_vllm(outputs(), "a", speculative_tokens=4, cumulative=True), "leave out cumulative=True"),
        (lambda: ds.from_vllm(metrics(0, 0, 0, [0, 0]), "a", speculative_tokens=2), "engine that speculates"),
        (lambda: ds.from_sglang(response(), "a"), "give SGLang's speculative_num_steps"),
        (lambda: ds.from_sglang(response(**TOTALS), "a"), "only sums; give the responses of a stream"),
        (lambda: ds.from_sglang(response(**SPECULATED), "a", speculative_tokens=2), "is 2 where a pass accepted 4"),
        (
            lambda: ds.from_llama_cpp([{"content": "x"}], "a"),
            'no chunk has timings; give the chunks of a request with "s',
        ),
        (
            lambda: ds.from_llama_cpp(chunks()[-1:], "a"),
            "10 tokens came at once, 5 of them drafts that passed; give the",
        ),
        (lambda: ds.from_llama_cpp(chunks(draft_n=0), "a"), "drafts that passed; give the chunks"),
    ],
)
def test_what_cannot_be_told_is_refused_with_a_remedy(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()
