"""What a server writes about itself: one line an event, `name key=value ...`, to standard error.

Text is written as JSON in ASCII, so that nothing a stranger sent can begin a line, colour a terminal or turn one
around. Prompts and files are not written at all, nor is who asked.
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

from engines.paths import ASSETS
from traces.files import ROOT

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


def refused(kind: str, error: Exception) -> None:
    """Somebody was told what is wrong with what they asked for."""
    event("refused", kind=kind, why=str(error))


def failed(kind: str, error: Exception) -> None:
    """The app failed; the line names the last places that it came through, ours where there are any."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(ROOT)] or frames
    at = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(own[-_FRAMES:]))
    event("failed", level=logging.ERROR, kind=kind, error=type(error).__name__, why=str(error), at=at)


def for_visitors(message: str) -> str:
    """An error's message without where things lie on this machine, which the log has."""
    places = {
        f"{ASSETS}": "assets",
        f"{ROOT}{os.sep}": "",
        f"{HF_HUB_CACHE}": "the hub's cache",
        f"{Path(tempfile.gettempdir()).resolve()}{os.sep}": "",
        f"{Path.home()}{os.sep}": "",
    }
    for place, name in places.items():
        if len(place) > 1:
            message = message.replace(place, name)
    return message


def _value(value: object) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    text = str(value)
    return json.dumps(text if len(text) <= _TEXT else text[: _TEXT - 1] + "…")
