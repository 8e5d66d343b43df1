"""Traces to and from JSON, plain or gzipped.

The text is for people and for any language: sorted keys, no white space, nothing that equals an empty default. The same
trace always gives the same bytes. What is read may come from anywhere: it is measured before it is parsed, checked type
by type, and then replayed (`draftscope.traces.check`).
"""

import gzip
import json
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic_core import from_json

from draftscope.traces import limits
from draftscope.traces.check import part_problems, replay_problems
from draftscope.traces.count_only import derived_summary, expand_counts
from draftscope.traces.errors import MAX_COUNTED, Problem, TraceError, TraceWarning, format_value, raise_first
from draftscope.traces.files import gunzip, write_atomic
from draftscope.traces.schema import (
    SCHEMA,
    VERSION,
    Duration,
    MeasureValue,
    Name,
    Numbers,
    Points,
    Probabilities,
    Seconds,
    Step,
    Trace,
    is_later,
)
from draftscope.traces.setting_names import current_formula, current_settings
from draftscope.traces.stats import summarise
from draftscope.traces.validation import ErrorTexts, adapter, count, record

TRACE_TYPE: Final = adapter(Trace, "TraceDocument", "forbid")
_STEP_TYPE: Final = adapter(Step, "StepDocument", "forbid")

_ALWAYS_WRITTEN: Final = frozenset({"schema", "version"})
_ENDINGS: Final = (".json", ".json.gz")
_EXPORT_AGAIN: Final = "export the trace again"
_CORRECT: Final = "give what docs/trace.md says"
_SHRINK: Final = "record fewer columns or a shorter run"
_WORDS: Final = ErrorTexts("trace", "add it; docs/trace.md lists the fields", _CORRECT, _SHRINK)
_LATER: Final = (
    adapter(Trace, "LaterTraceDocument", "ignore"),
    adapter(Step, "LaterStepDocument", "ignore"),
    _WORDS._replace(correct="read it with the release of Draftscope that wrote it"),
)


def dumps(trace: Trace) -> bytes:
    """The trace as JSON in UTF-8; raises TraceError if a number is not finite or a text is not Unicode."""
    try:
        return json.dumps(
            _document(trace), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        ).encode()
    except UnicodeEncodeError as error:
        raise TraceError("trace", f"a text is not Unicode: {error.reason}", "replace its lone surrogates") from None
    except TypeError as error:
        raise TraceError("extensions", f"are not JSON: {error}", "use text, numbers, lists, objects") from None
    except ValueError:
        raise TraceError("trace", "a number is not finite", "record null where a number does not apply") from None


def loads(data: bytes, *, name: str = "trace") -> Trace:
    """Read a trace from JSON or gzipped JSON. Fields of later versions 1.x are left out, with a `TraceWarning`.

    Args:
        data: The file's bytes.
        name: Name of the file in messages.

    Raises:
        TraceError: If the data is not a valid trace.
    """
    trace = _loaded(data, name)
    if is_later(trace.version):
        words = f"{name}: version {trace.version} is later than {VERSION}; what is new in it is left out"
        warnings.warn(f"{words}, use a release that knows it to see all", TraceWarning, stacklevel=2)
    return trace


def check(trace: Trace) -> None:
    """Raise TraceError, with the first problem and how many more there are, unless the trace reads back as written."""
    _loaded(dumps(trace), "trace")


def parts_checked(trace: Trace) -> Trace:
    """Return the trace with the entries implied by counts.

    Raises:
        TraceError: If a record is invalid on its own.
    """
    return _parts({"summary": _NO_SUMMARY} | json.loads(dumps(trace)))


def _loaded(data: bytes, name: str) -> Trace:
    document = _parse(_unzipped(data, name), name)
    _check_version(document)
    derived = "summary" not in document
    trace = _parts(document | {"summary": _NO_SUMMARY} if derived else document)
    if derived:
        trace = replace(trace, summary=derived_summary(trace))
    raise_first(replay_problems(trace))
    return trace


def _parts(document: dict[str, Any]) -> Trace:
    trace = _with_current_names(_records(document))
    raise_first(part_problems(trace))
    return expand_counts(trace)


def _with_current_names(trace: Trace) -> Trace:
    config = current_settings(trace.method, trace.config)
    rules = tuple(replace(rule, formula=current_formula(trace.method, rule.formula)) for rule in trace.rules)
    return replace(trace, config=config, rules=rules)


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Check a trace and write it, whole or not at all.

    Args:
        trace: The trace.
        path: File that ends in .json or, compressed, in .json.gz.

    Raises:
        TraceError: If the trace is not valid or the ending is another.
        OSError: If the file cannot be written.
    """
    path = Path(path)
    if not path.name.endswith(_ENDINGS):
        raise TraceError(path.name, "ends in neither .json nor .json.gz", "choose one of these endings")
    data = dumps(trace)
    if path.name.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    _loaded(data, path.name)  # What cannot be read is not written.
    write_atomic(path, data)


def read(path: str | os.PathLike[str]) -> Trace:
    """The trace in the file `path`, whatever its ending; raises TraceError as `loads` does, and OSError."""
    path = Path(path)
    with path.open("rb") as file:
        return loads(file.read(limits.FILE_BYTES + 1), name=path.name)


def _document(trace: Trace) -> Any:
    """A trace as plain data; with sums it has no summary, which earlier readers would compare with its steps."""
    document = _plain(trace)
    if trace.sums is not None:
        del document["summary"]
    return document


def _plain(value: Any) -> Any:
    """Records as dicts without their empty defaults; columns as they are."""
    if is_dataclass(value):
        all_fields = fields(value)
        plain = {
            each.name: (_floats if each.type in _FLOATS else _plain)(getattr(value, each.name)) for each in all_fields
        }
        defaulted = {each.name for each in all_fields if not (each.default is each.default_factory is MISSING)}
        optional = defaulted - _ALWAYS_WRITTEN
        return {name: value for name, value in plain.items() if name not in optional or value not in (None, {}, (), "")}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple) and any(map(is_dataclass, value)):
        return [_plain(item) for item in value]
    return value


def _floats(value: Any) -> Any:
    """Numbers as floats, in columns too: 1 and 1.0 are equal, so equal traces must not differ in which they write."""
    if isinstance(value, Mapping):
        return {name: _floats(below) for name, below in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_floats, value))
    return None if value is None else float(value)


_FLOATS: Final = frozenset(
    {float, float | None, Duration, Seconds, Probabilities | None, Points, tuple[float, ...]}
    | {Mapping[Name, Numbers], Mapping[Name, MeasureValue]}
)
"""Types of fields that hold floats alone."""


_NO_SUMMARY: Final = _plain(summarise((), 0, complete=False))
"""Placeholder for a summary until the steps are known."""


def _unzipped(data: bytes, name: str) -> bytes:
    """The JSON text, within the limits."""
    if len(data) > limits.FILE_BYTES:
        raise TraceError(name, f"has more than {limits.FILE_BYTES} bytes", "compress it to .json.gz")
    try:
        data = gunzip(data, limits.JSON_BYTES)
    except ValueError as error:
        raise TraceError(name, str(error), "copy the file again") from None
    if len(data) > limits.JSON_BYTES:
        raise TraceError(name, f"unpacks to more than {limits.JSON_BYTES} bytes", _SHRINK)
    if count(data) > limits.VALUES:
        raise TraceError(name, f"holds more than {limits.VALUES} values", _SHRINK)
    if not data.strip():
        raise TraceError(name, "is empty", _EXPORT_AGAIN)
    if not data.lstrip().startswith(b"{"):
        raise TraceError(
            name, f"is not a JSON object: it begins with {format_value(data[:8])}", "give a .json or .json.gz trace"
        )
    return data


def _parse(text: bytes, name: str) -> dict[str, Any]:
    bytearray(2 * len(text))  # Without memory for its strings from_json crashes; this raises MemoryError.
    try:
        document = from_json(text, cache_strings="keys")
    except ValueError as error:
        reason = str(error)
        if reason.startswith("recursion limit"):
            raise TraceError(name, f"nests deeper than {limits.NESTING} brackets", _EXPORT_AGAIN) from None
        remedy = "copy the file again, it ends too early" if reason.startswith("EOF") else _EXPORT_AGAIN
        raise TraceError(name, f"is not JSON in UTF-8: {reason}", remedy) from None
    assert isinstance(document, dict)  # It begins with a brace.
    return document


def _check_version(document: Mapping[str, Any]) -> None:
    schema, version = document.get("schema"), document.get("version")
    if schema != SCHEMA:
        problem = "is missing" if schema is None else f"{format_value(schema)} is not {SCHEMA!r}"
        raise TraceError("schema", problem, "give a trace that Draftscope wrote")
    if not isinstance(version, str):
        problem = "is missing" if version is None else f"{format_value(version)} is not a string"
        raise TraceError("version", problem, f"name the version of the format, {VERSION!r} today")
    major = VERSION.split(".")[0]
    if not re.fullmatch(rf"{major}\.\d{{1,9}}", version, re.ASCII):
        problem = f"{format_value(version)} is not {major}.x"
        raise TraceError("version", problem, "read it with the release of Draftscope that wrote it")


def _records(document: dict[str, Any]) -> Trace:
    """The document as records, typed part by part: a wrong document costs the errors of one step, not of all."""
    steps = document["steps"] if isinstance(document.get("steps"), list) else []
    if len(steps) > limits.STEPS:
        raise TraceError("steps", f"has more than {limits.STEPS} steps", _SHRINK)
    config = document.get("config")
    if isinstance(config, dict) and len(config) > limits.SETTINGS:
        raise TraceError("config", f"has more than {limits.SETTINGS} settings", "keep the settings of the method")
    trace_type, step_type, words = _LATER if is_later(document["version"]) else (TRACE_TYPE, _STEP_TYPE, _WORDS)
    problems: list[Problem] = []
    head = record(trace_type, document | {"steps": []} if steps else document, "", problems, words)
    records = []
    for index, step in enumerate(steps):
        one = record(step_type, step, f"steps[{index}]", problems, words)
        if one is not None:
            records.append(one)
        if len(problems) > MAX_COUNTED:
            break
    raise_first(problems)
    assert head is not None  # Otherwise there was a problem.
    return replace(head, steps=tuple(records))
