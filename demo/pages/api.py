"""What programs may call, as docs/api.md describes it.

`/run` decodes and returns the trace, `/validate` checks a trace file.
"""

import json
from typing import Any

import gradio as gr
from gradio.events import api as endpoint

from demo.controls import read_config
from demo.limits import COMPUTE, PROMPT_CHARACTERS
from demo.pages.run import read_seed
from engines.config import ConfigError
from engines.methods import METHODS
from engines.models.catalog import MODELS, default_model, load_model
from engines.models.errors import ModelError
from engines.runtime.driver import Job, Run
from traces import TraceError, dumps, loads


def build() -> None:
    """Add the endpoints to the app under construction."""
    endpoint(run, api_name="run", **COMPUTE)
    with gr.Row(visible=False):
        file = gr.File(label="file", type="binary", visible=False)
        verdict = gr.JSON(label="verdict", visible=False)
        check = gr.Button(visible=False)
    check.click(validate, file, verdict, api_name="validate")


def run(
    method: str,
    prompt: str | None = None,
    seed: int = 0,
    model: str | None = None,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Decode once and return the trace.

    Args:
        method: scd, ar, gsd ...
        prompt: What to draw; the model's example when left out.
        seed: The same seed gives the same tokens.
        model: The method's studio model when left out.
        settings: Names and values, as `python -m engines list` shows them.
    """
    try:
        trace = json.loads(dumps(_job(method, prompt, seed, model, settings or {}).trace()))
    except (ValueError, ModelError) as error:
        raise gr.Error(str(error), print_exception=False) from error
    return dict(trace)


def _job(method: str, prompt: str | None, seed: int, model: str | None, settings: dict[str, Any]) -> Run:
    """A run with all its steps taken."""
    if method not in METHODS:
        raise ConfigError(f"method: there is no {method!r}; there are {', '.join(METHODS)}.")
    if not isinstance(settings, dict):
        raise ConfigError(f"settings: {settings!r} is not allowed; give an object of names and values.")
    chosen = METHODS[method]
    config = read_config(chosen.config, settings)
    seed = read_seed(seed)
    loaded = load_model(model or default_model(chosen.family))
    asked = MODELS[loaded.card.id].default_prompt if prompt is None else prompt
    if not isinstance(asked, str) or len(asked) > PROMPT_CHARACTERS:
        raise ConfigError(f"prompt: use a text of at most {PROMPT_CHARACTERS} characters.")
    running = Run(Job(chosen, loaded, asked, config, seed))
    for _ in running:
        pass
    return running


def validate(data: bytes | None) -> dict[str, Any]:
    """Say whether a file is a sound trace, and if not, what is wrong where and what to do."""
    if data is None:
        return {
            "valid": False,
            "field": "file",
            "problem": "none was given",
            "remedy": "send a .json or .json.gz trace",
        }
    try:
        trace = loads(data, name="file")
    except TraceError as error:
        return {
            "valid": False,
            "field": error.field,
            "problem": error.problem,
            "remedy": error.remedy,
            "more": error.more,
        }
    return {
        "valid": True,
        "method": trace.method,
        "model": trace.model.id,
        "steps": len(trace.steps),
        "tokens": trace.summary.tokens,
    }
