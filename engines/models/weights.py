"""Reading a folder of safetensors into a native transformers class, checked name by name before a tensor is read."""

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from transformers.utils import logging

from engines.config import shown
from engines.models.errors import ModelError

CONFIG: Final = "config.json"
LARGEST: Final = 2**31
"""No number of a config is larger."""
Heads: TypeAlias = Mapping[str, tuple[tuple[int, ...], str]]
"""Shape of every tensor by name, and its number format as safetensors calls it."""
_INDEX: Final = "model.safetensors.index.json"
_OTHERS: Final = (
    CONFIG,
    _INDEX,
    "tokenizer.json",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
)
"""Read, or only looked for, by `engines.models.hub`."""
_SINGLE: Final = "model.safetensors"
_HEAD: Final = "lm_head.weight"
_FLOATS: Final = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32}
"""Number formats that are read, as safetensors calls them."""
_COMPUTED: Final = ".rotary_emb.inv_freq"
"""End of a tensor's name that older checkpoints hold and every class computes anew."""
_WHOLE_BYTES: Final = 2**28
"""A file up to here is hashed whole: about a second."""
_SAMPLE_BYTES, _SAMPLE_EVERY = 2**20, 2**26
_SHA256: Final = re.compile("[0-9a-f]{64}")
_SAID: Final = 500
"""Characters of a problem: libraries answer with pages."""
_NAME: Final = 100
"""Characters of a file's name."""


@dataclass(frozen=True, slots=True)
class Source:
    """A folder that holds a checkpoint, and how it can be had again."""

    name: str
    folder: Path
    remedy: str

    def lacks(self, problem: str) -> ModelError:
        """The error that says what is wrong with this checkpoint."""
        return ModelError(f"{self.name}: {' '.join(problem.split())[:_SAID]}. {self.remedy}")

    def refuses(self, problem: str) -> ModelError:
        """The error that says why this checkpoint is not for us, however often it is fetched."""
        return ModelError(f"{self.name}: {' '.join(problem.split())[:_SAID]}.")

    def read_json(self, name: str) -> dict[str, Any]:
        """An object from one of the folder's files.

        Raises:
            ModelError: when there is no such file, or it holds something else.
        """
        try:
            found = json.loads((self.folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise self.lacks(f"{name} is missing in {self.folder}") from None
        except (ValueError, RecursionError) as error:
            raise self.lacks(f"{name} is not JSON: {error}") from error
        except OSError as error:
            raise self.lacks(f"{name} cannot be read ({error.strerror})") from error
        if not isinstance(found, dict):
            raise self.lacks(f"{name} holds no JSON object")
        return found


@dataclass(frozen=True, slots=True)
class Recipe:
    """A native tensor that is made of others, or of a part of one."""

    sources: Mapping[str, tuple[int, ...]]
    """What the folder calls them, with their shapes."""
    make: Callable[[Sequence[Tensor]], Tensor]


def _none(*_: object) -> Mapping[str, Recipe]:
    return {}


@dataclass(frozen=True, slots=True)
class Names:
    """How a folder's tensors become native ones."""

    renamed: tuple[tuple[str, str], ...] = ()
    """Parts of a native tensor's name and what the folder calls them, applied in this order."""
    recipes: Callable[[Mapping[str, tuple[int, ...]], Any], Mapping[str, Recipe]] = _none
    """Native names with their shapes, and the config, to what is made of other tensors."""

    @property
    def plain(self) -> bool:
        """Whether every native tensor is one of the folder's."""
        return self.recipes is _none

    def original(self, native: str) -> str:
        """What the folder calls a native tensor."""
        for part, own in self.renamed:
            native = native.replace(part, own)
        return native


def parameters(kind: type[Any], config: Any) -> int:
    """How many numbers a network of this config has; tied ones count once, and nothing is laid out in memory."""
    with torch.device("meta"):
        return sum(weight.numel() for weight in kind(config).parameters())


def read_network(
    source: Source, kind: type[Any], config: Any, dtype: torch.dtype, names: Names | None = None
) -> nn.Module:
    """A network of a native class with the weights of a folder, on the CPU.

    What `lies_as_held` stays in its file until it is used or sent to a device.

    Args:
        source: Where the weights are.
        kind: The native causal-LM class.
        config: Its config.
        dtype: What the weights become.
        names: How the folder's tensors become native ones, by default as they are.

    Raises:
        ModelError: for files that are missing or broken, and for tensors that are missing, superfluous, misshapen or
            no plain floats; the message names the first of them as the folder does.
    """
    with torch.device("meta"):
        native = {name: tuple(tensor.shape) for name, tensor in kind(config).state_dict().items()}
    names = names or Names()
    recipes = names.recipes(native, config)
    original = {name: names.original(name) for name in native if name not in recipes}
    spare = original.get(_HEAD) if config.tie_word_embeddings else None  # the embedding takes its place
    wanted = {original[name]: native[name] for name in original}
    wanted |= {part: shape for recipe in recipes.values() for part, shape in recipe.sources.items()}
    found = read_tensors(source, wanted, kind.__name__, spare)
    state = {name: found.pop(original[name]) for name in original if original[name] in found}
    left = Counter(part for recipe in recipes.values() for part in recipe.sources)
    for name, recipe in recipes.items():
        state[name] = recipe.make([found[part] for part in recipe.sources])
        left.subtract(list(recipe.sources))
        for part in recipe.sources:  # so that no tensor is held twice for long
            if not left[part]:
                del found[part]
    with _bars_on_terminals_only():
        network: nn.Module = kind.from_pretrained(None, config=config, state_dict=state, dtype=dtype)
    return network


def lies_as_held(source: Source, dtype: torch.dtype, names: Names | None = None) -> bool:
    """Whether a folder's tensors are mapped as they lie in their files, and take no memory on their way to a device.

    Raises:
        ModelError: for files that are missing or broken.
    """
    held = [number for name, (_, number) in tensor_heads(source).items() if not name.endswith(_COMPUTED)]
    formats = {_FLOATS.get(number) for number in held}
    return formats == {dtype} and (names or Names()).plain


def read_tensors(
    source: Source,
    wanted: Mapping[str, tuple[int, ...]],
    kind: str,
    spare: str | None = None,
    ignored: tuple[str, ...] = (),
) -> dict[str, Tensor]:
    """The tensors of a folder, by the names that it has for them.

    Args:
        source: Where the weights are.
        wanted: Shape of every tensor that must be there.
        kind: What they are the weights of, for messages.
        spare: A tensor of `wanted` that may be missing, and is left out where it is there.
        ignored: How names begin that belong to what is not built; these tensors are neither checked nor read.

    Raises:
        ModelError: as `read_network` does.
    """
    found = tensor_heads(source).items()
    heads = {name: head for name, head in found if not name.startswith(ignored) and not name.endswith(_COMPUTED)}
    check_tensors(source, heads, wanted, kind, spare)
    return {name: tensor for file in weight_files(source) for name, tensor in _tensors(file, heads.keys() - {spare})}


def _tensors(file: Path, names: Set[str]) -> Iterator[tuple[str, Tensor]]:
    """Some of the tensors of a file."""
    with safe_open(file, framework="pt") as tensors:
        for name in tensors.keys():  # noqa: SIM118 (not a dictionary)
            if name in names:
                yield name, tensors.get_tensor(name)


def check_tensors(
    source: Source,
    found: Heads,
    wanted: Mapping[str, tuple[int, ...]],
    kind: str,
    spare: str | None = None,
) -> None:
    """Compare shapes and number formats, as safetensors calls them, with the wanted shapes.

    Raises:
        ModelError: as `read_network` does.
    """
    if missing := sorted(wanted.keys() - found.keys() - {spare}):
        raise source.lacks(f"{_several(missing)} missing in its weights")
    if extra := sorted(found.keys() - wanted.keys()):
        raise source.lacks(f"{_several(extra)} in its weights, and a {kind} has no place for it")
    for name in sorted(found):
        shape, number = found[name]
        if number not in _FLOATS:
            raise source.lacks(f"tensor {name!r} is stored as {number}; only {', '.join(_FLOATS)} can be read")
        if shape != wanted[name]:
            raise source.lacks(
                f"tensor {name!r} has shape {list(shape)}, and its config.json asks for {list(wanted[name])}"
            )


@contextmanager
def _bars_on_terminals_only() -> Iterator[None]:
    """Keep progress out of logs and files."""
    hidden = logging.is_progress_bar_enabled() and not sys.stderr.isatty()
    if hidden:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if hidden:
            logging.enable_progress_bar()


def weight_files(source: Source) -> list[Path]:
    """The safetensors of a folder, as its index lists them.

    Raises:
        ModelError: when one is missing, or there are none.
    """
    names: Iterable[Any] = [_SINGLE]
    if (source.folder / _INDEX).is_file():
        index = source.read_json(_INDEX).get("weight_map")
        if not isinstance(index, dict) or not index:
            raise source.lacks(f"{_INDEX} has no 'weight_map'")
        names = sorted(set(map(str, index.values())))
    for name in names:
        if Path(name).name != name or len(name) > _NAME:
            raise source.lacks(f"{_INDEX} names {name[:_NAME]!r}, which lies outside the folder or cannot be a file")
        if not (source.folder / name).is_file():
            raise source.lacks(f"{name} is missing in {source.folder}; weights are read from safetensors alone")
    return [source.folder / name for name in names]


def sha256(file: Path) -> str:
    """SHA-256 of a file; the hub's cache names large files by it, so that those need not be read."""
    name = file.resolve().name
    if _SHA256.fullmatch(name):
        return name
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def weight_hashes(source: Source) -> dict[str, str]:
    """The files with the weights, each with a hash.

    A file in the hub's cache is named by its SHA-256, and one of up to 256 MB is hashed whole. Of a larger one, which
    would cost seconds to minutes, the hash is of its size, of its head with every tensor's name, shape and place, and
    of one megabyte in 64; its name says so.
    """
    found = {}
    for file in weight_files(source):
        whole = _SHA256.fullmatch(file.resolve().name) or file.stat().st_size <= _WHOLE_BYTES
        found[file.name if whole else f"{file.name} (samples)"] = sha256(file) if whole else sampled(file)
    return found


def sampled(file: Path) -> str:
    """SHA-256 of the size and the head of a safetensors file, and of a megabyte in 64 of the rest."""
    size = file.stat().st_size
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    with file.open("rb") as stream:
        start = stream.read(8)
        head = int.from_bytes(start, "little")
        digest.update(start + stream.read(min(head, size)))
        for place in [*range(8 + head, size, _SAMPLE_EVERY), max(0, size - _SAMPLE_BYTES)]:
            stream.seek(place)
            digest.update(stream.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def other_hashes(source: Source) -> dict[str, str]:
    """The other files of a checkpoint that decide what it decodes, each with its SHA-256: its config and tokenizer."""
    return {name: sha256(source.folder / name) for name in _OTHERS if (source.folder / name).is_file()}


def tensor_heads(source: Source) -> Heads:
    """What the heads of a folder's safetensors say.

    Raises:
        ModelError: for files that are missing or broken.
    """
    found: dict[str, tuple[tuple[int, ...], str]] = {}
    for file in weight_files(source):
        try:
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 (not a dictionary)
                    part = tensors.get_slice(name)
                    found[name] = (tuple(part.get_shape()), part.get_dtype())
        except (SafetensorError, OSError) as error:
            raise source.lacks(f"{file.name} cannot be read: {error}") from error
    return found


def shapes_in(heads: Heads) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor."""
    return {name: shape for name, (shape, _) in heads.items()}


def number_of(
    source: Source, settings: Mapping[str, Any], name: str, fraction: bool = False, most: int = LARGEST
) -> int | float:
    """A positive number from config.json, at most `most`, a whole one unless it may be a fraction.

    Raises:
        ModelError: where there is none.
    """
    if name not in settings:
        raise source.lacks(f"config.json has no {name!r}")
    value = settings[name]
    fits = isinstance(value, int | float if fraction else int) and not isinstance(value, bool) and 0 < value <= most
    if not fits:
        raise source.lacks(f"config.json has {shown(value)} for {name!r}, which is not allowed")
    return value  # type: ignore[no-any-return]


def _several(names: Sequence[str]) -> str:
    rest = len(names) - 1
    return f"tensor {names[0]!r}" + (f" and {rest} more are" if rest else " is")
