"""Answers of the server to choices; the part of the browser is in tests/ui/test_late_answers.py."""

from typing import Any

import gradio as gr
import pytest

from draftscope.demo.components.form_choices import FormChoices


def test_values_of_fields_are_left_to_the_browser_and_all_else_is_set() -> None:
    with gr.Blocks():
        choices, prompt, model, seed = FormChoices(), gr.Textbox(), gr.Dropdown(["a", "b"]), gr.Textbox()
        words, shown = gr.Markdown(), gr.State()
        choices.fields = [prompt, model, seed]
        answer: dict[Any, Any] = {
            prompt: gr.update(value="", interactive=False),
            model: gr.update(choices=["b"], value="b"),
            seed: "7",
            words: "said",
            shown: ("a", "b"),
        }
        choices.add(model.input, "all", lambda values: answer)
        choices.add(prompt.input, "choices", lambda values: {model: gr.update(choices=["c"])})
    update = choices.answered({choices.sent_choice: {"name": "all", "index": 2, "time": 0.5, "form": ["x", "a", "0"]}})
    assert update.pop(choices.answer) == {
        "name": "all",
        "values": [{"value": "", "closed": True}, {"value": "b", "closed": False}, {"value": "7", "closed": False}],
    }
    assert update == {
        prompt: gr.update(interactive=False),
        model: gr.update(choices=["b"]),
        words: "said",
        shown: ("a", "b"),
    }
    assert seed in answer  # a handler may give the same update twice
    partial = choices.answered({choices.sent_choice: {"name": "choices", "form": ["x", "b", "0"]}})
    assert partial[choices.answer]["values"] == [None] * 3 and partial[model] == gr.update(choices=["c"])
    for wrong in (None, [], "all", {}, {"name": "none"}, {"name": "all"}, {"name": "all", "form": ["x"]}):
        with pytest.raises(gr.Error, match="choice: is unknown; reload the page"):
            choices.answered({choices.sent_choice: wrong})
