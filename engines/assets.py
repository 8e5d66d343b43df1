"""Weights, recordings and problems for an installed package, fetched on request and checked by their hashes."""

import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

import httpx

from draftscope.engines.models.errors import ModelError
from draftscope.engines.paths import ASSETS
from draftscope.traces.files import write_atomic
from draftscope.traces.version import __version__

SOURCE_VARIABLE: Final = "DRAFTSCOPE_ASSETS_SOURCE"
"""Address of another copy of the folder."""
SOURCE: Final = f"https://raw.githubusercontent.com/draftscope/draftscope/v{__version__}/assets"
"""The folder assets of the release. It answers once the release is published: docs/releasing.md."""
_TIMEOUT_SECONDS: Final = 30


@cache
def listed() -> Mapping[str, tuple[int, str]]:
    """Return the files of the release with size and SHA-256; empty in a checkout, which has them.

    The list is made with the wheel (setup.py), so what is fetched is what the release was tested with.
    """
    path = Path(__file__).with_name("assets.json")
    if not path.is_file():
        return {}
    return {name: (size, digest) for name, (size, digest) in json.loads(path.read_text(encoding="utf-8")).items()}


def source() -> str:
    """Return the address that files are fetched from."""
    return os.environ.get(SOURCE_VARIABLE, SOURCE).rstrip("/")


def missing(folder: Path = ASSETS) -> dict[str, int]:
    """Return the files that a folder lacks, or has in another size, with their sizes in bytes."""
    return {name: size for name, (size, _) in listed().items() if not _has(folder / name, size)}


def fetch(report: Callable[[int, int], None], folder: Path = ASSETS) -> None:
    """Fetch the missing files. Each is checked before it is written; an interrupted fetch goes on where it was.

    Args:
        report: Is called with the bytes that have arrived, and all bytes.
        folder: Folder to write.

    Raises:
        ModelError: The address does not answer, a file differs from the release, or the folder cannot be written.
    """
    wanted = missing(folder)
    arrived, total = 0, sum(wanted.values())
    with httpx.Client(follow_redirects=True, timeout=_TIMEOUT_SECONDS) as client:
        for name, size in wanted.items():
            data = _file(client, f"{source()}/{name}")
            if sha256(data).hexdigest() != listed()[name][1]:
                raise ModelError(f"{name}: the file at {source()} is not that of the release; nothing of it was kept.")
            try:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                write_atomic(folder / name, data)
            except OSError as error:
                remedy = "make room, or set DRAFTSCOPE_CACHE"
                raise ModelError(f"{name}: cannot be written to {folder} ({error.strerror}); {remedy}.") from error
            arrived += size
            report(arrived, total)


def _file(client: httpx.Client, address: str) -> bytes:
    try:
        answer = client.get(address)
        answer.raise_for_status()
    except httpx.HTTPError as error:
        problem = str(error).partition("\n")[0]
        remedy = f"check the network, or set {SOURCE_VARIABLE} to another copy"
        raise ModelError(f"{address}: cannot be fetched ({problem}); {remedy}.") from error
    return answer.content


def _has(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size
