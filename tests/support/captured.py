"""Output of real servers, as published, with its sources.

Numbers and names of fields are those of the captures; words of answers and ids are replaced, and lines without
drafts left out.
"""

import json
from typing import Any, Final

VLLM_METRICS: Final = """\
# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="qwen3.8-flash-next"} 26.0
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="qwen3.8-flash-next"} 8.0
# HELP vllm:spec_decode_num_drafts_created Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0",model_name="qwen3.8-flash-next"} 1.7895190795056555e+09
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="qwen3.8-flash-next"} 24.0
# TYPE vllm:spec_decode_num_draft_tokens_created gauge
vllm:spec_decode_num_draft_tokens_created{engine="0",model_name="qwen3.8-flash-next"} 1.7895190795062702e+09
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="qwen3.8-flash-next"} 20.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="qwen3.8-flash-next",position="0"} 7.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="qwen3.8-flash-next",position="1"} 7.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="qwen3.8-flash-next",position="2"} 6.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_created gauge
vllm:spec_decode_num_accepted_tokens_per_pos_created{engine="0",model_name="qwen3.8-flash-next",position="0"} 1.78e+09
"""
"""vLLM 0.29.1rc1: evanwtf/llm-metrics-exporter, testdata/vllm; lines in the form of vllm-project/vllm#41916."""

VLLM_DETAILS: Final[dict[str, Any]] = {
    "mean_acceptance_length": 6.0909, "draft_acceptance_rate": 0.7273,
    "acceptance_histogram": [2, 3, 2, 2, 4, 0, 1, 19],
    "num_spec_steps": 33, "num_accepted_draft_tokens": 168, "num_draft_tokens": 231, "num_spec_tokens": 7,
}  # fmt: skip
"""`metrics.speculative_decoding` of a chat answer of 200 tokens: syv-ai/qwen38-27b-rtx3090#66, with vLLM after 0.28."""

VLLM_BY_LENGTH: Final[dict[str, Any]] = {
    "mean_acceptance_length": 1.2325581395348837, "draft_acceptance_rate": 0.07751937984496124,
    "acceptance_histogram": [39, 1, 0, 3], "acceptance_histogram_by_draft_length": {"3": [39, 1, 0, 3]},
    "num_spec_steps": 43, "num_accepted_draft_tokens": 10, "num_draft_tokens": 129, "num_spec_tokens": 3,
}  # fmt: skip
"""Such details with counts by draft length: vllm-project/vllm#48915 and docs/features/speculative_decoding there."""


def vllm_stream(*words: str, reasoning: str = "", **last: Any) -> str:
    """Return a chat stream of vLLM with these words, and further fields of its last chunk.

    As captured from 0.23.0 (system_fingerprint vllm-0.23.0-tp2-39ad13f9).
    """
    head = {"id": "chatcmpl-84fcf3946abda724", "object": "chat.completion.chunk", "created": 1781964066, "model": "m"}

    def choice(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, **more}

    first = choice({"role": "assistant", "content": ""})
    thought = [choice({"reasoning": reasoning}, token_ids=None)] if reasoning else []
    middle = [choice({"content": word}, token_ids=None) for word in words]
    end = choice({"content": ""}, "stop", stop_reason=50, token_ids=None)
    chunks: list[dict[str, Any]] = [{**head, "choices": [first], "prompt_token_ids": None, "prompt_text": None}]
    chunks += [{**head, "choices": [each]} for each in (*thought, *middle, end)]
    number = len(words) + bool(reasoning)
    usage = {"prompt_tokens": 5268, "total_tokens": 5268 + number, "completion_tokens": number}
    chunks.append({**head, "choices": [], "usage": usage, "system_fingerprint": "vllm-0.23.0-tp2-39ad13f9", **last})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


SGLANG_METRICS: Final = """\
# HELP sglang:generation_tokens_total Number of generation tokens processed.
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{engine_type="unified",is_streaming="false",model_name="MiMo-v2.6-Flash"} 792.0
sglang:generation_tokens_total{engine_type="unified",is_streaming="true",model_name="MiMo-v2.6-Flash"} 146347.0
# HELP sglang:spec_verify_calls_total Number of speculative decoding verification calls.
# TYPE sglang:spec_verify_calls_total counter
sglang:spec_verify_calls_total{engine_type="unified",model_name="MiMo-v2.6-Flash"} 22603.0
# HELP sglang:num_requests_total Number of requests processed.
# TYPE sglang:num_requests_total counter
sglang:num_requests_total{engine_type="unified",is_streaming="false",model_name="MiMo-v2.6-Flash"} 9.0
sglang:num_requests_total{engine_type="unified",is_streaming="true",model_name="MiMo-v2.6-Flash"} 173.0
# TYPE sglang:spec_accept_length gauge
sglang:spec_accept_length{engine_type="unified",model_name="MiMo-v2.6-Flash",pp_rank="0",tp_rank="0"} 7.95
# TYPE sglang:spec_accept_rate gauge
sglang:spec_accept_rate{engine_type="unified",model_name="MiMo-v2.6-Flash",pp_rank="0",tp_rank="0"} 0.99
# TYPE sglang:spec_num_steps gauge
sglang:spec_num_steps{engine_type="unified",model_name="MiMo-v2.6-Flash",pp_rank="0",tp_rank="0"} 1.0
# TYPE sglang:spec_num_draft_tokens gauge
sglang:spec_num_draft_tokens{engine_type="unified",model_name="MiMo-v2.6-Flash",pp_rank="0",tp_rank="0"} 8.0
# TYPE sglang:fwd_occupancy gauge
sglang:fwd_occupancy{engine_type="unified",model_name="MiMo-v2.6-Flash",pp_rank="0",tp_rank="0"} NaN
"""
"""SGLang, nightly image of 21 September 2026, without one label: evanwtf/llm-metrics-exporter, testdata/sglang."""

SGLANG_DETAILS: Final[dict[str, Any]] = {
    "spec_accept_rate": 0.2930232558139535, "spec_accept_length": 2.4651162790697674, "spec_num_correct_drafts": 63,
    "spec_num_proposed_drafts": 215, "spec_verify_ct": 43, "spec_correct_drafts_histogram": [11, 14, 11, 4, 0, 3],
}  # fmt: skip
"""`sglext.spec_tokens_details` of a chat answer of 106 tokens: sgl-project/sglang#33518."""


def sglang_stream(*words: str, tokens: int = 106) -> str:
    """Return a chat stream of SGLang, whose details come in a last chunk (sgl-project/sglang#31633, #33518)."""
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1786000000, "model": "m"}
    chunks: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]} for word in words
    ]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "matched_stop": None}]})
    usage = {"prompt_tokens": 12, "completion_tokens": tokens, "total_tokens": 12 + tokens}
    chunks += [{**head, "choices": [], "usage": usage}]
    chunks += [{**head, "choices": [], "sglext": {"spec_tokens_details": SGLANG_DETAILS}}]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
