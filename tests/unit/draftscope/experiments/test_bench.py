"""`draftscope bench`: what it measures is what the runs are, tables are whole, and bad input is one sentence."""

import json
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from support.tiny_llama import Letters, greedy, llama, noisy
from support.tiny_text_checkpoints import write

import draftscope as ds
from draftscope.cli.main import main
from draftscope.demo.components.context import Site
from draftscope.demo.pages.choose import ChoosePage
from draftscope.demo.server.sessions import CurrentTraces, Visitors
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.experiments.bench_result import BenchResult
from draftscope.experiments.prompt_files import read_prompts
from draftscope.recommendations import opened_tradeoffs
from draftscope.visualizers import SweepError

TEXTS = ["59B5", "1234AB12"]
LABELS = [
    "ordinary",
    "speculative, the drafter, gamma 2",
    "speculative, the drafter, gamma 3",
    "speculative, lookup, gamma 2",
    "speculative, lookup, gamma 3",
    "generate",
    "generate, assisted",
    "generate, lookup, gamma 2",
    "generate, lookup, gamma 3",
]


@pytest.fixture(scope="module")
def bench_result() -> BenchResult:
    target = llama()
    return ds.bench(target, TEXTS, draft=noisy(target, 0.05), gammas=(2, 3), tokenizer=Letters(), length=16, repeats=2)


def test_every_way_decodes_the_same_greedy_tokens_and_is_counted_as_its_run_is(bench_result: BenchResult) -> None:
    lines = {line["label"]: line for line in bench_result.table()}
    assert list(lines) == LABELS and bench_result.same == dict.fromkeys(LABELS, len(TEXTS))
    target = llama()
    for drafter in ({"drafter": "small", "draft": noisy(target, 0.05)}, {"drafter": "lookup"}):
        label = f"speculative, {'the drafter' if 'draft' in drafter else 'lookup'}, gamma 3"
        rows = [row for row in bench_result.rows if row.label == label]
        about: dict[str, Any] = {"target": target, "tokenizer": Letters(), "gamma": 3, "length": 16, "top_k": 1}
        traces = [ds.run("speculative", prompt=text, **about, **drafter) for text in TEXTS]
        assert [row.forwards for row in rows] == [trace.summary.forwards for trace in traces]
        judged = sum(trace.summary.judged for trace in traces)
        assert lines[label]["acceptance"] == sum(trace.summary.accepted for trace in traces) / judged
        targets = sum(step.call.role == "target" for trace in traces for step in trace.steps)
        assert lines[label]["tokens_per_pass"] == 32 / targets
    assert lines["generate"]["tokens_per_pass"] == 1 and lines["ordinary"]["speed"] == 1
    assert all(row.seconds > 0 and row.tokens == 16 for row in bench_result.rows)


def test_the_passes_of_generate_are_those_that_its_record_has(bench_result: BenchResult) -> None:
    target = llama()
    draft = noisy(target, 0.05)
    ids = Letters()(TEXTS[0])["input_ids"]
    with ds.record(target, draft) as recording:
        greedy(target, ids, 16, assistant_model=draft)
    passes = recording.trace().steps
    row = next(row for row in bench_result.rows if row.label == "generate, assisted")
    assert (row.forwards, row.draft_forwards) == (len(passes), sum(step.call.role == "draft" for step in passes))
    assert row.query_tokens == sum(step.call.query_tokens for step in passes)
    assert not target._forward_hooks and not draft._forward_hooks


def test_drawn_tokens_follow_the_temperature_and_are_not_compared() -> None:
    result = ds.bench(llama(), TEXTS[:1], tokenizer=Letters(), length=8, temperature=0.5)
    assert result.same == {} and all(line["same"] is None for line in result.table())
    assert {row.config["temperature"] for row in result.rows} == {0.5}
    assert {row.config["top_k"] for row in result.rows} == {0}


def test_tables_are_markdown_and_booktabs(bench_result: BenchResult) -> None:
    lines = bench_result.markdown().splitlines()
    assert {line.count("|") for line in lines[: len(LABELS) + 2]} == {8}
    assert lines[-1].startswith("With the drafter, ") and "With lookup, " in lines[-1]
    latex = bench_result.latex().splitlines()
    assert latex[0] == r"\begin{tabular}{lrrrrrr}" and latex[-1] == r"\end{tabular}"
    assert [latex[1], latex[3], latex[-2]] == [r"\toprule", r"\midrule", r"\bottomrule"]
    assert all(line.endswith(r" \\") and line.count(" & ") == 6 for line in (latex[2], *latex[4:-2]))


def test_which_one_opens_the_results(bench_result: BenchResult, tmp_path: Path) -> None:
    bench_result.write(tmp_path / "bench.json")
    data = (tmp_path / "bench.json").read_bytes()
    ours = [label for label in LABELS if label.startswith("speculative")]
    found = {one.setting: one for one in opened_tradeoffs(data)}
    assert list(found) == ours, "what generate does is proved by no test here"
    speeds = {line["label"]: line["speed"] for line in bench_result.table()}
    assert all(found[label].speed == pytest.approx(speeds[label]) and found[label].exact for label in ours)
    with gr.Blocks():
        which = ChoosePage(Site(Visitors(), gr.State(CurrentTraces()), gr.Textbox(visible=False)))
    values: dict[Any, Any] = {each: each.value for each in which.inputs if hasattr(each, "value")}
    values |= {which.uploaded: (), which.upload: data, which.site.look: "light"}
    shown = which.open(values, gr.Request())
    assert shown[which.uploaded] and "text" in shown[which.answer]
    assert {each["title"].partition(" with ")[2] for each in shown[which.points]} <= {
        *ours,
        *(o.partition(", ")[2] for o in ours),
    }
    bad = which.open({**values, which.upload: b'{"rows": []}'}, gr.Request())
    assert list(bad) == [which.problem] and bad[which.problem]["kind"] == "error"
    with pytest.raises(SweepError, match="labelled 'ordinary'"):
        opened_tradeoffs(json.dumps([{**json.loads(data)["rows"][0], "label": "mine"}]).encode())


@pytest.mark.slow
def test_folders_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, draft = write(tmp_path / "large", "llama"), write(tmp_path / "little", "llama")
    prompts = tmp_path / "question.jsonl"
    mt_bench = {"question_id": 81, "category": "writing", "turns": ["a hero", "and then?"]}
    prompts.write_text(f'{json.dumps(mt_bench)}\n\n{{"prompt": "a boot"}}\n"a dress"\n')
    assert [each.questions for each in read_prompts(prompts)] == [("a hero", "and then?"), ("a boot",), ("a dress",)]
    command = ["bench", "--target", str(target), "--drafter", str(draft), "--prompts", str(prompts), "--limit", "2"]
    output = tmp_path / "out.json"
    assert main([*command, "--draft-length", "2", "--set", "length=8", "--table", "latex", "-o", str(output)]) == 0
    assert capsys.readouterr().out.startswith(r"\begin{tabular}")
    written = json.loads(output.read_text())
    assert len(written["rows"]) == 3 * 6 and written["about"]["libraries"]["torch"]
    assert [line["same"] for line in written["table"][:3]] == [3] * 3


@pytest.mark.slow
def test_a_turn_stands_behind_the_answers_of_ordinary_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, requests = write(tmp_path / "target", "llama"), list[Any]()
    job = RunRequest.job
    monkeypatch.setattr(RunRequest, "job", lambda request: (requests.append(request), job(request))[1])
    result = ds.bench(str(target), [["a hero", "a boot"]], length=8)
    messages = [request.messages for request in requests if request.messages]
    answer = ds.run("ar", model=str(target), prompt="a hero", length=8, top_k=1).output.text
    roles, words = zip(*((turn["role"], turn["content"]) for turn in messages[0]), strict=True)
    assert (roles, words) == (("user", "assistant", "user"), ("a hero", answer, "a boot"))
    assert all(turns == messages[0] for turns in messages) and {row.problem for row in result.rows} == {0, 1}


@pytest.mark.parametrize(
    ("content", "arguments", "sentence"),
    [
        (None, [], "prompts: '{file}' cannot be read (No such file or directory); give a file of JSON lines."),
        ("", [], "prompts: '{file}' holds none; give one object a line."),
        ('{"prompt": "a"}\nhello\n', [], "prompts: '{file}', line 2 is not JSON"),
        (
            '{"turns": []}\n',
            [],
            "prompts: '{file}', line 1 has [] as 'turns'; give a text as 'prompt' or 'question', texts as 'turns'",
        ),
        ('"a"\n', ["--draft-length", "0"], "gammas: 0 is not allowed; use a whole number from 1."),
        ('"a"\n', ["--set", "width=3"], "width: no such setting; there are temperature"),
        ('"a"\n', ["--target", "none-such"], "model: there is no 'none-such'"),
        ('"a"\n', ["--target", "ck/nope"], "ck/nope: is neither a folder nor in the hub's cache."),
        ('"a"\n', ["--target", "text-target"], "target: text-target is not a causal language model; give one that"),
        ('"a"\n', ["--target", "toy-raster"], "target: toy-raster is not a causal language model; give one that"),
    ],
)
def test_bad_input_is_one_sentence(
    content: str | None, arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.jsonl"
    if content is not None:
        file.write_text(content)
    assert main(["bench", "--target", "toy-raster", "--prompts", str(file), *arguments]) in (2, 3)
    output = capsys.readouterr()
    assert output.err.startswith(f"draftscope bench: {sentence.format(file=file)}") and output.out == ""
    assert len(output.err.splitlines()) == 1
