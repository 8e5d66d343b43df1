"""Published checkpoints, read from the hub's cache or a folder: diffusion language models, and Cosmos.

Nothing is downloaded, unpickled or run: not the code that a checkpoint brings along, nor its chat template, which is
code as well.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
from tokenizers import AddedToken, Tokenizer
from transformers import Qwen2Tokenizer

from engines.config import shown
from engines.models.clip_model import ClipModel
from engines.models.errors import ModelError
from engines.models.hub import cosmos_layout
from engines.models.hub.families import FAMILIES, Family
from engines.models.language_model import DiffusionLM, Kind
from engines.models.weights import LARGEST, Source, number_of, other_hashes, read_network, weight_hashes
from traces.schema import ModelCard

_FRACTIONS: Final = ("rms_norm_eps", "rope_theta")
_TRUTHS: Final = ("tie_word_embeddings",)
_MOST: Final = {"num_hidden_layers": 1000, "num_attention_heads": 2**16, "num_key_value_heads": 2**16}
"""Where a network would be laid out part by part before its tensors are looked at."""


def load(model_id: str, device: str = "cpu") -> DiffusionLM | ClipModel:
    """A checkpoint from the hub's cache by its repository OWNER/NAME, loaded once per device and shared.

    Raises:
        ModelError: when it was not fetched yet, or not all of it; the message says how to.
    """
    fetch = f"hf download {model_id}"
    try:
        folder = snapshot_download(model_id, local_files_only=True)
    except HFValidationError:
        raise ModelError(f"model: {model_id!r} is neither a folder nor OWNER/NAME of the hub.") from None
    except LocalEntryNotFoundError:
        raise ModelError(f"{model_id}: is not in the hub's cache. Fetch it with: {fetch}") from None
    return _load(Source(model_id, Path(folder), f"Fetch it again with: {fetch} --force-download"), device, None)


def load_folder(folder: Path, device: str = "cpu", dtype: torch.dtype | None = None) -> DiffusionLM | ClipModel:
    """A checkpoint from a folder, loaded once and shared.

    Args:
        folder: Has config.json, safetensors and the tokenizer's files under their published names; a Cosmos
            checkpoint, what `engines.models.hub.cosmos_convert` writes.
        device: cpu, cuda, ...
        dtype: Of the weights; None is float32 on a CPU and bfloat16 elsewhere.

    Raises:
        ModelError: when it is not all there, or of no family that can be read.
    """
    remedy = f"Fetch it again with: hf download OWNER/NAME --local-dir {folder}"
    return _load(Source(folder.resolve().name, folder.resolve(), remedy), device, dtype)


@cache
def _load(source: Source, device: str, dtype: torch.dtype | None) -> DiffusionLM | ClipModel:
    settings = source.read_json("config.json")
    if cosmos_layout.claims(settings):
        from engines.models.hub import cosmos  # brings diffusers, which language models do without

        return cosmos.load(source, settings, device, dtype)
    family = _family(source, settings)
    config = _config(source, family, settings)
    tokenizer = _tokenizer(source)
    kind = _kind(source, family, settings, tokenizer)
    known, room = max(tokenizer.get_vocab().values()) + 1, config.vocab_size
    if known > room:
        raise source.lacks(f"config.json has {room} for {family.sizes['vocab_size']!r}, its tokenizer {known} tokens")
    here = torch.device(device)
    dtype = dtype or (torch.float32 if here.type == "cpu" else torch.bfloat16)
    network = read_network(source, family.network, config, dtype, family.renamed)
    card = ModelCard(
        id=source.name,
        title=f"{family.title}: {source.name.rpartition('/')[2]}",
        weights=weight_hashes(source),
        files=other_hashes(source),
    )
    return DiffusionLM(network, tokenizer, kind, card, here)


def _family(source: Source, settings: Mapping[str, Any]) -> Family:
    name = settings.get("model_type")
    if not isinstance(name, str) or name not in FAMILIES:
        raise source.lacks(f"config.json has {shown(name)} for 'model_type', and {', '.join(FAMILIES)} can be read")
    family = FAMILIES[name]
    for key, value in family.fixed.items():
        if key in settings and settings[key] != value:
            raise source.lacks(
                f"config.json has {shown(settings[key])} for {key!r}; {family.title} is built for {value!r}"
            )
    return family


def _config(source: Source, family: Family, settings: Mapping[str, Any]) -> Any:
    """The native config; whatever else the file says concerns training or code that is not run."""
    values = {native: _value(source, settings, native, original) for native, original in family.sizes.items()}
    rope = {"rope_type": "default", "rope_theta": float(values.pop("rope_theta"))}
    return family.config(**values, **family.constants, rope_parameters=rope, attn_implementation="sdpa")


def _value(source: Source, settings: Mapping[str, Any], native: str, original: str) -> int | float | bool:
    if native not in _TRUTHS:
        return number_of(source, settings, original, native in _FRACTIONS, _MOST.get(native, LARGEST))
    if original not in settings:
        raise source.lacks(f"config.json has no {original!r}")
    if not isinstance(settings[original], bool):
        raise source.lacks(f"config.json has {shown(settings[original])} for {original!r}, which is not allowed")
    return bool(settings[original])


def _tokenizer(source: Source) -> Tokenizer:
    """The tokenizer of a folder: in one file, or, as Qwen's were first published, in several."""
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
    if tokenizer.token_to_id(family.mask) is None and family.adds_mask:
        tokenizer.add_special_tokens([AddedToken(family.mask, special=True, normalized=False)])
    mask = tokenizer.token_to_id(family.mask)
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


def _chats(source: Source) -> bool:
    """Whether a checkpoint was taught to chat: whether it says how. It says so in code, which is not run."""
    if (source.folder / "chat_template.jinja").is_file():
        return True
    name = "tokenizer_config.json"
    return (source.folder / name).is_file() and "chat_template" in source.read_json(name)
