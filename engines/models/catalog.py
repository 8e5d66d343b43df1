"""Catalogue of all models by id. Models are loaded on first use. Users of a public page choose an id, never a path."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

from draftscope.engines.methods.speculative import EAGLE_DRAFTERS
from draftscope.engines.models.bundled.catalog import OURS
from draftscope.engines.models.checkpoint_files import CONFIG
from draftscope.engines.models.checkpoints.families import CHECKPOINTS, Checkpoint, Example, Kind, published_as, type_of
from draftscope.engines.models.devices import parse_devices, resolve_devices
from draftscope.engines.models.download import download_dir, is_fetched, size_of
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.memory import DTYPES, MemoryBudget
from draftscope.engines.models.model_info import GGUF, ModelInfo
from draftscope.engines.paths import ASSETS, REMEDY
from draftscope.engines.paths import MODELS_VARIABLE as VARIABLE
from draftscope.engines.protocol import Family, Model
from draftscope.engines.settings import ConfigError, Setting, Value, format_value

_FOLDER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LOADERS: Final = {info.id: module for module, infos in OURS.items() for info in infos}
_FAMILIES: Final[dict[str, tuple[Family, ...]]] = {
    "blocks": ("diffusion-lm", "discrete-ar"),
    "bidirectional": ("diffusion-lm",),  # and so never causal
    "vectors": ("continuous-ar",),
}
"""By the first word of a kind; all others are discrete-ar."""
_QUESTION: Final = (
    "A library lends 12 books a day, and 3 of them come back late. How many come back on time in a week?",
    "Ask a question, or begin a text.",
)
_CORRECT: Final = (
    "Correct the spelling of this text and repeat it whole: The old libary stands on the hill. Every morning the "
    "librarian opens the heavy door, lights the lamps and puts the new books on the shelf beside the window."
)
"""Much of the answer can be copied."""
_GENERATED: Final = {"temperature": 1.0, "top_k": 50, "top_p": 1.0}
"""Defaults of `generate` for sampling."""
_UNBUILT: Final = {
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "typical_p": 1.0,
    "min_p": None,
    "num_beams": 1,
}
"""Options of `generate` that are not implemented, with their neutral values."""
_SAY: Final = ("An owl in the forest.", "Describe the picture.")
_CLASS: Final = ("207", "Give the number of one of ImageNet's 1,000 classes.")
_CLIP: Final = (
    "",
    "Continues a clip after its first nine frames: give the path of a GIF or MP4 on the command line, or choose a "
    "clip on the page.",
)


def _info(kind: Kind, name: str, title: str, needs: str) -> ModelInfo:
    """Return the common entries of all checkpoints of a kind."""
    prompts = {"texts": _SAY, "classes": _CLASS, "clips": _CLIP}.get(kind.split()[-1], _QUESTION)
    families = _FAMILIES.get(kind.split()[0], ("discrete-ar",))
    return ModelInfo(name, title, families, needs, *prompts, clips=kind == "clips", generates_text=prompts is _QUESTION)


def _listed(row: Checkpoint, example: Example) -> ModelInfo:
    """A published checkpoint; one of which more is needed than its repository on the hub is loaded by its folder."""
    size = f"{example.gigabytes} GB" + ("" if row.kind.startswith("vectors") else " (twice that on a CPU)")
    fetch = f"{example.files}, as docs/models.md says, then --model FOLDER" if example.files else ""
    untried = "" if example.fetched else ", and no published weights were tried"
    command = f"draftscope model download {example.name}" if example.fetched else f"hf download {example.name}"
    needs = f"{size}: {fetch or command}; {row.licence}{untried}"
    info = _info(row.kind, example.name, example.title, needs)
    return replace(
        info,
        default_drafter=example.drafter,
        eagle=example.eagle,
        folder=bool(example.files),
        fetched=example.fetched is not None,
        form_defaults=_drafting(example),
        default_prompt=_CORRECT if example.fetched else info.default_prompt,
        group=row.name,
        gigabytes=example.gigabytes,
        licence=row.licence,
        terms=row.terms,
    )


def _drafting(example: Example) -> tuple[tuple[str, Value], ...]:
    """Settings of speculative decoding that are fast, of models that are here at a command (docs/measured.md)."""
    if _has_weights(example.eagle):
        return (("drafter", "lookup-eagle"), ("gamma", 3))
    return (("drafter", "lookup"),) if example.fetched else ()


def _has_weights(eagle: str) -> bool:
    return bool(eagle) and (ASSETS / "models" / f"{eagle}.safetensors").is_file()


def terms_of(name: str) -> str:
    """Return what the licence of a checkpoint, given by name or folder, requires before it is loaded.

    Empty for nothing.
    """
    row = published_as(name)
    return row.terms if row else ""


_PUBLISHED: Final = [_listed(row, example) for row in CHECKPOINTS for example in row.examples]
_SHIPPED: Final = list(chain(*OURS.values()))
MODELS: Final[dict[str, ModelInfo]] = {
    info.id: info
    for info in chain(
        (info for info in _SHIPPED if not info.text),
        (info for info in _PUBLISHED if info.fetched),
        (info for info in _SHIPPED if info.text),
        (info for info in _PUBLISHED if not info.fetched),
    )
}
"""In the order of lists: the first of a family is what pages open with."""
_OWN: Final[dict[str, Path]] = {}
"""Checkpoints in folders of the user, by id."""


def _offer(folder: Path) -> str:
    """Offer a checkpoint in a folder, whose path is not shown, and return its id; raises ValueError if it cannot be."""
    from draftscope.engines.models.loading import read_config, source_of  # brings transformers

    try:
        source = source_of(str(folder))
        row, settings = read_config(source)
    except (OSError, ModelError) as error:
        raise ValueError(f"cannot be read: {error}") from error
    name = folder.name
    if not _FOLDER_NAME.fullmatch(name) or name in MODELS:
        raise ValueError("has a name that is taken or contains characters other than A-Z a-z 0-9 . _ -; rename it.")
    info = _info(row.kind, name, name, "nothing: it is in a local folder")
    group = row.name if row.examples else str(type_of(settings))
    size = sum(file.stat().st_size for file in source.folder.glob("*.safetensors"))
    MODELS[name] = replace(info, group=group, gigabytes=size / 1e9, terms=terms_of(name))
    _OWN[name] = folder
    return name


def register_folders(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Add the checkpoints in the folders that the environment variable `VARIABLE` lists.

    Args:
        environment: Environment variables, such as ``os.environ``.

    Returns:
        One sentence for each folder that cannot be read.
    """
    problems = []
    for name in filter(None, environment.get(VARIABLE, "").split(os.pathsep)):
        try:
            _offer(Path(name).expanduser().resolve())
        except ValueError as error:
            problems.append(f"{VARIABLE}: {format_value(name)} {error}")
    return tuple(problems)


@cache
def registered_folders() -> tuple[str, ...]:
    """Add the checkpoints of this process's environment once. Returns one sentence for each unreadable folder."""
    return register_folders(os.environ)


def register_folder(named: str) -> str:
    """Add the checkpoint in a folder to the catalogue, and return its id.

    Raises:
        ValueError: If the path or the checkpoint cannot be read.
        ModelError: If the checkpoint is incomplete.
    """
    try:
        folder = Path(named.strip()).expanduser().resolve()
    except (OSError, RuntimeError, ValueError):
        raise ValueError(f"{format_value(named)} cannot be a path; name the folder of a checkpoint.") from None
    if not named.strip():
        raise ValueError(f"{format_value(named)} is empty; name the folder of a checkpoint.")
    if folder in _OWN.values():
        return next(name for name, path in _OWN.items() if path == folder)
    try:
        name = _offer(folder)
    except ValueError as error:
        raise ValueError(f"{format_value(named)} {error}") from None
    try:
        loading = import_module("draftscope.engines.models.loading")
        loading.needs_of(str(folder))
        loading.source_of(str(folder)).heads()
    except ModelError:
        del MODELS[name], _OWN[name]
        raise
    return name


def default_model(family: Family, *, shifted: bool = False) -> str:
    """Return the first model of a family in the order of the catalog: a studio model, where the family has one.

    Args:
        family: Family of the method.
        shifted: Whether its outputs must be shifted by one token, as those of autoregressive models are.
    """
    return next(info.id for info in MODELS.values() if family in info.families and (info.shifted or not shifted))


def models_for(family: Family) -> list[str]:
    """Return the ids of the available models that methods of a family run on."""
    return [info.id for info in MODELS.values() if family in info.families and is_available(info.id)]


def is_bundled(model_id: str) -> bool:
    """Whether a model is one of the project's own, which come with it."""
    return model_id in _LOADERS


def is_available(model_id: str) -> bool:
    """Return whether a model is bundled, downloaded or in a registered folder."""
    info = MODELS[model_id]
    if is_bundled(model_id) or model_id in _OWN or info.fetched:
        return not info.downloads or is_fetched(info.downloads)
    from huggingface_hub import try_to_load_from_cache  # brings much that a list has no use for

    return not info.folder and isinstance(try_to_load_from_cache(model_id, CONFIG), str)


def download_hint(model_id: str) -> str:
    """How a model that is fetched on request, or that it is an adapter of, can be had, in a sentence."""
    needed = MODELS[model_id].downloads
    missing = "is not fetched yet" if needed == model_id else f"needs {needed}, which is not fetched yet"
    command = f"draftscope model download {needed}"
    return f"{model_id}: {missing}; fetch it once, {size_of(needed)}, with: {command}"


GENERATION: Final = "generation_config"
"""The preset that is a model's own: what `generate` of transformers does with it unasked."""


def default_sampling(model: Any) -> dict[str, object]:
    """How `generate` would sample from a model, by its id, its folder, OWNER/NAME or as an object, as settings.

    Raises:
        ConfigError: for a model without a generation_config.json, and for one that asks for what is not built.
        ModelError: for a model that cannot be had.
    """
    if isinstance(model, str):
        from draftscope.engines.models.loading import source_of  # brings transformers

        path = download_dir(model) if model in MODELS and MODELS[model].fetched else _OWN.get(model, model)
        named = {} if is_bundled(model) else source_of(str(path)).read_json_if_any(f"{GENERATION}.json")
    else:
        config = getattr(model, GENERATION, None)
        named = {} if config is None else config.to_dict()
    if not named:
        raise ConfigError(f"preset: {format_value(model)} has no {GENERATION}.json; leave it out.")
    if not named.get("do_sample"):
        return {"top_k": 1}
    for name, neutral in _UNBUILT.items():
        if named.get(name) not in (None, neutral):
            raise ConfigError(
                f"preset: {GENERATION}.json asks for {name}={named[name]!r}, which is not built; give temperature, "
                "top_k and top_p by name."
            )
    return {name: value if named.get(name) is None else named[name] for name, value in _GENERATED.items()}


def drafter_of(model_id: str, drafter: str = "small") -> str:
    """Return the id of the model that drafts for another.

    Args:
        model_id: Target; may be one that the catalog does not have.
        drafter: The method's setting of that name, "small" or "mixture".

    Raises:
        ModelError: If no model of the catalog drafts for it in this way.
    """
    info = MODELS.get(model_id)
    name = "" if info is None else info.mixture if drafter == "mixture" else info.default_drafter
    if name:
        return name
    if drafter == "mixture":
        pairs = ", ".join(f"{info.mixture} for {info.id}" for info in MODELS.values() if info.mixture)
        raise ModelError(
            f"drafter: no model drafts for {model_id!r} by mixing Gaussians, as {pairs} does; "
            "set drafter=small or drafter=itself."
        )
    raise ModelError(
        f"drafter: no small model drafts for {model_id!r}; name one by draft (--drafter), or set drafter=itself "
        "or, in speculative decoding, drafter=lookup."
    )


def has_eagle(model_id: str) -> bool:
    """Whether a drafter that reads hidden states was trained for a model, and its weights are here."""
    return model_id in MODELS and _has_weights(MODELS[model_id].eagle)


def available_choices(setting: Setting) -> tuple[str, ...]:
    """The choices of a setting for which there are weights."""
    has_drafter = setting.name != "drafter" or any(map(has_eagle, MODELS))
    return tuple(choice for choice in setting.choices if has_drafter or choice not in EAGLE_DRAFTERS)


def eagle_of(model: Model) -> Model:
    """The drafter that was trained to read the hidden states of a model; raises ModelError where there is none."""
    info = MODELS.get(model.card.id)
    if info is None or not info.eagle:
        have = ", ".join(info.id for info in MODELS.values() if info.eagle)
        raise ModelError(
            f"drafter: 'eagle' is there for {have}, which it was trained for, and not for {model.card.id}; set "
            "drafter=lookup."
        )
    return cast(Model, import_module("draftscope.engines.models.eagle").load(info.eagle, model))


def load_model(model_id: str, device: str | None = None) -> Model:
    """Return a model by id, loaded once per device and shared.

    Args:
        model_id: Id in `MODELS`; `open_model` takes folders and names of the hub, too.
        device: Devices as `devices.resolve_devices` reads them; by default it chooses.

    Raises:
        ConfigError: If the device name is invalid.
        ModelError: If the id is unknown, the device is missing, or the weights are unavailable.
    """
    if model_id not in MODELS:
        registered_folders()  # in a process that neither the app nor the command line has prepared
    info, module = MODELS.get(model_id), _LOADERS.get(model_id, "")
    if info is None:
        raise ModelError(f"model: there is no {model_id!r}; there are {', '.join(MODELS)}.")
    if info.downloads and not is_fetched(info.downloads):
        raise ModelError(download_hint(model_id))
    if info.folder:
        raise ModelError(f"{model_id}: is loaded by its folder. It needs {info.needs}.")
    if module.startswith("draftscope.engines.models.bundled") and not ASSETS.is_dir():
        raise ModelError(f"{model_id}: its weights are missing, there is no folder {str(ASSETS)!r}. {REMEDY}.")
    devices = resolve_devices(device)
    if module:
        load: Callable[[str, str], Model] = import_module(module).load
        return load(model_id, parse_devices(devices)[0])
    return _load(download_dir(model_id) if info.fetched else _OWN.get(model_id, model_id), devices)


def open_model(
    name: str, device: str | None = None, dtype: str | None = None, room: MemoryBudget | None = None
) -> Model:
    """Return a model by id, or a checkpoint by its folder or its name on the hub.

    Only requests that are `local` come here, as the name may be any path of the machine.

    Args:
        name: Id, folder, GGUF file, or OWNER/NAME of a checkpoint in the cache.
        device: Devices as `devices.resolve_devices` reads them; by default it chooses.
        dtype: Key of `DTYPES`; by default float32 on a CPU and bfloat16 elsewhere. Bundled models are float32 only.
        room: Size of the output that must fit into the memory with the weights.

    Raises:
        ConfigError: If the device name is invalid, or a data type is given for a bundled model.
        ModelError: If it is unknown or not downloaded, of an unsupported family, or does not fit.
    """
    fetched = name in MODELS and MODELS[name].fetched and is_fetched(name)
    is_path = Path(name).is_dir() or name.lower().endswith(GGUF)
    if is_bundled(name) or name in _OWN or not (fetched or "/" in name or is_path):
        if dtype is not None and name in MODELS:
            raise ConfigError(f"dtype: {name} ships in float32; leave it out.")
        return load_model(name, device)
    path = download_dir(name) if fetched else Path(name) if is_path else name
    return _load(path, resolve_devices(device), None if dtype is None else DTYPES[dtype], room)


def _load(path: Path | str, *how: Any) -> Model:
    """A checkpoint by its folder or by OWNER/NAME."""
    from draftscope.engines.models.loading import load  # brings transformers

    return load(path, *how)
