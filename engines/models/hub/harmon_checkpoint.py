"""Harmon-0.5B and -1.5B as they lie on the hub (arXiv 2503.21979): a text to a picture of 256x256 pixels, or 512x512.

Read as published: config.json with the sizes of both halves, model.safetensors with the tensors of the Qwen2 (`llm.`),
of the MAR (`mar.`), of the projections between them and of KL-16 (`vae.`), and the tokenizer. `side` in config.json,
which is ours, asks for another canvas than that of the learnt positions: 32 for 512x512 pixels.
"""

from collections.abc import Mapping
from typing import Any, Final

import torch
from transformers import Qwen2Config

from engines.config import shown
from engines.models import licences
from engines.models.hub.assembling import (
    card_of,
    check_fixed,
    check_whole,
    filled,
    outlined,
    section,
    shapes_of,
    stored,
)
from engines.models.hub.compvis import UNUSED, read_decoder
from engines.models.hub.families import QWEN_FIXED
from engines.models.hub.harmon import Harmon, HarmonModel, stretch
from engines.models.hub.latents import check_channels
from engines.models.hub.llama_text import sizes_of
from engines.models.hub.mar import MARSize
from engines.models.hub.mar_checkpoint import size_of
from engines.models.hub.published import read_tokenizer
from engines.models.memory import Needs
from engines.models.weights import Heads, Source, check_tensors, number_of, read_tensors, shapes_in, tensor_heads

TITLE: Final = "Harmon"
SHOWS: Final = "vae."
_DRAWS: Final = "mar."
_WRITES: Final = "llm.lm_head."
UNBUILT: Final = (_WRITES, *(f"{SHOWS}{name}" for name in UNUSED))
"""How names begin of what writes text, reads pictures or was trained by."""
_OTHERS: Final = ("llm.", _DRAWS, "proj_in.", "proj_out.")
_KINDS: Final = {"mar_base": 768, "mar_large": 1024, "mar_huge": 1280}
_MOST_SIDE: Final = 64


def load(source: Source, settings: Mapping[str, Any], device: str, dtype: torch.dtype) -> HarmonModel:
    """The model of a folder, in float32 whatever is asked for, as `latents` says; see `assembling.Loader`."""
    del dtype
    network, size, text = _outline(source, settings, tensor_heads(source))
    network = filled(network, read_tensors(source, shapes_of(network), TITLE, ignored=(_WRITES, SHOWS)), torch.float32)
    rotary: Any = network.llm["model"].get_submodule("rotary_emb")
    network.llm["model"].register_module("rotary_emb", type(rotary)(text))
    check_whole(network)
    if "side" in settings:
        stretch(network.mar, int(number_of(source, settings, "side", most=_MOST_SIDE)))
    decoder = read_decoder(source, "KL-16", codes=False, prefix=SHOWS, others=_OTHERS)
    check_channels(source, decoder, size.token)
    card = card_of(source, TITLE, licence=licences.HARMON)
    return HarmonModel(network, decoder, card, torch.device(device), read_tokenizer(source))


def check(source: Source, settings: Mapping[str, Any], found: Heads) -> None:
    """See that tensors are those of a Harmon without its autoencoder.

    Raises:
        ModelError: for the first that is not.
    """
    built = {name: head for name, head in found.items() if not name.startswith(_WRITES)}
    check_tensors(source, built, shapes_of(_outline(source, settings, found)[0]), TITLE)


def _outline(source: Source, settings: Mapping[str, Any], found: Heads) -> tuple[Harmon, MARSize, Qwen2Config]:
    """The network without weights, and its sizes."""
    size = _mar_size(source, section(source, settings, "mar"), shapes_in(found))
    text = _text_config(source, section(source, settings, "llm"))
    return outlined(lambda: Harmon(size, text)), size, text


def needs(source: Source, settings: Mapping[str, Any]) -> Needs:
    """What the model of a folder takes, all of it in float32; see `assembling.Measure`."""
    del settings
    return Needs(0, stored(source, UNBUILT))


def _mar_size(source: Source, said: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> MARSize:
    """The sizes of the half that draws: those of its tensors, which config.json may not contradict."""
    kind = said.get("type")
    if kind not in _KINDS:
        raise source.refuses(f"config.json has {shown(kind)} for 'type' of 'mar'; it is one of {', '.join(_KINDS)}")
    own = {name.removeprefix(_DRAWS): shape for name, shape in shapes.items() if name.startswith(_DRAWS)}
    heads = number_of(source, said, "encoder_num_heads") if "encoder_num_heads" in said else None
    size = size_of(source, own, None if heads is None else int(heads))
    check_fixed(source, said, {"patch_size": 1, "class_num": 1000}, TITLE)
    for name, found in (
        ("diffloss_d", size.head_depth),
        ("diffloss_w", size.head_width),
        ("buffer_size", size.buffer),
        ("vae_embed_dim", size.token),
        ("encoder_embed_dim", size.width),
    ):
        if said.get(name, found) != found:
            raise source.lacks(f"config.json has {shown(said[name])} for {name!r} of 'mar', and its tensors {found}")
    if heads is None and size.width != _KINDS[kind]:
        raise source.lacks(f"config.json has {kind!r} for 'type' of 'mar', and its tensors are {size.width} wide")
    return size


def _text_config(source: Source, said: Mapping[str, Any]) -> Qwen2Config:
    """The config of the Qwen2; no published one slides a window over so short a row."""
    check_fixed(source, said, {**QWEN_FIXED, "model_type": "qwen2"}, TITLE)
    return Qwen2Config(**{**sizes_of(source, said, TITLE), "use_sliding_window": False})
