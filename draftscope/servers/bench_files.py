"""Files of `draftscope bench --server` as traces. They may be from strangers, so they are checked."""

import json
from typing import Final

from draftscope import traces
from draftscope.servers.served_result import TITLE, sums_trace
from draftscope.serving_formats import get
from draftscope.traces import TraceError, limits, loads
from draftscope.traces.errors import Problem, raise_first
from draftscope.traces.schema import Sums
from draftscope.traces.validation import ErrorTexts, adapter, record

_REMEDY: Final = "give a file that draftscope bench --server wrote"
_TYPE: Final = adapter(Sums, "Sums", "ignore")
_WORDS: Final = ErrorTexts(document="measurement", add=_REMEDY, correct=_REMEDY, shrink=_REMEDY)


def opened_traces(data: bytes, name: str) -> tuple[traces.Trace, ...]:
    """Return the trace in a file or, for a measurement of servers, those of what the servers counted.

    Args:
        data: Content of the file.
        name: Name of the file, which errors begin with.

    Raises:
        TraceError: If the file is invalid, or its servers counted no drafts.
    """
    document = _document(data)
    if document is None:
        return (loads(data, name=name),)
    servers, sums = get(document.get("about"), "servers"), document.get("sums")
    found, problems = list[traces.Trace](), list[Problem]()
    for label, fields in sums.items() if isinstance(sums, dict) else ():
        counts = record(_TYPE, fields, f"{name}: sums.{label}", problems, _WORDS)
        if counts is not None:
            kind, model = (
                str(get(get(servers, label), key) or "")[: limits.NAME_CHARACTERS] for key in ("kind", "model")
            )
            found.append(sums_trace(counts, kind, model))
    raise_first(problems)
    if not found:
        raise TraceError(f"{name}: sums", "are empty, as no server counted drafts", "measure a server with drafts")
    return tuple(found)


def _document(data: bytes) -> dict[str, object] | None:
    """The measurement in a file; None for another file."""
    if len(data) > limits.FILE_BYTES or data.lstrip()[:1] != b"{":
        return None
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and document.get("title") == TITLE else None
