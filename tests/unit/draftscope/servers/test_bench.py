"""Measurements of running servers: the real one of llama.cpp, and fakes that answer as others do."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fake_server import BAD, fake_server

import draftscope as ds
from draftscope.certificates.known_model import write_checkpoints
from draftscope.cli.main import main
from draftscope.recommendations import opened_tradeoffs
from draftscope.servers.client import ServerError
from draftscope.servers.llama_cpp import llama_cpp_server
from draftscope.servers.served_result import ServedResult
from draftscope.traces import check

PROMPTS = [{"prompt": "abcdabcdab", "category": "x"}, {"turns": ["hgfe", "ab"], "category": "y"}]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Addresses of a plain server and of one with a drafter."""
    pytest.importorskip("xllamacpp", reason="llama.cpp's server is not installed: pip install xllamacpp")
    folder = tmp_path_factory.mktemp("known")
    write_checkpoints(folder)
    model, draft = folder / "target.gguf", folder / "draft.gguf"
    with llama_cpp_server(model) as plain, llama_cpp_server(model, speculation="draft", draft=draft) as drafting:
        yield plain, drafting


@pytest.mark.slow
def test_the_real_server_next_to_a_plain_one(servers: tuple[str, str], tmp_path: Path) -> None:
    plain, drafting = servers
    result = ds.bench_server(f"{drafting}/v1", PROMPTS, baseline=plain, length=20, repeats=2)
    ordinary, server = result.table()
    assert (ordinary["label"], server["label"]) == ("ordinary", "server")
    assert ordinary["requests"] == server["requests"] == 3 * 2
    assert ordinary["tokens_per_pass"] == 1 and server["tokens_per_pass"] > 1
    assert ordinary["acceptance"] is None and 0 < server["acceptance"] < 1
    assert server["same"] == (3, 3)
    assert 0 < server["first_token_seconds"] < 5 and server["token_seconds"] > 0
    rates = server["acceptance_by_position"]
    assert len(rates) == 4 and sorted(rates, reverse=True) == rates
    assert result.sums["server"].accepted == sum(
        one.answer.accepted for one in result.measured if one.server == "server"
    )
    (trace,) = result.traces
    check(trace)
    assert trace.method == "llamacpp" and ds.figure("by-place", trace).data
    assert result.suggestion["present_drafts"] == 4 and result.suggestion["speed_with_free_drafts"] > 1
    result.write(tmp_path / "bench.json")
    (tradeoff,) = opened_tradeoffs((tmp_path / "bench.json").read_bytes())
    assert (tradeoff.change, tradeoff.quality) == (0, "texts of the baseline, 3 problems")
    words = result.markdown()
    assert "| Times as fast | x | y |" in words and "Measured with 4 drafts" in words


@pytest.mark.slow
@pytest.mark.parametrize("route", ["chat", "completions", "native"])
def test_all_routes_and_several_requests_at_a_time(servers: tuple[str, str], route: str) -> None:
    result = ds.bench_server(servers[1], ["abcd", "hgfe", "aabb"], length=12, concurrency=3, route=route, warmup=0)
    assert [one.answer.tokens for one in result.measured] == [12] * 3
    assert all(one.answer.drafted and one.answer.finish in ("length", "limit") for one in result.measured)
    assert {one.problem for one in result.measured} == {0, 1, 2}
    assert result.suggestion is None and result.table()[0]["speed"] is None


@pytest.mark.slow
def test_a_stream_of_the_real_server_is_a_trace(servers: tuple[str, str]) -> None:
    import httpx

    body = {"prompt": "abcdabcdab", "n_predict": 30, "stream": True, "timings_per_token": True, "return_tokens": True}
    text = httpx.post(f"{servers[1]}/completion", json=body).text
    trace = ds.from_llama_cpp(text, "known")
    assert trace.summary.tokens == 30 and trace.summary.complete and len(trace.output.tokens) == 30
    assert 0 < trace.summary.accepted == 30 - trace.summary.forwards


@pytest.mark.slow
def test_the_command(servers: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, PROMPTS)))
    output = str(tmp_path / "b.json")
    arguments = ["bench", "--server", servers[1], "--prompts", str(tmp_path / "p.jsonl"), "--set", "length=8"]
    assert main([*arguments, "--no-chat", "--limit", "1", "-o", output]) == 0
    assert capsys.readouterr().out.startswith("| Server | Tokens per target pass |")
    written = json.loads(Path(output).read_text())
    assert written["about"]["servers"]["server"]["route"] == "completions"
    assert written["about"]["servers"]["server"]["fields"] == {"temperature": 0, "seed": 0}
    assert len(written["requests"]) == 1 and "api" not in output
    assert main(["bench", "--server", servers[1], "--target", "x", "--prompts", "p"]) == 2
    assert "give either --target ID or --server URL" in capsys.readouterr().err


def test_an_engine_that_counts_for_all_requests_together() -> None:
    with fake_server() as url:
        result = ds.bench_server(url, ["a", "b"], warmup=1)
    (line,) = result.table()
    assert (line["tokens"], line["tokens_per_pass"], line["acceptance_by_position"]) == (4, 2, [1])
    assert result.sums["server"].drafts == 18 and result.measured[0].answer.accepted is None
    assert result.measured[0].answer.text == "Once upon" and result.rows[0].forwards == 2


def test_a_request_that_fails_leaves_the_other_rows() -> None:
    with fake_server("answer", "answer", "die", "answer", "html") as url:
        result = ds.bench_server(url, ["a", "b", "c", "d"])
    assert [one.problem for one in result.measured] == [0, 2]
    assert ["closed the connection in the middle" in result.failed[0], "answers with HTML" in result.failed[1]] == [
        True
    ] * 2
    assert "Failed: http://127.0.0.1" in result.markdown()


def test_a_server_that_refuses_everything_is_one_sentence() -> None:
    with fake_server(*["busy"] * 9) as url:
        with pytest.raises(ServerError, match=r"limits requests \(429: Too many requests\)"):
            ds.bench_server(url, ["a", "b"])
        with pytest.raises(ServerError, match=r"limits requests \(429: Too many requests\)"):
            ds.bench_server(url, ["a"] * 9, warmup=0)
    with pytest.raises(ServerError, match="does not answer"):
        ds.bench_server("http://127.0.0.1:9", ["a"])


def test_what_sglang_counts_in_its_answers_has_positions() -> None:
    with fake_server(kind="sglang") as url:
        result = ds.bench_server(url, ["a", "b"], warmup=0)
    (line,) = result.table()
    assert line["tokens_per_pass"] == pytest.approx(106 / (106 - 63)) and line["acceptance"] == pytest.approx(63 / 215)
    assert line["acceptance_by_position"] == pytest.approx([32 / 43, 18 / 43, 7 / 43, 3 / 43, 3 / 43])
    assert result.traces[0].sums.drafts == 430 and result.rows[0].forwards == 43


def test_thoughts_of_vllm_are_part_of_the_text() -> None:
    with fake_server("thoughts") as url:
        result = ds.bench_server(url, ["a"], warmup=0)
    assert result.measured[0].answer.text == "Hm. Once upon"


@pytest.mark.parametrize("behaviour", [*BAD, "die", "numbers"])
def test_every_bad_answer_is_one_sentence_and_leaves_the_rows_before_it(behaviour: str) -> None:
    words = BAD[behaviour][2] if behaviour in BAD else "in the middle|in a form that is not known .invalid literal"
    with fake_server("answer", *[behaviour] * 6) as url:
        result = ds.bench_server(url, list("abcdef"), warmup=0)
    assert [one.problem for one in result.measured] == [0] and len(result.failed) == 4
    assert all(re.search(words, problem) and problem.endswith(".") for problem in result.failed[:3])
    assert result.failed[3] == "server: 2 prompts were left out after 3 failures in a row."
    assert "Failed, 3 times: http" in result.markdown() and "\n" not in "".join(result.failed)


def test_ctrl_c_keeps_the_answers_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def stop(*_: Any) -> Any:
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return answer(*_)

    from draftscope.servers import bench

    answer = bench._Measuring._converse
    monkeypatch.setattr(bench._Measuring, "_converse", stop)
    with fake_server() as url:
        result = ds.bench_server(url, ["a", "b", "c", "d"])
    assert result.interrupted and len(result.measured) == 2
    assert "Interrupted; the rows are those that came" in result.markdown()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"length": 0}, "length: 0 is not allowed"),
        ({"concurrency": 0}, "concurrency: 0 is not allowed"),
        ({"route": "native"}, "vllm has no native route that is known"),
        ({"prompts": []}, "prompts: there are none"),
        ({"prompts": [{"messages": [{"role": "user", "content": "a"}]}], "route": "completions"}, "need a chat route"),
    ],
)
def test_wrong_options_are_one_sentence(options: dict[str, Any], words: str) -> None:
    with fake_server() as url, pytest.raises(ValueError, match=words):
        ds.bench_server(url, options.pop("prompts", ["a"]), **options)
    with pytest.raises(TypeError, match="speed: is not an option of bench_server"):
        ds.bench_server("http://x", ["a"], speed=1)


def test_the_suggested_length_weighs_cost_against_yield(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass with 4 drafts costs 1.5 passes; the first draft is accepted in 8 of 10 passes, the others never."""
    result = ServedResult({})
    lines = [
        {"label": "ordinary", "tokens_per_pass": 1.0, "speed": None, "acceptance_by_position": []},
        {"label": "server", "tokens_per_pass": 1.8, "speed": 1.2, "acceptance_by_position": [0.8, 0, 0, 0]},
    ]
    monkeypatch.setattr(ServedResult, "table", lambda _: lines)
    found = result.suggestion
    assert found["pass_cost"] == pytest.approx(1.5)
    assert (found["drafts"], found["computed_speed"]) == (1, pytest.approx(1.8 / 1.125))
    assert found["present_computed_speed"] == pytest.approx(1.2)
