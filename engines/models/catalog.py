"""Every model there is, by id. Nothing is loaded before it is asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from huggingface_hub import try_to_load_from_cache

from engines.assets import ASSETS, REMEDY
from engines.models.devices import resolve
from engines.models.errors import ModelError
from engines.protocol import Family, Model


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One line of the catalogue."""

    id: str
    title: str
    families: tuple[Family, ...]
    """Methods of which families it runs, the most natural first."""
    needs: str
    """What must be there to load it."""
    default_prompt: str
    prompt_help: str
    small: str = ""
    """Id of the small model of the same vocabulary that drafts for it."""
    proof: str = "config.json"
    """File that a checkpoint has in the hub's cache once it was fetched in a form that can be read."""

    clips: bool = False
    """Whether it continues clips; see `engines.models.clip_model.ClipModel`."""

    @property
    def text(self) -> bool:
        """Whether it writes, rather than draws."""
        return "diffusion-lm" in self.families


def _published(name: str, title: str, gigabytes: float, small: str) -> ModelInfo:
    """A checkpoint of the hub; `gigabytes` is what its parameters come to in bfloat16."""
    full = name.startswith(("GSAI-ML/", "Dream-org/"))  # bidirectional, and so never causal
    return ModelInfo(
        name,
        title,
        ("diffusion-lm",) if full else ("diffusion-lm", "discrete-ar"),
        f"{gigabytes} GB (twice that on a CPU): hf download {name}",
        "A library lends 12 books a day, and 3 of them come back late. How many come back on time in a week?",
        "Ask a question.",
        small,
    )


def _cosmos(size: str, gigabytes: float) -> ModelInfo:
    """A base model of Cosmos-1.0-Autoregressive, which is published as a pickle."""
    name = f"nvidia/Cosmos-1.0-Autoregressive-{size}"
    return ModelInfo(
        name,
        f"Cosmos 1.0 Autoregressive {size}, 33 frames of 640x1024",
        ("discrete-ar",),
        f"{gigabytes} GB (twice that on a CPU), converted once as docs/models.md says: hf download {name}, then python "
        "-m engines convert-cosmos; its code is Apache-2.0, its weights are under the NVIDIA Open Model License, and "
        "no published weights were tried",
        "",
        "Continues a clip behind its first nine frames: give the path of a GIF or MP4 on the command line.",
        proof="model.safetensors.index.json",
        clips=True,
    )


def _studio_text(name: str, title: str, small: str) -> ModelInfo:
    """One of the studio language models."""
    return ModelInfo(
        name,
        title,
        ("diffusion-lm",) if name == "text-full" else ("diffusion-lm", "discrete-ar"),
        "nothing: weights ship in assets/models",
        "A carton of juice is 10 ozs of juice. Robert drinks 5 cartons of juice. If juice has 3 calories per oz "
        "how many calories did he consume?",
        "Solves short grade-school maths problems of ten kinds.",
        small,
    )


MODELS: Final[dict[str, ModelInfo]] = {
    info.id: info
    for info in (
        *(
            ModelInfo(
                name,
                title,
                ("discrete-ar",),
                "nothing: weights ship in assets/models",
                "a red ankle boot on grass",
                'Say "a {tint} {garment} on {background}".',
                small,
            )
            for name, title, small in (
                ("studio-image", "Studio image model, 48x48", "studio-image-draft"),
                ("studio-image-draft", "Studio image model, small drafter", ""),
            )
        ),
        ModelInfo(
            "studio-video",
            "Studio video model, 33 frames of 48x48",
            ("discrete-ar",),
            "nothing: weights ship in assets/models",
            "clip 2",
            "Continues a held-out clip behind its first nine frames: clip 1 to clip 48. On the command line, also the "
            "path of a GIF or MP4.",
            clips=True,
        ),
        ModelInfo(
            "toy-raster",
            "Toy raster, 16x16 grey levels",
            ("discrete-ar",),
            "nothing: closed-form distributions",
            "",
            "Takes no prompt.",
            "toy-raster-small",
        ),
        ModelInfo(
            "toy-raster-small",
            "Toy raster, small model",
            ("discrete-ar",),
            "nothing: closed-form distributions",
            "",
            "Takes no prompt.",
        ),
        *(
            ModelInfo(
                name,
                title,
                ("continuous-ar",),
                "nothing: weights ship in assets/models",
                "a red ankle boot on grass",
                'Say "a {tint} {garment} on {background}".',
                small,
            )
            for name, title, small in (
                ("patch-target", "Studio patch model, 48x48", "patch-draft"),
                ("patch-draft", "Small studio patch model", ""),
                ("patch-mixture", "Small studio patch model, mixture of Gaussians", ""),
            )
        ),
        ModelInfo(
            "toy-field",
            "Toy field, 12x12 colours",
            ("continuous-ar",),
            "nothing: closed-form distributions",
            "",
            "Takes no prompt.",
            "toy-field-small",
        ),
        ModelInfo(
            "toy-field-small",
            "Toy field, small model",
            ("continuous-ar",),
            "nothing: closed-form distributions",
            "",
            "Takes no prompt.",
        ),
        *(
            _studio_text(name, title, small)
            for name, title, small in (
                ("text-target", "Studio language model", "text-draft"),
                ("text-draft", "Studio language model, small", ""),
                ("text-shift", "Studio language model, small, right-shifted", ""),
                ("text-full", "Studio language model, bidirectional", ""),
            )
        ),
        *(
            _published(name, title, gigabytes, small)
            for name, title, gigabytes, small in (
                ("JetLM/SDAR-1.7B-Chat", "SDAR 1.7B Chat", 4.1, ""),
                ("JetLM/SDAR-4B-Chat", "SDAR 4B Chat", 8.8, "JetLM/SDAR-1.7B-Chat"),
                ("JetLM/SDAR-8B-Chat", "SDAR 8B Chat", 16.4, "JetLM/SDAR-1.7B-Chat"),
                ("Efficient-Large-Model/Fast_dLLM_v2_1.5B", "Fast-dLLM v2 1.5B", 3.1, ""),
                ("Efficient-Large-Model/Fast_dLLM_v2_7B", "Fast-dLLM v2 7B", 15.2, ""),
                ("GSAI-ML/LLaDA-8B-Instruct", "LLaDA 8B Instruct", 16.0, ""),
                ("GSAI-ML/LLaDA-1.5", "LLaDA 1.5 8B", 16.0, ""),
                ("Dream-org/Dream-v0-Instruct-7B", "Dream 7B Instruct", 15.2, ""),
            )
        ),
        _cosmos("4B", 8.0),
        _cosmos("12B", 23.1),
    )
}

_LOADERS: Final = {
    "studio-image": "engines.models.studio.image",
    "studio-image-draft": "engines.models.studio.image",
    "studio-video": "engines.models.studio.video",
    "toy-raster": "engines.models.toy_raster",
    "toy-raster-small": "engines.models.toy_raster",
    "patch-target": "engines.models.studio.patch",
    "patch-draft": "engines.models.studio.patch",
    "patch-mixture": "engines.models.studio.patch",
    "toy-field": "engines.models.toy_field",
    "toy-field-small": "engines.models.toy_field",
    "text-target": "engines.models.studio.language",
    "text-draft": "engines.models.studio.language",
    "text-shift": "engines.models.studio.language",
    "text-full": "engines.models.studio.language",
}
_HUB: Final = "engines.models.hub.published"


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
    """Whether a model ships with the project or was fetched, so that it can be offered."""
    return model_id in _LOADERS or isinstance(try_to_load_from_cache(model_id, MODELS[model_id].proof), str)


def small_of(model_id: str) -> str:
    """The small model that drafts for a model.

    Raises:
        ModelError: where there is none.
    """
    small = MODELS[model_id].small if model_id in MODELS else ""
    if not small:
        raise ModelError(f"drafter: no small model drafts for {model_id!r}; set drafter=itself.")
    return small


def load_model(model_id: str, device: str | None = None) -> Model:
    """A model by id, loaded once a device and shared; `devices.resolve` says on which device.

    Raises:
        ConfigError: for what is no device's name.
        ModelError: for an unknown id, a missing device, or weights that cannot be had.
    """
    if model_id not in MODELS:
        raise ModelError(f"model: there is no {model_id!r}; there are {', '.join(MODELS)}.")
    _need_assets(model_id)
    load: Callable[[str, str], Model] = import_module(_LOADERS.get(model_id, _HUB)).load
    return load(model_id, resolve(device))


def open_model(name: str, device: str | None = None) -> Model:
    """A model by id, or a checkpoint by its folder or by OWNER/NAME in the hub's cache.

    For people at their own machine: `load_model` is for strangers, whose input is never a path.

    Raises:
        ConfigError, ModelError: as `load_model` does, and for a checkpoint that cannot be read.
    """
    if name in MODELS or not ("/" in name or Path(name).is_dir()):
        return load_model(name, device)
    hub, place = import_module(_HUB), resolve(device)
    model: Model = hub.load_folder(Path(name), place) if Path(name).is_dir() else hub.load(name, place)
    return model


def _need_assets(model_id: str) -> None:
    if _LOADERS.get(model_id, "").startswith("engines.models.studio") and not ASSETS.is_dir():
        raise ModelError(f"{model_id}: its weights are missing, there is no folder {str(ASSETS)!r}. {REMEDY}.")
