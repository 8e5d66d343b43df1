"""Draftscope from Python: run a method, record what others decode, read, draw and show traces.

Reading, replaying and drawing need no torch; `run` and `record` load the engines when they are first used.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import traces as _traces
from draftscope.builder import TraceBuilder
from draftscope.predicting import predict
from draftscope.serving import from_llama_cpp, from_sglang, from_vllm
from draftscope.showing import figure, figures, view
from draftscope.trace import Trace, displayable
from traces import TraceError, TraceWarning, write
from traces.version import __version__ as __version__

if TYPE_CHECKING:
    from draftscope.benching import bench
    from draftscope.calibrating import calibrate
    from draftscope.recording import record
    from draftscope.running import methods, models, run, settings

__all__ = [
    "Trace",
    "TraceBuilder",
    "TraceError",
    "TraceWarning",
    "bench",
    "calibrate",
    "figure",
    "figures",
    "from_llama_cpp",
    "from_sglang",
    "from_vllm",
    "methods",
    "models",
    "predict",
    "read",
    "record",
    "run",
    "settings",
    "view",
    "write",
]

_WITH_ENGINES: Final = {
    "bench": "draftscope.benching",
    "calibrate": "draftscope.calibrating",
    "methods": "draftscope.running",
    "models": "draftscope.running",
    "run": "draftscope.running",
    "settings": "draftscope.running",
    "record": "draftscope.recording",
}


def read(path: str | os.PathLike[str]) -> Trace:
    """The trace in a file, .json or .json.gz.

    Raises:
        TraceError: If it is not a trace, or not a sound one.
        OSError: If the file cannot be read.
    """
    return displayable(_traces.read(path))


def __getattr__(name: str) -> Any:
    if name not in _WITH_ENGINES:
        raise AttributeError(f"module 'draftscope' has no {name!r}; there are {', '.join(__all__)}")
    try:
        return getattr(import_module(_WITH_ENGINES[name]), name)
    except ImportError as error:
        raise ImportError(
            f"ds.{name} runs models and needs {error.name}, which is not installed: pip install 'draftscope[engines]'. "
            "Reading and drawing traces works without.",
            name=error.name,
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)
