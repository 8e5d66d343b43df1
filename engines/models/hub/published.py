"""Published checkpoints, read from the hub's cache or a folder: language models of all kinds, Cosmos, and pictures.

Nothing is downloaded, unpickled or run: not the code that a checkpoint brings along, nor its chat template, which is
code as well.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
from tokenizers import AddedToken, Tokenizer
from transformers import Qwen2Tokenizer

from engines.config import shown
from engines.models.errors import ModelError
from engines.models.hub import cosmos_layout
from engines.models.hub.causal_families import CAUSAL_FAMILIES
from engines.models.hub.families import FAMILIES, Family
from engines.models.hub.rope_scaling import read_scaling
from engines.models.language_model import DiffusionLM, Kind
from engines.models.memory import check_room, usual
from engines.models.weights import LARGEST, Source, number_of, other_hashes, parameters, read_network, weight_hashes
from engines.protocol import Model
from traces.schema import ModelCard

_PICTURES: Final = {
    "janus": "engines.models.hub.janus",
    "multi_modality": "engines.models.hub.janus",
    "mar": "engines.models.hub.mar_checkpoint",
    "xar": "engines.models.hub.xar_checkpoint",
    "harmon": "engines.models.hub.harmon_checkpoint",
    "llamagen": "engines.models.hub.llamagen",
    "chameleon": "engines.models.hub.chameleon",
    "emu3": "engines.models.hub.emu3",
}
"""Families that draw: `model_type` in their config.json, and the module that loads them."""
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


def load(model_id: str, device: str = "cpu", dtype: torch.dtype | None = None) -> Model:
    """A checkpoint from the hub's cache by its repository OWNER/NAME, loaded once per device and shared.

    Raises:
        ModelError: when it was not fetched yet, or not all of it; the message says how to.
    """
    return _load(_cached(model_id), device, dtype)


def load_folder(folder: Path, device: str = "cpu", dtype: torch.dtype | None = None) -> Model:
    """A checkpoint from a folder, loaded once and shared.

    Args:
        folder: Has config.json, safetensors and the tokenizer's files under their published names; a Cosmos
            checkpoint, what `engines.models.hub.cosmos_convert` writes.
        device: cpu, cuda, ...
        dtype: Of the weights; None is float32 on a CPU and bfloat16 elsewhere.

    Raises:
        ModelError: when it is not all there, or of no family that can be read.
    """
    return _load(_local(folder), device, dtype)


def parameters_of(name: str) -> tuple[int, torch.dtype | None]:
    """How many numbers the network of a folder or of OWNER/NAME has, and what they are held in, None for a choice.

    A language model is counted by its config.json alone, one that draws continuous tokens by the heads of its files.

    Raises:
        ModelError: for what is no checkpoint, or of another family.
    """
    source = _local(Path(name)) if Path(name).is_dir() else _cached(name)
    settings = source.read_json("config.json")
    kind = settings.get("model_type")
    if isinstance(kind, str) and kind in _PICTURES:
        counted = getattr(import_module(_PICTURES[kind]), "parameters_of", None)
        if counted is None:
            raise source.refuses(
                f"what a {kind} takes is in docs/models.md; it is told before loading for texts, "
                "and for pictures of continuous tokens"
            )
        return int(counted(source)), torch.float32
    family = _family(source, settings)
    return parameters(family.network, _config(source, family, settings)), None


def _local(folder: Path) -> Source:
    remedy = f"Fetch it again with: hf download OWNER/NAME --local-dir {folder}"
    return Source(folder.resolve().name, folder.resolve(), remedy)


def _cached(model_id: str) -> Source:
    fetch = f"hf download {model_id}"
    try:
        folder = snapshot_download(model_id, local_files_only=True)
    except HFValidationError:
        raise ModelError(f"model: {model_id!r} is neither a folder nor OWNER/NAME of the hub.") from None
    except LocalEntryNotFoundError:
        raise ModelError(f"{model_id}: is not in the hub's cache. Fetch it with: {fetch}") from None
    return Source(model_id, Path(folder), f"Fetch it again with: {fetch} --force-download")


@cache
def _load(source: Source, device: str, dtype: torch.dtype | None) -> Model:
    settings = source.read_json("config.json")
    if cosmos_layout.claims(settings):
        from engines.models.hub import cosmos  # brings diffusers, which language models do without

        return cosmos.load(source, settings, device, dtype)
    kind = settings.get("model_type")
    if isinstance(kind, str) and kind in _PICTURES:
        drawn: Model = import_module(_PICTURES[kind]).load(source, settings, device, dtype)
        return drawn
    family = _family(source, settings)
    config = _config(source, family, settings)
    tokenizer = read_tokenizer(source)
    kind = _kind(source, family, settings, tokenizer)
    known, room = max(tokenizer.get_vocab().values()) + 1, config.vocab_size
    if known > room:
        raise source.lacks(f"config.json has {room} for {family.sizes['vocab_size']!r}, its tokenizer {known} tokens")
    dtype = dtype or usual(device)
    check_room(source, parameters(family.network, config), dtype, device)
    network = read_network(source, family.network, config, dtype, family.names)
    card = ModelCard(
        id=source.name,
        title=f"{family.title}: {source.name.rpartition('/')[2]}",
        weights=weight_hashes(source),
        files=other_hashes(source),
    )
    return DiffusionLM(network, tokenizer, kind, card, torch.device(device))


def _family(source: Source, settings: Mapping[str, Any]) -> Family:
    name, known = settings.get("model_type"), FAMILIES | CAUSAL_FAMILIES
    if not isinstance(name, str) or name not in known:
        raise source.refuses(
            f"config.json has {shown(name)} for 'model_type', and what can be read is diffusion language models "
            f"({', '.join(FAMILIES)}), causal ones ({', '.join(CAUSAL_FAMILIES)}), models that draw "
            f"({', '.join(_PICTURES)}) and Cosmos; docs/models.md lists them"
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
