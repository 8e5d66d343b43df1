"""Files of prompts: JSON lines or a JSON array, in the formats of common benchmarks and data sets."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from draftscope.engines.models.chat import Turn, parse_turns
from draftscope.engines.settings import ConfigError, format_value

PromptEntry: TypeAlias = "str | Sequence[Any] | Mapping[str, Any] | BenchPrompt"
"""A prompt as it is given: a text, the questions of a conversation, its turns, or an object of a file."""
_FIELDS: Final = (
    "messages", "conversations", "conversation", "turns", "prompt", "question", "instruction", "text",
)  # fmt: skip
"""Fields that hold a prompt, the first that an object has."""
_TURNS: Final = ("messages", "conversations", "conversation")
_ROLES: Final = {"human": "user", "gpt": "assistant"}
"""Roles of ShareGPT that have another name in chat templates."""
_FURTHER: Final = ("input", "context")
"""Fields that go on with an `instruction`."""
_REMEDY: Final = "give a text as 'prompt' or 'question', texts as 'turns', or turns as 'messages' or 'conversations'"
_MAX_FIELDS: Final = 8
"""Fields named in a message."""


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """A prompt, or a conversation with one or more turns to answer."""

    questions: tuple[str, ...]
    """Questions that are asked one after the other, each after the answer to the one before."""
    messages: tuple[Turn, ...] = ()
    """Turns of a conversation up to the one to answer, in place of `questions`."""
    category: str = ""
    """Category of its data set; empty without one."""


def parse_prompts(prompts: str | os.PathLike[str] | Sequence[PromptEntry]) -> list[BenchPrompt]:
    """Return the prompts of a file, or of a list of its entries; raises ConfigError as `read_prompts` does."""
    if isinstance(prompts, str | os.PathLike):
        return read_prompts(prompts)
    if not prompts:
        raise ConfigError("prompts: there are none; give at least one text.")
    return [parse_prompt(entry, f"prompt {number}") for number, entry in enumerate(prompts, 1)]


def read_prompts(path: str | os.PathLike[str]) -> list[BenchPrompt]:
    """Return the prompts of a file.

    A file has JSON lines or one JSON array, in UTF-8 with or without a byte order mark. An entry is a text or an object
    with `prompt`, `question`, `text` or `instruction` (a text; an instruction goes on with `input` or `context`),
    `turns` (questions, as MT-Bench and Spec-Bench have them), `messages` (as chat templates take them), or
    `conversations` or `conversation` (as ShareGPT and LMSYS have them). Of these turns the last that is not an answer
    is decoded, after the turns before it. `category` groups results.

    Raises:
        ConfigError: If the file is missing, or for the first entry without a prompt; the message has the line, and the
            fields that were found.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"prompts: {str(path)!r} cannot be read ({why}); give a file of JSON lines.") from None
    prompts = [parse_prompt(entry, f"{str(path)!r}, {where}") for where, entry in _entries(text, str(path))]
    if not prompts:
        raise ConfigError(f"prompts: {str(path)!r} holds none; give one object a line.")
    return prompts


def _entries(text: str, path: str) -> Iterator[tuple[str, Any]]:
    """The entries of a file, each with its line or number."""
    if text.lstrip().startswith("["):
        try:
            entries = json.loads(text)
        except (ValueError, RecursionError):
            pass  # JSON lines, each of which may be a list
        else:
            if isinstance(entries, list):
                yield from ((f"entry {number}", entry) for number, entry in enumerate(entries, 1))
                return
    for number, line in enumerate(text.split("\n"), 1):  # other separators may be part of a text
        if not line.strip():
            continue
        try:
            yield f"line {number}", json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"prompts: {path!r}, line {number} is not JSON ({error}); give one object a line, or a JSON array."
            ) from None


def parse_prompt(entry: Any, where: str = "the list") -> BenchPrompt:
    """Return a prompt from any form that it is given in.

    Args:
        entry: Text, list of turns, or object with one of the known fields.
        where: Source of the prompt, which errors name.

    Raises:
        ConfigError: If the entry holds no prompt.
    """
    if isinstance(entry, BenchPrompt):
        return entry
    found = entry if isinstance(entry, Mapping) else {"turns" if isinstance(entry, list | tuple) else "prompt": entry}
    name = next((name for name in _FIELDS if found.get(name) is not None), "")
    category = found.get("category")
    try:
        questions, messages = _content(name, _with_input(found) if name == "instruction" else found.get(name))
    except ValueError as error:
        raise ConfigError(f"prompts: {where} has {_described(entry, name)}{error}; {_REMEDY}.") from None
    return BenchPrompt(questions, messages, str(category) if isinstance(category, str | int) else "")


def _with_input(entry: Mapping[str, Any]) -> Any:
    """An instruction with the text that it is about, as Alpaca and Dolly have them."""
    parts = [entry["instruction"], *(entry.get(name) for name in _FURTHER)]
    return "\n\n".join(part for part in parts if part) if all(isinstance(part, str | None) for part in parts) else None


def _content(name: str, value: Any) -> tuple[tuple[str, ...], tuple[Turn, ...]]:
    """Questions, or turns, of a field; raises ValueError for one that holds none."""
    if isinstance(value, str):
        value = [value]
    items = list(value) if isinstance(value, list | tuple) else []
    if items and all(isinstance(item, str) for item in items) and name not in _TURNS:
        if not all(item.strip() for item in items):
            raise ValueError(", and an empty text")
        return tuple(items), ()
    if not items or not all(isinstance(item, Mapping) for item in items):
        raise ValueError
    if name != "messages":
        items = [_from_share_gpt(item) for item in items]
    last = next((i for i in reversed(range(len(items))) if items[i].get("role") != "assistant"), None)
    if last is None:
        raise ValueError(", and no turn to answer")
    return (), parse_turns(items[: last + 1])


def _from_share_gpt(turn: Mapping[str, Any]) -> Turn:
    """A turn with `from` and `value` as one with `role` and `content`."""
    if "from" not in turn:
        return turn
    role = str(turn["from"])
    return {"role": _ROLES.get(role, role), "content": turn.get("value")}


def _described(entry: Any, name: str) -> str:
    """An entry in a message: the field that should hold a prompt, or the names of its fields."""
    if not isinstance(entry, Mapping) or not entry:
        return format_value(entry)
    if name:
        return f"{format_value(entry[name])} as {name!r}"
    fields = [format_value(field) for field in entry]
    return f"the fields {', '.join(fields[:_MAX_FIELDS])}{', ...' if fields[_MAX_FIELDS:] else ''}"
