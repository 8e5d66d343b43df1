"""The tensors of a TorchScript archive, without running what it holds.

An archive is a zip: the bytes of every storage, the module's attributes as a pickle, and code. The code is not looked
at. Of the pickle, what TorchScript writes there is understood: tensors, their containers, and objects of the archive's
own classes, which become plain records. Any other name in it is refused before it is looked up.
"""

import io
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

_DTYPES: Final = {
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "BoolStorage": torch.bool,
}


def read_archive(path: Path) -> dict[str, Tensor]:
    """Parameters and buffers by their names in the module, on the CPU.

    Raises:
        ValueError: for a file that is no such archive or holds something else; the message says what.
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
    except Exception as error:  # what a damaged pickle makes of the reader's stack is an error of any kind
        raise ValueError(f"holds something other than a module's tensors: {error!r:.200}") from error


class _Record:
    """An object of one of the archive's own classes: its attributes, and nothing that it could do."""


class _Reader(pickle.Unpickler):
    """Makes tensors, containers and records; see https://docs.python.org/3/library/pickle.html#restricting-globals."""

    def __init__(self, archive: zipfile.ZipFile, root: str) -> None:
        super().__init__(io.BytesIO(archive.read(f"{root}data.pkl")))
        self._archive, self._root = archive, root

    def find_class(self, module: str, name: str) -> Any:
        """What a name in the pickle stands for: something made anew here, never an import."""
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
