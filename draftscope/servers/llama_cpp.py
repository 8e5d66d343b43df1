"""llama.cpp's own HTTP server from the wheel xllamacpp, on the loopback interface of this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

from draftscope.servers.client import ServerError

Speculation = Literal["none", "ngram-simple", "ngram-map-k", "ngram-cache", "draft", "draft-probabilistic"]
SPECULATIONS: Final[tuple[Speculation, ...]] = (
    "none", "ngram-simple", "ngram-map-k", "ngram-cache", "draft", "draft-probabilistic",
)  # fmt: skip


@contextmanager
def llama_cpp_server(
    model: Path, *, speculation: Speculation = "none", draft: Path | None = None, drafts: int = 4, context: int = 1024
) -> Iterator[str]:
    """Yield the address of a server that runs until the context ends, with one thread and float32 caches.

    Args:
        model: A GGUF file.
        speculation: What drafts: nothing, an n-gram of the text so far, or a model, whose drafts are compared with a
            sample of the target or, if `probabilistic`, accepted with the ratio of the probabilities.
        draft: GGUF file of the drafter.
        drafts: Drafts of a pass.
        context: Tokens of prompt and answer.

    Raises:
        ServerError: If the wheel is not installed.
    """
    try:
        import xllamacpp
    except ImportError:
        remedy = "pip install xllamacpp, or start llama-server yourself and give its address"
        raise ServerError(f"llama.cpp: needs xllamacpp, which is not installed; {remedy}.") from None
    settings = xllamacpp.CommonParams()
    settings.model.path, settings.n_ctx, settings.n_parallel, settings.verbosity = str(model), context, 1, -1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.endpoint_metrics, settings.warmup = True, False
    settings.hostnames, settings.port = ["127.0.0.1"], 0
    settings.cache_type_k = settings.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    _speculate(xllamacpp, settings.speculative, speculation, draft, drafts)
    server = xllamacpp.Server(settings)
    try:
        yield str(server.listening_address)
    finally:
        del server  # its destructor stops it


def wheel_version() -> str:
    """Version of the installed wheel."""
    return version("xllamacpp")


def _speculate(wheel: Any, about: Any, speculation: Speculation, draft: Path | None, drafts: int) -> None:
    names = {"none": "NONE", "draft": "DRAFT_SIMPLE", "draft-probabilistic": "DRAFT_SIMPLE"}
    kind = names.get(speculation, speculation.upper().replace("-", "_"))
    about.types = [getattr(wheel.common_speculative_type, f"COMMON_SPECULATIVE_TYPE_{kind}")]
    if speculation in ("ngram-simple", "ngram-map-k"):
        options = getattr(about, speculation.replace("-", "_"))
        options.size_n, options.size_m, options.min_hits = 2, drafts, 1
    if draft is not None:
        about.draft.mparams.path, about.draft.n_max, about.draft.n_min = str(draft), drafts, 0
        about.draft.p_min, about.draft.probabilistic = 0.0, speculation == "draft-probabilistic"
        about.draft.cpuparams.n_threads = about.draft.cpuparams_batch.n_threads = 1
        about.draft.cache_type_k = about.draft.cache_type_v = wheel.ggml_type.GGML_TYPE_F32
