"""Runs a method on a model of the project, or on one that is handed over."""

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

_FIELDS: Final = ("draft", "ids", "tokenizer", "chat", "messages", "system", "device", "preset", "likely")
"""Of a `RunRequest`, that stand among the settings of a method."""


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
        model: An id of `ds.models()`, a checkpoint's folder, or a model that follows `engines.protocol.Model`; the
            method's studio model by default.
        prompt: What to decode; the model's example by default.
        seed: From 0 to 2147483647; the same seed gives the same tokens.
        settings: Settings of the method, and where they apply: `preset`, a name for several of them; `device`, such as
            "cuda:1", for models by id, by default what DRAFTSCOPE_DEVICE says or the best there is; `target`, in place
            of `model`, a causal language model of transformers, with `tokenizer`, to read `prompt` with, or `ids`, its
            prompt (or what a tokenizer returns: `**tokenizer(text)`); `messages`, in place of `prompt`, and `system`,
            turns for the chat template of the tokenizer, which any prompt is put in unless `chat` is False; `draft`,
            the model that drafts, of either kind; `likely`, how many tokens to record of each distribution behind a
            verdict: by default 8 on models that ship, none elsewhere; `on_step`, called with the `Step` of every
            forward pass; `progress=True`, a bar on standard error.

    Raises:
        ValueError: For a method, model, setting or prompt that cannot be; the message says what can.
        ModelError: For a model that cannot be had.
    """
    if "input_ids" in settings:  # as a tokenizer of transformers returns them
        settings["ids"] = settings.pop("input_ids")
        if not torch.as_tensor(settings.pop("attention_mask", True)).all():
            raise ConfigError("attention_mask: leaves tokens out; give the ids of one text without padding.")
    given: dict[str, Any] = {name: settings.pop(name) for name in _FIELDS if name in settings}
    on_step, progress = settings.pop("on_step", None), settings.pop("progress", False)
    target = settings.pop("target", None)
    if target is not None and model is not None:
        raise ConfigError("target: stands beside model; give one of them.")
    model = model if target is None else target
    request = RunRequest(method, model, prompt, config, seed, settings=settings, local=True, **given)
    running = Run(request.job())
    running.finish(on_step, progress=progress)
    return displayable(running.trace())


def methods() -> dict[str, str]:
    """What methods there are: name and what it does, in a line."""
    return {name: f"{method.title}: {method.summary}" for name, method in METHODS.items()}


def models() -> dict[str, str]:
    """What models there are: id and what it needs to be loaded."""
    registered_folders()
    return {info.id: f"{info.title}; needs {info.needs}" for info in MODELS.values()}


def settings(method: str) -> dict[str, str]:
    """The settings of a method: name, and what it may be and does."""
    config = read_method(method).config
    return {one.name: f"{one.describe_range}, {one.default} by default. {one.knob.help}" for one in settings_of(config)}
