"""Run requests: names or objects, validated, completed with defaults and turned into a `Job`.

The command line, Python, the app and the benchmarks all start runs here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast, get_type_hints

from draftscope.engines.methods import METHODS, SHARED
from draftscope.engines.methods.method import Method
from draftscope.engines.models import catalog
from draftscope.engines.models import video_files as clip_files
from draftscope.engines.models.chat import ChatOptions
from draftscope.engines.models.memory import DTYPES, MemoryBudget
from draftscope.engines.protocol import Family, HasChat, Model, ReadsClips, SharesPrompt
from draftscope.engines.runtime.driver import OTHER_DRAFTERS, Job
from draftscope.engines.sampling.random_source import UniformOverride, parse_seed
from draftscope.engines.settings import ConfigError, format_value, from_transformers, make_config

CHAT_FIELDS: Final = ("chat", "messages", "system", "template")
"""Fields of a `RunRequest` for models that chat, in the order of `ChatOptions.parse`."""
_UNPROVEN: Final = "Custom method: not verified as lossless."


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Run as requested by a user. Fields can hold anything until `resolve` has validated them."""

    method: Any
    """A name of the registry, a Method, or the `decode(task, config, rng)` of one."""
    model: Any = None
    """An id of the catalogue, a Model, or a causal language model of transformers; by default the method's own."""
    prompt: Any = None
    """A text; by default the model's example."""
    config: Any = None
    """An instance of the method's Config, in place of `settings` and `preset`."""
    seed: Any = 0
    """From 0 to 2147483647."""
    _: KW_ONLY
    settings: Any = field(default_factory=dict, hash=False)
    """Settings of the method by name; they overrule those of the preset."""
    preset: Any = None
    """The name of settings that a paper or a release uses."""
    draft: Any = None
    """Drafter instead of the catalogue's small model, by name or object, as `model`."""
    ids: Any = None
    """The prompt as ids, for a model of transformers."""
    tokenizer: Any = None
    """Reads the prompt, for a model of transformers."""
    chat: Any = None
    """Whether the prompt is put in the chat template of a language model; by default where its tokenizer has one."""
    messages: Any = None
    """The turns of a conversation in place of the prompt: {"role": ..., "content": ...} each."""
    system: Any = None
    """The system turn before the prompt."""
    template: Any = field(default=None, hash=False)
    """Variables of the chat template by name, such as {"enable_thinking": False}, and `continue_final_message`."""
    device: str | None = None
    """Device of a named model, such as "cuda:1"; by default DRAFTSCOPE_DEVICE or the best available."""
    draft_device: str | None = None
    """Device of the drafter; by default that of its target."""
    dtype: str | None = None
    """A key of `engines.models.memory.DTYPES`: what the weights of a published language model are held in."""
    likely: int | None = None
    """Number of tokens to record; see `Job.record_top_k`."""
    sample: int = 0
    """Index of a sequence among those with the same seed."""
    turned: Sequence[UniformOverride] = ()
    """Uniform draws to override."""
    local: bool = False
    """Whether the caller owns this machine: then a model may be a folder or OWNER/NAME, and a prompt a clip's path."""

    def resolve(self) -> "RunRequest":
        """The request with Method, Config, seed and model chosen, not loaded; raises ConfigError for what cannot be."""
        method = read_method(self.method, self.config)
        model = catalog.default_model(method.family, shifted=method.shifted) if self.model is None else self.model
        named = isinstance(model, str)
        for name, one in (("model", model), ("draft", self.draft)):
            if not (self.local or isinstance(one, Model | None) or (isinstance(one, str) and one in catalog.MODELS)):
                there_are = ", ".join(catalog.models_for(method.family))
                raise ConfigError(f"{name}: there is no {format_value(one)}; use one of {there_are}.")
        for name in ("ids", "tokenizer"):
            if named and getattr(self, name) is not None:
                raise ConfigError(f"{name}: belongs to a model of transformers that is given as target; leave it out.")
        if not named and self.device is not None:
            raise ConfigError("device: cannot be set for a model object; move it with .to(...) and leave it out.")
        if self.dtype is not None and self.dtype not in DTYPES:
            raise ConfigError(f"dtype: {format_value(self.dtype)} is not allowed; use one of {', '.join(DTYPES)}.")
        if self.messages is not None and self.prompt is not None:
            raise ConfigError("messages: cannot be combined with prompt; leave one of them out.")
        self._chat_options()
        prompt = self.prompt
        if prompt is None and self.messages is None and named and model in catalog.MODELS:
            prompt = catalog.MODELS[model].default_prompt
        _check_prompt(prompt)
        chosen: dict[str, Any] = {"method": method, "model": model, "prompt": prompt, "seed": parse_seed(self.seed)}
        return replace(self, config=self._config(method, model), settings={}, preset=None, **chosen)

    def job(self) -> Job:
        """The run, with its models loaded.

        Raises:
            ConfigError: as `resolved` does, and for models that do not fit the method or each other.
            ModelError: for a model that cannot be had.
        """
        resolved = self.resolve()
        method, config, seed = resolved.method, resolved.config, resolved.seed
        assert isinstance(method, Method) and isinstance(seed, int)
        model = resolved._target(MemoryBudget(getattr(config, "length", 0) or MemoryBudget().length))
        model = resolved._with_chat(model)
        prompt = resolved.prompt
        if prompt is None:  # a model object
            known = catalog.MODELS.get(model.card.id) if self.messages is None else None
            prompt = known.default_prompt if known else model.prompt if isinstance(model, HasChat) else ""
        if self.local and prompt.lower().endswith(clip_files.ENDINGS):
            prompt = _clip_prompt(model, prompt)
        small = resolved._drafter(method, model)
        return Job(method, model, prompt, config, seed, self.sample, small, self.likely, self.turned)

    def _config(self, method: Method, model: Any) -> Any:
        if self.config is None:
            named: Mapping[str, object] = {}
            if self.preset:
                named = (
                    catalog.default_sampling(model) if self.preset == catalog.GENERATION else method.preset(self.preset)
                )
            if not isinstance(self.settings, Mapping):
                raise ConfigError(
                    f"settings: {format_value(self.settings)} is not allowed; give an object of names and values."
                )
            return make_config(method.config, {**named, **from_transformers(self.settings)})
        if (self.settings or self.preset) and not isinstance(self.config, str):
            field = next(iter(self.settings), "preset")
            raise ConfigError(f"{field}: cannot be combined with config; give settings or a config.")
        if isinstance(self.config, str):
            raise ConfigError(f"config: is a text; give a prompt by name: prompt={format_value(self.config)}.")
        if not isinstance(self.config, method.config):
            raise ConfigError(
                f"config: {format_value(self.config)} is not a Config of {method.name}; give settings by name, such as "
                "top_k=1, and a model as model=..."
            )
        return self.config

    def _target(self, room: MemoryBudget) -> Model:
        if not isinstance(self.model, str):
            return self._wrapped(self.model, "target", self.ids)
        if self.local:
            return catalog.open_model(self.model, self.device, self.dtype, room)
        return catalog.load_model(self.model, self.device)

    def _chat_options(self) -> ChatOptions:
        return ChatOptions.parse(*(getattr(self, name) for name in CHAT_FIELDS))

    def _with_chat(self, model: Model) -> Model:
        """The model, whose prompts are put as this asks for."""
        chat = self._chat_options()
        if isinstance(model, HasChat):
            return model.with_chat(chat)
        for name in CHAT_FIELDS:
            if getattr(self, name) is not None:
                raise ConfigError(
                    f"{name}: needs a causal language model of transformers; leave it out for {model.card.id}."
                )
        return model

    def _wrapped(self, model: Any, name: str, ids: Any = None) -> Model:
        """Return a model object; one of transformers is wrapped, and messages call it `name`."""
        from draftscope.engines.models.checkpoints.causal_lm import CausalLM  # brings transformers

        return model if isinstance(model, Model) else CausalLM(model, name, self.tokenizer, ids)

    def _drafter(self, method: Method, model: Any) -> Model | None:
        """The model that is to draft, where one is named, or is to run elsewhere than its target."""
        drafter = method.find_drafter(self.config) if method.find_drafter else ""
        if self.draft is None and self.draft_device is None:
            if drafter == "small" and method.family in model.families and isinstance(model, SharesPrompt):
                raise ConfigError(
                    "draft: is missing; give a smaller model of the same vocabulary, or drafter='lookup', which copies "
                    "drafts from the text."
                )
            return None
        if drafter not in OTHER_DRAFTERS:
            fits = ", ".join(each.name for each in METHODS.values() if each.find_drafter)
            remedy = "set drafter=small" if method.find_drafter else f"leave it out, or use one of {fits}"
            raise ConfigError(f"draft: {method.name} has no other model draft under these settings; {remedy}.")
        draft = catalog.drafter_of(model.card.id, drafter) if self.draft is None else self.draft
        if isinstance(draft, str):
            small: Any = catalog.open_model(draft, self.draft_device or self.device or str(model.device), self.dtype)
        else:
            small = self._wrapped(draft, "draft")
        if small.device != model.device and method.family == "continuous-ar":
            raise ConfigError(f"draft_device: {method.name} drafts vectors on its target's device; leave it out.")
        if isinstance(model, SharesPrompt) and isinstance(small, SharesPrompt):
            if small.device != model.device:
                to = str(model.device)
                raise ConfigError(f"draft: is on {small.device} and the target on {to}; use draft.to({to!r}).")
            small = small.with_prompt_of(model)
        return cast(Model, small)


def read_method(method: object, config: Any = None) -> Method:
    """Return a method from any form in which it can be given.

    Args:
        method: A name of the registry, a `Method`, or a `decode` function of your own.
        config: Settings of a `decode` function that does not name their type.

    Raises:
        ConfigError: For an unknown name, or something that is not a method.
    """
    if isinstance(method, Method):
        return method
    if isinstance(method, str):
        if method in METHODS:
            return METHODS[method]
        near = get_close_matches(method, METHODS, 1)
        meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(METHODS)}."
        raise ConfigError(f"method: there is no {format_value(method)}; {meant}")
    if not callable(method):
        raise ConfigError(
            f"method: a {type(method).__name__} is invalid; give a name, a Method or its decode function."
        )
    name = getattr(method, "__name__", type(method).__name__)
    kind = _config_of(method) if config is None else type(config)
    return Method(name, name, _family(kind), kind, method, "", "", lambda _: _UNPROVEN)


def _config_of(decode: Callable[..., Any]) -> type[Any]:
    """The Config that a decode function names as the type of its settings; those of causal models by default."""
    try:
        named = list(get_type_hints(decode).values())[1]
    except (NameError, TypeError, IndexError):
        return SHARED["discrete-ar"]
    return named if is_dataclass(named) and isinstance(named, type) else SHARED["discrete-ar"]


def _family(config: type[Any]) -> Family:
    """The family of models that a Config samples from."""
    for family, shared in SHARED.items():
        if issubclass(config, shared):
            return family
    kinds = ", ".join(kind.__name__ for kind in SHARED.values())
    raise ConfigError(f"config: {config.__name__} names no family of models; derive it from one of {kinds}.")


def _check_prompt(prompt: object) -> None:
    if prompt is None:
        return
    if not isinstance(prompt, str):
        raise ConfigError(
            f"prompt: {format_value(prompt)} is not allowed; use a text, or leave it out for the example."
        )
    if any("\ud800" <= letter <= "\udfff" for letter in prompt):
        raise ConfigError("prompt: contains a lone surrogate; send valid Unicode.")


def _clip_prompt(model: Model, path: str) -> str:
    """The prompt of the clip at a path, for a model that goes on from clips; the path itself for another."""
    if not isinstance(model, ReadsClips):
        return path
    try:
        with Path(path).open("rb") as file:
            data = file.read(clip_files.MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"prompt: {path!r} cannot be read ({why}); check the path.") from None
    return model.prompt_for(data)
