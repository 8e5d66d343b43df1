"""`ds.bench` always ends with a table: arms that cannot run are left out by name, and no option of a file leaks in."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.chat_folder import SPECIAL, network, write
from transformers import GenerationConfig

import draftscope as ds
from draftscope.cli.main import main
from draftscope.experiments.bench_result import BenchResult

TURNS = "{% for m in messages %}<|turn|>{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
FEW: dict[str, Any] = {"length": 8, "gammas": (3,)}
OURS = ["ordinary", "speculative, lookup, gamma 3"]
GENERATE = ["generate", "generate, lookup, gamma 3"]


def labels(result: BenchResult) -> list[str]:
    return [line["label"] for line in result.table()]


def generation(folder: str, **options: Any) -> None:
    file = Path(folder) / "generation_config.json"
    known = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps(known | options))


@pytest.mark.slow
def test_options_of_the_files_do_not_change_the_reference(tmp_path: Path) -> None:
    folder = write(tmp_path / "tuned", use_cache=False)
    generation(
        folder, use_cache=False, num_beams=3, repetition_penalty=3.0, no_repeat_ngram_size=1, min_new_tokens=8,
        suppress_tokens=[*range(3, 200)], forced_eos_token_id=0,
    )  # fmt: skip
    result = ds.bench(folder, ["a b c a b", "b a"], **FEW)
    assert labels(result) == [*OURS, *GENERATE] and not result.left_out
    assert result.same == dict.fromkeys(labels(result), 2)


def test_an_object_keeps_its_own_options(tmp_path: Path) -> None:
    from support.chat_folder import byte_tokenizer

    config = GenerationConfig(eos_token_id=0, repetition_penalty=3.0)
    network().generation_config = config
    try:
        result = ds.bench(network(), ["a b"], tokenizer=byte_tokenizer(), **FEW)
        assert result.same["generate"] == 1 and network().generation_config is config
    finally:
        network().generation_config = GenerationConfig(eos_token_id=0)


def test_a_way_that_generate_refuses_is_left_out_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = type(network())
    generate = refusing.generate

    def refuse(self: Any, *arguments: Any, **options: Any) -> Any:
        if "prompt_lookup_num_tokens" in options and arguments[0].shape[1] > 4:
            raise ValueError("assisted generation is not supported with stateful models")
        return generate(self, *arguments, **options)

    monkeypatch.setattr(refusing, "generate", refuse)
    result = ds.bench(write(tmp_path / "it"), ["a b", "a b c a b"], **FEW)  # the second prompt is too long for it
    assert labels(result) == [*OURS, "generate"]
    assert result.left_out == {GENERATE[1]: "assisted generation is not supported with stateful models"}
    assert len(result.rows) == 2 * 3
    assert "Left out: generate, lookup, gamma 3 (assisted generation is not supp" in result.markdown()


def test_an_arm_of_ours_that_cannot_run_is_left_out_too(tmp_path: Path) -> None:
    target, draft = write(tmp_path / "target"), write(tmp_path / "draft", max_position_embeddings=16)
    result = ds.bench(target, ["a", "a b c d e f g h i j k l m"], draft=draft, **FEW)
    assert "speculative, the drafter, gamma 3" in result.left_out
    assert [label for label in labels(result) if label in OURS] == OURS


def favour(folder: str, token: int) -> None:
    """Let a network always draw one token."""
    file = Path(folder) / "model.safetensors"
    weights = load_file(file)
    head = torch.zeros_like(weights["lm_head.weight"])
    head[token], head[token + 1] = weights["model.norm.weight"], -weights["model.norm.weight"]
    save_file(
        weights | {"lm_head.weight": head, "model.norm.weight": weights["model.norm.weight"]}, file, {"format": "pt"}
    )


@pytest.mark.parametrize("template", [TURNS, ""])
def test_an_answer_of_special_tokens_is_continued(tmp_path: Path, template: str) -> None:
    folder = write(tmp_path / "harmony", template)
    favour(folder, SPECIAL.index("<|turn|>"))
    result = ds.bench(folder, [["Say hello", "Say it again"]], **FEW)
    assert len({row.problem for row in result.rows}) == 2
    assert ("put in ChatML" in result.markdown()) == (not template)


def test_a_conversation_that_outgrows_the_context_ends_and_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "short", TURNS, max_position_embeddings=64)
    result = ds.bench(folder, [["a", "b" * 40, "c"], "d"], **FEW)
    assert {row.problem for row in result.rows} == {0, 1}
    assert list(result.left_out) == ["prompt 1 from question 2 on"] and "has room for" in next(
        iter(result.left_out.values())
    )


def test_results_by_category_and_the_fastest_that_was_measured(tmp_path: Path) -> None:
    prompts = [
        {"turns": ["a b a b"], "category": "rag"},
        {"turns": ["b a"], "category": "qa"},
        {"turns": ["c d"], "category": "rag"},
    ]
    result = ds.bench(write(tmp_path / "it"), prompts, length=8, gammas=(2, 3))
    assert result.categories == {0: "rag", 1: "qa", 2: "rag"}
    assert [line["prompts"] for line in result.table("rag")] == [2] * len(labels(result))
    speeds = {line["label"]: line["speed"] for line in result.table() if "speculative" in line["label"]}
    gamma, speed = result.suggestions["lookup"]
    assert speed == max(speeds.values())
    assert gamma == (int(max(speeds, key=lambda label: speeds[label])[-1]) if speed > 1 else 0)
    head = next(line for line in result.markdown().splitlines() if line.startswith("| Times as fast"))
    assert head.replace(" ", "") == "|Timesasfast|rag|qa|"
    result.write(tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["categories"] == {"0": "rag", "1": "qa", "2": "rag"}


def test_chat_system_and_variables_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = f"{TURNS}{{% if not enable_thinking | default(true) %}}<quick>{{% endif %}}"
    folder, prompts, out = write(tmp_path / "it", template), tmp_path / "prompts.json", tmp_path / "run.json"
    prompts.write_text('[{"question": "a"}]')
    chat = ["--system", "be short", "--template", "enable_thinking=false"]
    command = ["--set", "length=8", *chat]
    assert main(["bench", "--target", folder, "--prompts", str(prompts), "--draft-length", "3", *command]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("| Decoding") and "1/1" in output.err
    assert main(["run", "ar", "--model", folder, "--prompt", "a", "-o", str(out), *command]) == 0
    assert ds.read(out).rendered == "<|turn|>system: be short\n<|turn|>user: a\n<quick>"
    turns = tmp_path / "turns.json"
    turns.write_text('[{"role": "user", "content": "b"}]')
    assert main(["run", "ar", "--model", folder, "--messages", str(turns), "-o", str(out), *command]) == 0
    assert ds.read(out).rendered == "<|turn|>system: be short\n<|turn|>user: b\n<quick>"
    turns.write_text("[")
    assert main(["run", "ar", "--model", folder, "--messages", str(turns), "-o", str(out)]) == 2
    assert "--messages: " in capsys.readouterr().err
