"""Running a method on a model of the catalogue or on a model object."""

from collections.abc import Callable
from typing import Any, Final

import torch

from draftscope.trace import Trace, displayable
from engines.methods import METHODS
from engines.methods.method import Method
from engines.models.catalog import MODELS, registered_folders
from engines.runtime.driver import Run
from engines.runtime.run_request import RunRequest, read_method
from engines.settings import ConfigError
from engines.settings import settings as settings_of

_FIELDS: Final = ("draft", "ids", "tokenizer", "chat", "messages", "system", "template", "device", "preset", "likely")
"""Fields of a `RunRequest` that are passed together with the settings of a method."""


def run(
    method: str | Method | Callable[..., Any],
    config: Any = None,
    model: Any = None,
    *,
    prompt: str | None = None,
    seed: int = 0,
    **settings: Any,
) -> Trace:
    """Decode once and return the trace.

    Args:
        method: A name of `ds.methods()`, a `Method` of your own, or its function `decode(task, config, chance)`.
        config: Settings as an instance of the method's Config, instead of `settings`.
        model: An id of `ds.models()`, a checkpoint's folder, or an object that follows `engines.protocol.Model`; by
            default
            the method's studio model.
        prompt: Prompt; by default the model's example.
        seed: From 0 to 2147483647; the same seed gives the same tokens.
        settings: Settings of the method, and where they apply: `preset`, a named group of settings; `device`, such as
            "cuda:1", for models by id, by default DRAFTSCOPE_DEVICE or the best available; `target`, instead of
            `model`, a
            causal language model of transformers, with `tokenizer` to read `prompt`, or `ids`, its prompt (or the
            result
            of a tokenizer: `**tokenizer(text)`); `messages`, instead of `prompt`, and `system`, turns for the chat
            template of the tokenizer, which is applied to all prompts unless `chat` is False; `draft`, the drafter, in
            the forms of `model` or `target`; `likely`, the number of tokens to record of the distributions of each
            verdict: by default 8 for models of the catalogue, 0 for others; `on_step`, called with the `Step` of every
            forward pass; `progress=True`, a progress bar on standard error.

    Raises:
        ValueError: If a method, model, setting or prompt is invalid; the message has the remedy.
        ModelError: If a model is unavailable.
    """
    if "input_ids" in settings:  # as a tokenizer of transformers returns them
        settings["ids"] = settings.pop("input_ids")
        if not torch.as_tensor(settings.pop("attention_mask", True)).all():
            raise ConfigError("attention_mask: leaves tokens out; give the ids of one text without padding.")
    fields: dict[str, Any] = {name: settings.pop(name) for name in _FIELDS if name in settings}
    on_step, progress = settings.pop("on_step", None), settings.pop("progress", False)
    target = settings.pop("target", None)
    if target is not None and model is not None:
        raise ConfigError("target: target and model are aliases; give only one.")
    model = model if target is None else target
    request = RunRequest(method, model, prompt, config, seed, settings=settings, local=True, **fields)
    running = Run(request.job())
    running.finish(on_step, progress=progress)
    return displayable(running.trace())


def methods() -> dict[str, str]:
    """Return all methods: name and one-line description."""
    return {name: f"{method.title}: {method.summary}" for name, method in METHODS.items()}


def models() -> dict[str, str]:
    """Return all models: id and requirements."""
    registered_folders()
    return {info.id: f"{info.title}; needs {info.needs}" for info in MODELS.values()}


def settings(method: str) -> dict[str, str]:
    """The settings of a method: name, and what it may be and does."""
    config = read_method(method).config
    return {one.name: f"{one.describe_range}, {one.default} by default. {one.knob.help}" for one in settings_of(config)}
