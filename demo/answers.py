"""What programs are told where gradio itself refuses a request, and in which form they get an answer."""

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import gradio as gr
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from gradio.route_utils import FnIndexInferError
from mcp import types

from demo import log

Handled = Callable[[types.CallToolRequest], Awaitable[types.ServerResult]]

_PUBLIC: Final = ("/gradio_api/call/", "/gradio_api/run/", "/gradio_api/api/")
"""Where programs ask; all other addresses are the page's own."""
_BY_NAME: Final = "/gradio_api/call/v2/"
_IN_ORDER: Final = (
    'data: {problem}; send a JSON object such as {{"data": ["ar", "", 0]}}, the arguments in their order.'
)
_NAMED: Final = 'arguments: {problem}; send a JSON object such as {{"method": "ar", "seed": 0}}.'


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
            try:
                return list(await super().preprocess_data(block_fn, inputs, state, explicit_call))
            except gr.Error as error:
                error.print_exception = False
                raise
            except Exception as error:  # whoever sends these values does not sit before the page
                log.failed("page", error)
                raise gr.Error("data: the page sends no such values.", print_exception=False) from error
        wanted = block_fn.inputs
        if len(inputs) > len(wanted):
            told = f"data: {len(inputs)} values are too many for /{block_fn.api_name}; send at most {len(wanted)}."
            raise gr.Error(told, print_exception=False)
        given = [*inputs, *(component.value for component in wanted[len(inputs) :])]
        try:
            return list(await super().preprocess_data(block_fn, given, state, explicit_call))
        except gr.Error as error:
            error.print_exception = False
            raise
        except Exception as error:  # values of our own endpoints pass as they are, so it is a file
            told = "file: it is none that was uploaded here; upload it first, and send the path that this answers with."
            raise gr.Error(told, print_exception=False) from error


def in_words(endpoints: Mapping[str, Callable[..., Any]]) -> dict[Any, Any]:
    """Handlers of what fastapi and gradio raise before a request comes to one of these endpoints."""

    async def malformed(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        if not request.url.path.startswith(_PUBLIC):
            return JSONResponse({"detail": "the page sends no such request"}, 422)
        field = error.errors()[0]["loc"]
        missing = error.errors()[0]["type"] == "missing"
        problem = "is missing" if missing else "is no list" if "data" in field else "stands in no JSON object"
        words = _NAMED if request.url.path.startswith(_BY_NAME) else _IN_ORDER
        return JSONResponse({"error": words.format(problem=problem)}, 422)

    async def unknown(request: Request, _: Exception) -> JSONResponse:
        name = request.path_params.get("api_name", "").strip("/")
        there = ", ".join(f"/{each}" for each in endpoints)
        return JSONResponse({"error": f"endpoint: there is no /{name}; there are {there}."}, 404)

    async def unfitting(request: Request, error: Exception) -> JSONResponse:
        name = request.url.path.removeprefix(_BY_NAME)
        if name not in endpoints:
            raise error
        takes = ", ".join(
            f"{each} (needed)" if about.default is inspect.Parameter.empty else each
            for each, about in inspect.signature(endpoints[name]).parameters.items()
        )
        return JSONResponse({"error": f"arguments: do not fit /{name}; it takes {takes}, by name."}, 422)

    return {RequestValidationError: malformed, FnIndexInferError: unknown, TypeError: unfitting}


def refusing(handle: Handled, refusal: Callable[[str, Mapping[str, Any]], str | None]) -> Handled:
    """A handler of the Model Context Protocol that asks first what is wrong with the call of a tool, and says that."""

    async def handled(request: types.CallToolRequest) -> types.ServerResult:
        told = refusal(request.params.name, request.params.arguments or {})
        if told is None:
            return await handle(request)
        content: list[types.ContentBlock] = [types.TextContent(type="text", text=told)]
        return types.ServerResult(types.CallToolResult(content=content, isError=True))

    return handled


def as_json(show: Callable[[Sequence[Any], str], list[Any]]) -> Callable[[Sequence[Any], str], list[Any]]:
    """Tools of the Model Context Protocol answer with text, and gradio would write data as Python does."""

    def shown(data: Sequence[Any], root_url: str) -> list[Any]:
        return show([json.dumps(one) if _is_data(one) else one for one in data], root_url)

    return shown


def _is_data(value: object) -> bool:
    return isinstance(value, dict | list) and not (isinstance(value, dict) and value.get("meta"))
