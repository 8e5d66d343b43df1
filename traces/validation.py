"""Plain data to records, checked by pydantic; what is wrong is said in the words of `draftscope.traces.errors`."""

from typing import Final, Literal, NamedTuple, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, to_json
from typing_extensions import TypeAliasType

from draftscope.traces import limits
from draftscope.traces.errors import Problem, format_value

Record = TypeVar("Record")
_UNKNOWN: Final = "unexpected_keyword_argument"
"""Pydantic's name for a field that a record does not have."""
_OUT_OF_RANGE: Final = ("greater_than_equal", "less_than_equal", "string_too_long")


class ErrorTexts(NamedTuple):
    """Texts of error messages for one kind of file."""

    document: str
    """Name of the file in messages that concern no field."""
    add: str
    """Remedy for a field that is missing."""
    correct: str
    """Remedy for a value that cannot be."""
    shrink: str
    """Remedy for too much of everything."""


def adapter(kind: type[Record], name: str, unknown: Literal["forbid", "ignore"]) -> TypeAdapter[Record]:
    """Return the checks of a dataclass, which itself does not depend on pydantic.

    Args:
        kind: The dataclass.
        name: Its name in errors and in the JSON schema.
        unknown: Whether fields that it does not have are an error or are left out.
    """
    config = ConfigDict(
        strict=True, extra=unknown, defer_build=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
    alias = TypeAliasType(name, kind)  # type: ignore[misc]  # An alias lets settings reach a dataclass.
    return TypeAdapter(cast(type[Record], alias), config=config)


def record(
    kind: TypeAdapter[Record], part: object, path: str, problems: list[Problem], words: ErrorTexts
) -> Record | None:
    """Read a part of a document as a record.

    Args:
        kind: Checks of the record's type, from `adapter`.
        part: Plain data.
        path: Where the part is in the document, for messages.
        problems: Receives what is wrong, if anything is.
        words: Texts of messages.

    Returns:
        The record; None if something is wrong with it.
    """
    # Strict types fit JSON text (a list is a tuple, a word a fate), so values are validated as JSON bytes.
    text = to_json(part, inf_nan_mode="constants")
    if count(text) > limits.PART_VALUES:
        problems.append(Problem(path or words.document, f"holds more than {limits.PART_VALUES} values", words.shrink))
        return None
    try:
        return kind.validate_json(text)
    except ValidationError as error:
        by_field: dict[str, Problem] = {}
        for detail in error.errors(include_url=False, include_context=False):
            problem = _problem(detail, part, path, words)
            # A value of a union type has an error for each type; a range error is more helpful than a type error.
            if problem.field not in by_field or detail["type"] in _OUT_OF_RANGE:
                by_field[problem.field] = problem
        problems += by_field.values()
        return None


def count(text: bytes) -> int:
    """Values and brackets in a JSON text, at least."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _problem(detail: ErrorDetails, part: object, path: str, words: ErrorTexts) -> Problem:
    kind, message, value = detail["type"], detail["msg"], format_value(detail["input"])
    *above, last = detail["loc"] or ("",)
    for item in above:
        path, part = _below(path, part, item)
    if kind == "missing":
        return Problem(_joined(path, last), "is missing", words.add)
    if kind == _UNKNOWN:
        return Problem(_joined(path, last), "is not a field of this record", "remove it, or correct its name")
    path, _ = _below(path, part, last)
    if message.startswith("Input should"):
        return Problem(path or words.document, f"{value}{message.removeprefix('Input')}", words.correct)
    return Problem(path or words.document, f"{value}: {message}", words.correct)


def _below(path: str, part: object, item: str | int) -> tuple[str, object]:
    """Return path and part one level further down; names of the types that were tried are not part of the path."""
    if isinstance(item, int) and isinstance(part, list) and item < len(part):
        return f"{path}[{item}]", part[item]
    if isinstance(item, str) and isinstance(part, dict) and item in part:
        return _joined(path, item), part[item]
    return path, part


def _joined(path: str, item: str | int) -> str:
    name = item if isinstance(item, str) and item.isidentifier() and len(item) <= 40 else format_value(item)
    return f"{path}.{name}" if path else f"{name}"
