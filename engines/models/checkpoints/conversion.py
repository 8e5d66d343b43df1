"""The one-time conversion of checkpoints that were published as pickles or TorchScript: to safetensors.

Tensors alone are read, compared with the network before anything is written, and keep their published names. TARGET
gets config.json last: a conversion that was interrupted is not taken for a whole one.
"""

import argparse
import io
import json
import pickle
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import torch
from huggingface_hub import save_torch_state_dict
from safetensors import SafetensorError
from torch import Tensor

from draftscope.engines.models.checkpoint_files import CheckpointDir
from draftscope.engines.models.checkpoints.build import State
from draftscope.engines.models.errors import ModelError
from draftscope.engines.settings import ConfigError, format_value

KINDS: Final = {
    "lumina-mgpt": "images.chameleon",
    "lumina-mgpt-2": "images.chameleon",
    "anole": "images.chameleon",
    "cosmos": "images.cosmos",
    "mar": "images.mar",
    "xar": "images.xar",
    "harmon": "images.harmon",
}
_DTYPES: Final = {
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "BoolStorage": torch.bool,
}
SHARD_BYTES: Final = 2 * 2**30


@dataclass(frozen=True, slots=True)
class Request:
    """Request to convert a checkpoint."""

    kind: str
    source: Path
    """File of the model, or its folder."""
    second: Path | None = None
    """File of the autoencoder, or the folder of the tokenizer, where it is published apart."""
    heads: int | None = None
    side: int | None = None
    """Value that tensors do not determine; None takes that of the published models."""

    def file(self, remedy: str) -> CheckpointDir:
        """The file of the model."""
        return CheckpointDir(self.source.name, self.source.parent, remedy)


@dataclass(frozen=True, slots=True)
class Converted:
    """Result of a conversion."""

    weights: Mapping[str, State]
    """Tensors by folder, the model's own being ''."""
    settings: Mapping[str, Any]
    files: Sequence[Path] = ()
    """Files that are taken over as they are."""
    inside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """config.json of folders inside the model's."""


def convert(request: Request, target: Path, report: Callable[[str], None] = lambda line: None) -> None:
    """Write a folder that `engines.models.loading` reads.

    Args:
        request: Kind of the checkpoint, and its files.
        target: Folder to write: one that does not exist, or an empty one.
        report: Called with a line for each file of weights.

    Raises:
        ConfigError: For an unknown kind, or one that takes other files.
        ModelError: For what is missing, misshapen, of another model, or in the way, and for a disk that is full.
        OSError: For a folder that cannot be made.
    """
    if request.kind not in KINDS:
        raise ConfigError(f"KIND: {format_value(request.kind)} is none; use {', '.join(KINDS)}.")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ModelError(f"{target}: is not an empty folder. Name a new one for the converted checkpoint.")
    module = import_module(f"draftscope.engines.models.checkpoints.{KINDS[request.kind]}")
    converted: Converted = module.convert(request)
    for name, state in converted.weights.items():
        (target / name).mkdir(parents=True, exist_ok=True)
        for written in _write(state, target / name):
            report(f"{written} written")
    for file in converted.files:
        (target / file.name).write_bytes(file.read_bytes())
    for name, settings in {**converted.inside, "": converted.settings}.items():
        config = json.dumps(settings, indent=1) + "\n"
        (target / name / "config.json").write_text(config, encoding="utf-8")


def read_pickle(source: CheckpointDir, inside: Sequence[str] = (), name: str = "") -> dict[str, Tensor]:
    """Return the tensors of a pickled state dict by name, without its extra states.

    Nothing but tensors is unpickled, and these stay on disk until they are used.

    Args:
        source: The file's folder; by default the file has its name.
        inside: Keys under which a state dict may be nested; the first that is present counts, else the whole content.
        name: File name.

    Raises:
        ModelError: If the file is missing, damaged, or holds anything else.
    """
    file = source.folder / (name or source.name)
    if not file.is_file():
        raise source.incomplete(f"{file.name} is missing in {source.folder}")
    try:
        # The arguments that a training was started with, which some checkpoints carry along, are plain values.
        with torch.serialization.safe_globals([argparse.Namespace]):
            content: Any = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    except Exception as error:  # a damaged pickle can raise any error
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise source.incomplete(f"{file.name} cannot be read as tensors alone ({why:.200})") from None
    if isinstance(content, dict):
        content = next((content[key] for key in inside if key in content), content)
    if not isinstance(content, dict) or not content:
        raise source.incomplete(f"{file.name} holds no state dict")
    state = {str(key): part for key, part in content.items() if "_extra_state" not in str(key)}
    for key, part in state.items():
        if not isinstance(part, Tensor):
            raise source.incomplete(f"{file.name} has {key!r}, which is not a tensor")
    source.check_floats(state)
    return state


def read_archive(path: Path) -> dict[str, Tensor]:
    """Return parameters and buffers of a TorchScript archive by name.

    An archive is a zip: the bytes of every storage, the module's attributes as a pickle, and code, which is not run. Of
    the pickle, tensors, their containers and objects of the archive's own classes are read, which become plain records.
    Any other name in it is rejected before it is resolved.

    Raises:
        ValueError: If the file is not such an archive, or contains other names.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            root = next((name for name in archive.namelist() if name.endswith("/data.pkl")), None)
            if root is None:
                raise ValueError("is no TorchScript archive")
            return dict(_tensors(_Reader(archive, root.removesuffix("data.pkl")).load(), ""))
    except (OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"cannot be read: {error}") from error
    except ValueError:
        raise
    except Exception as error:  # a damaged pickle can raise any error
        raise ValueError(f"holds something other than a module's tensors: {error!r:.200}") from error


class _Record:
    """An object of one of the archive's own classes: its attributes, and nothing that it could do."""


class _Reader(pickle.Unpickler):
    """Makes tensors, containers and records; see https://docs.python.org/3/library/pickle.html#restricting-globals."""

    def __init__(self, archive: zipfile.ZipFile, root: str) -> None:
        super().__init__(io.BytesIO(archive.read(f"{root}data.pkl")))
        self._archive, self._root = archive, root

    def find_class(self, module: str, name: str) -> Any:
        """Return a new class for a name in the pickle, never an import."""
        if module.startswith("__torch__"):
            return type("Record", (_Record,), {})
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, stride, *_: storage.as_strided(shape, stride, offset)
        if (module, name) == ("collections", "OrderedDict"):
            return lambda *items: dict(*items)
        if module == "torch.jit._pickle":  # lists, and tensors that carry a type
            return lambda value, *_: value
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Tensor:
        """A storage, as a flat tensor."""
        _, dtype, key, _, count = pid
        data = bytearray(self._archive.read(f"{self._root}data/{key}"))
        return torch.frombuffer(data, dtype=dtype, count=count) if count else torch.empty(0, dtype=dtype)


def _tensors(record: object, prefix: str) -> Iterator[tuple[str, Tensor]]:
    if not isinstance(record, _Record):
        raise ValueError(f"holds something other than a module's tensors: {type(record).__name__} at {prefix!r}")
    for name, value in vars(record).items():
        if isinstance(value, Tensor):
            yield prefix + name, value
        elif isinstance(value, _Record):
            yield from _tensors(value, f"{prefix}{name}.")


def _write(state: State, folder: Path) -> list[Path]:
    """Write tensors, in several files where they are many, and the index that names these."""
    apart: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, part in state.items():  # tensors of a storage in common are refused by the format
        storage = part.untyped_storage().data_ptr()
        apart[name] = part.clone() if storage in storages else part
        storages.add(storage)
    try:
        save_torch_state_dict(apart, folder, max_shard_size=SHARD_BYTES)
    except SafetensorError as error:
        raise ModelError(f"{folder}: cannot be written ({error}). Make room, or name another folder.") from error
    return sorted(folder.glob("*.safetensors"))
