"""Rows of results, read from a file: one row is one run on one problem with a known answer.

They come from `python -m benchmarks.sweep` or from strangers, so they are measured before they are parsed and checked
field by field.
"""

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Final

MOST_BYTES: Final = 64 * 2**20
"""Of results after decompression, which stops here."""
MOST_ROWS: Final = 200_000
MOST_SETTINGS: Final = 100
"""In one config or one list."""
MOST_CHARACTERS: Final = 500
"""Of a name or a value."""
LARGEST: Final = 2**53
"""Whole numbers up to this are exact wherever JSON is read."""


class SweepError(ValueError):
    """Rows that cannot be read, or a question that they do not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run on one problem."""

    method: str
    label: str
    config: Mapping[str, object]
    problem: int
    correct: bool
    forwards: int
    forwards_by_mode: Mapping[str, int]
    row_forwards: int
    query_tokens: int
    tokens: int
    seconds: float
    draft_forwards: int = 0
    """Those of `forwards` that a smaller model made to draft."""
    curve: str = ""
    """What its point is joined to others under; empty for the method."""
    model: str = ""
    device: str = ""
    key: str = ""
    """Rows with one key are one run; empty for a row of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a file of results holds."""

    rows: tuple[Row, ...]
    about: tuple[Mapping[str, object], ...] = ()
    """When and with what the rows were made, as far as the file says."""

    @property
    def place(self) -> str:
        """Devices, threads, torch, commits and days, in words; empty where the file does not say."""
        libraries = [each.get("libraries") for each in self.about]
        torch = [found.get("torch") for found in libraries if isinstance(found, Mapping)]
        parts = [
            *dict.fromkeys(row.device for row in self.rows),
            *(f"{threads} thread{'s' * (threads != '1')} a process" for threads in _said(self.about, "threads")),
            *(f"torch {version}" for version in dict.fromkeys(torch) if isinstance(version, str)),
            *dict.fromkeys(_commit(commit) for commit in _said(self.about, "commit")),
            *dict.fromkeys(created[:10] for created in _said(self.about, "created")),
        ]
        return ", ".join(part[:MOST_CHARACTERS] for part in parts if part)


def _said(about: Sequence[Mapping[str, object]], name: str) -> list[str]:
    return list(dict.fromkeys(str(each[name]) for each in about if isinstance(each.get(name), str | int)))


def _commit(commit: str) -> str:
    name, _, dirty = commit.partition("+")
    return f"commit {name[:12]}{' with changes' if dirty else ''}" if name else ""


def read_results(data: bytes) -> Results:
    """Read results as `python -m benchmarks.sweep` writes them, or as JSON; see `read_rows`. Both may be gzipped.

    A last line that was cut off is left out: the sweep may be under way.

    Raises:
        SweepError: With the field, the value and the remedy.
    """
    text = _unpacked(data)
    lines = [line for line in text.split(b"\n") if line.strip()]
    try:
        first = _json(lines[0], "results") if lines else None
    except SweepError:
        first = None
    if not isinstance(first, Mapping) or "rows" in first:
        return Results(rows=read_rows(_json(text, "results")))
    about: list[Mapping[str, object]] = []
    return Results(rows=_checked(_of_lines(lines, text.endswith(b"\n"), about)), about=tuple(about))


def read_rows(data: object) -> tuple[Row, ...]:
    """Read rows from plain JSON data: a list of rows, or an object that holds it as `rows`.

    Raises:
        SweepError: With the field, the value and the remedy.
    """
    rows = data.get("rows") if isinstance(data, Mapping) else data
    if not isinstance(rows, Sequence) or isinstance(rows, str | bytes):
        rows = ()
    return _checked((f"rows[{index}]", row) for index, row in enumerate(rows))


def _checked(documents: Iterable[tuple[str, object]]) -> tuple[Row, ...]:
    """Rows out of documents and what to call them, one of every key."""
    rows: dict[str | int, Row] = {}
    same: dict[str, Mapping[str, object]] = {}  # a sweep repeats few configs many times
    for index, (path, document) in enumerate(documents):
        if index >= MOST_ROWS:
            raise SweepError(f"rows: there are more than {MOST_ROWS}; give fewer")
        row = _row(path, document)
        row = replace(row, config=same.setdefault(json.dumps(row.config, sort_keys=True), row.config))
        rows[row.key or index] = row
    if not rows:
        raise SweepError("rows: no list of results is given; give a list with one object a run and problem")
    return tuple(rows.values())


def _of_lines(lines: Sequence[bytes], whole: bool, about: list[Mapping[str, object]]) -> Iterator[tuple[str, object]]:
    """The rows among JSON lines, the others go to `about`. The last may be cut off, unless the file is `whole`."""
    for number, line in enumerate(lines, 1):
        try:
            found = _json(line, f"line {number}")
        except SweepError:
            if whole or number < len(lines):
                raise
            return
        if isinstance(found, Mapping) and isinstance(found.get("about"), Mapping):
            about.append(found["about"])
        else:
            yield f"line {number}", found


def _unpacked(data: bytes) -> bytes:
    if data[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
                data = packed.read(MOST_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise SweepError(f"results: cannot be unpacked ({error}); compress them again") from None
    if len(data) > MOST_BYTES:
        raise SweepError(f"results: more than {MOST_BYTES // 2**20} MB; give fewer rows")
    return data


def _json(text: bytes, where: str) -> object:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        said = f"{error}".partition(":")[0]
        raise SweepError(f"{where}: is no JSON ({said}); give one row a line, or a list of rows") from None
    return found


_COUNTS: Final = ("problem", "forwards", "row_forwards", "query_tokens", "tokens", "draft_forwards")
_NAMES: Final = ("method", "label", "curve", "model", "device", "key")
_NEEDED: Final = tuple(field.name for field in fields(Row) if field.default is MISSING)


def _row(path: str, data: object) -> Row:
    if not isinstance(data, Mapping):
        raise SweepError(f"{path}: {_short(data)} is no object; give one with {', '.join(_NEEDED)}")
    for name in _NEEDED:
        if name not in data:
            raise SweepError(f"{path}.{name}: is missing; every row needs {', '.join(_NEEDED)}")
    given = {field.name: data.get(field.name, field.default) for field in fields(Row)}
    for name in _NAMES:
        value = given[name]
        sound = isinstance(value, str) and len(value) <= MOST_CHARACTERS and (value or name not in _NEEDED)
        _expect(sound, f"{path}.{name}", value, f"give a text of 1 to {MOST_CHARACTERS} characters")
    for name in ("config", "forwards_by_mode"):
        sound = isinstance(given[name], Mapping) and len(given[name]) <= MOST_SETTINGS
        _expect(sound, f"{path}.{name}", given[name], f"give an object of at most {MOST_SETTINGS} entries")
    for name, value in given["config"].items():
        _expect(_is_setting(value), f"{path}.config.{name:.60}", value, "give a number, a short text or a list of such")
    _expect(isinstance(given["correct"], bool), f"{path}.correct", given["correct"], "give true or false")
    _check_counts(path, given)
    sound = _is_number(given["seconds"]) and given["seconds"] >= 0
    _expect(sound, f"{path}.seconds", given["seconds"], "give seconds, 0 where not measured")
    return Row(**given)


def _check_counts(path: str, given: Mapping[str, Any]) -> None:
    modes: Mapping[str, Any] = given["forwards_by_mode"]
    counts = [(name, given[name]) for name in _COUNTS]
    counts += [(f"forwards_by_mode.{mode:.60}", count) for mode, count in modes.items()]
    for name, count in counts:
        _expect(_is_count(count), f"{path}.{name}", count, "give a whole number from 0")
    for name, part in (("forwards_by_mode", sum(modes.values())), ("draft_forwards", given["draft_forwards"])):
        if part > given["forwards"]:
            problem = f"adds up to {part}, more than the {given['forwards']} forwards"
            raise SweepError(f"{path}.{name}: {problem}; count every forward pass under one mode")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST  # false for NaN


def _is_setting(value: object) -> bool:
    if isinstance(value, list | tuple):
        return len(value) <= MOST_SETTINGS and all(not isinstance(each, list) and _is_setting(each) for each in value)
    return (
        value is None
        or isinstance(value, bool)
        or _is_number(value)
        or (isinstance(value, str) and len(value) <= MOST_CHARACTERS)
    )


def _expect(sound: object, field: str, value: object, remedy: str) -> None:
    if not sound:
        raise SweepError(f"{field}: {_short(value)} is not valid; {remedy}")


def _short(value: object) -> str:
    """A value as a message shows it; whole numbers of thousands of digits have no text."""
    return "a huge number" if isinstance(value, int) and abs(value) > LARGEST else f"{value!r:.60}"
