"""Files of prompts in the formats that benchmarks and data sets have."""

import json
from pathlib import Path
from typing import Any

import pytest

from draftscope.engines.settings import ConfigError
from draftscope.experiments.prompt_files import BenchPrompt, parse_prompt, read_prompts

USER = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("entry", "prompt"),
    [
        ("hi", BenchPrompt(("hi",))),
        (["hi", "and?"], BenchPrompt(("hi", "and?"))),
        ([USER], BenchPrompt((), (USER,))),
        ({"prompt": "hi", "canonical_solution": "x"}, BenchPrompt(("hi",))),
        ({"question": "hi", "answer": "21"}, BenchPrompt(("hi",))),
        ({"task_id": 2, "text": "hi", "code": "x"}, BenchPrompt(("hi",))),
        ({"instruction": "hi", "input": "", "output": "x"}, BenchPrompt(("hi",))),
        ({"instruction": "hi", "input": "it", "output": "x"}, BenchPrompt(("hi\n\nit",))),
        ({"instruction": "hi", "context": "it", "category": "qa"}, BenchPrompt(("hi\n\nit",), category="qa")),
        ({"conversation": [USER, {"role": "assistant", "content": "a"}], "model": "x"}, BenchPrompt((), (USER,))),
        ({"turns": ["hi", "and?"], "category": "writing"}, BenchPrompt(("hi", "and?"), category="writing")),
        ({"prompt": [USER]}, BenchPrompt((), (USER,))),
        ({"messages": [USER, {"role": "assistant", "content": "a"}]}, BenchPrompt((), (USER,))),
        (
            {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]},
            BenchPrompt((), (USER,)),
        ),
        (
            {
                "conversations": [
                    {"from": "system", "value": "be short"},
                    {"from": "human", "value": "hi"},
                    {"from": "gpt", "value": "hello"},
                    {"from": "human", "value": "and?"},
                ]
            },
            BenchPrompt(
                (),
                (
                    {"role": "system", "content": "be short"},
                    USER,
                    {"role": "assistant", "content": "hello"},
                    {"role": "user", "content": "and?"},
                ),
            ),
        ),
    ],
    ids=lambda value: json.dumps(value)[:60] if not isinstance(value, BenchPrompt) else "",
)
@pytest.mark.parametrize("form", ["lines", "array", "list"])
def test_a_prompt_is_read_in_every_form(tmp_path: Path, entry: Any, prompt: BenchPrompt, form: str) -> None:
    file = tmp_path / "prompts.jsonl"
    if form == "list":
        assert parse_prompt(entry) == prompt
        return
    text = (
        f"{json.dumps(entry)}\r\n\r\n{json.dumps(entry)}" if form == "lines" else json.dumps([entry, entry], indent=1)
    )
    file.write_bytes(text.encode())
    assert read_prompts(file) == [prompt, prompt]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_only_line_feeds_separate_lines(tmp_path: Path, separator: str) -> None:
    file = tmp_path / "prompts.jsonl"
    words = f"one{separator}two"
    written = json.dumps({"prompt": words}, ensure_ascii=False)
    if separator in "\x0b\x0c\x1c":  # which JSON escapes
        written = json.dumps({"prompt": words})
    file.write_text(f"{written}\n{written}\n", encoding="utf-8", newline="\n")
    assert [each.questions for each in read_prompts(file)] == [(words,)] * 2


@pytest.mark.parametrize("content", ['{"prompt": "hi"}', '["hi"]', '[{"prompt": "hi"}]'])
def test_a_byte_order_mark_is_no_text(tmp_path: Path, content: str) -> None:
    file = tmp_path / "prompts.json"
    file.write_bytes(b"\xef\xbb\xbf" + content.encode())
    assert read_prompts(file) == [BenchPrompt(("hi",))]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            '"a"\n{"content": "b", "id": 3}',
            "line 2 has the fields 'content', 'id'; give a text as 'prompt' or 'question'",
        ),
        ('[{"prompt": "a"}, {"content": "b"}]', "entry 2 has the fields 'content'; give a text"),
        ('{"prompt": 3}', "line 1 has 3 as 'prompt'; give a text"),
        ('{"prompt": " "}', "line 1 has ' ' as 'prompt', and an empty text; give a text"),
        ('{"messages": [{"role": "assistant", "content": "a"}]}', "as 'messages', and no turn to answer; give"),
        ('{"messages": ["a"]}', "line 1 has ['a'] as 'messages'; give"),
        ('{"conversations": [{"from": "human"}]}', "messages: turn 1 is empty"),
        ("{}", "line 1 has {}; give a text"),
        ("3", "line 1 has 3; give a text"),
        ('{"prompt": "a"', "line 1 is not JSON"),
        ("[]", "holds none; give one object a line."),
        ("\n\n", "holds none; give one object a line."),
    ],
)
def test_what_holds_no_prompt_is_refused_with_its_place(tmp_path: Path, content: str, sentence: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        read_prompts(file)
    message = str(caught.value)
    assert message.startswith("prompts: ") and sentence in message and "\n" not in message
