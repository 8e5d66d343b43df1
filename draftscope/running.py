"""Runs a method on a model of the project, or on one that is handed over."""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from difflib import get_close_matches
from typing import Any, Final, get_type_hints

from draftscope.trace import Trace, shown
from engines.config import ConfigError, make_config
from engines.config import settings as settings_of
from engines.methods import METHODS, SHARED
from engines.methods.method import Method
from engines.models.catalog import MODELS, default_model, open_model
from engines.models.causal_lm import CausalLM, check_drafter
from engines.protocol import Family, Model
from engines.runtime.driver import Job, Run
from engines.sampling.chance import read_seed

_UNPROVEN: Final = "A method that was handed over: nobody checked that its output follows the model's distribution."
_SOURCES: Final = ("target", "draft", "ids", "tokenizer", "device", "preset", "likely")


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
            of `model`, a causal language model of transformers, with `ids`, its prompt, or `tokenizer`, to read
            `prompt` with; `draft`, the model that drafts, of either kind; `likely`, how many tokens to record of each
            distribution behind a verdict: by default 8 on models that ship, none elsewhere.

    Raises:
        ValueError: For a method, model, setting or prompt that cannot be; the message says what can.
        ModelError: For a model that cannot be had.
    """
    given: dict[str, Any] = {name: settings.pop(name) for name in _SOURCES if name in settings}
    chosen = _method(method, config)
    if config is None:
        named = chosen.preset(given["preset"]) if given.get("preset") else {}
        config = make_config(chosen.config, {**named, **settings})
    elif settings or given.get("preset"):
        extra = next(iter(settings), "preset")
        raise ConfigError(f"{extra}: stands beside config; give settings by name, or a config, not both.")
    judge = _judge(chosen, model, given)
    if prompt is None:
        prompt = judge.prompt if isinstance(judge, CausalLM) else _example(judge.card.id)
    small = _drafter(chosen, config, judge, given)
    running = Run(Job(chosen, judge, prompt, config, read_seed(seed), small=small, likely=given.get("likely")))
    for _ in running:
        pass
    return shown(running.trace())


def methods() -> dict[str, str]:
    """What methods there are: name and what it does, in a line."""
    return {name: f"{method.title}: {method.summary}" for name, method in METHODS.items()}


def models() -> dict[str, str]:
    """What models there are: id and what it needs to be loaded."""
    return {info.id: f"{info.title}; needs {info.needs}" for info in MODELS.values()}


def settings(method: str) -> dict[str, str]:
    """The settings of a method: name, and what it may be and does."""
    config = _method(method, None).config
    return {one.name: f"{one.allowed}, {one.default} by default. {one.knob.help}" for one in settings_of(config)}


def _method(method: str | Method | Callable[..., Any], config: Any) -> Method:
    if isinstance(method, Method):
        return method
    if isinstance(method, str):
        if method in METHODS:
            return METHODS[method]
        near = get_close_matches(method, METHODS, 1)
        meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(METHODS)}."
        raise ConfigError(f"method: there is no {method!r}; {meant}")
    if not callable(method):
        raise ConfigError(f"method: a {type(method).__name__} is none; give a name, a Method or its decode function.")
    name = getattr(method, "__name__", type(method).__name__)
    kind = _asked_for(method) if config is None else type(config)
    family = _family(kind)
    return Method(name, name, family, kind, method, "", "", lambda _: _UNPROVEN)


def _asked_for(decode: Callable[..., Any]) -> type[Any]:
    """The Config that a decode function names as the type of its settings; those of causal models by default."""
    try:
        asked = list(get_type_hints(decode).values())[1]
    except (NameError, TypeError, IndexError):
        return SHARED["discrete-ar"]
    return asked if is_dataclass(asked) and isinstance(asked, type) else SHARED["discrete-ar"]


def _family(config: type[Any]) -> Family:
    """The family of models that a Config samples from."""
    for family, shared in SHARED.items():
        if issubclass(config, shared):
            return family
    kinds = ", ".join(kind.__name__ for kind in SHARED.values())
    raise ConfigError(f"config: {config.__name__} names no family of models; derive it from one of {kinds}.")


def _judge(method: Method, model: Any, given: Mapping[str, Any]) -> Model:
    """The model that has the last word."""
    target = given.get("target")
    if target is not None and model is not None:
        raise ConfigError("target: stands beside model; give one of them.")
    asked = model if target is None else target
    if asked is None or isinstance(asked, str):
        for name in ("ids", "tokenizer"):
            if given.get(name) is not None:
                raise ConfigError(f"{name}: belongs to a model of transformers that is given as target; leave it out.")
        return open_model(asked or default_model(method.family), given.get("device"))
    if given.get("device") is not None:
        raise ConfigError("device: is that of the model that is handed over; move it with .to(...) and leave it out.")
    return _handed(asked, "target", given)


def _handed(asked: Any, field: str, given: Mapping[str, Any]) -> Model:
    if isinstance(asked, Model):
        return asked
    ids = given.get("ids") if field == "target" else None
    return CausalLM(asked, field, given.get("tokenizer"), ids)


def _drafter(method: Method, config: Any, judge: Model, given: Mapping[str, Any]) -> Model | None:
    """The model that drafts, where the method has one."""
    draft = given.get("draft")
    drafter = method.drafter(config) if method.drafter else ""
    if draft is None:
        if drafter == "small" and isinstance(judge, CausalLM) and method.family in judge.families:
            raise ConfigError(
                "draft: is missing; give a smaller model of the same vocabulary, or drafter='lookup', which copies "
                "drafts from the text."
            )
        return None
    if drafter not in ("small", "mixture"):
        remedy = "set drafter='small'" if method.drafter else "leave it out"
        raise ConfigError(f"draft: {method.name} has no other model draft under these settings; {remedy}.")
    if isinstance(draft, str):
        return open_model(draft, given.get("device") or str(judge.device))
    small = _handed(draft, "draft", given)
    if isinstance(judge, CausalLM) and isinstance(small, CausalLM):
        check_drafter(judge, small)
        return small.asked_as(judge)
    return small


def _example(model_id: str) -> str:
    return MODELS[model_id].default_prompt if model_id in MODELS else ""
