"""API of the app, as described in docs/api.md: HTTP endpoints, and tools of the Model Context Protocol.

`/run` decodes and returns the trace, `/summary` returns the results and the URL of the trace, `/methods` lists what can
be run, and `/validate` checks a trace file. Tools return the summary: a whole trace would fill an agent's context.
"""

import inspect
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import wraps
from typing import Any, Final, Literal

import gradio as gr
from gradio.events import api as endpoint

from draftscope.analysis.acceptance import acceptance_by_draft_position
from draftscope.demo.jobs.live_run import RaceEnded, decoded
from draftscope.demo.server.limits import COMPUTE, PROMPT_CHARACTERS
from draftscope.demo.server.run_queue import as_user_errors, client_disconnected, queued_api_call
from draftscope.demo.server.sessions import Visitors, url
from draftscope.engines.methods import METHODS
from draftscope.engines.models.catalog import MODELS, is_available
from draftscope.engines.runtime import method_index
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import ConfigError, format_name, format_value
from draftscope.traces import TraceError, dumps, loads
from draftscope.traces.schema import Trace


def build(visitors: Visitors) -> None:
    """Add the endpoints to the app under construction; traces lie for a while where `visitors` keep theirs."""

    @wraps(summary)
    def wrapped(*arguments: Any, **named: Any) -> dict[str, Any]:
        trace = _decoded(*arguments, **named)
        visitors.prune()
        (path,) = visitors.of(secrets.token_hex()).keep([trace], "").paths
        return _summary(trace) | {"trace": url(path)}

    models = [name for name in MODELS if is_available(name)]
    run.__annotations__ |= {"method": _one_of(METHODS), **dict.fromkeys(("model", "draft"), _one_of(models) | None)}
    for decoding, description in ((run, None), (wrapped, summary.__doc__)):
        handler = queued_api_call(decoding.__name__, decoding)
        handler.__doc__ = run.__doc__  # which describes the arguments of both
        endpoint(handler, api_name=decoding.__name__, api_description=description, **COMPUTE)
    methods.__annotations__["method"] = _one_of(METHODS) | None
    endpoint(methods, api_name="methods")
    with gr.Row(visible=False):
        file = gr.File(label="file", type="binary", visible=False)
        verdict = gr.JSON(label="verdict", visible=False)
        check = gr.Button(visible=False)
    check.click(validate, file, verdict, api_name="validate")


def _one_of(names: Any) -> Any:
    """The type of one of several names, which callers then read in the description of the endpoint."""
    return Literal[tuple(names)]


def run(  # noqa: PLR0913 (its arguments are the endpoint's)
    method: str,
    prompt: str | None = None,
    seed: int = 0,
    model: str | None = None,
    settings: dict[str, Any] | None = None,
    preset: str | None = None,
    draft: str | None = None,
) -> dict[str, Any]:
    """Decode one prompt by a speculative decoding method, and return the trace: every draft, verdict and forward pass.

    It may hold hundreds of kilobytes; /summary decodes the same and returns only the totals.

    Args:
        method: The decoding method; methods describes each. ar is ordinary decoding, which others are compared with.
        prompt: What to draw or to ask; the model's example when left out. Empty for the toy models.
        seed: A whole number from 0 to 2147483647. The same seed gives the same tokens.
        model: The model to decode with; the method's own studio model when left out. It must be of the method's family.
        settings: Settings of the method by name, such as {"window": 16}; methods lists them. The rest have defaults.
        preset: Settings that a paper names, by that name; methods lists them. What settings says goes before it.
        draft: The model that drafts, where a method has another one draft; the model's own drafter when left out.
    """
    return dict(json.loads(dumps(_decoded(method, prompt, seed, model, settings, preset, draft))))


@wraps(run, assigned=["__annotations__"])
def summary(*arguments: Any, **named: Any) -> dict[str, Any]:
    """Decode one prompt by a speculative decoding method, and return its results and the URL of its trace.

    The results are passes, acceptance rate, tokens per pass, time and text; the trace has every draft, verdict and
    forward pass.
    """
    return _summary(_decoded(*arguments, **named))


def _summary(trace: Trace) -> dict[str, Any]:
    acceptance = acceptance_by_draft_position([trace.steps])
    return {
        "method": trace.method,
        "variant": trace.variant,
        "model": trace.model.id,
        "prompt": trace.prompt,
        "seed": trace.seed,
        "config": dict(trace.config),
        "device": trace.environment.device,
        **asdict(trace.summary),
        "ended": trace.extensions.get("draftscope", {}).get("ended"),
        "mean_accepted_length": acceptance and round(acceptance.mean_accepted_length, 6),
        "acceptance_by_place": [round(position.marginal, 6) for position in acceptance.positions] if acceptance else [],
        "text": trace.output.text,
        "deviation": trace.note,
    }


def tool_call_error(tool: str, arguments: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a tool call, in the words of the HTTP API; None if nothing is."""
    if tool not in TOOLS:
        return f"tool: there is no {format_value(tool)}; there are {', '.join(TOOLS)}."
    endpoint = TOOLS[tool].endpoint
    takes = inspect.signature(ENDPOINTS[endpoint]).parameters
    for name in arguments:
        if name not in takes:
            return f"{format_name(name)}: {tool} takes no such argument; there are {', '.join(takes)}."
    for name, about in takes.items():
        if about.default is inspect.Parameter.empty and name not in arguments:
            return f"{name}: is missing; {tool} needs it."
    try:
        if endpoint == "validate":
            _check_file(arguments["file"])
        elif endpoint == "methods":
            if arguments.get("method") is not None:
                _check_method(arguments["method"])
        else:
            _request(**arguments)
    except ValueError as error:
        return str(error)
    return None


def _check_method(method: object) -> None:
    if not isinstance(method, str) or method not in METHODS:
        raise ConfigError(f"method: there is no {format_value(method)}; there are {', '.join(METHODS)}.")


def _check_file(file: object) -> None:
    if not isinstance(file, str) or not file.startswith("data:"):
        raise ConfigError(
            f"file: {format_value(file)} is not read from elsewhere; send the trace itself as a {FILE_FORMAT}."
        )


def _request(*arguments: Any, **named: Any) -> RunRequest:
    """A run with the arguments of `run`, checked as far as it can be before its model is loaded."""
    bound = inspect.signature(run).bind(*arguments, **named).arguments
    method, prompt = bound["method"], bound.get("prompt")
    if isinstance(prompt, str) and len(prompt) > PROMPT_CHARACTERS:
        raise ConfigError(f"prompt: use a text of at most {PROMPT_CHARACTERS} characters.")
    _check_method(method)
    absent = {"model": "", "preset": "", "draft": "", "settings": None}
    arguments_given = {
        name: value for name, value in bound.items() if name not in absent or value not in (None, absent[name])
    }
    request = RunRequest(**arguments_given).resolve()
    return replace(request, method=method, prompt=request.prompt or "")


def _decoded(*arguments: Any, **named: Any) -> Trace:
    *_, last = decoded([_request(*arguments, **named)], client_disconnected, "api")
    assert isinstance(last, RaceEnded)
    return last.traces[0]


def methods(method: str | None = None) -> dict[str, Any]:
    """List what can be run: the decoding methods with every setting and preset, and the models.

    Args:
        method: The one method to describe; by default all of them.
    """
    described = method_index.methods()
    if method is not None:
        with as_user_errors("api"):
            _check_method(method)
        described = {method: described[method]}
    families = {one["family"] for one in described.values()}
    models = {name: model for name, model in method_index.models().items() if is_available(name)}
    fitting = {name: model for name, model in models.items() if families & set(model["families"])}
    return {"methods": described, "models": fitting}


def validate(file: bytes | None) -> dict[str, Any]:
    """Check whether a file is a valid trace, and if not, report what is wrong, where, and the remedy.

    Args:
        file: The trace, .json or .json.gz.
    """
    if file is None:
        remedy = "send a .json or .json.gz trace"
        return {"valid": False, "field": "file", "problem": "none was given", "remedy": remedy}
    try:
        trace = loads(file, name="file")
    except TraceError as error:
        about = {name: getattr(error, name) for name in ("field", "problem", "remedy", "more")}
        return {"valid": False, **about}
    steps, tokens = len(trace.steps), trace.summary.tokens
    return {"valid": True, "method": trace.method, "model": trace.model.id, "steps": steps, "tokens": tokens}


FILE_FORMAT: Final = "data: URI, such as data:application/json;base64,eyJ9"
"""How a tool takes a file: nothing is fetched from elsewhere."""
ENDPOINTS: Final[Mapping[str, Callable[..., Any]]] = {each.__name__: each for each in (run, summary, methods, validate)}
"""Functions offered as HTTP endpoints and as tools."""


@dataclass(frozen=True, slots=True)
class Tool:
    """An endpoint as a tool."""

    endpoint: str
    title: str
    output: Mapping[str, Any]
    """JSON Schema of the properties of its answer."""


_COUNT, _NUMBER, _TEXT = {"type": "integer"}, {"type": ["number", "null"]}, {"type": ["string", "null"]}
_OBJECT: Final = {"type": "object"}
TOOLS: Final[Mapping[str, Tool]] = {
    "draftscope_run": Tool(
        "summary",
        "Decode a prompt",
        {
            **dict.fromkeys(("method", "model", "prompt", "device", "text", "ended"), _TEXT),
            **dict.fromkeys(("tokens", "forwards", "judged", "accepted"), _COUNT),
            **dict.fromkeys(("tokens_per_forward", "acceptance", "mean_accepted_length", "seconds"), _NUMBER),
            "acceptance_by_place": {"type": "array", "items": {"type": "number"}},
            "config": _OBJECT,
            "trace": {"type": "string", "description": "Where the trace can be fetched for two hours, as gzip."},
        },
    ),
    "draftscope_methods": Tool("methods", "List methods and models", {"methods": _OBJECT, "models": _OBJECT}),
    "draftscope_validate": Tool("validate", "Check a trace file", {"valid": {"type": "boolean"}}),
}
"""Tools offered to agents, with names that differ from those of other servers."""
