"""Every model there is, by id. Nothing is loaded before it is asked for."""

from collections.abc import Callable
from importlib import import_module
from typing import Final

import torch

from engines.methods.base import Family
from engines.models.base import DiscreteAR, ModelError, ModelInfo

MODELS: Final[dict[str, ModelInfo]] = {
    info.id: info
    for info in (
        ModelInfo(
            "studio-image",
            "Studio image model, 48x48",
            "discrete-ar",
            "nothing: weights ship in assets/models",
            "a red ankle boot on grass",
            'Say "a {tint} {garment} on {background}".',
        ),
        ModelInfo(
            "toy-raster",
            "Toy raster, 16x16 grey levels",
            "discrete-ar",
            "nothing: closed-form laws",
            "",
            "Takes no prompt.",
        ),
        ModelInfo(
            "text-target",
            "Studio language model",
            "diffusion-lm",
            "nothing: weights ship in assets/models",
            "A carton of juice is 10 ozs of juice. Robert drinks 5 cartons of juice. If juice has 3 calories per oz "
            "how many calories did he consume?",
            "Solves short grade-school maths problems of a dozen kinds.",
        ),
    )
}

_LOADERS: Final = {
    "studio-image": "engines.models.studio.image",
    "toy-raster": "engines.models.toy",
    "text-target": "engines.models.studio.text",
}


def default_model(family: Family) -> str:
    """The first model of a family: the studio one."""
    return next(info.id for info in MODELS.values() if info.family == family)


def small_of(model_id: str) -> str:
    """The small model that drafts for a model.

    Raises:
        ModelError: where there is none.
    """
    small = MODELS[model_id].small if model_id in MODELS else ""
    if not small:
        raise ModelError(f"drafter: no small model drafts for {model_id!r}; set drafter=itself.")
    return small


def load_model(model_id: str, device: str = "cpu") -> DiscreteAR:
    """A model by id, loaded once and shared.

    Raises:
        ModelError: for an unknown id, a missing device, or weights that cannot be had.
    """
    if model_id not in MODELS:
        raise ModelError(f"model: there is no {model_id!r}; there are {', '.join(MODELS)}.")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device: {device!r} is not available here; use cpu.") from error
    load: Callable[[str, str], DiscreteAR] = import_module(_LOADERS[model_id]).load
    return load(model_id, device)
