"""Every model there is, by id. Nothing is loaded before it is asked for."""

import os
from collections.abc import Callable
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Final

from huggingface_hub import try_to_load_from_cache

from engines.assets import ASSETS, REMEDY
from engines.config import ConfigError, shown
from engines.models.devices import resolve_several, split
from engines.models.errors import ModelError
from engines.models.memory import DTYPES, Room
from engines.models.model_info import ModelInfo, own_info, published_info
from engines.models.ours import OURS
from engines.models.own_folders import group_of, read_folder, read_folders
from engines.models.published_families import ASKS
from engines.models.published_pictures import PICTURES
from engines.models.published_texts import TEXTS
from engines.protocol import Family, Model

_HUB: Final = "engines.models.hub.published"
_LOADERS: Final = {info.id: module for module, infos in OURS.items() for info in infos}
MODELS: Final[dict[str, ModelInfo]] = {
    info.id: info for info in chain(*OURS.values(), map(published_info, TEXTS), map(published_info, PICTURES))
}
_OWN, UNREADABLE = read_folders(os.environ, MODELS)
"""Checkpoints in folders of one's own by id, and a sentence for each folder that is none."""
MODELS.update({own.id: own_info(own) for own in _OWN.values()})


def add_folder(named: str) -> str:
    """Offer a checkpoint in a folder from now on, and say by which id; for whoever started the program.

    Raises:
        ValueError: for a folder that cannot be offered; the message says why.
    """
    try:
        folder = Path(named.strip()).expanduser().resolve()
    except (OSError, RuntimeError, ValueError):
        raise ValueError(f"{shown(named)} cannot be a path; name the folder of a checkpoint.") from None
    found = next((own.id for own in _OWN.values() if own.folder == folder), None)
    if found is not None:
        return found
    try:
        if not named.strip():
            raise ValueError("is empty; name the folder of a checkpoint.")
        own = read_folder(folder, MODELS)
    except ValueError as error:
        raise ValueError(f"{shown(named)} {error}") from None
    _OWN[own.id] = own
    MODELS[own.id] = own_info(own)
    return own.id


def terms_of(name: str) -> str:
    """What the licence of a model, by id or by its folder, asks for before it is loaded; empty for nothing."""
    return MODELS[name].terms if name in MODELS else ASKS.get(group_of(Path(name)), "")


def default_model(family: Family) -> str:
    """The first model of a family: the studio one."""
    return next(info.id for info in MODELS.values() if family in info.families)


def models_for(family: Family) -> list[str]:
    """Ids of the models at hand that methods of a family run on."""
    return [info.id for info in MODELS.values() if family in info.families and at_hand(info.id)]


def ships(model_id: str) -> bool:
    """Whether a model is one of the project's own, which come with it."""
    return model_id in _LOADERS


def at_hand(model_id: str) -> bool:
    """Whether a model ships with the project, was fetched or is in a folder of one's own, so that it can be offered."""
    if model_id in _LOADERS or model_id in _OWN:
        return True
    info = MODELS[model_id]
    return not info.folder and isinstance(try_to_load_from_cache(model_id, info.proof), str)


def small_of(model_id: str) -> str:
    """The small model that drafts for a model.

    Raises:
        ModelError: where there is none.
    """
    small = MODELS[model_id].small if model_id in MODELS else ""
    if not small:
        raise ModelError(f"drafter: no small model drafts for {model_id!r}; set drafter=itself.")
    return small


def mixture_of(model_id: str) -> str:
    """The model that drafts for a model with paths in closed form.

    Raises:
        ModelError: where there is none.
    """
    mixture = MODELS[model_id].mixture if model_id in MODELS else ""
    if not mixture:
        there = ", ".join(f"{info.mixture} for {info.id}" for info in MODELS.values() if info.mixture)
        raise ModelError(
            f"drafter: no model drafts for {model_id!r} by mixing Gaussians, as {there} does; "
            "set drafter=small or drafter=itself."
        )
    return mixture


def load_model(model_id: str, device: str | None = None) -> Model:
    """A model by id, loaded once a device and shared; `devices.resolve_several` says where.

    Raises:
        ConfigError: for what is no device's name.
        ModelError: for an unknown id, a missing device, or weights that cannot be had.
    """
    if model_id not in MODELS:
        raise ModelError(f"model: there is no {model_id!r}; there are {', '.join(MODELS)}.")
    if MODELS[model_id].folder:
        raise ModelError(f"{model_id}: is loaded by its folder. It needs {MODELS[model_id].needs}.")
    _need_assets(model_id)
    if model_id in _OWN:
        own: Model = import_module(_HUB).load_folder(_OWN[model_id].folder, resolve_several(device))
        return own
    place = resolve_several(device)
    load: Callable[[str, str], Model] = import_module(_LOADERS.get(model_id, _HUB)).load
    return load(model_id, split(place)[0] if model_id in _LOADERS else place)


def open_model(name: str, device: str | None = None, dtype: str | None = None, room: Room | None = None) -> Model:
    """A model by id, or a checkpoint by its folder or by OWNER/NAME in the hub's cache.

    `dtype` is what the weights of a published language model are held in: float32, bfloat16 or float16; by default
    float32 on a CPU and bfloat16 elsewhere. `room` is what is to be decoded: a published checkpoint that has no room
    for it is not read.

    For people at their own machine: `load_model` is for strangers, whose input is never a path.

    Raises:
        ConfigError, ModelError: as `load_model` does, and for a checkpoint that cannot be read.
    """
    if ships(name) or name in _OWN or not ("/" in name or Path(name).is_dir()):
        if dtype is not None and name in MODELS:
            raise ConfigError(f"dtype: {name} ships in float32; leave it out.")
        return load_model(name, device)
    number = None if dtype is None else DTYPES[dtype]
    hub, place = import_module(_HUB), resolve_several(device)
    read, what = (hub.load_folder, Path(name)) if Path(name).is_dir() else (hub.load, name)
    model: Model = read(what, place, number, room)
    return model


def _need_assets(model_id: str) -> None:
    if _LOADERS.get(model_id, "").startswith("engines.models.studio") and not ASSETS.is_dir():
        raise ModelError(f"{model_id}: its weights are missing, there is no folder {str(ASSETS)!r}. {REMEDY}.")
