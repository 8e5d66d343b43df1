"""What programs are told where gradio itself refuses a request, and in which form they get an answer."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr


class Page(gr.Blocks):
    """gradio's Blocks, whose public endpoints say in a sentence what is wrong with a request."""

    async def preprocess_data(
        self, block_fn: Any, inputs: list[Any], state: Any, explicit_call: bool = False
    ) -> list[Any]:
        """The arguments of a handler. Those left out at the end have their defaults.

        Raises:
            gr.Error: naming what is wrong with them and the remedy.
        """
        if block_fn.api_visibility != "public":
            return list(await super().preprocess_data(block_fn, inputs, state, explicit_call))
        wanted = block_fn.inputs
        if len(inputs) > len(wanted):
            told = f"data: {len(inputs)} values are too many for /{block_fn.api_name}; send at most {len(wanted)}."
            raise gr.Error(told, print_exception=False)
        given = [*inputs, *(component.value for component in wanted[len(inputs) :])]
        try:
            return list(await super().preprocess_data(block_fn, given, state, explicit_call))
        except gr.Error:
            raise
        except Exception as error:  # values of our own endpoints pass as they are, so it is a file
            told = "file: it is none that was uploaded here; upload it first, and send the path that this answers with."
            raise gr.Error(told, print_exception=False) from error


def as_json(show: Callable[[Sequence[Any], str], list[Any]]) -> Callable[[Sequence[Any], str], list[Any]]:
    """Tools of the Model Context Protocol answer with text, and gradio would write data as Python does."""

    def shown(data: Sequence[Any], root_url: str) -> list[Any]:
        return show([json.dumps(one) if _is_data(one) else one for one in data], root_url)

    return shown


def _is_data(value: object) -> bool:
    return isinstance(value, dict | list) and not (isinstance(value, dict) and value.get("meta"))
