"""Files that appear whole or not at all, and what is packed in them."""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from draftscope.traces.version import __version__

ROOT: Final = Path(__file__).resolve().parents[1]
"""Folder of the checkout, which draftscope/traces links to; the folder `draftscope` where pip installed it."""
ASSETS_VARIABLE: Final = "DRAFTSCOPE_ASSETS"


def cache_dir() -> Path:
    """Return the cache folder of downloaded and derived files: $DRAFTSCOPE_CACHE or ~/.cache/draftscope."""
    return Path(os.environ.get("DRAFTSCOPE_CACHE") or Path.home() / ".cache" / "draftscope")


def _assets() -> Path:
    if named := os.environ.get(ASSETS_VARIABLE):
        return Path(named)
    shipped = ROOT / "assets"
    return shipped if shipped.is_dir() else cache_dir() / "assets" / __version__


ASSETS: Final = _assets()
"""Folder of weights, recordings, draft graphs and problems: of the checkout or, for an installed package, in the cache,
where `draftscope app` puts them."""
STANDARD: Final = "-"
"""File name of standard input or output."""


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path with the same suffix; the file replaces `path` if the block succeeds."""
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


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all.

    Args:
        path: File, replaced if it exists.
        data: Its content.
    """
    with atomic_path(path) as part:
        part.write_bytes(data)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file, or of standard input for `-`; raises OSError."""
    return sys.stdin.buffer.read() if os.fspath(path) == STANDARD else Path(path).read_bytes()


def gunzip(data: bytes, max_bytes: int) -> bytes:
    """Decompress data if it is gzip.

    Args:
        data: Bytes, gzipped or not.
        max_bytes: Maximum size; longer data is cut one byte after it.

    Raises:
        ValueError: If the gzip data is damaged.
    """
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            return packed.read(max_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"cannot be unpacked as gzip ({error})") from None
