"""Whether a prompt is put in a chat template, its system message and variables, for models that chat."""

from typing import Any, Final

import gradio as gr

from draftscope.demo.components.context import Update
from draftscope.demo.jobs.links import chat_of
from draftscope.demo.server.limits import PROMPT_CHARACTERS
from draftscope.engines.models.catalog import MODELS
from draftscope.engines.models.model_info import ModelInfo
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import format_variables, read_variables

_VARIABLES: Final = "One NAME=VALUE in each line, such as enable_thinking=false; values are JSON or texts."


class ChatForm:
    """The controls, which are hidden where the model is not a published language model."""

    def __init__(self, model: ModelInfo) -> None:
        """Lay them out."""
        with gr.Row(visible=model.generates_text, elem_id="chat") as self.group:
            self.chat = gr.Checkbox(
                True,
                label="Chat",
                info="Put the prompt in the model's chat template, if it has one. Off: the model reads it as it is.",
                min_width=240,
            )
            self.system = gr.Textbox(
                label="System",
                info="The system turn before the prompt, in the model's chat template.",
                max_lines=4,
                max_length=PROMPT_CHARACTERS,
                min_width=240,
            )
            self.template = gr.Textbox(
                label="Template",
                info=f"Variables of the chat template. {_VARIABLES}",
                lines=2,
                max_lines=4,
                max_length=PROMPT_CHARACTERS,
                min_width=240,
            )
        self.inputs: list[Any] = [self.chat, self.system, self.template]
        self.parts: list[Any] = [self.group, *self.inputs]

    def shows(self, model: ModelInfo) -> Update:
        """Show the fields where a model chats."""
        return {self.group: gr.update(visible=model.generates_text)}

    def opened(self, request: RunRequest) -> Update:
        """Return the fields as a request has them."""
        lines = format_variables(request.template or {})
        return {
            self.chat: request.chat is not False,
            self.system: request.system or "",
            self.template: "\n".join(lines),
        }

    def values(self, values: Update, model: str) -> dict[str, Any]:
        """Return the chat options for a model as fields of a `RunRequest`; none for one that does not chat.

        Raises:
            ConfigError: With the field, its value and the remedy.
        """
        known = MODELS.get(model)
        if known is None or not known.generates_text:
            return {}
        lines = [line for line in (values[self.template] or "").splitlines() if line.strip()]
        variables = read_variables(lines, "template")
        return chat_of(model, bool(values[self.chat]), values[self.system] or "", variables)
