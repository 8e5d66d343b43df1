"""Acceptance in files: results of bench, of a server's bench, logs and metrics of engines, traces, and other files."""

import gzip
import json
import re
from typing import Any

import pytest

import draftscope as ds
from draftscope.acceptance_files import opened_acceptance
from draftscope.analysis.break_even import tokens_of
from draftscope.traces.files import ROOT

METRICS = """# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0"} 1300.0
vllm:spec_decode_num_draft_tokens_total{engine="0"} 5200.0
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 2600.0
""" + "".join(
    f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="{at}"}} {count}\n'
    for at, count in enumerate((1000, 800, 500, 300))
)
RUN = ROOT / "assets" / "traces" / "speculative-smollm2.json.gz"


def response(drafted: int, accepted: int, tokens: int) -> dict[str, Any]:
    """A response of llama.cpp's server."""
    timings = {"predicted_n": tokens, "draft_n": drafted, "draft_n_accepted": accepted, "predicted_ms": 9.0}
    return {"content": "a", "stop": True, "timings": timings}


def served(requests: list[tuple[str, int, int]]) -> dict[str, Any]:
    """A result of `draftscope bench --server`: kinds, accepted of 40 drafts, and tokens."""
    answers = [
        {
            "server": server,
            "problem": at,
            "category": kind,
            "answer": {"tokens": n, "drafted": 40, "accepted": accepted},
        }
        for at, (kind, accepted, n) in enumerate(requests)
        for server in ("ordinary", "server")
    ]
    about = {"servers": {"server": {"kind": "llama.cpp", "model": "m"}}}
    return {"title": "draftscope bench", "about": about, "table": [], "rows": [], "sums": {}, "requests": answers}


def test_metrics_count_verdicts_up_to_the_first_rejection() -> None:
    (found,) = opened_acceptance(METRICS.encode())
    (rate,) = found.rates
    assert found.source == "vLLM's /metrics" and (rate.drafts, rate.prompts) == (1300 + 1000 + 800 + 500, 1)
    assert rate.rate == 2600 / 3600 and rate.high - rate.low < 0.03
    (zipped,) = opened_acceptance(gzip.compress(METRICS.encode()))
    assert zipped == found


def test_responses_of_a_log_are_prompts_whose_rate_follows_from_their_lengths() -> None:
    lines = [response(40, accepted, 10 + accepted) for accepted in (20, 22, 18, 24)]
    (found,) = opened_acceptance("\n".join(map(json.dumps, lines)).encode())
    (rate,) = found.rates
    assert found.source == "a log of llama.cpp" and rate.prompts == 4
    assert tokens_of(rate.rate, 4) == pytest.approx(1 + 84 / 40)  # 40 passes with 4 drafts each
    assert rate.low < rate.rate < rate.high


def test_a_servers_bench_has_kinds_or_its_counters_alone() -> None:
    kinds = [("code", 30, 40), ("code", 32, 42), ("story", 10, 20), ("story", 12, 22)]
    (found,) = opened_acceptance(json.dumps(served(kinds)).encode())
    assert found.source == "bench of llama.cpp" and [rate.kind for rate in found.rates] == ["", "code", "story"]
    assert found.rates[1].rate > found.rates[0].rate > found.rates[2].rate
    positions = {"accepted_by_position": [60, 30], "verifications": 100, "drafts": 200, "accepted": 90, "forwards": 100}
    counted = {**served([]), "sums": {"server": positions}}
    (sums,) = opened_acceptance(json.dumps(counted).encode())
    assert (sums.rates[0].rate, sums.rates[0].drafts) == (90 / 160, 160)


def test_a_trace_counts_its_passes_as_prompts() -> None:
    (found,) = opened_acceptance(RUN.read_bytes())
    trace = ds.read(RUN)
    tally = trace.summary.acceptance
    assert found.rates[0].rate == pytest.approx(tally) and found.rates[0].prompts > 1
    assert found.source == "the run Speculative decoding on llama: smollm2, seed 17"


VLLM_LOG = """INFO 11-28 10:00:00 [loggers.py:123] Engine 000: Avg generation throughput: 10.0 tokens/s
INFO 11-28 10:00:00 [metrics.py:96] SpecDecoding metrics: Mean acceptance length: 2.30, Accepted throughput: 13.00 \
tokens/s, Drafted throughput: 20.00 tokens/s, Accepted: 130 tokens, Drafted: 200 tokens, Per-position acceptance rate: \
0.800, 0.500, Avg Draft acceptance rate: 65.0%
INFO 11-28 10:00:10 [metrics.py:96] SpecDecoding metrics: Mean acceptance length: 2.10, Accepted throughput: 11.00 \
tokens/s, Drafted throughput: 20.00 tokens/s, Accepted: 110 tokens, Drafted: 200 tokens, Per-position acceptance rate: \
0.700, 0.400, Avg Draft acceptance rate: 55.0%
"""
LLAMA_CPP_LOG = """slot print_timing: id  1 | task 0 | prompt eval time =     300.11 ms /    20 tokens
slot print_timing: id  1 | task 0 |        eval time =    2296.72 ms /    90 tokens (    8.97 ms per token)
slot print_timing: id  1 | task 0 | draft acceptance = 0.66667 (   60 accepted /    90 generated), mean len =  3.00
slot print_timing: id  1 | task 1 | prompt eval time =     300.11 ms /    20 tokens
       eval time =    2296.72 ms /    70 tokens (    8.97 ms per token,   111.46 tokens per second)
draft acceptance rate = 0.44444 (   40 accepted /    90 generated)
"""


def test_a_text_log_of_an_engine_is_read() -> None:
    (found,) = opened_acceptance(VLLM_LOG.encode())
    (rate,) = found.rates
    assert found.source == "a log of vLLM" and (rate.prompts, rate.drafts) == (
        2,
        350,
    )  # 100 passes each, and 150 drafts
    assert rate.rate == pytest.approx(240 / 350) and rate.low < rate.rate < rate.high
    (shorter,) = opened_acceptance(re.sub(", Per-position[^\n]*", "", VLLM_LOG).encode())
    assert tokens_of(shorter.rates[0].rate, 2) == pytest.approx(2.2)  # tokens in each of 200 passes with two drafts
    (found,) = opened_acceptance(LLAMA_CPP_LOG.encode())
    assert found.source == "a log of llama.cpp" and found.rates[0].prompts == 2
    assert tokens_of(found.rates[0].rate, 3) == pytest.approx(1 + 100 / 60)  # 30 passes each, with three drafts
    quoting = {**response(40, 20, 30), "content": VLLM_LOG}  # a model wrote it
    assert opened_acceptance(json.dumps(quoting).encode())[0].source == "a log of llama.cpp"
    with pytest.raises(ValueError, match="no draft was verified"):
        opened_acceptance(VLLM_LOG.replace("130", "0").replace("110", "0").replace("200", "0").encode())


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "file: is empty; give a result of draftscope bench"),
        (b"PK\x03\x04", "file: is of no known form"),
        (b"{" * 100_000, "file: is of no known form"),
        (b'{"schema": "draftscope-trace"}', "version: is missing"),
        (b'{"rows": 3}', "rows: no list of results is given"),
        (json.dumps({**served([]), "requests": {"a": 1}}).encode(), "file: no draft was verified in it"),
        (
            json.dumps({**served([]), "sums": {"server": {"drafts": -3, "accepted": "9"}}}).encode(),
            "file: no draft was",
        ),
        (b"vllm:spec_decode_num_drafts_total 0\n", "source: counts 0 drafts"),
        (gzip.compress(b"x", mtime=0)[:-3], "file: "),
        (RUN.with_name("ar-smollm2.json.gz").read_bytes(), "file: no draft was verified in it"),
    ],
)
def test_what_has_no_acceptance_is_refused_in_one_sentence(data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)) as caught:
        opened_acceptance(data)
    assert str(caught.value).startswith(problem) and "\n" not in str(caught.value)
