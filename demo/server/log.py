"""Log of the server: one line per event, `name key=value ...`, on standard error.

Text is written as JSON in ASCII, so that nothing sent by a client can start a line, colour a terminal or change the
direction of text. Prompts, files and client addresses are not logged.
"""

import json
import logging
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, Final

from huggingface_hub.constants import HF_HUB_CACHE

from draftscope.engines.paths import ASSETS
from draftscope.traces.files import ROOT

_LOGGER: Final = logging.getLogger("draftscope")
_TEXT: Final = 300
"""Characters of a text that are written."""
_FRAMES: Final = 3


def begin() -> None:
    """Write to standard error from now on."""
    if not _LOGGER.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
        _LOGGER.addHandler(handler)
        _LOGGER.propagate = False
    _LOGGER.setLevel(logging.INFO)


def event(name: str, *, level: int = logging.INFO, **values: Any) -> None:
    """Write a line; the values are numbers, texts, or None, which is left out."""
    parts = (f"{key}={_value(value)}" for key, value in values.items() if value is not None)
    _LOGGER.log(level, "%s", " ".join([name, *parts]))


def log_rejected(kind: str, error: Exception) -> None:
    """Log that a request was rejected."""
    event("refused", kind=kind, why=str(error))


def log_failure(kind: str, error: Exception) -> None:
    """Log an internal error, with the innermost frames of the stack, those of this project if there are any."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(ROOT)] or frames
    at = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(ours[-_FRAMES:]))
    event("failed", level=logging.ERROR, kind=kind, error=type(error).__name__, why=str(error), at=at)


def redact_paths(message: str) -> str:
    """Return an error message without paths of this machine, which only the log has."""
    path_names = {
        f"{ASSETS}": "assets",
        f"{ROOT}{os.sep}": "",
        f"{HF_HUB_CACHE}": "the hub's cache",
        f"{Path(tempfile.gettempdir()).resolve()}{os.sep}": "",
        f"{Path.home()}{os.sep}": "",
    }
    for path, name in path_names.items():
        if len(path) > 1:
            message = message.replace(path, name)
    return message


def _value(value: object) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    text = str(value)
    return json.dumps(text if len(text) <= _TEXT else text[: _TEXT - 1] + "…")
