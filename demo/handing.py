"""Where the browser fetches traces: at addresses of our own, which do not say where on the disk they lie.

gradio would hand files out under their whole path, the checkout's and a user's name included.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from fastapi import HTTPException
from fastapi.responses import FileResponse

PLACE: Final = "/traces/{folder}/{file}"
_FOLDER: Final = re.compile(r"[\w-]+", re.ASCII)
_FILE: Final = re.compile(r"[\w-][\w.-]*\.json\.gz", re.ASCII)


def url(path: Path) -> str:
    """Where the server hands out a trace, relative to the page."""
    return PLACE.removeprefix("/").format(folder=quote(path.parent.name), file=quote(path.name))


def handing(visited: Path, recorded: Sequence[Path]) -> Callable[[str, str], FileResponse]:
    """The answer to GET `PLACE`: a visitor's trace, or one that was recorded.

    Args:
        visited: The folder with one folder a visitor, named so that nobody else can guess it.
        recorded: Folders with traces for everybody, by their last names.
    """
    known = {folder.name: folder.resolve() for folder in recorded}

    def handed(folder: str, file: str) -> FileResponse:
        if _FOLDER.fullmatch(folder) and _FILE.fullmatch(file):
            inside = known.get(folder, visited.resolve() / folder)
            path = inside / file
            if path.is_file() and path.resolve().parent == inside:
                return FileResponse(path, media_type="application/gzip")
        raise HTTPException(404, "trace: it is not here, or no more; decode the run again.")

    return handed
