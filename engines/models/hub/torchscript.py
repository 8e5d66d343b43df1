"""The tensors of a TorchScript archive, without running what it holds.

An archive is a zip: the bytes of every storage, the module's attributes as a pickle, and code. The code is not looked
at. Of the pickle, what TorchScript writes there is understood: tensors, their containers, and objects of the archive's
own classes, which become plain records. Any other name in it is refused before it is looked up.
"""

import io
import math
import pickle
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

_MOST_BYTES: Final = 64 * 2**20
"""Of the pickle, which holds no numbers of tensors."""
_MOST_NESTED: Final = 50
_FORMATS: Final = {
    "BFloat16Storage": torch.bfloat16,
    "HalfStorage": torch.float16,
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}


def read_archive(path: Path) -> dict[str, Tensor]:
    """Parameters and buffers by their names in the module, on the CPU.

    Raises:
        ValueError: for a file that is no such archive or holds something else; the message says what.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            records = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")]
            if len(records) != 1:
                raise ValueError("is no TorchScript archive")
            if archive.getinfo(records[0]).file_size > _MOST_BYTES:
                raise ValueError(f"has attributes of more than {_MOST_BYTES:,} bytes")
            reader = _Reader(archive, records[0].removesuffix("data.pkl"))
            return dict(_named(reader.load(), "", 0))
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise ValueError(f"cannot be read: {error}") from error
    except (pickle.UnpicklingError, AttributeError, EOFError, IndexError, KeyError, RuntimeError, TypeError) as error:
        raise ValueError(f"holds something other than a module's tensors: {error}") from error


class _Record:
    """An object of one of the archive's own classes: its attributes, and nothing that it could do."""


class _Reader(pickle.Unpickler):
    def __init__(self, archive: zipfile.ZipFile, root: str) -> None:
        super().__init__(io.BytesIO(archive.read(f"{root}data.pkl")))
        self._archive, self._root = archive, root
        self._storages: dict[str, Tensor] = {}
        order = f"{root}byteorder"
        if order in archive.namelist() and archive.read(order).decode() != sys.byteorder:
            raise ValueError("was written on a machine of another byte order")

    def find_class(self, module: str, name: str) -> Any:
        """What a name in the pickle stands for: something made anew here, never an import."""
        if module.partition(".")[0] == "__torch__":
            return type("Record", (_Record,), {})
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _fresh(_tensor)
        if (module, name) == ("collections", "OrderedDict"):
            return _fresh(dict)
        if module == "torch.jit._pickle":  # lists, and tensors that carry a type
            return _fresh(lambda value, *_: value)
        if module == "torch" and name in _FORMATS:
            return _FORMATS[name]
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Tensor:
        """A storage, as a flat tensor."""
        kind, number, key, _, count = pid
        if kind != "storage" or not isinstance(number, torch.dtype) or not str(key).isalnum():
            raise pickle.UnpicklingError(f"storage {key!r}")
        if key not in self._storages:
            place, wanted = f"{self._root}data/{key}", count * number.itemsize
            if (held := self._archive.getinfo(place).file_size) != wanted:
                raise pickle.UnpicklingError(f"storage {key!r} of {held} bytes, not {wanted}")
            data = bytearray(self._archive.read(place))
            self._storages[key] = torch.frombuffer(data, dtype=number) if data else torch.empty(0, dtype=number)
        return self._storages[key]


def _fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of its own for every use, so that a pickle that sets attributes on it changes nothing that stays."""
    return lambda *arguments: function(*arguments)


def _tensor(storage: Tensor, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], *_: object) -> Tensor:
    last = offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    if math.prod(shape) and not (min(offset, *stride, 0) >= 0 and last < len(storage)):
        raise pickle.UnpicklingError(f"a tensor of shape {list(shape)} in a storage of {len(storage)}")
    return storage.as_strided(shape, stride, offset)


def _named(record: object, prefix: str, depth: int) -> Iterator[tuple[str, Tensor]]:
    if not isinstance(record, _Record) or depth > _MOST_NESTED:
        raise pickle.UnpicklingError(f"{type(record).__name__} for {prefix or 'the module'!r}")
    for name, value in vars(record).items():
        if isinstance(value, Tensor):
            yield prefix + name, value
        elif isinstance(value, _Record):
            yield from _named(value, f"{prefix}{name}.", depth + 1)
