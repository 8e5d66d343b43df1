"""The one-time conversion of checkpoints of picture models that were published as pickles: to safetensors.

    python -m engines convert-picture KIND SOURCE [PIXELS] TARGET

Of a pickle nothing but tensors is read. Names, shapes and number formats are compared with the network before anything
is written, and tensors keep their published names. TARGET gets config.json last: a conversion that was interrupted is
not taken for a whole one.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from engines.config import ConfigError, shown
from engines.models.hub import (
    chameleon,
    compvis,
    harmon_checkpoint,
    janus,
    llamagen,
    mar_checkpoint,
    vq16,
    xar_checkpoint,
)
from engines.models.hub.assembling import PIXELS, outlined, shapes_of
from engines.models.hub.mar import MAR
from engines.models.hub.pickles import check_target, heads, read_pickle, write, write_json
from engines.models.hub.xar import XAR
from engines.models.weights import Source, check_tensors, shapes_in


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be converted."""

    source: Path
    """File of the model, or the folder that it lies in."""
    pixels: Path | None
    """File of the autoencoder."""
    heads: int | None = None
    side: int | None = None
    """What tensors do not tell; None takes what the published models have."""


@dataclass(frozen=True, slots=True)
class Converted:
    """What is to be written."""

    weights: Mapping[str, Mapping[str, Tensor]]
    """Tensors by folder, the model's own being ''."""
    settings: Mapping[str, Any]
    """config.json."""
    files: tuple[Path, ...] = field(default=())
    """Files that are taken over as they are."""


def convert(kind: str, asked: Asked, target: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Write a folder that `engines.models.hub.published.load_folder` reads.

    Args:
        kind: One of `KINDS`.
        asked: What is to be converted.
        target: Folder to write; it is made, or empty.
        say: Is told of every file that was written.

    Raises:
        ConfigError: for a kind that takes other files.
        ModelError: for what is missing, misshapen, of another model, or in the way; nothing was written then. Also
            for a disk that is full.
        OSError: for a folder that cannot be made.
    """
    check_target(target)
    found = KINDS[kind](asked)
    for name, parts in found.weights.items():
        (target / name).mkdir(parents=True, exist_ok=True)
        for file in write(parts, target / name):
            say(f"{file} written")
    for file in found.files:
        (target / file.name).write_bytes(file.read_bytes())
    write_json(target / "config.json", found.settings)


def _file(path: Path, remedy: str) -> Source:
    return Source(path.name, path.parent, remedy)


def _autoencoder(asked: Asked, remedy: str, *, codes: bool) -> dict[str, Tensor]:
    """The decoder of an autoencoder of CompVis's kind."""
    if asked.pixels is None:
        raise ConfigError(f"PIXELS: is missing; {remedy}")
    source = _file(asked.pixels, remedy)
    parts = read_pickle(source, asked.pixels.name, ("state_dict", "model"))
    kept = {name: part for name, part in parts.items() if not name.startswith(compvis.UNUSED)}
    found = heads(kept)
    network = compvis.decoder_of(source, shapes_in(found), codes)
    check_tensors(source, found, compvis.published_shapes(network), "autoencoder")
    return kept


def _mar(asked: Asked) -> Converted:
    """checkpoint-last.pth, of which the averaged weights are taken, and kl16.ckpt."""
    source = _file(asked.source, "Give the checkpoint-last.pth of a MAR.")
    parts = read_pickle(source, asked.source.name, ("model_ema", "model"))
    found = heads(parts)
    size = mar_checkpoint.size_of(source, shapes_in(found), asked.heads)
    check_tensors(source, found, shapes_of(outlined(lambda: MAR(size))), mar_checkpoint.TITLE)
    pixels = _autoencoder(asked, "Give MAR's kl16.ckpt.", codes=False)
    return Converted({"": parts, PIXELS: pixels}, {"model_type": "mar", **asdict(size)})


def _xar(asked: Asked) -> Converted:
    """xAR-B.pth or another, and MAR's kl16.ckpt; averaged weights are taken where there are some."""
    source = _file(asked.source, "Give the xAR-B.pth, xAR-L.pth or xAR-H.pth of an xAR.")
    parts = read_pickle(source, asked.source.name, ("model_ema", "model"))
    found = heads(parts)
    size = xar_checkpoint.size_of(source, shapes_in(found))
    check_tensors(source, found, shapes_of(outlined(lambda: XAR(size))), xar_checkpoint.PUBLISHED)
    settings = xar_checkpoint.settings_of(source, parts, size, asked.side)
    return Converted({"": parts, PIXELS: _autoencoder(asked, "Give MAR's kl16.ckpt.", codes=False)}, settings)


def _harmon(asked: Asked) -> Converted:
    """harmon_1.5b-o.pth or another, with config.json and tokenizer.json of its copy on the hub, and MAR's kl16.ckpt."""
    remedy = "Put config.json and tokenizer.json of hf download wusize/Harmon-1_5B, or of -0_5B, beside its .pth."
    source = _file(asked.source, remedy)
    settings = source.read_json("config.json")
    parts = read_pickle(source, asked.source.name, ("state_dict", "model"))
    harmon_checkpoint.check(source, settings, heads(parts))
    files = [source.folder / name for name in ("tokenizer.json", "tokenizer_config.json")]
    if not files[0].is_file():
        raise source.lacks(f"tokenizer.json is missing in {source.folder}")
    pixels = _autoencoder(asked, "Give MAR's kl16.ckpt.", codes=False)
    whole = parts | {f"{harmon_checkpoint.SHOWS}{name}": part for name, part in pixels.items()}
    return Converted({"": whole}, settings, tuple(file for file in files if file.is_file()))


def _llamagen(asked: Asked) -> Converted:
    """c2i_B_256.pt or another model, of texts too, and vq_ds16_c2i.pt or vq_ds16_t2i.pt."""
    source = _file(asked.source, "Give a LlamaGen's c2i_B_256.pt, t2i_XL_stage1_256.pt or another of its models.")
    parts = read_pickle(source, asked.source.name, ("model", "module", "state_dict"))
    parts.pop("freqs_cis", None)  # positions, which some carry along
    found = heads(parts)
    size = llamagen.size_of(source, shapes_in(found), asked.heads, asked.side)
    check_tensors(source, found, size.shapes, llamagen.TITLE)
    remedy = f"Give LlamaGen's vq_ds16_{'t2i' if size.features else 'c2i'}.pt."
    if asked.pixels is None:
        raise ConfigError(f"PIXELS: is missing; {remedy}")
    beside = _file(asked.pixels, remedy)
    codes = read_pickle(beside, asked.pixels.name, ("ema", "model", "state_dict"))
    codes.pop(vq16.UNUSED, None)
    found = heads(codes)
    config = llamagen.tokenizer_of(beside, shapes_in(found))
    check_tensors(beside, found, llamagen.tokenizer_shapes(config), "VQ-16")
    if config.num_embeddings != size.codes:
        raise beside.lacks(f"it has {config.num_embeddings} codes, and the model {size.codes}")
    return Converted({"": parts, PIXELS: codes}, llamagen.settings_of(size))


def _janus(asked: Asked) -> Converted:
    """A folder of the release with pytorch_model.bin, or with its shards and their index."""
    source = Source(
        asked.source.resolve().name, asked.source, "Give the folder of hf download deepseek-ai/Janus-Pro-1B."
    )
    if asked.pixels is not None:
        raise ConfigError("PIXELS: Janus-Pro brings its autoencoder along; leave it out.")
    settings = source.read_json("config.json")
    if settings.get("model_type") != janus.RELEASED:
        raise source.lacks(
            f"config.json has {shown(settings.get('model_type'))} for 'model_type', not 'multi_modality'"
        )
    parts: dict[str, Tensor] = {}
    for name in _pickled_shards(source):
        parts |= read_pickle(source, name)
    parts = {name: part for name, part in parts.items() if not name.endswith(vq16.UNUSED)}
    janus.check(source, settings, heads(parts))
    files = [source.folder / name for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")]
    if not files[0].is_file():
        raise source.lacks(f"tokenizer.json is missing in {source.folder}")
    return Converted({"": parts}, settings, tuple(file for file in files if file.is_file()))


def _chameleon(asked: Asked, kind: str) -> Converted:
    """Chameleon's vqgan.ckpt or movqgan_270M.ckpt, into the folder `pixels` of a model that is read where it lies."""
    file = "MoVQGAN's movqgan_270M.ckpt" if chameleon.KINDS[kind].first else "Chameleon's vqgan.ckpt"
    if asked.pixels is not None:
        raise ConfigError(f"PIXELS: the VQGAN is all that is converted; give {file} as SOURCE.")
    parts = _autoencoder(replace(asked, pixels=asked.source), f"Give {file}.", codes=True)
    return Converted({"": parts}, chameleon.settings_of(kind, asked.side))


def _pickled_shards(source: Source) -> list[str]:
    """The pickles of a folder."""
    whole, index = "pytorch_model.bin", "pytorch_model.bin.index.json"
    if not (source.folder / index).is_file():
        return [whole]
    found = source.read_json(index).get("weight_map")
    names = sorted(set(map(str, found.values()))) if isinstance(found, dict) else []
    if not names or any(Path(name).name != name for name in names):
        raise source.lacks(f"{index} names no files of the folder")
    return names


KINDS: Final[dict[str, Callable[[Asked], Converted]]] = {
    "janus": _janus,
    "mar": _mar,
    "xar": _xar,
    "harmon": _harmon,
    "llamagen": _llamagen,
    **{kind: partial(_chameleon, kind=kind) for kind in chameleon.KINDS},
}
