"""Sums of single requests and of counters, from what real servers of vLLM and SGLang printed."""

import json
from typing import Any

import pytest
from support.captured import (
    SGLANG_DETAILS,
    SGLANG_METRICS,
    VLLM_BY_LENGTH,
    VLLM_DETAILS,
    VLLM_METRICS,
    sglang_stream,
    vllm_stream,
)

import draftscope as ds
from draftscope.serving_formats import parsed
from draftscope.serving_sums import request_sums
from draftscope.traces import check
from draftscope.traces.schema import Sums


def test_the_counters_that_vllm_printed() -> None:
    """Twenty of the 24 drafts of eight passes were accepted; gauges of their beginning do not count."""
    trace = ds.from_vllm(VLLM_METRICS, "owner/large")
    check(trace)
    assert trace.sums == Sums(
        tokens=28, forwards=8, verifications=8, drafts=24, accepted=20, accepted_by_position=(7, 7, 6),
        judged_by_position=(8, 7, 7),
    )  # fmt: skip


def test_what_vllm_counted_for_a_request() -> None:
    stream = vllm_stream("Once ", "upon", metrics={"speculative_decoding": VLLM_DETAILS})
    trace = ds.from_vllm(stream, "owner/large")
    check(trace)
    sums = trace.sums
    assert sums is not None and (sums.forwards, sums.drafts, sums.accepted) == (33, 231, 168)
    assert sums.accepted_by_position == (31, 28, 26, 24, 20, 20, 19) and sums.judged_by_position[:2] == (33, 31)
    assert (trace.output.text, sums.tokens, trace.config["speculative_tokens"]) == ("Once upon", 2, 7)
    answer = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 200}}
    one = answer | {"metrics": {"speculative_decoding": VLLM_DETAILS, "tokens_per_second": 103.2}}
    other = answer | {"metrics": {"speculative_decoding": VLLM_BY_LENGTH}}
    both = ds.from_vllm("\n".join(map(json.dumps, (one, other))), "owner/large")
    assert (both.sums.forwards, both.sums.accepted, both.output.text) == (33 + 43, 168 + 10, None)
    assert both.sums.tokens == 33 + 168 + 43 + 10


def test_drafts_of_several_lengths_are_known_where_vllm_counts_by_length() -> None:
    """Five passes verified one draft, of which three held; two verified two, of which one lost its second."""
    details = {
        "acceptance_histogram": [2, 4, 1], "acceptance_histogram_by_draft_length": {"1": [2, 3], "2": [0, 1, 1]},
        "num_spec_steps": 7, "num_accepted_draft_tokens": 6, "num_draft_tokens": 9, "num_spec_tokens": 2,
    }  # fmt: skip
    sums = request_sums([{"metrics": {"speculative_decoding": details}}])
    assert sums is not None and (sums.accepted_by_position, sums.judged_by_position) == ((5, 1), (7, 2))
    del details["acceptance_histogram_by_draft_length"]
    assert request_sums([{"metrics": {"speculative_decoding": details}}]).judged_by_position == ()


def test_the_passes_of_a_request_to_vllm_in_detail() -> None:
    """The form of its documentation: no capture of both lists was found."""
    details = VLLM_BY_LENGTH | {"per_step_accepted": [0, 3, 1], "per_step_drafted": [3, 3, 2]}
    trace = ds.from_vllm(vllm_stream("a", "b", metrics={"speculative_decoding": details}), "owner/large")
    check(trace)
    assert [step.signals["accepted"] for step in trace.steps] == [0, 3, 1]
    assert [step.call.query_tokens for step in trace.steps] == [4, 4, 3]
    assert (trace.summary.forwards, trace.summary.tokens, trace.summary.complete) == (3, 7, True)


@pytest.mark.parametrize("form", ["sglext", "list", "meta_info", "choice"])
def test_what_sglang_counted_for_a_request(form: str) -> None:
    answer: dict[str, Any] = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}
    answer["usage"] = {"completion_tokens": 106}
    if form == "meta_info":
        answer = {"text": "x", "meta_info": SGLANG_DETAILS | {"completion_tokens": 106, "finish_reason": "stop"}}
    elif form == "choice":
        answer["choices"][0]["meta_info"] = SGLANG_DETAILS
    else:
        answer["sglext"] = {"spec_tokens_details": [SGLANG_DETAILS] if form == "list" else SGLANG_DETAILS}
    trace = ds.from_sglang(answer, "owner/large")
    check(trace)
    assert trace.sums == Sums(
        tokens=106, forwards=43, verifications=43, drafts=215, accepted=63, accepted_by_position=(32, 18, 7, 3, 3),
        judged_by_position=(43, 32, 18, 7, 3),
    )  # fmt: skip
    assert (trace.output.text, trace.extensions["sglang"]["spec_accept_length"]) == ("x", 2.4651162790697674)


def test_a_chat_stream_of_sglang_has_its_counts_in_the_last_chunk() -> None:
    trace = ds.from_sglang(sglang_stream("Once ", "upon"), "owner/large")
    assert (trace.output.text, trace.sums.tokens, trace.sums.accepted) == ("Once upon", 106, 63)
    assert request_sums(parsed(sglang_stream("x"))).accepted_by_position == (32, 18, 7, 3, 3)


def test_the_counters_that_sglang_printed() -> None:
    """147,139 tokens of 182 requests, whose first came with the prompt, in 22,603 verifications of 7 drafts."""
    trace = ds.from_sglang(SGLANG_METRICS, "owner/large")
    check(trace)
    accepted = 147139 - 182 - 22603
    assert trace.sums == Sums(
        tokens=22603 + accepted, forwards=22603, verifications=22603, drafts=7 * 22603, accepted=accepted
    )
    assert "drafts are taken to have the present length" in trace.note and "nothing is known of positions" in trace.note
    before = SGLANG_METRICS.replace("22603.0", "22600.0").replace("146347.0", "146331.0").replace("173.0", "172.0")
    later = ds.from_sglang(SGLANG_METRICS, "owner/large", before=before)
    assert (later.sums.forwards, later.sums.accepted, later.sums.drafts) == (3, 12, 21)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sglang:spec_accept_length 2.1", "are means of the last moments, and count nothing .found: 'sglang:spec_acc"),
        (SGLANG_METRICS.replace("22603.0", "0.0"), "counts 0 verifications"),
        (SGLANG_METRICS.replace("} 8.0", "} 4.0"), "3 drafts of a pass; give the metrics of an engine whose draft"),
        (SGLANG_METRICS.replace("} 8.0", "} NaN"), "-1 drafts of a pass"),
    ],
)
def test_counters_of_sglang_that_tell_too_little_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ds.from_sglang(text, "owner/large")


def test_a_request_without_drafts_has_no_sums() -> None:
    assert request_sums(parsed(vllm_stream("x", metrics=None))) is None
    assert request_sums([{"timings": {"predicted_n": 4, "draft_n": 2, "draft_n_accepted": 1}}]).forwards == 3
