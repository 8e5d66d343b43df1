"""Engines by name: those that run in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from draftscope.certificates.known_model import write_checkpoints
from draftscope.certificates.sources import LlamaCppSource, Source, TransformersSource
from draftscope.servers.client import ServerClient, ServerError
from draftscope.servers.llama_cpp import SPECULATIONS, llama_cpp_server, wheel_version

_TRANSFORMERS: Final[dict[str, Any]] = {
    "transformers": "plain", "transformers-lookup": "lookup", "transformers-assisted": "assisted",
}  # fmt: skip
_LLAMA_CPP: Final = {"llama.cpp" if kind == "none" else f"llama.cpp-{kind}": kind for kind in SPECULATIONS}
NAMES: Final = (*_TRANSFORMERS, *_LLAMA_CPP)
"""Names of engines."""


@contextmanager
def named_source(name: str) -> Iterator[Source]:
    """Yield an engine; a server of its own runs until the context ends.

    Raises:
        ServerError: For an unknown name, or if llama.cpp is not installed.
    """
    if name in _TRANSFORMERS:
        yield TransformersSource(_TRANSFORMERS[name])
        return
    if name not in _LLAMA_CPP:
        raise ServerError(f"engine: {name!r} is not known; use an address such as http://127.0.0.1:8080, or one of "
                          f"{', '.join(NAMES)}.")  # fmt: skip
    kind = _LLAMA_CPP[name]
    with TemporaryDirectory() as folder:
        write_checkpoints(Path(folder))
        draft = Path(folder) / "draft.gguf" if kind.startswith("draft") else None
        with (
            llama_cpp_server(Path(folder) / "target.gguf", speculation=kind, draft=draft) as url,
            ServerClient(url) as client,
        ):
            title = f"{name} (xllamacpp {wheel_version()})"
            yield LlamaCppSource(client, title, "model" if draft else "lookup")
