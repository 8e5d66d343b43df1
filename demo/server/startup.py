"""Settings that must be fixed before Gradio is imported: the port, and the folder of users' files.

This module must not import Gradio.
"""

import atexit
import os
import secrets
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

PORT: Final = "GRADIO_SERVER_PORT"
_USUAL_PORT: Final = 7860
_LAST_PORT: Final = 65535


class ServerError(RuntimeError):
    """The app cannot be served at the given address; the message has the problem and the remedy."""


def read_port() -> int:
    """Return the port to serve on.

    Raises:
        ServerError: If GRADIO_SERVER_PORT is not a port.
    """
    text = os.environ.get(PORT) or str(_USUAL_PORT)
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:6]) <= _LAST_PORT):
        raise ServerError(f"{PORT}: {text[:40]!r} is not a port; use a whole number from 1 to {_LAST_PORT}.")
    return int(text)


def temporary_folder() -> Path:
    """Create a folder that only this process's user can read, with a random name.

    Raises:
        ServerError: If it cannot be created.
    """
    try:
        return Path(tempfile.mkdtemp(prefix="draftscope-")).resolve()
    except OSError as error:
        message = f"{error.filename or 'visitors'}: {error.strerror}; free some space, or set TMPDIR to another folder."
        raise ServerError(message) from error


def remove_folder(folder: Path) -> None:
    """Remove a folder that other threads may still write to; a folder that is not there is no error.

    It is renamed before, so that nothing is added while it is emptied.
    """
    while folder.exists():
        removed = folder.with_name(f"{folder.name}-{secrets.token_hex(4)}")
        try:
            folder.rename(removed)
        except OSError:  # such as an open file on Windows
            shutil.rmtree(folder, ignore_errors=True)
            return
        shutil.rmtree(removed, ignore_errors=True)


@cache
def private_folder() -> Path:
    """Return the folder of users' files, whose paths the browser sees; it is removed when the process ends."""
    folder = temporary_folder()
    os.environ["GRADIO_TEMP_DIR"] = str(folder)
    atexit.register(remove_folder, folder)
    return folder
