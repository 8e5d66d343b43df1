"""Conversations are put as `apply_chat_template` puts them: tools, parts, variables and open answers."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from support.chat_folder import byte_tokenizer, network, write
from transformers import AutoTokenizer

import draftscope as ds
from draftscope.engines.runtime.run_request import RunRequest

TOOLS = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|turn|>{{ m['role'] }}: "
    "{% if m.tool_calls %}{{ m.tool_calls[0].function | tojson }}{% else %}{{ m['content'] }}{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant: {% endif %}"
)
PARTS = "{% for m in messages %}{% for p in m['content'] %}{{ p.text }}|{% endfor %}{% endfor %}"
ADDED = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] }}{% endfor %}"
THINKS = (
    "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    "{% if not enable_thinking | default(true) %}<quick>{% endif %}"
)
CALL = [
    {"role": "user", "content": "weather in Rome?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}],
    },
    {"role": "tool", "name": "weather", "content": "sunny"},
]
SHORT: dict[str, Any] = {"top_k": 1, "length": 8}


def rendered(folder: str, turns: list[dict[str, Any]], **variables: Any) -> str:
    options = {"add_generation_prompt": True, **variables}
    return str(AutoTokenizer.from_pretrained(folder).apply_chat_template(turns, tokenize=False, **options))


def test_tool_calls_and_results_are_put_as_the_template_puts_them(tmp_path: Path) -> None:
    folder = write(tmp_path / "tools", TOOLS)
    tools = [{"type": "function", "function": {"name": "weather"}}]
    trace = ds.run("ar", model=folder, messages=CALL, template={"tools": tools}, **SHORT)
    assert trace.rendered == rendered(folder, CALL, tools=tools)
    assert trace.prompt == "sunny" and '{"name": "weather"' in trace.rendered
    assert trace.extensions["draftscope"]["template"] == {"tools": tools}


@pytest.mark.parametrize("template", [TOOLS, PARTS, ADDED])
def test_parts_of_text_are_read_by_templates_of_both_kinds(tmp_path: Path, template: str) -> None:
    folder = write(tmp_path / "parts", template)
    parts = [{"role": "user", "content": [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]}]
    joined = [{"role": "user", "content": "one two"}]
    trace = ds.run("ar", model=folder, messages=parts, **SHORT)
    assert trace.rendered == ("one |two|" if template is PARTS else rendered(folder, joined))
    assert trace.prompt == "one two"


def test_an_open_answer_is_continued(tmp_path: Path) -> None:
    folder = write(tmp_path / "open", TOOLS)
    turns = [{"role": "user", "content": "count"}, {"role": "assistant", "content": "one, two"}]
    trace = ds.run("ar", model=folder, messages=turns, template={"continue_final_message": True}, **SHORT)
    wanted = rendered(folder, turns, continue_final_message=True, add_generation_prompt=False)
    assert trace.rendered == wanted and wanted.endswith("one, two")


def test_variables_reach_the_template_and_the_trace(tmp_path: Path) -> None:
    folder = write(tmp_path / "thinks", THINKS)
    trace = ds.run("ar", model=folder, prompt="hi", template={"enable_thinking": False}, **SHORT)
    assert trace.rendered == "hi<quick>"
    assert trace.extensions["draftscope"]["template"] == {"enable_thinking": False}
    tokenizer = AutoTokenizer.from_pretrained(folder)
    by_object = ds.run(
        "ar", target=network(), tokenizer=tokenizer, prompt="hi", template={"enable_thinking": False}, **SHORT
    )
    assert by_object.rendered == trace.rendered and by_object.output.tokens == trace.output.tokens
    assert not ds.run("ar", model=folder, prompt="hi", **SHORT).extensions


def test_the_date_of_a_template_is_in_the_trace(tmp_path: Path) -> None:
    folder = write(tmp_path / "dated", "{{ strftime_now('%d %b %Y') }}: {{ messages[0]['content'] }}")
    trace = ds.run("ar", model=folder, prompt="hi", **SHORT)
    date = trace.extensions["draftscope"]["template"]["date"]
    assert f"{datetime.fromisoformat(date):%d %b %Y}: hi" == trace.rendered


@pytest.mark.parametrize("prefix", [("<|end|>",), ("<|turn|>", "<|end|>")])
@pytest.mark.parametrize("chat", [False, None])
def test_a_prompt_that_begins_with_the_first_tokens_is_not_given_them_again(
    tmp_path: Path, prefix: tuple[str, ...], chat: bool | None
) -> None:
    folder = write(tmp_path / "bos", tokenizer=byte_tokenizer(prefix))
    text = "".join(prefix) + "hi"
    ids = AutoTokenizer.from_pretrained(folder)("hi")["input_ids"]
    options: dict[str, Any] = {"settings": {"length": 8}, "local": True}
    assert list(RunRequest("ar", folder, "hi", chat=chat, **options).job().task.prompt_ids) == ids
    if chat is False:
        assert list(RunRequest("ar", folder, text, chat=False, **options).job().task.prompt_ids) == ids
    else:
        with pytest.raises(ValueError, match="keeps for itself"):
            RunRequest("ar", folder, text, chat=chat, **options).job().decoder()


def test_an_answer_may_hold_special_tokens_and_a_question_may_not(tmp_path: Path) -> None:
    folder = write(tmp_path / "it", TOOLS)
    turns = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "<|think|>well"},
        {"role": "user", "content": "and?"},
    ]
    assert ds.run("ar", model=folder, messages=turns, **SHORT).rendered == rendered(folder, turns)
    with pytest.raises(ValueError, match=r"prompt: holds '<\|think\|>', which it keeps for itself; leave it out"):
        ds.run("ar", model=folder, messages=[{"role": "user", "content": "<|think|>"}], **SHORT)


@pytest.mark.parametrize("settings", [{"messages": CALL[:1]}, {"prompt": "hi", "system": "be short"}])
def test_a_model_without_a_template_is_not_silently_given_one(tmp_path: Path, settings: dict[str, Any]) -> None:
    folder = write(tmp_path / "base")
    field = "messages" if "messages" in settings else "system"
    sentence = f"{field}: base has no chat template, so it does not chat; use chat=True for ChatML, or give a prompt."
    with pytest.raises(ValueError) as caught:
        ds.run("ar", model=folder, **settings, **SHORT)
    assert str(caught.value) == sentence
    assert "<|im_start|>" in ds.run("ar", model=folder, chat=True, **settings, **SHORT).rendered


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"messages": [{"content": "a"}]}, "messages: must be a list of turns"),
        ({"messages": [{"role": "user", "content": 3}]}, r"messages: turn 1 has .* in its content; only text is read"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "url": "a"}]}]},
            r"messages: turn 1 has \{'type': 'image', 'url': 'a'\} in its content; only text is read",
        ),
        ({"messages": [{"role": "user", "content": None}]}, "messages: turn 1 is empty; give it a text as 'content'"),
        ({"prompt": "a", "template": "b"}, "template: 'b' is not allowed; use names and values"),
        ({"prompt": "a", "template": {"chat_template": "{{ 1 }}"}}, "template: 'chat_template' is not a variable"),
        ({"prompt": "a", "template": {"a": 1}, "chat": False}, "template: cannot be combined with chat=False"),
    ],
    ids=str,
)
def test_what_cannot_be_put_is_said_in_a_sentence(tmp_path: Path, settings: dict[str, Any], problem: str) -> None:
    folder = write(tmp_path / "it", TOOLS)
    with pytest.raises(ValueError, match=problem) as caught:
        ds.run("ar", model=folder, **settings, **SHORT)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_long_answer_is_decoded_up_to_the_context_of_the_model(tmp_path: Path) -> None:
    folder = write(tmp_path / "long", max_position_embeddings=2100, eos_token_id=None)
    (tmp_path / "long" / "generation_config.json").unlink()
    trace = ds.run("ar", model=folder, prompt="hi", top_k=1, length=2048)
    assert trace.summary.tokens == 2048
    with pytest.raises(ValueError, match=r"length: 4096 is too much for long, which has room for 2100 tokens"):
        ds.run("ar", model=folder, prompt="hi", top_k=1, length=4096)
