"""`draftscope diff` on real engines: transformers, llama.cpp's server, traces and files."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from support.fake_server import fake_server

import draftscope as ds
from draftscope.analysis.divergence_files import read_divergence
from draftscope.analysis.divergences import GreedyText
from draftscope.certificates.known_model import LETTERS, network, to_ids, write_checkpoints
from draftscope.cli.main import main
from draftscope.diffing import Diff
from draftscope.servers.client import ServerError
from draftscope.servers.llama_cpp import llama_cpp_server

_RNG = np.random.default_rng(0)
IDS = torch.tensor([to_ids("abcdabcd")])
PROMPTS = ["".join(LETTERS[i] for i in _RNG.integers(0, len(LETTERS), 12)) for _ in range(8)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("known")
    write_checkpoints(path)
    return path


@pytest.mark.slow
def test_lookup_in_float32_gives_the_same_texts_and_bfloat16_differs_by_rounding(folder: Path, tmp_path: Path) -> None:
    target = folder / "target"
    found = ds.diff(target, target, PROMPTS, length=32, fields_b={"prompt_lookup_num_tokens": 4})
    assert found.divergence.worst == "same" and found.divergence.missing == (0, 0)
    assert len(found.divergence.noise) == 8 * 32 and found.divergence.bound < 1e-4
    rounded = ds.diff(target, target, PROMPTS, length=32, fields_b={"dtype": "bfloat16"})
    assert rounded.divergence.bound > 0.02 and rounded.divergence.splits
    assert {split.verdict for split in rounded.divergence.splits} <= {"tie", "unclear"}
    rounded.write(tmp_path / "d.html")
    page = (tmp_path / "d.html").read_text()
    assert page.count("<mark>") == 2 * len(rounded.divergence.splits) and page.count("<figure") == 2
    rounded.write(tmp_path / "d.json")
    again = ds.diff(tmp_path / "d.json", [{"tokens": each.tokens} for each in rounded.a])
    assert again.divergence.worst == "same"


@pytest.mark.slow
def test_the_real_server_next_to_itself_with_drafts_and_to_transformers(folder: Path) -> None:
    pytest.importorskip("xllamacpp", reason="llama.cpp's server is not installed: pip install xllamacpp")
    model = folder / "target.gguf"
    with llama_cpp_server(model) as plain, llama_cpp_server(model, speculation="ngram-simple") as drafting:
        found = ds.diff(plain, drafting, PROMPTS, length=32)
        other = ds.diff(folder / "target", plain, PROMPTS, length=32)
    assert found.divergence.worst == "same"
    assert found.divergence.missing[0] == 0 < found.divergence.missing[1]  # none for accepted drafts
    assert other.divergence.worst in ("same", "tie") and other.divergence.missing == (0, 0)


@pytest.mark.slow
def test_another_model_is_more_than_rounding(folder: Path) -> None:
    """Seven equal texts measure the rounding; one text is the drafter's."""
    target = ds.diff(folder / "target", folder / "target", PROMPTS, length=32)
    wrong = ds.diff(folder / "draft", folder / "draft", PROMPTS[:1], length=32)
    a = [{"prompt": each.prompt, "tokens": each.tokens, "top": each.top} for each in target.a]
    b = [{"prompt": each.prompt, "tokens": each.tokens, "top": each.top} for each in (wrong.a[0], *target.b[1:])]
    assert ds.diff(a, b).divergence.worst == "bug"


@pytest.mark.slow
def test_traces_and_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        trace = ds.run("speculative", target=network("target"), draft=network("draft"), ids=IDS, top_k=1, length=16)
        ds.write(trace, tmp_path / f"{name}.json")
    assert main(["diff", str(tmp_path / "one.json"), str(tmp_path / "two.json")]) == 0
    assert capsys.readouterr().out.startswith("same: all 1 texts agree.")
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, PROMPTS[:2])))
    arguments = ["diff", str(folder / "target"), str(folder / "draft"), "--prompts", str(tmp_path / "p.jsonl")]
    assert main([*arguments, "--length", "8", "-o", str(tmp_path / "d.html")]) == 4
    assert "100 are needed" in capsys.readouterr().out and (tmp_path / "d.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.json", "b"], "cannot be read (No such file or directory); give a file, a folder or an address"),
        (["{folder}", "b"], "has neither a checkpoint nor traces"),
        (["http://127.0.0.1:9", "b"], "prompts: are needed for http://127.0.0.1:9"),
        (["{folder}/x.json", "b"], "is not JSON"),
        (["a", "b", "-o", "c.txt"], "must end in .json or .html"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "x.json.txt").write_text("{")
    (tmp_path / "x.json").write_text("<html>")
    names = [each.replace("{folder}/x.json", str(tmp_path / "x.json")) for each in arguments]
    assert main(["diff", *(each.replace("{folder}", str(tmp_path / "empty")) for each in names)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("draftscope diff: ") and words in line


def test_names_and_texts_of_a_page_are_escaped(tmp_path: Path) -> None:
    a = [{"tokens": ["<img>", "x"], "prompt": "<b>"}]
    found: Diff = ds.diff(a, [{"tokens": ["<img>", "<svg>"]}])
    found.write(tmp_path / "d.html")
    page = (tmp_path / "d.html").read_text()
    assert "<img>" not in page and "<svg>" not in page and "<b>&lt;" not in page
    with pytest.raises(TypeError, match="speed: is not an option of diff"):
        ds.diff(a, a, speed=1)


def _letters(text: GreedyText) -> dict[str, object]:
    """A text as a server without log-probabilities gives it."""
    return {"prompt": text.prompt, "text": "".join(text.words)}


@pytest.mark.slow
def test_a_model_scores_splits_of_engines_that_give_no_log_probabilities(folder: Path, tmp_path: Path) -> None:
    """The second token of one text is the least likely one; of another the second likeliest."""
    target = ds.diff(folder / "target", folder / "target", PROMPTS, length=32)
    a = [_letters(text) for text in target.a]
    b = [dict(each) for each in a]
    first = str(a[0]["text"])
    ranked = sorted(target.a[0].top[1].items(), key=lambda pair: pair[1])
    worst = LETTERS[int(ranked[0][0])]
    b[0]["text"] = first[0] + worst + first[2:]
    plain = ds.diff(a, b)
    assert plain.divergence.worst == "unknown" and "named by --score-with" in str(plain)
    found = ds.diff(a, b, score_with=folder / "target")
    (split,) = found.divergence.splits
    assert (split.verdict, split.position, split.word_b) == ("bug", 1, worst)
    assert split.score_a == pytest.approx(ranked[-1][1], abs=1e-4)
    assert split.score_b == pytest.approx(ranked[0][1], abs=1e-4)
    assert "by the reference p" in str(found) and "re-scored by target; bfloat16 changes its margins" in str(found)
    found.write(tmp_path / "d.json")
    again, texts_a, texts_b = read_divergence((tmp_path / "d.json").read_bytes())
    assert again == found.divergence and (texts_a, texts_b) == (found.a, found.b)
    found.write(tmp_path / "d.html")
    assert "by the reference: p(" in (tmp_path / "d.html").read_text()
    with pytest.raises(ValueError, match=r"score_with: '.*nowhere' cannot be used as a reference \("):
        ds.diff(a, b, score_with=folder / "nowhere")


def test_texts_of_which_only_one_has_tokens_are_compared_by_characters() -> None:
    a = [{"prompt": "x", "tokens": ["1", "2"], "words": ["ab", "cd"]}]
    found = ds.diff(a, [{"prompt": "x", "text": "abcx"}])
    (split,) = found.divergence.splits
    assert (split.position, split.word_a, split.word_b) == (3, "d", "x")


def test_a_server_that_ends_in_the_middle_leaves_what_both_answered() -> None:
    with fake_server() as sound, fake_server("answer", "answer", "die") as broken:
        found = ds.diff(sound, broken, ["a", "b", "c", "d"])
    assert found.divergence.texts == 2 and found.divergence.worst == "same"
    assert "ended early: http://127.0.0.1" in str(found) and "closed the connection in the middle" in str(found)
    with fake_server("die") as broken, pytest.raises(ServerError, match="closed the connection in the middle"):
        ds.diff(broken, broken, ["a"])


def test_chunks_with_several_tokens_do_not_part_equal_texts() -> None:
    """A server without ids streams drafts that passed in one chunk."""
    with fake_server() as plain, fake_server("one chunk") as drafting:
        assert ds.diff(plain, drafting, ["a"]).divergence.worst == "same"
