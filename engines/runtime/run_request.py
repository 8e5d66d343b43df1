"""What is asked for: names or objects, checked, with defaults for what is left out, and made into a `Job`.

The command line, Python, the app and the benchmarks all begin a run here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast, get_type_hints

from engines.methods import METHODS, SHARED
from engines.methods.method import Method
from engines.models import catalog
from engines.models import video_files as clip_files
from engines.models.chat import Chat
from engines.models.memory import DTYPES, Room
from engines.protocol import Family, Model
from engines.runtime.driver import OTHER_DRAFTERS, Job
from engines.sampling.random_source import Turned, read_seed
from engines.settings import ConfigError, make_config, shown

_UNPROVEN: Final = "A method that was handed over: nobody checked that its output follows the model's distribution."


@dataclass(frozen=True, slots=True)
class Request:
    """A run as someone asks for it. Anything may stand in a field until `resolved` has checked it."""

    method: Any
    """A name of the registry, a Method, or the `decode(task, config, chance)` of one."""
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
    """What drafts in place of the catalogue's small model, named or given as `model` is."""
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
    device: str | None = None
    """Where a named model runs, such as "cuda:1"; by default what DRAFTSCOPE_DEVICE says or the best there is."""
    draft_device: str | None = None
    """Where the drafter runs; by default beside its target."""
    dtype: str | None = None
    """A key of `engines.models.memory.DTYPES`: what the weights of a published language model are held in."""
    likely: int | None = None
    """See `Job.likely`."""
    sample: int = 0
    """See `Job.sample`."""
    turned: Sequence[Turned] = ()
    """See `Job.turned`."""
    local: bool = False
    """Whether the caller owns this machine: then a model may be a folder or OWNER/NAME, and a prompt a clip's path."""

    def resolved(self) -> "Request":
        """The request with Method, Config, seed and model chosen, not loaded; raises ConfigError for what cannot be."""
        method = read_method(self.method, self.config)
        model = catalog.default_model(method.family) if self.model is None else self.model
        named = isinstance(model, str)
        for name, one in (("model", model), ("draft", self.draft)):
            if not (self.local or isinstance(one, Model | None) or (isinstance(one, str) and one in catalog.MODELS)):
                there_are = ", ".join(catalog.models_for(method.family))
                raise ConfigError(f"{name}: there is no {shown(one)}; use one of {there_are}.")
        for name in ("ids", "tokenizer"):
            if named and getattr(self, name) is not None:
                raise ConfigError(f"{name}: belongs to a model of transformers that is given as target; leave it out.")
        if not named and self.device is not None:
            raise ConfigError(
                "device: is that of the model that is handed over; move it with .to(...) and leave it out."
            )
        if self.dtype is not None and self.dtype not in DTYPES:
            raise ConfigError(f"dtype: {shown(self.dtype)} is not allowed; use one of {', '.join(DTYPES)}.")
        if self.messages is not None and self.prompt is not None:
            raise ConfigError("messages: stand in place of prompt; leave one of them out.")
        Chat.of(self.chat, self.messages, self.system)
        prompt = self.prompt
        if prompt is None and self.messages is None and named and model in catalog.MODELS:
            prompt = catalog.MODELS[model].default_prompt
        _check_prompt(prompt)
        chosen: dict[str, Any] = {"method": method, "model": model, "prompt": prompt, "seed": read_seed(self.seed)}
        return replace(self, config=self._config(method, model), settings={}, preset=None, **chosen)

    def job(self) -> Job:
        """The run, with its models loaded.

        Raises:
            ConfigError: as `resolved` does, and for models that do not fit the method or each other.
            ModelError: for a model that cannot be had.
        """
        made = self.resolved()
        method, config, seed = made.method, made.config, made.seed
        assert isinstance(method, Method) and isinstance(seed, int)
        model = made._target(Room(getattr(config, "length", 0) or Room().length))
        model = made._asked(model)
        prompt = made.prompt
        if prompt is None:  # of a model that was handed over
            known = catalog.MODELS.get(model.card.id) if self.messages is None else None
            prompt = known.default_prompt if known else getattr(model, "prompt", "")
        if self.local and prompt.lower().endswith(clip_files.ENDINGS):
            prompt = _clip_prompt(model, prompt)
        small = made._drafter(method, model)
        return Job(method, model, prompt, config, seed, self.sample, small, self.likely, self.turned)

    def _config(self, method: Method, model: Any) -> Any:
        if self.config is None:
            named: Mapping[str, object] = {}
            if self.preset:
                named = catalog.sampling_of(model) if self.preset == catalog.GENERATION else method.preset(self.preset)
            if not isinstance(self.settings, Mapping):
                raise ConfigError(
                    f"settings: {shown(self.settings)} is not allowed; give an object of names and values."
                )
            return make_config(method.config, {**named, **self.settings})
        if self.settings or self.preset:
            beside = next(iter(self.settings), "preset")
            raise ConfigError(f"{beside}: stands beside config; give settings by name, or a config, not both.")
        if not isinstance(self.config, method.config):
            raise ConfigError(
                f"config: {shown(self.config)} is no Config of {method.name}; give settings by name, such as top_k=1, "
                "and a model as model=..."
            )
        return self.config

    def _target(self, room: Room) -> Model:
        if not isinstance(self.model, str):
            return self._wrapped(self.model, "target", self.ids)
        if self.local:
            return catalog.open_model(self.model, self.device, self.dtype, room)
        return catalog.load_model(self.model, self.device)

    def _asked(self, model: Model) -> Model:
        """The model, whose prompts are put as this asks for."""
        chat = Chat.of(self.chat, self.messages, self.system)
        asked = getattr(model, "asked", None)
        if asked is not None:
            return cast(Model, asked(chat))
        for name in ("chat", "messages", "system"):
            if getattr(self, name) is not None:
                raise ConfigError(
                    f"{name}: is for causal language models of transformers, and {model.card.id} is none; leave it out."
                )
        return model

    def _wrapped(self, model: Any, name: str, ids: Any = None) -> Model:
        """A model that was handed over; one of transformers is wrapped, and `name` is what messages call it."""
        from engines.models.checkpoints.causal_lm import CausalLM  # brings transformers

        return model if isinstance(model, Model) else CausalLM(model, name, self.tokenizer, ids)

    def _drafter(self, method: Method, model: Any) -> Model | None:
        """The model that is to draft, where one is named, or is to run elsewhere than its target."""
        drafter = method.drafter(self.config) if method.drafter else ""
        if self.draft is None and self.draft_device is None:
            if drafter == "small" and method.family in model.families and hasattr(model, "asked_as"):
                raise ConfigError(
                    "draft: is missing; give a smaller model of the same vocabulary, or drafter='lookup', which copies "
                    "drafts from the text."
                )
            return None
        if drafter not in OTHER_DRAFTERS:
            fits = ", ".join(each.name for each in METHODS.values() if each.drafter)
            remedy = "set drafter=small" if method.drafter else f"leave it out, or use one of {fits}"
            raise ConfigError(f"draft: {method.name} has no other model draft under these settings; {remedy}.")
        draft = catalog.drafter_of(model.card.id, drafter) if self.draft is None else self.draft
        if isinstance(draft, str):
            small: Any = catalog.open_model(draft, self.draft_device or self.device or str(model.device), self.dtype)
        else:
            small = self._wrapped(draft, "draft")
        if small.device != model.device and method.family == "continuous-ar":
            raise ConfigError(f"draft_device: {method.name} drafts vectors on its target's device; leave it out.")
        if hasattr(model, "asked_as") and hasattr(small, "asked_as"):  # of transformers: it reads its target's prompt
            if small.device != model.device:
                to = str(model.device)
                raise ConfigError(f"draft: is on {small.device} and the target on {to}; use draft.to({to!r}).")
            small = small.asked_as(model)
        return cast(Model, small)


def read_method(method: object, config: Any = None) -> Method:
    """The method that someone names, or hands over as a Method or its `decode`; raises ConfigError for none."""
    if isinstance(method, Method):
        return method
    if isinstance(method, str):
        if method in METHODS:
            return METHODS[method]
        near = get_close_matches(method, METHODS, 1)
        meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(METHODS)}."
        raise ConfigError(f"method: there is no {shown(method)}; {meant}")
    if not callable(method):
        raise ConfigError(f"method: a {type(method).__name__} is none; give a name, a Method or its decode function.")
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
        raise ConfigError(f"prompt: {shown(prompt)} is not allowed; use a text, or leave it out for the example.")
    if any("\ud800" <= letter <= "\udfff" for letter in prompt):
        raise ConfigError("prompt: half a character stands in it (a lone surrogate); send whole ones.")


def _clip_prompt(model: Model, path: str) -> str:
    """The prompt of the clip at a path, for a model that goes on from clips; the path itself for another."""
    prompt_for = getattr(model, "prompt_for", None)
    if prompt_for is None:
        return path
    try:
        with Path(path).open("rb") as file:
            data = file.read(clip_files.MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"prompt: {path!r} cannot be read ({why}); check the path.") from None
    return str(prompt_for(data))
