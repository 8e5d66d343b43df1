"""What is settled before gradio is imported, which reads it then: the port, and where visitors' files are kept.

So nothing of gradio may be imported here.
"""

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

PORT: Final = "GRADIO_SERVER_PORT"
_USUAL_PORT: Final = 7860
_LAST_PORT: Final = 65535


class ServerError(RuntimeError):
    """The app cannot be served where it was asked to; the message names what is wrong and the remedy."""


def read_port() -> int:
    """The port to serve on. Raises ServerError for what is no port."""
    text = os.environ.get(PORT) or str(_USUAL_PORT)
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:6]) <= _LAST_PORT):
        raise ServerError(f"{PORT}: {text[:40]!r} is no port; use a whole number from 1 to {_LAST_PORT}.")
    return int(text)


def temporary_folder() -> Path:
    """A folder that nobody else may read and whose name says nothing. Raises ServerError where none can be made."""
    try:
        return Path(tempfile.mkdtemp(prefix="draftscope-")).resolve()
    except OSError as error:
        message = f"{error.filename or 'visitors'}: {error.strerror}; make room, or set TMPDIR to another folder."
        raise ServerError(message) from error


@cache
def private_folder() -> Path:
    """Where gradio keeps visitors' files, whose paths it tells the browser; it goes at the end of the process."""
    folder = temporary_folder()
    os.environ["GRADIO_TEMP_DIR"] = str(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
