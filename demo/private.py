"""Where gradio keeps visitors' files, whose paths it tells the browser: a folder whose name says nothing.

It has to be named before gradio is imported, so nothing of gradio is imported here.
"""

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from demo.port import ServerError

_VARIABLE: Final = "GRADIO_TEMP_DIR"


@cache
def private_folder() -> Path:
    """The folder of this process, which nobody else may read; the first call makes it, and it goes at the end.

    Raises:
        ServerError: where none can be made.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix="draftscope-")).resolve()
    except OSError as error:
        told = f"{error.filename or 'visitors'}: {error.strerror}; make room, or set TMPDIR to another folder."
        raise ServerError(told) from error
    os.environ[_VARIABLE] = str(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
