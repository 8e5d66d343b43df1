"""Error messages of the API for requests that Gradio rejects, and the response format."""

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final

import gradio as gr
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from gradio.route_utils import FnIndexInferError
from mcp import types

from draftscope.demo.server import log
from draftscope.demo.server.run_queue import as_user_errors

Handler = Callable[[Any], Awaitable[types.ServerResult]]
"""Handler of a request of the Model Context Protocol."""

_PUBLIC: Final = ("/gradio_api/call/", "/gradio_api/run/", "/gradio_api/api/")
"""URLs of the public API; all others belong to the page."""
_BY_NAME: Final = "/gradio_api/call/v2/"
_IN_ORDER: Final = (
    'data: {problem}; send a JSON object such as {{"data": ["ar", "", 0]}}, the arguments in their order.'
)
_NAMED: Final = 'arguments: {problem}; send a JSON object such as {{"method": "ar", "seed": 0}}.'
_NO_FILE: Final = "file: unknown path; upload the file first and send the path of the response."


class ApiBlocks(gr.Blocks):
    """gradio's Blocks, whose public endpoints say in a sentence what is wrong with a request.

    An answer takes time for what it changes alone, not for all that its event could change.
    """

    beginning = ""
    """HTML with which the page begins, before the app has started."""

    async def preprocess_data(
        self, block_fn: Any, inputs: list[Any], state: Any, explicit_call: bool = False
    ) -> list[Any]:
        """The arguments of a handler. Those left out at the end have their defaults.

        Raises gr.Error naming what is wrong with them and the remedy.
        """
        public, wanted = block_fn.api_visibility == "public", block_fn.inputs
        if public and len(inputs) > len(wanted):
            message = f"data: {len(inputs)} values are too many for /{block_fn.api_name}; send at most {len(wanted)}."
            raise gr.Error(message, print_exception=False)
        if public:
            inputs = [*inputs, *(component.value for component in wanted[len(inputs) :])]
        try:
            return list(await super().preprocess_data(block_fn, inputs, state, explicit_call))
        except gr.Error as error:
            error.print_exception = False
            raise
        except Exception as error:
            if public:  # values of our own endpoints pass as they are, so it is a file
                raise gr.Error(_NO_FILE, print_exception=False) from error
            log.log_failure("page", error)  # the values were not sent by the page
            raise gr.Error("data: the page sends no such values.", print_exception=False) from error

    async def postprocess_data(self, block_fn: Any, predictions: Any, state: Any) -> list[Any]:
        """The outputs of a handler as they are sent; gradio by itself builds again those that it leaves as they are.

        Args:
            block_fn: The handler, with its outputs.
            predictions: What it returned: the changed outputs with their changes, or what gradio allows in addition.
            state: Values of the session.
        """
        outputs = block_fn.outputs
        changed = [part for part in outputs if part in predictions] if isinstance(predictions, dict) else []
        if not changed or len(changed) < len(predictions) or len(changed) == len(outputs):
            return list(await super().postprocess_data(block_fn, predictions, state))
        part_fn = copy(block_fn)
        part_fn.outputs = changed
        values = [predictions[part] for part in changed]
        sent = await super().postprocess_data(part_fn, values if len(values) > 1 else values[0], state)
        by_part = dict(zip(changed, sent, strict=True))
        return [by_part[part] if part in by_part else None if part.stateful else gr.skip() for part in outputs]

    async def call_function(self, *arguments: Any, **named: Any) -> Any:
        """Call a handler with its arguments.

        Raises:
            gr.Error: If the handler fails.
        """
        with as_user_errors("page"):
            return await super().call_function(*arguments, **named)


def handlers(endpoints: Mapping[str, Callable[..., Any]]) -> dict[Any, Any]:
    """Handlers of what fastapi and gradio raise before a request comes to one of these endpoints."""

    async def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        if not request.url.path.startswith(_PUBLIC):
            return JSONResponse({"detail": "the page sends no such request"}, 422)
        first = error.errors()[0]
        in_data = "is not a list" if "data" in first["loc"] else "is not in a JSON object"
        template = _NAMED if request.url.path.startswith(_BY_NAME) else _IN_ORDER
        problem = "is missing" if first["type"] == "missing" else in_data
        return JSONResponse({"error": template.format(problem=problem)}, 422)

    async def unknown(request: Request, _: FnIndexInferError) -> JSONResponse:
        name = request.path_params.get("api_name", "").strip("/")
        known = ", ".join(f"/{each}" for each in endpoints)
        return JSONResponse({"error": f"endpoint: there is no /{name}; there are {known}."}, 404)

    async def unfitting(request: Request, error: TypeError) -> JSONResponse:
        name = request.url.path.removeprefix(_BY_NAME)
        if name not in endpoints:
            raise error
        takes = ", ".join(
            f"{each} (needed)" if about.default is inspect.Parameter.empty else each
            for each, about in inspect.signature(endpoints[name]).parameters.items()
        )
        return JSONResponse({"error": f"arguments: do not fit /{name}; it takes {takes}, by name."}, 422)

    return {RequestValidationError: malformed, FnIndexInferError: unknown, TypeError: unfitting}


def validate_tool_calls(handle: Handler, refusal: Callable[[str, Mapping[str, Any]], str | None]) -> Handler:
    """A handler of the Model Context Protocol that asks first what is wrong with the call of a tool, and says that.

    What a tool answers is there as structured content, too.
    """

    async def handle_or_refuse(request: types.CallToolRequest) -> types.ServerResult:
        sentence = refusal(request.params.name, request.params.arguments or {})
        if sentence is None:
            answer = await handle(request)
            result = answer.root
            if isinstance(result, types.CallToolResult) and not result.isError:
                (text,) = result.content
                assert isinstance(text, types.TextContent)
                result.structuredContent = json.loads(text.text)
            return answer
        content: list[types.ContentBlock] = [types.TextContent(type="text", text=sentence)]
        return types.ServerResult(types.CallToolResult(content=content, isError=True))

    return handle_or_refuse


def described(handle: Handler, about: Mapping[str, Any], file_format: str) -> Handler:
    """A handler that lists the tools with their titles, what they answer, and that they change nothing.

    `about` has a title and the schema of an output for each. Files are given in `file_format` and not, as gradio has
    it, by address.
    """

    async def list_tools(request: Any) -> types.ServerResult:
        result = await handle(request)
        for tool in result.root.tools if isinstance(result.root, types.ListToolsResult) else ():
            for argument in tool.inputSchema.get("properties", {}).values():
                if "File" in argument.get("format", ""):
                    argument["format"] = file_format
            output = dict(about[tool.name].output)
            tool.title = about[tool.name].title
            tool.outputSchema = {"type": "object", "properties": output, "required": [*output]}
            tool.annotations = types.ToolAnnotations(
                readOnlyHint=True, destructiveHint=False, idempotentHint=True, openWorldHint=False
            )
        return result

    return list_tools


def as_json(data: Sequence[Any], root: str) -> list[types.TextContent]:
    """Return the answer of a tool as JSON; Gradio would write data as Python does.

    The URL of a trace is absolute, because an agent has no page to which it could be relative.
    """
    full = ({**one, "trace": f"{root.rstrip('/')}/{one['trace']}"} if "trace" in one else one for one in data)
    return [types.TextContent(type="text", text=json.dumps(one)) for one in full]
