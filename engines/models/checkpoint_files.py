"""The files of a checkpoint: its JSON, what the heads of its safetensors say, and hashes of all of it."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from draftscope.engines.models.errors import ModelError
from draftscope.engines.settings import format_value

CONFIG: Final = "config.json"
GENERATION: Final = "generation_config.json"
"""The options of `generate`."""
LARGEST: Final = 2**31
"""No number of a config is larger."""
FORMATS: Final = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
"""Number formats that are read, as safetensors calls them."""
_INDEX: Final = "model.safetensors.index.json"
_OTHERS: Final = (".json", ".jinja", ".txt")
"""How files end that configs, indices and tokenizers are in."""
_SINGLE: Final = "model.safetensors"
_WHOLE_BYTES: Final = 2**28
"""A file up to here is hashed whole: about a second."""
_SAMPLE_BYTES, _SAMPLE_EVERY = 2**20, 2**26
_SHA256: Final = re.compile("[0-9a-f]{64}")
_MAX_CHARACTERS: Final = 500
"""Maximum length of a problem in messages, because libraries answer with pages."""
_LONGEST_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class CheckpointDir:
    """A folder that holds a checkpoint, and how it can be had again.

    Whatever reads it raises ModelError for files that are missing or damaged.
    """

    name: str
    folder: Path
    remedy: str

    def incomplete(self, problem: str) -> ModelError:
        """Return the error for missing or damaged files, with the command that downloads them again."""
        return ModelError(f"{self.unsupported(problem)} {self.remedy}")

    def unsupported(self, problem: str) -> ModelError:
        """The error for a checkpoint that cannot be used, however often it is fetched."""
        return ModelError(f"{self.name}: {' '.join(problem.split())[:_MAX_CHARACTERS]}.")

    def read_json(self, name: str) -> dict[str, Any]:
        """An object from one of the folder's files."""
        try:
            value = json.loads((self.folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise self.incomplete(f"{name} is missing in {self.folder}") from None
        except (ValueError, RecursionError) as error:
            raise self.incomplete(f"{name} is not JSON: {error}") from error
        except OSError as error:
            raise self.incomplete(f"{name} cannot be read ({error.strerror})") from error
        if not isinstance(value, dict):
            raise self.incomplete(f"{name} holds no JSON object")
        return value

    def read_json_if_any(self, name: str) -> dict[str, Any]:
        """Return the content of a JSON file; empty if the file does not exist."""
        return self.read_json(name) if (self.folder / name).is_file() else {}

    def inside(self, name: str) -> "CheckpointDir":
        """A folder inside a checkpoint's."""
        return replace(self, folder=self.folder / name, name=f"{self.name}/{name}")

    def section(self, settings: Mapping[str, Any], name: str) -> dict[str, Any]:
        """Return an object inside config.json, without its fields that are null.

        Args:
            settings: Content of config.json, or an object inside it.
            name: Field of the object.

        Raises:
            ModelError: If the field is missing or is not an object.
        """
        value = settings.get(name)
        if not isinstance(value, dict):
            raise self.unsupported(f"config.json has {format_value(value)} for {name!r}; it is an object")
        return {key: inner for key, inner in value.items() if inner is not None}

    def check_fixed(self, settings: Mapping[str, Any], fixed: Mapping[str, object], title: str) -> None:
        """Check fields of which only one value is supported; missing fields pass.

        Args:
            settings: Content of config.json.
            fixed: Field -> supported value.
            title: Family of models that the error names.

        Raises:
            ModelError: For the first field with another value.
        """
        for name, value in fixed.items():
            if settings.get(name, value) != value:
                raise self.unsupported(
                    f"config.json has {format_value(settings[name])} for {name!r}; {title} is built for {value!r}"
                )

    def number(self, settings: Mapping[str, Any], name: str, maximum: int = LARGEST) -> int:
        """Return a positive whole number from config.json.

        Args:
            settings: Content of config.json, or an object inside it.
            name: Field.
            maximum: Largest value that is allowed.

        Raises:
            ModelError: If the field is missing, of another type, or out of range.
        """
        return int(self._positive(settings, name, int, maximum))

    def fraction(self, settings: Mapping[str, Any], name: str) -> float:
        """Return a positive number from config.json.

        Args:
            settings: Content of config.json, or an object inside it.
            name: Field.

        Raises:
            ModelError: If the field is missing, of another type, or not positive.
        """
        return float(self._positive(settings, name, (int, float), LARGEST))

    def _positive(self, settings: Mapping[str, Any], name: str, kinds: Any, maximum: int) -> Any:
        if name not in settings:
            raise self.unsupported(f"config.json has no {name!r}")
        value = settings[name]
        if not isinstance(value, kinds) or isinstance(value, bool) or not 0 < value <= maximum:
            raise self.unsupported(f"config.json has {format_value(value)} for {name!r}, which is not allowed")
        return value

    def files(self) -> list[Path]:
        """The safetensors of a folder as transformers finds them: one file, or else those that its index lists."""
        names: Iterable[Any] = [_SINGLE]
        if not (self.folder / _SINGLE).is_file() and (self.folder / _INDEX).is_file():
            index = self.read_json(_INDEX).get("weight_map")
            if not isinstance(index, dict) or not index:
                raise self.incomplete(f"{_INDEX} has no 'weight_map'")
            names = sorted(set(map(str, index.values())))
        for name in names:
            if Path(name).name != name or len(name) > _LONGEST_NAME:
                raise self.incomplete(
                    f"{_INDEX} names {name[:_LONGEST_NAME]!r}, which is outside the folder or cannot be a file"
                )
            if not (self.folder / name).is_file():
                raise self.incomplete(f"{name} is missing in {self.folder}; weights are read from safetensors alone")
        return [self.folder / name for name in names]

    def heads(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and number format, as safetensors calls it, of every tensor by name."""
        heads: dict[str, tuple[tuple[int, ...], str]] = {}
        for file in self.files():
            try:
                with safe_open(file, framework="pt") as tensors:
                    for name in tensors.keys():  # noqa: SIM118 (not a dictionary)
                        part = tensors.get_slice(name)
                        heads[name] = (tuple(part.get_shape()), part.get_dtype())
            except (SafetensorError, OSError) as error:
                raise self.incomplete(f"{file.name} cannot be read: {error}") from error
        return heads

    def count(self, ignored: tuple[str, ...] = (), prefix: str = "", tables: tuple[str, ...] = ()) -> int:
        """Return the number of parameters in some tensors, without reading these.

        Args:
            ignored: Beginnings of names that are not counted.
            prefix: Beginning of the names that are counted.
            tables: Endings of names that are not counted, such as tables that are computed again.
        """
        return sum(
            math.prod(shape)
            for name, (shape, _) in self.heads().items()
            if name.startswith(prefix) and not name.startswith(ignored) and not name.endswith(tables)
        )

    def format(self) -> torch.dtype | None:
        """The one number format of all tensors; None where they have several, or cannot be read."""
        try:
            formats = {number for _, number in self.heads().values()}
        except ModelError:
            return None
        return FORMATS.get(formats.pop()) if len(formats) == 1 else None

    def tensors(self, ignored: tuple[str, ...] = ()) -> dict[str, Tensor]:
        """The tensors, which stay in their files until they are used; names that begin as `ignored` are left out."""
        state: dict[str, Tensor] = {}
        for file in self.files():
            try:
                tensors = load_file(file)
            except (SafetensorError, OSError) as error:
                raise self.incomplete(f"{file.name} cannot be read: {error}") from error
            state |= {name: part for name, part in tensors.items() if not name.startswith(ignored)}
        self.check_floats(state)
        return state

    def check_floats(self, state: Mapping[str, Tensor]) -> None:
        """Check that tensors are plain floats, or int64 for counts and indices."""
        for name, part in state.items():
            if part.dim() and part.dtype not in (*FORMATS.values(), torch.int64, torch.bool):
                raise self.unsupported(
                    f"tensor {name!r} is stored as {part.dtype}; only plain floats are read, so use bfloat16"
                )


def sha256(file: Path) -> str:
    """SHA-256 of a file; the hub's cache names large files by it, so that those need not be read."""
    name = file.resolve().name
    if _SHA256.fullmatch(name):
        return name
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def weight_hashes(source: CheckpointDir) -> dict[str, str]:
    """Return the weight files with their hashes; large files are sampled as described in docs/models.md."""
    hashes = {}
    for file in source.files():
        is_hashed_whole = _SHA256.fullmatch(file.resolve().name) or file.stat().st_size <= _WHOLE_BYTES
        hashes[file.name if is_hashed_whole else f"{file.name} (samples)"] = (
            sha256(file) if is_hashed_whole else sampled_hash(file)
        )
    return hashes


def sampled_hash(file: Path) -> str:
    """SHA-256 of the size and the head of a safetensors file, and of a megabyte in 64 of the rest."""
    size = file.stat().st_size
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    with file.open("rb") as stream:
        start = stream.read(8)
        head = int.from_bytes(start, "little")
        digest.update(start + stream.read(min(head, size)))
        for offset in [*range(8 + head, size, _SAMPLE_EVERY), max(0, size - _SAMPLE_BYTES)]:
            stream.seek(offset)
            digest.update(stream.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def other_hashes(source: CheckpointDir) -> dict[str, str]:
    """The other files of a checkpoint that decide what it decodes, each with its SHA-256: its config and tokenizer."""
    return {file.name: sha256(file) for file in sorted(source.folder.iterdir()) if file.suffix in _OTHERS}
