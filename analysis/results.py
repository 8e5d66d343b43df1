"""Results of sweeps: one row is one run on one problem with a known answer.

They may be from strangers, so that files are measured before they are parsed and checked field by field.
"""

import hashlib
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field, GetCoreSchemaHandler, GetPydanticSchema, ValidationError
from pydantic_core import CoreSchema, from_json, to_json
from pydantic_core.core_schema import custom_error_schema

from draftscope.analysis.acceptance import acceptance_by_draft_position
from draftscope.traces import limits
from draftscope.traces.errors import Problem, format_value
from draftscope.traces.files import gunzip
from draftscope.traces.schema import Step
from draftscope.traces.setting_names import current_settings
from draftscope.traces.stats import cost, draft_forwards
from draftscope.traces.validation import ErrorTexts, adapter, count, record

Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARACTERS)]
Text: TypeAlias = Annotated[str, Field(max_length=limits.NAME_CHARACTERS)]
Count: TypeAlias = Annotated[int, Field(ge=0, le=limits.EXACT)]
_Scalar: TypeAlias = (
    bool
    | Annotated[int, Field(ge=-limits.EXACT, le=limits.EXACT)]
    | Annotated[float, Field(ge=-limits.EXACT, le=limits.EXACT)]
    | Text
    | None
)


def _setting(values: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    """One error instead of one for every type that a setting may have."""
    message = "Input should be a number, a short text or a short list of such"
    return custom_error_schema(handler(values), custom_error_type="setting", custom_error_message=message)


Value: TypeAlias = Annotated[
    _Scalar | Annotated[tuple[_Scalar, ...] | list[_Scalar], Field(max_length=limits.RESULT_SETTINGS)],
    GetPydanticSchema(_setting),
]


class SweepError(ValueError):
    """Results that cannot be read, or a question that they do not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One run on one problem."""

    method: Name
    label: Name
    config: Annotated[Mapping[Name, Value], Field(max_length=limits.RESULT_SETTINGS)]
    problem: Count
    correct: bool | None
    """None where the right answer is not known."""
    forwards: Count
    forwards_by_mode: Annotated[Mapping[Name, Count], Field(max_length=limits.RESULT_SETTINGS)]
    row_forwards: Count
    query_tokens: Count
    tokens: Count
    seconds: Annotated[float, Field(ge=0, le=limits.EXACT)]
    """0 where not measured."""
    draft_forwards: Count = 0
    """Those of `forwards` that a smaller model made to draft."""
    curve: Text = ""
    """Name of the curve that joins its point with others; empty for the method."""
    model: Text = ""
    device: Text = ""
    key: Text = ""
    """Rows with one key are one run; empty for a row of its own."""
    weights: Annotated[Mapping[Name, Text], Field(max_length=limits.RESULT_SETTINGS)] = field(default_factory=dict)
    """Model -> hash of its weights."""
    seed: Count | None = None
    answer: Text = ""
    judged_by_place: Annotated[tuple[Count, ...], Field(max_length=limits.RESULT_PLACES)] = ()  # plain: ignore
    """Drafts verified at each draft position; see `draftscope.analysis.acceptance`."""
    accepted_by_place: Annotated[tuple[Count, ...], Field(max_length=limits.RESULT_PLACES)] = ()  # plain: ignore
    """Those of them that were accepted."""
    verifications: Count = 0
    batch: Count = 1
    """Problems that were decoded in lockstep with this one, itself included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Contents of a results file."""

    rows: tuple[ResultRow, ...]
    about: tuple[Mapping[str, object], ...] = ()
    """Date, machine and software of the rows, as far as the file reports them."""

    @property
    def location(self) -> str:
        """Devices, threads, torch, commits and days, in words; empty where the file does not say."""
        libraries = [each["libraries"] for each in self.about if isinstance(each.get("libraries"), Mapping)]
        parts = [
            *(row.device for row in self.rows),
            *(f"{threads} thread{'s' * (threads != '1')} a process" for threads in _column(self.about, "threads")),
            *(f"torch {version}" for version in _column(libraries, "torch")),
            *map(commit_in_words, _column(self.about, "commit")),
            *(created[:10] for created in _column(self.about, "created")),
        ]
        return ", ".join(part[: limits.NAME_CHARACTERS] for part in dict.fromkeys(parts) if part)


_SUMMED: Final = re.compile(rb',"crc":"([0-9a-f]{8})"\}\s*\Z')
_ABOUT: Final = b'"about"'
"""In the head of a file, and in few other lines."""
_ROW_TYPE: Final = adapter(ResultRow, "ResultRow", "ignore")
_NEEDED: Final = [each.name for each in fields(ResultRow) if each.default is each.default_factory is MISSING]
_WORDS: Final = ErrorTexts(
    document="row",
    add=f"every row needs {', '.join(_NEEDED)}",
    correct="correct the row; docs/figures.md lists its fields",
    shrink="give the settings and counts of one run alone",
)


def row_of(steps: Sequence[Step], **about: Any) -> ResultRow:
    """Return the row of a run: the cost of its steps, the outcome of its drafts, and the fields of `about`."""
    spent, positions = cost(steps), acceptance_by_draft_position([steps])
    counted: dict[str, Any] = {
        "forwards": spent.forwards,
        "draft_forwards": draft_forwards(steps),
        "forwards_by_mode": dict(Counter(step.call.mode for step in steps)),
        "row_forwards": spent.row_forwards,
        "query_tokens": spent.query_tokens,
    }
    if positions:
        counted["verifications"] = positions.passes
        counted["judged_by_place"] = tuple(position.judged or 0 for position in positions.positions)
        counted["accepted_by_place"] = tuple(position.accepted for position in positions.positions)
    return ResultRow(**{**counted, **about})


def read_results(data: bytes) -> Results:
    """Read results as `draftscope experiment run` writes them, or as JSON; see `read_rows`. Both may be gzipped.

    A last line that was cut off is left out, as the experiment may be running. Raises SweepError for other errors.
    """
    text = unpacked(data, "results")
    try:
        first = read_json(next((line for line in io.BytesIO(text) if line.strip()), b""), "results", limits.PART_VALUES)
    except SweepError:
        first = None
    if not isinstance(first, Mapping) or "rows" in first:
        return Results(rows=read_rows(read_json(text, "results", limits.VALUES)))
    about: list[Mapping[str, object]] = []
    return Results(rows=_one_of_every_key(_of_lines(text, about)), about=tuple(about))


def read_rows(data: object) -> tuple[ResultRow, ...]:
    """Read rows of plain JSON data, a list of them or an object that holds it as `rows`; raises SweepError."""
    rows = data.get("rows") if isinstance(data, Mapping) else data
    if not isinstance(rows, Sequence) or isinstance(rows, str | bytes):
        rows = ()
    if len(rows) > limits.RESULT_ROWS:
        raise SweepError(f"rows: there are more than {limits.RESULT_ROWS}; give fewer")
    return _one_of_every_key(_row(f"rows[{index}]", row) for index, row in enumerate(rows))


def read_line(line: bytes, path: str) -> ResultRow | Mapping[str, object]:
    """Return the row in a line, or the head that describes how rows were made.

    Args:
        line: Line of a file of results, JSON.
        path: Name of the line in errors.

    Raises:
        SweepError: If the line is damaged, or is not a row.
    """
    summed = _SUMMED.search(line)
    if summed and zlib.crc32(line[: summed.start()] + b"}") != int(summed[1], 16):
        remedy = "remove the line, and the same command decodes it again"
        raise SweepError(f"{path}.crc: {summed[1].decode()!r} is not that of the row, which is damaged; {remedy}")
    if _ABOUT not in line and count(line) <= limits.PART_VALUES:
        try:
            return _sound(path, _ROW_TYPE.validate_json(line))
        except ValidationError:
            pass  # what follows finds the words for it
    document = read_json(line, path, limits.PART_VALUES)
    if isinstance(document, dict) and isinstance(about := document.get("about"), dict):
        return about
    return _row(path, document)


def read_json(
    text: bytes, path: str, max_values: int, remedy: str = "give one row a line, or a list of rows"
) -> object:
    """Parse a JSON text.

    Args:
        text: JSON, of at most `max_values` values.
        path: Name of the text in messages.
        max_values: Maximum number of values.
        remedy: Remedy in messages.

    Raises:
        SweepError: If the text is invalid or too large.
    """
    if not text.strip():
        raise SweepError(f"{path}: is empty; {remedy}")
    if count(text) > max_values:
        raise SweepError(f"{path}: holds more than {max_values} values; {remedy}")
    try:
        return from_json(text)
    except ValueError as error:
        raise SweepError(f"{path}: is not JSON ({error}); {remedy}") from None


def unpacked(data: bytes, name: str) -> bytes:
    """Return the content of a file, gzipped or not.

    Args:
        data: Bytes of the file.
        name: Name of the file in errors.

    Raises:
        SweepError: If it is damaged or too large.
    """
    try:
        text = gunzip(data, limits.JSON_BYTES)
    except ValueError as error:
        raise SweepError(f"{name}: {error}; compress the file again") from None
    if len(text) > limits.JSON_BYTES:
        raise SweepError(f"{name}: has more than {limits.JSON_BYTES // 2**20} MB; give fewer rows or requests")
    return text


def read_titled(data: bytes, name: str, title: str, command: str) -> dict[str, Any]:
    """Parse a file that a command of Draftscope wrote, by its title.

    Args:
        data: Contents of the file.
        name: Name of the file in messages.
        title: Value of its field `title`.
        command: The command that writes such files, for messages.

    Raises:
        SweepError: For another file, or one that is too large.
    """
    remedy = f"give a file that {command} wrote"
    if len(data) > limits.FILE_BYTES:
        raise SweepError(f"{name}: has more than {limits.FILE_BYTES // 2**20} MB; {remedy}")
    document = read_json(data, name, limits.VALUES, remedy)
    if not isinstance(document, dict) or document.get("title") != title:
        raise SweepError(f"{name}: has another title than {title!r}; {remedy}")
    if document.get("version") != 1:
        raise SweepError(f"{name}: is of another version than 1; read it with the release that wrote it")
    return document


def to_line(row: ResultRow) -> bytes:
    """The row as a line, with a checksum at its end; raises SweepError when it could not be read again."""
    text = to_json(row)
    line = text[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(text)
    read_line(line, f"row {format_value(row.key)}")
    return line


def commit_in_words(commit: str) -> str:
    """The commit of an `Environment` as tables name it; empty where it is not known."""
    name, _, dirty = commit.partition("+")
    return f"commit {name[:12]}{' with changes' if dirty else ''}" if name else ""


def digest(data: object) -> str:
    """A hash of plain data, by which equal runs and weights are known."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:32]


def _row(path: str, data: object) -> ResultRow:
    problems: list[Problem] = []
    row = record(_ROW_TYPE, data, path, problems, _WORDS)
    if row is None:
        raise SweepError(problems[0])
    return _sound(path, row)


def _sound(path: str, row: ResultRow) -> ResultRow:
    """The row with the present names of settings; raises SweepError for what its types cannot express."""
    if problem := next(_impossible(path, row), None):
        raise SweepError(problem)
    config = current_settings(row.method, row.config)
    return row if config == row.config else replace(row, config=config)


def _impossible(path: str, row: ResultRow) -> Iterator[Problem]:
    """Yield problems of a row that its types cannot express."""
    parts = {"forwards_by_mode": sum(row.forwards_by_mode.values()), "draft_forwards": row.draft_forwards}
    for name, part in parts.items():
        if part > row.forwards:
            problem = f"adds up to {part}, more than the {row.forwards} forwards"
            yield Problem(f"{path}.{name}", problem, "count every forward pass under one mode")
    if len(row.judged_by_place) != len(row.accepted_by_place):
        problem = f"has {len(row.judged_by_place)} places where accepted_by_place has {len(row.accepted_by_place)}"
        yield Problem(f"{path}.judged_by_place", problem, "give both for the same draft positions")
    for index, (judged, accepted) in enumerate(zip(row.judged_by_place, row.accepted_by_place, strict=False)):
        if not accepted <= judged <= row.verifications:
            problem = f"counts {accepted} accepted of {judged} judged in {row.verifications} verifications"
            yield Problem(f"{path}.judged_by_place[{index}]", problem, "count every draft of a pass at one position")
            return


def _one_of_every_key(all_rows: Iterable[ResultRow]) -> tuple[ResultRow, ...]:
    """The last row of every key, and all rows without one."""
    rows: dict[str | int, ResultRow] = {}
    same: dict[str, Mapping[str, Value]] = {}  # a sweep repeats few configs many times
    for index, row in enumerate(all_rows):
        config = same.setdefault(json.dumps(row.config, sort_keys=True), row.config)
        rows[row.key or index] = replace(row, config=config)
    if not rows:
        raise SweepError("rows: no list of results is given; give a list with one object a run and problem")
    return tuple(rows.values())


def _of_lines(text: bytes, about: list[Mapping[str, object]]) -> Iterator[ResultRow]:
    """The rows among JSON lines, the others go to `about`; without the last line where that was cut off."""
    filled = ((number, line) for number, line in enumerate(io.BytesIO(text), 1) if line.strip())
    for index, (number, line) in enumerate(filled):
        if index >= limits.RESULT_ROWS:
            raise SweepError(f"rows: there are more than {limits.RESULT_ROWS}; give fewer")
        try:
            row = read_line(line, f"line {number}")
        except SweepError as error:
            if not line.endswith(b"\n") and ": is not JSON (" in str(error):
                return
            raise
        if isinstance(row, ResultRow):
            yield row
        else:
            about.append(row)


def _column(about: Sequence[Any], name: str) -> list[str]:
    return [str(each[name]) for each in about if isinstance(each.get(name), str | int)]
