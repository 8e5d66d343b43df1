"""Running a method on a model of the catalogue or on a model object."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from draftscope.engines.methods import METHODS
from draftscope.engines.methods.method import Method
from draftscope.engines.models.catalog import MODELS, registered_folders
from draftscope.engines.runtime.driver import Run
from draftscope.engines.runtime.run_request import RunRequest, read_method
from draftscope.engines.settings import ConfigError
from draftscope.engines.settings import settings as settings_of
from draftscope.trace import Trace, displayable
from draftscope.traces import Step


def run(  # noqa: PLR0913 (typed names for all that a run may be given)
    method: str | Method | Callable[..., Any],
    config: Any = None,
    model: Any = None,
    *,
    prompt: str | None = None,
    seed: int = 0,
    target: Any = None,
    draft: Any = None,
    tokenizer: Any = None,
    ids: Any = None,
    chat: bool | None = None,
    messages: Sequence[Mapping[str, Any]] | None = None,
    system: str | None = None,
    template: Mapping[str, Any] | None = None,
    preset: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    likely: int | None = None,
    on_step: Callable[[Step], object] | None = None,
    progress: bool = False,
    **settings: Any,
) -> Trace:
    """Decode once, as in `ds.run("speculative", model="text-target", seed=3, gamma=4)`.

    Args:
        method: A name of `ds.methods()`, a `Method` of your own, or its function `decode(task, config, rng)`.
        config: Settings as an instance of the method's Config, instead of `settings`.
        model: An id of `ds.models()`, a checkpoint's folder or GGUF file, or a `draftscope.engines.protocol.Model`.
        prompt: Prompt; by default the model's example.
        seed: From 0 to 2147483647; the same seed gives the same tokens.
        target: A causal language model of transformers, in place of `model`.
        draft: The drafter, in the forms of `model` or `target`.
        tokenizer: Reads `prompt` for a `target`, and gives its trace words.
        ids: Prompt of a `target` as ids, in place of `prompt`; `**tokenizer(text)` gives it, too.
        chat: False to use the prompt as it is, True for the chat template; by default the template if there is one.
        messages: Turns of a conversation, in place of `prompt`, as `apply_chat_template` of transformers takes them.
        system: System turn.
        template: Variables of the chat template by name, such as `{"enable_thinking": False}`.
        preset: A named group of settings.
        device: Such as "cuda:1" or, for large language models, "cuda:0,cuda:1,cpu,disk"; for models by id. By default
            DRAFTSCOPE_DEVICE or the best available.
        dtype: "float32", "bfloat16" or "float16" for the weights of a checkpoint.
        likely: Number of tokens to record of each verdict: by default 8 for models of the catalogue, 0 for others.
        on_step: Called with the `Step` of every forward pass.
        progress: Whether a progress bar is shown on standard error.
        settings: Settings of the method, also by their names in `generate`: `engines.settings.from_transformers`.

    Returns:
        The trace: `trace.output` has ids and text, `trace.summary` counts; a notebook shows it as the player.

    Raises:
        ValueError: If a method, model, setting or prompt is invalid; the message has the remedy.
        ModelError: If a model is unavailable.
    """
    if "input_ids" in settings:  # as a tokenizer of transformers returns them
        ids = settings.pop("input_ids")
        if not torch.as_tensor(settings.pop("attention_mask", True)).all():
            raise ConfigError("attention_mask: leaves tokens out; give the ids of one text without padding.")
    if target is not None and model is not None:
        raise ConfigError("target: target and model are aliases; give only one.")
    options: dict[str, Any] = {
        "draft": draft,
        "tokenizer": tokenizer,
        "ids": ids,
        "chat": chat,
        "messages": messages,
        "system": system,
        "template": template,
        "preset": preset,
        "device": device,
        "dtype": dtype,
        "likely": likely,
    }
    model = model if target is None else target
    request = RunRequest(method, model, prompt, config, seed, settings=settings, local=True, **options)
    running = Run(request.job())
    running.finish(on_step, progress=progress)
    return displayable(running.trace())


def methods() -> dict[str, str]:
    """Return all methods.

    Returns:
        The name by which `ds.run` takes each, with its title and what it does in a line.
    """
    return {name: f"{method.title}: {method.summary}" for name, method in METHODS.items()}


def models() -> dict[str, str]:
    """Return all models of the catalogue, with checkpoints that were added to it.

    Returns:
        The id by which `ds.run` takes each, with its title and what it needs.
    """
    registered_folders()
    return {info.id: f"{info.title}; needs {info.needs}" for info in MODELS.values()}


def settings(method: str) -> dict[str, str]:
    """Return the settings of a method.

    Args:
        method: A name of `ds.methods()`.

    Returns:
        The name by which `ds.run` takes each, with its range, its default and what it does.

    Raises:
        ConfigError: For an unknown method; the message has the nearest name.
    """
    config = read_method(method).config
    return {one.name: f"{one.describe_range}, {one.default} by default. {one.knob.help}" for one in settings_of(config)}
