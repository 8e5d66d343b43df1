"""Every model there is, by id. Nothing is loaded before it is asked for."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from huggingface_hub import try_to_load_from_cache

from engines.assets import ASSETS, REMEDY
from engines.config import ConfigError, Value, shown
from engines.models import licences
from engines.models.devices import resolve
from engines.models.errors import ModelError
from engines.models.memory import DTYPES, Room
from engines.models.own_folders import OwnFolder, group_of, read_folder, read_folders
from engines.models.published_families import ASKS
from engines.models.published_texts import TEXTS, Checkpoint, Kind
from engines.models.studio import snakes
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

    folder: bool = False
    """Whether it is loaded by the folder of its conversion alone, as no repository of the hub has it."""

    clips: bool = False
    """Whether it continues clips; see `engines.models.clip_model.ClipModel`."""
    opens: tuple[tuple[str, Value], ...] = ()
    """Settings that a form opens with in place of a method's defaults, where it has them."""
    writes: bool = False
    """Whether it is a published language model."""
    group: str = ""
    """The family of published checkpoints that it is of; empty for what ships."""
    gigabytes: float = 0
    """What its parameters come to in bfloat16; 0 for what ships."""
    licence: str = ""
    """Of its weights, as its model card says; empty for what ships."""
    mixture: str = ""
    """Id of the small model that drafts for it with paths in closed form, as it mixes Gaussians."""

    @property
    def label(self) -> str:
        """The title, for a published checkpoint with its family, size and licence."""
        if not self.group:
            return self.title
        size = f"{self.gigabytes:.1f} GB" + (f", {self.licence}" if self.licence else "")
        return f"{self.title} ({size})" if self.title.startswith(self.group) else f"{self.group}: {self.title} ({size})"

    @property
    def terms(self) -> str:
        """What its licence asks for before it is loaded; empty where that is nothing."""
        return ASKS.get(self.group, "")

    @property
    def text(self) -> bool:
        """Whether it writes, rather than draws."""
        return self.writes or "diffusion-lm" in self.families


_LARGE_BLOCKS: Final = (("block", "32"),)
"""The largest that the studio models know: what tells the methods apart hardly shows in blocks of 8."""


_FAMILIES: Final[dict[Kind, tuple[Family, ...]]] = {
    "causal": ("discrete-ar",),
    "blocks": ("diffusion-lm", "discrete-ar"),
    "bidirectional": ("diffusion-lm",),  # and so never causal
    "codes of texts": ("discrete-ar",),
    "codes of classes": ("discrete-ar",),
    "vectors of texts": ("continuous-ar",),
    "vectors of classes": ("continuous-ar",),
    "clips": ("discrete-ar",),
}
_SAY: Final = ("A red ankle boot on green grass.", "Say what to draw.")
_NAME_A_CLASS: Final = ("207", "Give the number of one of ImageNet's 1,000 classes.")
_ASKED: Final[dict[Kind, tuple[str, str]]] = {
    "codes of texts": _SAY,
    "codes of classes": _NAME_A_CLASS,
    "vectors of texts": _SAY,
    "vectors of classes": _NAME_A_CLASS,
    "clips": ("", "Give the path of a GIF or MP4 on the command line, or choose a clip on the page."),
}
"""A prompt, and what to write in its place, of what draws."""


_QUESTION: Final = "A library lends 12 books a day, and 3 of them come back late. How many come back on time in a week?"


def _published(text: Checkpoint) -> ModelInfo:
    """A checkpoint of the hub that writes."""
    return ModelInfo(
        text.name,
        text.title,
        _FAMILIES[text.kind],
        f"{text.gigabytes} GB (twice that on a CPU), under {text.licence}; no published weights were tried: "
        f"hf download {text.name}",
        _QUESTION,
        "Ask a question.",
        text.small,
        writes=True,
        group=text.group,
        gigabytes=text.gigabytes,
        licence=text.licence,
    )


def own_info(own: OwnFolder) -> ModelInfo:
    """A checkpoint in a folder of one's own; the folder is not told, since visitors read this."""
    return ModelInfo(
        own.id,
        own.id,
        _FAMILIES[own.kind],
        "nothing: it is in a folder of one's own",
        *_ASKED.get(own.kind, (_QUESTION, "Ask a question.")),
        writes=own.kind not in _ASKED,
        clips=own.kind == "clips",
        group=own.group,
        gigabytes=own.gigabytes,
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
        group="Cosmos",
        gigabytes=gigabytes,
        licence="NVIDIA Open Model License",
    )


def _drawing(name: str, title: str, gigabytes: float, licence: str, said: str = "", small: str = "") -> ModelInfo:
    """A model that draws; `gigabytes` is what the weights that are loaded come to in bfloat16."""
    return ModelInfo(
        name,
        title,
        ("discrete-ar",),
        f"{gigabytes} GB (twice that on a CPU): hf download {name}; {said or licence}, and no published weights were "
        "tried",
        "A red ankle boot on green grass.",
        "Say what to draw.",
        small,
        group=title.split()[0].rstrip(","),
        gigabytes=gigabytes,
        licence=licence,
    )


def _mar(size: str, gigabytes: float) -> ModelInfo:
    """A MAR, which is published as a pickle, and not on the hub."""
    return ModelInfo(
        f"mar-{size}",
        f"MAR-{size.upper()}, 256x256",
        ("continuous-ar",),
        f"{gigabytes} GB, converted once as docs/models.md says: checkpoint-last.pth and kl16.ckpt of "
        "github.com/LTH14/mar, then python -m engines convert-picture mar, and --model FOLDER; MIT, and no published "
        "weights were tried",
        "207",
        "Give the number of one of ImageNet's 1,000 classes.",
        folder=True,
        group="MAR",
        gigabytes=gigabytes,
        licence=licences.MAR,
    )


def _harmon(size: str, gigabytes: float, small: str = "") -> ModelInfo:
    """A Harmon, which lies on the hub as it is read."""
    name = f"wusize/Harmon-{size.replace('.', '_')}"
    return ModelInfo(
        name,
        f"Harmon {size}, 256x256",
        ("continuous-ar",),
        f"{gigabytes} GB: hf download {name}; {licences.HARMON}, and no published weights were tried",
        "A red ankle boot on green grass.",
        "Say what to draw.",
        small,
        group="Harmon",
        gigabytes=gigabytes,
        licence=licences.HARMON,
    )


def _xar(size: str, gigabytes: float) -> ModelInfo:
    """An xAR, which is published as a pickle."""
    file = f"xAR-{size.upper()}.pth"
    return ModelInfo(
        f"xar-{size}",
        f"xAR-{size.upper()}, 256x256",
        ("continuous-ar",),
        f"{gigabytes} GB, converted once as docs/models.md says: {file} of huggingface.co/OliverRen/xAR and MAR's "
        "kl16.ckpt, then python -m engines convert-picture xar, and --model FOLDER; its repository has "
        f"{licences.XAR}, and no published weights were tried",
        "207",
        "Give the number of one of ImageNet's 1,000 classes.",
        folder=True,
        group="xAR",
        gigabytes=gigabytes,
        licence=licences.XAR,
    )


def _llamagen(size: str, gigabytes: float) -> ModelInfo:
    """A LlamaGen of classes, which is published as a pickle."""
    return ModelInfo(
        f"llamagen-c2i-{size}",
        f"LlamaGen {size.upper()} of classes, 256x256 or 384x384",
        ("discrete-ar",),
        f"{gigabytes} GB (twice that on a CPU), converted once as docs/models.md says: c2i_{size.upper()}_256.pt or "
        "_384.pt and vq_ds16_c2i.pt of github.com/FoundationVision/LlamaGen, then python -m engines convert-picture "
        "llamagen, and --model FOLDER; MIT, and no published weights were tried",
        "207",
        "Give the number of one of ImageNet's 1,000 classes.",
        folder=True,
        group="LlamaGen",
        gigabytes=gigabytes,
        licence="MIT",
    )


def _llamagen_text(stage: int, pixels: int) -> ModelInfo:
    """A LlamaGen of texts, which is published as a pickle, and the encoder that it draws from."""
    return ModelInfo(
        f"llamagen-t2i-xl-{pixels}",
        f"LlamaGen XL of texts, {pixels}x{pixels}",
        ("discrete-ar",),
        f"4.3 GB (twice that on a CPU), of which the encoder of FLAN-T5 XL is 2.4: hf download google/flan-t5-xl, and "
        f"converted once as docs/models.md says, t2i_XL_stage{stage}_{pixels}.pt and vq_ds16_t2i.pt of "
        "github.com/FoundationVision/LlamaGen, by python -m engines convert-picture llamagen, then --model FOLDER; "
        "MIT, the encoder Apache-2.0, and no published weights were tried",
        "A red ankle boot on green grass.",
        "Say what to draw.",
        folder=True,
        group="LlamaGen",
        gigabytes=4.3,
        licence="MIT, encoder Apache-2.0",
    )


def _lumina(pixels: int) -> ModelInfo:
    """A Lumina-mGPT, whose pictures Chameleon's VQGAN draws, which is published as a pickle elsewhere."""
    repository = f"Alpha-VLLM/Lumina-mGPT-7B-{pixels}"
    return ModelInfo(
        f"lumina-mgpt-7b-{pixels}",
        f"Lumina-mGPT 7B, {pixels}x{pixels}",
        ("discrete-ar",),
        f"13.8 GB (twice that on a CPU): hf download {repository} --local-dir FOLDER, and Chameleon's vqgan.ckpt, "
        "converted once as docs/models.md says by python -m engines convert-picture lumina-mgpt, then --model FOLDER; "
        "both come of Meta's Chameleon, under the Chameleon Research License, and no published weights were tried",
        "A red ankle boot on green grass.",
        "Say what to draw.",
        folder=True,
        group="Lumina-mGPT",
        gigabytes=13.8,
        licence="Chameleon Research License",
    )


def _openpangu() -> ModelInfo:
    """OpenPangu's diffusion model, which is published elsewhere than on the hub."""
    licence = "OPENPANGU MODEL LICENSE 1.0, not for use within the European Union"
    return ModelInfo(
        "openpangu-7b-diffusion-base",
        "openPangu 7B Diffusion, base",
        _FAMILIES["blocks"],
        "16.1 GB (twice that on a CPU): the files of ai.gitcode.com/ascend-tribe/openPangu-7B-Diffusion-Base and a "
        f"tokenizer.json, written once as docs/models.md says, then --model FOLDER; {licence}, and no published "
        "weights were tried",
        _QUESTION,
        "Begin a text.",
        folder=True,
        writes=True,
        group="openPangu",
        gigabytes=16.1,
        licence=licence,
    )


def _lumina2() -> ModelInfo:
    """Lumina-mGPT 2.0, whose pictures MoVQGAN draws, which is published as a pickle elsewhere."""
    repository = "Alpha-VLLM/Lumina-mGPT-2.0"
    return ModelInfo(
        "lumina-mgpt-2.0",
        "Lumina-mGPT 2.0 7B, 768x768",
        ("discrete-ar",),
        f"14 GB (twice that on a CPU): hf download {repository} --local-dir FOLDER, and movqgan_270M.ckpt of "
        "ai-forever/MoVQGAN, converted once as docs/models.md says by python -m engines convert-picture lumina-mgpt-2, "
        "then --model FOLDER; Apache-2.0, the licence of MoVQGAN was not seen, and no published weights were tried",
        "A red ankle boot on green grass.",
        "Say what to draw.",
        folder=True,
        group="Lumina-mGPT 2.0",
        gigabytes=14.0,
        licence="Apache-2.0",
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
        opens=_LARGE_BLOCKS,
    )


def _snakes(name: str, title: str, small: str) -> ModelInfo:
    """One of the studio language models that play snakes and ladders."""
    return ModelInfo(
        name,
        title,
        ("diffusion-lm", "discrete-ar"),
        "nothing: weights ship in assets/models",
        snakes.EXAMPLE,
        f"Plays snakes and ladders: a square from {snakes.FIRST} to {snakes.LAST}, and {snakes.FEWEST} to "
        f"{snakes.MOST} rolls of a die. An answer has {snakes.LINE} tokens for every roll.",
        small,
        opens=(*_LARGE_BLOCKS, ("length", 104)),
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
                mixture=mixture,
            )
            for name, title, small, mixture in (
                ("patch-target", "Studio patch model, 48x48", "patch-draft", "patch-mixture"),
                ("patch-draft", "Small studio patch model", "", ""),
                ("patch-mixture", "Small studio patch model, mixture of Gaussians", "", ""),
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
        _snakes("snakes-target", "Snakes and ladders, where haste costs", "snakes-draft"),
        _snakes("snakes-draft", "Snakes and ladders, small", ""),
        *map(_published, TEXTS),
        _openpangu(),
        *(
            _drawing(
                f"deepseek-community/Janus-Pro-{size}",
                f"Janus-Pro {size}, 384x384",
                gigabytes,
                "DeepSeek Model License",
                "its code is MIT, its weights are under the DeepSeek Model License",
                small,
            )
            for size, gigabytes, small in (("1B", 3.3, ""), ("7B", 13.5, "deepseek-community/Janus-Pro-1B"))
        ),
        _drawing(
            "leloy/Anole-7b-v0.1-hf",
            "Anole 7B, 512x512",
            13.8,
            "Chameleon Research License",
            "its card says Apache-2.0, and it comes of Meta's Chameleon, under the Chameleon Research License",
        ),
        _drawing(
            "BAAI/Emu3-Gen-hf",
            "Emu3-Gen, 720x720",
            16.4,
            "Apache-2.0",
            "Apache-2.0; a picture is 8,100 codes, for a GPU",
        ),
        *map(_lumina, (512, 768, 1024)),
        _lumina2(),
        *(
            _llamagen(size, gigabytes)
            for size, gigabytes in (("b", 0.5), ("l", 1.0), ("xl", 1.8), ("xxl", 3.1), ("3b", 6.5))
        ),
        _llamagen_text(1, 256),
        _llamagen_text(2, 512),
        *(_mar(size, gigabytes) for size, gigabytes in (("b", 1.0), ("l", 2.1), ("h", 4.0))),
        *(_xar(size, gigabytes) for size, gigabytes in (("b", 0.8), ("l", 2.6), ("h", 4.9))),
        _harmon("0.5B", 2.9),
        _harmon("1.5B", 10.1, "wusize/Harmon-0_5B"),
        _cosmos("4B", 8.0),
        _cosmos("12B", 23.1),
    )
}

_OWN, UNREADABLE = read_folders(os.environ, MODELS)
"""Checkpoints in folders of one's own by id, and a sentence for each folder that is none."""
MODELS.update({own.id: own_info(own) for own in _OWN.values()})

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
    "snakes-target": "engines.models.studio.language",
    "snakes-draft": "engines.models.studio.language",
}
_HUB: Final = "engines.models.hub.published"


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
            f"drafter: no model drafts for {model_id!r} with paths in closed form, as {there} does; "
            "set drafter=small or drafter=itself."
        )
    return mixture


def load_model(model_id: str, device: str | None = None) -> Model:
    """A model by id, loaded once a device and shared; `devices.resolve` says on which device.

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
        own: Model = import_module(_HUB).load_folder(_OWN[model_id].folder, resolve(device))
        return own
    load: Callable[[str, str], Model] = import_module(_LOADERS.get(model_id, _HUB)).load
    return load(model_id, resolve(device))


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
    hub, place = import_module(_HUB), resolve(device)
    read, what = (hub.load_folder, Path(name)) if Path(name).is_dir() else (hub.load, name)
    model: Model = read(what, place, number, room)
    return model


def _need_assets(model_id: str) -> None:
    if _LOADERS.get(model_id, "").startswith("engines.models.studio") and not ASSETS.is_dir():
        raise ModelError(f"{model_id}: its weights are missing, there is no folder {str(ASSETS)!r}. {REMEDY}.")
