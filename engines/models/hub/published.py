"""Published checkpoints, read from the hub's cache or a folder: language models of all kinds, Cosmos, and pictures.

Nothing is downloaded, unpickled or run: not the code that a checkpoint brings along, nor its chat template, which is
code as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
from tokenizers import AddedToken, Tokenizer
from transformers import Qwen2Tokenizer

from engines.config import shown
from engines.models.devices import split
from engines.models.errors import ModelError
from engines.models.hub.assembling import Loader, Measure, stored
from engines.models.hub.causal_families import CAUSAL_FAMILIES
from engines.models.hub.families import FAMILIES, Family
from engines.models.hub.rope_scaling import read_scaling
from engines.models.language_model import DiffusionLM, Kind
from engines.models.memory import Needs, Room, cached_numbers, check_room, usual
from engines.models.own_folders import COSMOS, type_of
from engines.models.published_families import PICKLES, names, unread
from engines.models.spread import spread
from engines.models.weights import (
    CONFIG,
    LARGEST,
    Source,
    lies_as_held,
    number_of,
    other_hashes,
    parameters,
    read_network,
    weight_hashes,
)
from engines.protocol import Model
from traces.schema import ModelCard

_DRAWING: Final = {
    "janus": "engines.models.hub.janus",
    "multi_modality": "engines.models.hub.janus",
    "mar": "engines.models.hub.mar_checkpoint",
    "xar": "engines.models.hub.xar_checkpoint",
    "harmon": "engines.models.hub.harmon_checkpoint",
    "llamagen": "engines.models.hub.llamagen",
    "llamagen-t2i": "engines.models.hub.llamagen_text",
    "chameleon": "engines.models.hub.chameleon",
    "emu3": "engines.models.hub.emu3",
    COSMOS: "engines.models.hub.cosmos",
}
"""Families that draw: their `type_of`, and the module that loads them, which may bring diffusers."""
_FRACTIONS: Final = ("rms_norm_eps", "rope_theta", "routed_scaling_factor", "partial_rotary_factor")
_TRUTHS: Final = ("tie_word_embeddings", "attention_bias", "mlp_bias")
_MOST: Final = {
    "num_hidden_layers": 1000,
    "num_attention_heads": 2**16,
    "num_key_value_heads": 2**16,
    "n_routed_experts": 2**12,
    "partial_rotary_factor": 1,
}
"""Where a network would be laid out part by part before its tensors are looked at."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A checkpoint as it is asked for."""

    source: Source
    device: str
    dtype: torch.dtype | None
    room: Room = field(compare=False)
    """What is to be decoded first; the same model serves for more and for less."""


def load(model_id: str, device: str = "cpu", dtype: torch.dtype | None = None, room: Room | None = None) -> Model:
    """A checkpoint from the hub's cache by its repository OWNER/NAME, loaded once per device and shared.

    Raises:
        ModelError: when it was not fetched yet, or not all of it; the message says how to.
    """
    return _load(_Asked(cached_source(model_id), device, dtype, room or Room()))


def load_folder(folder: Path, device: str = "cpu", dtype: torch.dtype | None = None, room: Room | None = None) -> Model:
    """A checkpoint from a folder, loaded once and shared.

    Args:
        folder: Has config.json, safetensors and the tokenizer's files under their published names; a Cosmos
            checkpoint, what `engines.models.hub.cosmos_convert` writes.
        device: cpu, cuda, ...; for a language model also several, as "cuda:0,cuda:1".
        dtype: Of the weights; None is float32 on a CPU and bfloat16 elsewhere.
        room: What is to be decoded: where there is no room for it, the weights are not read.

    Raises:
        ModelError: when it is not all there, of no family that can be read, or too large.
    """
    return _load(_Asked(_local(folder), device, dtype, room or Room()))


def needs_of(name: str) -> Needs:
    """What the model of a folder or of OWNER/NAME takes, before a tensor of it is read.

    Raises:
        ModelError: for what is no checkpoint, or of no family that can be read.
    """
    source = _local(Path(name)) if Path(name).is_dir() else cached_source(name)
    return _needs(source, _settings(source))


def _settings(source: Source) -> dict[str, Any]:
    """config.json; where pickles lie in its place, what becomes of those is told."""
    if not (source.folder / CONFIG).is_file():
        files = sorted(file.name for file in source.folder.iterdir() if file.suffix in PICKLES)
        if files:
            raise source.refuses(
                f"has {shown(files[0])} and no config.json; pickles are not read, and are converted first for "
                f"{'; '.join(names('converted first'))}: docs/models.md"
            )
    return source.read_json(CONFIG)


def _needs(source: Source, settings: Mapping[str, Any]) -> Needs:
    module = _module(settings)
    if module is not None:
        measure: Measure | None = getattr(module, "needs", None)
        return measure(source, settings) if measure else Needs(stored(source))  # else, what its files hold
    family = _family(source, settings)
    config = _config(source, family, settings)
    # A bidirectional model stores nothing.
    return Needs(parameters(family.network, config), position=0 if family.full else cached_numbers(config))


def _module(settings: Mapping[str, Any]) -> Any:
    """The module that reads a checkpoint which is no language model; None for one that is."""
    kind = type_of(settings)
    return import_module(_DRAWING[kind]) if kind in _DRAWING else None


def _local(folder: Path) -> Source:
    remedy = f"Fetch it again with: hf download OWNER/NAME --local-dir {folder}"
    return Source(folder.resolve().name, folder.resolve(), remedy)


def cached_source(model_id: str) -> Source:
    """A repository OWNER/NAME in the hub's cache.

    Raises:
        ModelError: where it is not; the message says how to fetch it.
    """
    fetch = f"hf download {model_id}"
    try:
        folder = snapshot_download(model_id, local_files_only=True)
    except HFValidationError:
        raise ModelError(f"model: {model_id!r} is neither a folder nor OWNER/NAME of the hub.") from None
    except LocalEntryNotFoundError:
        raise ModelError(f"{model_id}: is not in the hub's cache. Fetch it with: {fetch}") from None
    return Source(model_id, Path(folder), f"Fetch it again with: {fetch} --force-download")


@cache
def _load(asked: _Asked) -> Model:
    source, device, dtype = asked.source, asked.device, asked.dtype or usual(asked.device)
    settings = _settings(source)
    module = _module(settings)
    if module is not None:
        read: Loader = module.load
        device = split(device)[0]
        check_room(source, _needs(source, settings), dtype, device, asked.room)
        return read(source, settings, device, dtype)
    family = _family(source, settings)
    config = _config(source, family, settings)
    tokenizer = read_tokenizer(source)
    kind = _kind(source, family, settings, tokenizer)
    known, room = max(tokenizer.get_vocab().values()) + 1, config.vocab_size
    if known > room:
        raise source.lacks(f"config.json has {room} for {family.sizes['vocab_size']!r}, its tokenizer {known} tokens")
    straight = partial(lies_as_held, source, dtype, family.names)
    check_room(source, _needs(source, settings), dtype, device, asked.room, straight=straight)
    network = read_network(source, family.network, config, dtype, family.names)
    card = ModelCard(
        id=source.name,
        title=f"{family.title}: {source.name.rpartition('/')[2]}",
        weights=weight_hashes(source),
        files=other_hashes(source),
    )
    places = [torch.device(place) for place in split(device)]
    if len(places) > 1:
        spread(network, places, asked.room)
    return DiffusionLM(network, tokenizer, kind, card, places[0])


def _family(source: Source, settings: Mapping[str, Any]) -> Family:
    name, known = settings.get("model_type"), FAMILIES | CAUSAL_FAMILIES
    if (other := unread(name)) is not None:
        raise source.refuses(f"is of the family {other.name}, which is not read. {other.said.rstrip('.')}")
    if not isinstance(name, str) or name not in known:
        raise source.refuses(
            f"config.json has {shown(name)} for 'model_type', and what can be read is diffusion language models "
            f"({', '.join(FAMILIES)}), causal ones ({', '.join(CAUSAL_FAMILIES)}), models that draw "
            f"({', '.join(_DRAWING)}); docs/models.md lists them"
        )
    family = known[name]
    for key, value in {**family.fixed, "quantization_config": None}.items():
        if key in settings and settings[key] != value:
            raise source.refuses(
                f"config.json has {shown(settings[key])} for {key!r}; {family.title} is built for {value!r}"
            )
    return family


def _config(source: Source, family: Family, settings: Mapping[str, Any]) -> Any:
    """The native config; whatever else the file says concerns training or code that is not run."""
    if family.absent:
        settings = {**family.absent, **_usual_heads(settings), **settings}
    newest = settings.get("rope_parameters")
    if isinstance(newest, dict) and "rope_theta" in newest:
        settings = {**settings, "rope_theta": newest["rope_theta"]}
    names = {native: name for native, name in family.sizes.items() if native != "head_dim" or settings.get(name)}
    values = {native: _value(source, settings, native, original) for native, original in names.items()}
    turns = [name for name in ("rope_theta", "partial_rotary_factor") if name in values]
    rope = {name: float(values.pop(name)) for name in turns} | read_scaling(source, settings)
    return family.config(**values, **family.constants, rope_parameters=rope, attn_implementation="sdpa")


def _usual_heads(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Where config.json is silent, every head has keys of its own."""
    return {"num_key_value_heads": settings["num_attention_heads"]} if "num_attention_heads" in settings else {}


def _value(source: Source, settings: Mapping[str, Any], native: str, original: str) -> int | float | bool:
    if native not in _TRUTHS:
        return number_of(source, settings, original, native in _FRACTIONS, _MOST.get(native, LARGEST))
    if original not in settings:
        raise source.lacks(f"config.json has no {original!r}")
    if not isinstance(settings[original], bool):
        raise source.lacks(f"config.json has {shown(settings[original])} for {original!r}, which is not allowed")
    return bool(settings[original])


def read_tokenizer(source: Source) -> Tokenizer:
    """The tokenizer of a folder: in one file, or, as Qwen's were first published, in several.

    Raises:
        ModelError: when there is none, or it cannot be read.
    """
    folder = source.folder
    if (folder / "tokenizer.json").is_file():
        try:
            return Tokenizer.from_file(str(folder / "tokenizer.json"))
        except BaseException as error:
            raise _unread(source, "tokenizer.json", error) from error
    if (folder / "tokenizer.model").is_file():
        raise source.refuses(
            "its tokenizer is tokenizer.model, of SentencePiece, which is not read; write a tokenizer.json beside it "
            "once, as docs/models.md says"
        )
    if missing := [name for name in ("vocab.json", "merges.txt") if not (folder / name).is_file()]:
        raise source.lacks(f"tokenizer.json is missing, and so is {missing[0]}, in {folder}")
    try:
        tokenizer: Tokenizer = Qwen2Tokenizer.from_pretrained(folder, local_files_only=True).backend_tokenizer
    except BaseException as error:
        raise _unread(source, "vocab.json, merges.txt or tokenizer_config.json", error) from error
    return tokenizer


def _unread(source: Source, files: str, error: BaseException) -> BaseException:
    """What to raise for files that the library of tokenizers refuses; it raises bare exceptions, and panics."""
    library = isinstance(error, Exception) or type(error).__name__ == "PanicException"
    return source.lacks(f"{files} cannot be read: {error}") if library else error


def _kind(source: Source, family: Family, settings: Mapping[str, Any], tokenizer: Tokenizer) -> Kind:
    if not family.mask:
        return _causal_kind(source, family, settings, tokenizer)
    if tokenizer.token_to_id(family.mask) is None and family.adds_mask:
        tokenizer.add_special_tokens([AddedToken(family.mask, special=True, normalized=False)])
    mask = tokenizer.token_to_id(_named_mask(source) or family.mask)
    ends = [found for end in family.ends if (found := tokenizer.token_to_id(end)) is not None]
    if mask is None or not ends:
        raise source.lacks(f"its tokenizer has no {family.mask if mask is None else family.ends[0]}")
    if settings.get("mask_token_id", mask) != mask:
        raise source.lacks(
            f"config.json has {shown(settings['mask_token_id'])} for 'mask_token_id', its tokenizer {mask}"
        )
    begins = {name: found for name in family.begins if (found := tokenizer.token_to_id(name)) is not None}
    if len(begins) < len(family.begins):
        raise source.lacks(f"its tokenizer has no {family.begins[len(begins)]}")
    trained = family.trained
    sizes = (1, int(_value(source, settings, trained, trained))) if trained else ()
    chats = _chats(source)
    return Kind(
        mask,
        tuple(ends),
        family.shift,
        family.full,
        sizes,
        longest=settings[family.sizes["max_position_embeddings"]],
        asks=family.asks if chats else ("", ""),
        begins=tuple(begins.values()),
        causal=family.causal,
    )


def _causal_kind(source: Source, family: Family, settings: Mapping[str, Any], tokenizer: Tokenizer) -> Kind:
    """What a causal model's own files say of the beginning, the end and the form of a text."""
    known = max(tokenizer.get_vocab().values()) + 1
    longest = settings[family.sizes["max_position_embeddings"]]
    if family.window and settings.get(family.window) is not None:
        longest = min(longest, number_of(source, settings, family.window))
    chats = [asks for token, asks in family.chats.items() if tokenizer.token_to_id(token) is not None]
    return Kind(
        None,
        _ends(source, settings, known),
        shift=True,
        longest=longest,
        asks=chats[0] if chats and _chats(source) else ("", ""),
        begins=_begins(tokenizer),
    )


def _ends(source: Source, settings: Mapping[str, Any], known: int) -> tuple[int, ...]:
    """Ids behind which nothing counts, as generation_config.json and config.json have them."""
    name = "generation_config.json"
    told = source.read_json(name) if (source.folder / name).is_file() else {}
    found: dict[int, None] = {}
    for said in (told.get("eos_token_id"), settings.get("eos_token_id")):
        for end in said if isinstance(said, list) else [] if said is None else [said]:
            if isinstance(end, bool) or not isinstance(end, int) or not 0 <= end < known:
                raise source.lacks(f"'eos_token_id' is {shown(said)}, and its tokenizer has the ids 0 to {known - 1}")
            found[end] = None
    return tuple(found)


def _begins(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Ids that the tokenizer itself puts before every text."""
    plain, put = (tokenizer.encode("a", add_special_tokens=adds).ids for adds in (False, True))
    return tuple(put[: len(put) - len(plain)]) if plain and put[-len(plain) :] == plain else ()


def _named_mask(source: Source) -> str:
    """What tokenizer_config.json calls the mask, where it does."""
    name = "tokenizer_config.json"
    said = source.read_json(name).get("mask_token") if (source.folder / name).is_file() else None
    said = said.get("content") if isinstance(said, dict) else said
    return said if isinstance(said, str) else ""


def _chats(source: Source) -> bool:
    """Whether a checkpoint was taught to chat: whether it says how. It says so in code, which is not run."""
    if (source.folder / "chat_template.jinja").is_file():
        return True
    name = "tokenizer_config.json"
    return (source.folder / name).is_file() and "chat_template" in source.read_json(name)
