"""Files that appear whole or not at all, and what is packed in them."""

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

ROOT: Final = Path(__file__).parents[1]
"""Folder of the checkout; where the packages are installed without it, the folder that holds them."""


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Another file to write to, of the same ending, that takes the place of `path` once all is well."""
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix=f".part{path.suffix}", delete=False) as part:
            temporary = Path(part.name)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        yield temporary
        temporary.chmod(0o644)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all."""
    with whole(path) as part:
        part.write_bytes(data)


def unpacked(data: bytes, most: int) -> bytes:
    """The data, unpacked if it is gzip, cut a byte behind `most`; raises ValueError for damaged gzip."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            return packed.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"cannot be unpacked as gzip ({error})") from None
