"""Draftscope from Python: run a method, record what others decode, read, draw and show traces.

Reading, replaying and drawing need no torch; `run` and `record` load the engines when they are first used.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from draftscope.traces.version import __version__ as __version__

if TYPE_CHECKING:
    from draftscope.builder import TraceBuilder
    from draftscope.calibration import calibrate
    from draftscope.certificates.certificate import certify, write_certificate
    from draftscope.diffing import diff
    from draftscope.experiments import Arm, Experiment, JsonlStore, MemoryStore, ProblemSet, run_experiment
    from draftscope.experiments.bench import bench
    from draftscope.prediction import predict
    from draftscope.runner import methods, models, run, settings
    from draftscope.servers.bench import bench_server
    from draftscope.serving_engines import from_llama_cpp, from_sglang, from_vllm
    from draftscope.trace import Trace
    from draftscope.traces import TraceError, TraceWarning, write
    from draftscope.transformers_recorder import record
    from draftscope.viewer import figure, figures, view

__all__ = [
    "Arm",
    "Experiment",
    "JsonlStore",
    "MemoryStore",
    "ProblemSet",
    "Trace",
    "TraceBuilder",
    "TraceError",
    "TraceWarning",
    "bench",
    "bench_server",
    "calibrate",
    "certify",
    "diff",
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
    "run_experiment",
    "settings",
    "view",
    "write",
    "write_certificate",
]

_MODULES: Final = {
    "Trace": "trace",
    "TraceBuilder": "builder",
    "figure": "viewer",
    "figures": "viewer",
    "from_llama_cpp": "serving_engines",
    "from_sglang": "serving_engines",
    "from_vllm": "serving_engines",
    "predict": "prediction",
    "view": "viewer",
    "TraceError": "traces",
    "TraceWarning": "traces",
    "write": "traces",
}
"""Modules of names that need no engines."""
_WITH_ENGINES: Final = {
    **dict.fromkeys(("Arm", "Experiment", "JsonlStore", "MemoryStore", "ProblemSet", "run_experiment"), "experiments"),
    "bench": "experiments.bench",
    "bench_server": "servers.bench",
    "calibrate": "calibration",
    "certify": "certificates.certificate",
    "diff": "diffing",
    "write_certificate": "certificates.certificate",
    "methods": "runner",
    "models": "runner",
    "run": "runner",
    "settings": "runner",
    "record": "transformers_recorder",
}


def read(path: str | os.PathLike[str]) -> "Trace":
    """Read a trace from a file, .json or .json.gz.

    Args:
        path: A file, or an address of the Hugging Face hub, `hf://datasets/OWNER/NAME/FILE`.

    Returns:
        The trace, checked, which a notebook shows as the player.

    Raises:
        TraceError: If the file is not a valid trace.
        ImportError: For an address without huggingface_hub, which the extra `draftscope[hub]` installs.
        OSError: If the file cannot be read or downloaded.
    """
    from draftscope import traces
    from draftscope.trace import displayable

    if str(path).startswith("hf://"):
        from draftscope.hub import download

        path = download(str(path))
    return displayable(traces.read(path))


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"draftscope.{_MODULES[name]}"), name)
    if name not in _WITH_ENGINES:
        raise AttributeError(f"module 'draftscope' has no {name!r}; there are {', '.join(__all__)}")
    try:
        return getattr(import_module(f"draftscope.{_WITH_ENGINES[name]}"), name)
    except ImportError as error:
        raise ImportError(
            f"ds.{name} runs models and needs {error.name}, which is not installed: pip install 'draftscope[engines]'. "
            "Reading and drawing traces works without.",
            name=error.name,
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)
