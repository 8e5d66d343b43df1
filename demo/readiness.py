"""Whether everything is there that a visitor will ask for: GET /readyz says so, and what is missing."""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fastapi.responses import JSONResponse

from engines.assets import ASSETS

_UNAVAILABLE: Final = 503
_MANIFEST: Final = "MANIFEST.json"
_REMEDY: Final = "copy the folder assets of the repository"


def readiness(folder: Path, gone: Sequence[str]) -> Callable[[], JSONResponse]:
    """The answer to GET /readyz: 200, or 503 with what is wrong, one line each, and no path of this machine.

    Args:
        folder: Where visitors' files go.
        gone: Recordings that were left out of the gallery.
    """

    def ready() -> JSONResponse:
        wrong = [*_missing(), *_unwritable(folder), *map(_left_out, gone)]
        content: dict[str, Any] = {"status": "not ready" if wrong else "ready", "problems": wrong}
        return JSONResponse(content, _UNAVAILABLE if wrong else 200)

    return ready


def _left_out(name: str) -> str:
    return f"{name}: is missing or no sound trace; record it again with: python -m demo record {name}"


def _missing() -> list[str]:
    """Weights that ship and are not there. Their hashes are checked when they are loaded."""
    folder = ASSETS / "models"
    try:
        listed = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        files = [file for name, entry in listed.items() for file in _files(name, entry)]
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return [f"assets/models/{_MANIFEST}: is missing or damaged; {_REMEDY}"]
    return [f"assets/models/{file}: is missing; {_REMEDY}" for file in files if not (folder / file).is_file()]


def _files(name: str, entry: Mapping[str, Any]) -> list[str]:
    return [f"{name}/{file}" for file in entry.get("files", ())] or [f"{name}.safetensors"]


def _unwritable(folder: Path) -> list[str]:
    """Visitors' files have to go somewhere."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 4096)
    except OSError as error:
        return [f"visitors' files: cannot be written ({error.strerror}); make room"]
    return []
