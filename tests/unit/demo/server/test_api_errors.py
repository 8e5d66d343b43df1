"""An answer of the page is what gradio sends, and makes nothing again that it leaves as it is."""

from typing import Any

import anyio
import gradio as gr
import pytest
from gradio.state_holder import SessionState

from draftscope.demo.server.api_errors import ApiBlocks


def answer(blocks: gr.Blocks, returned: Any, outputs: list[Any], state: SessionState | None = None) -> list[Any]:
    async def sent() -> list[Any]:
        return list(await blocks.postprocess_data(handler, returned, state))

    with blocks:
        event: Any = blocks.load(lambda: None, None, outputs)
    handler = blocks.fns[event["id"] if isinstance(event, dict) else len(blocks.fns) - 1]
    return anyio.run(sent)


@pytest.mark.parametrize("kind", [ApiBlocks, gr.Blocks])
@pytest.mark.parametrize("which", ["one", "two", "all", "none", "state", "nothing but the state"])
def test_an_answer_is_what_gradio_sends(kind: type[gr.Blocks], which: str) -> None:
    with kind() as blocks:
        a, b, c, state = gr.Textbox("a"), gr.Textbox("b"), gr.JSON(), gr.State(1)
    returned: dict[str, Any] = {
        "one": {b: gr.update(value="new", visible=False)},
        "two": {c: {"x": 1}, a: "text"},
        "all": {a: "1", b: "2", c: {}, state: 2},
        "none": gr.skip(),
        "state": {state: 3, a: "text"},
        "nothing but the state": {state: 4},
    }
    keep = {"__type__": "update"}
    wanted: dict[str, list[Any]] = {
        "one": [keep, {**keep, "value": "new", "visible": False}, keep, None],
        "two": ["text", keep, {"x": 1}, None],
        "all": ["1", "2", {}, None],
        "none": [keep, keep, keep, None],
        "state": ["text", keep, keep, None],
        "nothing but the state": [keep, keep, keep, None],
    }
    sent = [each.model_dump() if hasattr(each, "model_dump") else each
            for each in answer(blocks, returned[which], [a, b, c, state])]  # fmt: skip
    assert sent == wanted[which]


def test_what_an_answer_leaves_is_not_made_again() -> None:
    with ApiBlocks() as blocks:
        fields = [gr.Textbox(f"{number}") for number in range(50)]
    state = SessionState(blocks)
    answer(blocks, {fields[3]: gr.update(label="new"), fields[7]: "text"}, fields, state)
    assert [number for number, field in enumerate(fields) if state[field._id] is not field] == [3]


def test_an_output_that_an_event_does_not_have_is_refused() -> None:
    with ApiBlocks() as blocks:
        a, b, c = gr.Textbox("a"), gr.Textbox("b"), gr.Textbox("c")
    with pytest.raises(ValueError, match=r"not.*output"):
        answer(blocks, {a: "1", c: "2"}, [a, b])
