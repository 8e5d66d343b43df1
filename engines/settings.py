"""Settings: frozen dataclasses whose fields describe themselves, so that page, command line and help are generated.

A field is annotated `Annotated[type, SettingInfo(...)]`. Types are int, float, bool, or a Literal of strings.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from reprlib import Repr
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from draftscope.traces.setting_names import RENAMED_SETTINGS

Value = bool | int | float | str
_LARGE: Final = 1e6
"""No choice is a number so large."""
_SHOWN: Final = 80
"""Characters of a value in a message."""
_BRIEFLY: Final = Repr()
_BRIEFLY.maxlevel, _BRIEFLY.maxstring, _BRIEFLY.maxother, _BRIEFLY.maxlong = 4, _SHOWN, _SHOWN, _SHOWN


class ConfigError(ValueError):
    """A setting that does not exist or has a value that is not allowed; the message names setting, value and remedy."""


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """How a setting is shown and what it may be."""

    label: str
    help: str
    low: float | None = None
    high: float | None = None
    step: float | None = None
    active_if: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """Settings that it depends on: it matters only while each of them has one of these values."""


def check_count(name: str, value: object, minimum: int = 1) -> None:
    """Check that a value is a whole number.

    Args:
        name: Name of the setting, for the message.
        value: The value.
        minimum: Least allowed number.

    Raises:
        ConfigError: If it is not, or below the minimum.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ConfigError(f"{name}: {format_value(value)} is not allowed; use a whole number from {minimum}.")


def format_value(value: object) -> str:
    """Return a value for a message: on one line and short, however large or deep it is."""
    text = _BRIEFLY.repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def format_name(name: object) -> str:
    """A name that someone gave, with which a message begins: as it is where it could be one."""
    return name if isinstance(name, str) and name.isidentifier() and len(name) <= _SHOWN else format_value(name)


def _format(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a Config, ready to be shown."""

    name: str
    kind: Literal["int", "float", "bool", "choice"]
    default: Value
    choices: tuple[str, ...]
    knob: SettingInfo

    @property
    def describe_range(self) -> str:
        """Return what the setting accepts, in words."""
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        if self.kind == "bool":
            return "true or false"
        noun = "a whole number" if self.kind == "int" else "a number"
        return f"{noun} from {self.knob.low:g} to {self.knob.high:g}"

    @property
    def describe_condition(self) -> str:
        """Return when the setting has an effect, in words; empty for always."""
        return " and ".join(
            f"{name} is {' or '.join(map(_format, values))}" for name, values in self.knob.active_if.items()
        )

    def is_active(self, values: Mapping[str, object]) -> bool:
        """Return whether the setting has an effect with these values of other settings."""
        return all(values[name] in allowed for name, allowed in self.knob.active_if.items())

    def parse(self, value: object) -> Value:
        """Check a value, or read it from text; raises ConfigError naming setting, value and what is allowed."""
        parsed = self._read(value)
        if parsed is None:
            raise ConfigError(f"{self.name}: {format_value(value)} is not allowed; use {self.describe_range}.")
        return parsed

    def _read(self, value: object) -> Value | None:
        if self.kind == "choice":
            # Where choices are numbers, a number says the same as its text.
            small = isinstance(value, int | float) and not isinstance(value, bool) and -_LARGE < value < _LARGE
            text = f"{value:g}" if small else value
            return text if isinstance(text, str) and text in self.choices else None
        if self.kind == "bool":
            words = {"true": True, "false": False, "on": True, "off": False, "1": True, "0": False}
            return value if isinstance(value, bool) else words.get(str(value).lower())
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        try:
            number = float(value)
        except (ValueError, OverflowError):  # a whole number may be too large for a float
            return None
        low, high = self.knob.low, self.knob.high
        if low is None or high is None or not low <= number <= high:  # false for NaN as well
            return None
        if self.kind == "int":
            return int(number) if number.is_integer() else None
        return number


def read_variables(assignments: Iterable[str], name: str) -> dict[str, Any]:
    """Return variables by name.

    Args:
        assignments: NAME=VALUE each; a value is JSON or, where it is not, a text.
        name: What a user calls them.

    Raises:
        ConfigError: For one without an equals sign.
    """
    variables: dict[str, Any] = {}
    for text in assignments:
        variable, equals, value = text.partition("=")
        if not equals or not variable.strip():
            raise ConfigError(f"{name}: {format_value(text)} must read NAME=VALUE.")
        try:
            variables[variable.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            variables[variable.strip()] = value
    return variables


def format_variables(variables: Mapping[str, Any]) -> list[str]:
    """Return NAME=VALUE of each variable, as `read_variables` reads them."""
    return [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in variables.items()]


C = TypeVar("C")
_ALIASES: Final = {"max_new_tokens": "length", "num_assistant_tokens": "gamma"}
"""Names in `generate` of transformers -> names here."""
_BOOLEAN: Final = Setting("do_sample", "bool", True, (), SettingInfo("", ""))
_ELSEWHERE: Final = {
    "max_tokens": "length",
    "max_length": "length, without the prompt",
    "num_speculative_tokens": "gamma",
    "assistant_model": "draft",
    "draft_model": "draft",
    "prompt_lookup_num_tokens": "drafter=lookup with gamma",
    "chat_template_kwargs": "template",
    **{
        name: f'template={{"{name}": ...}}'
        for name in ("enable_thinking", "tools", "documents", "continue_final_message", "add_generation_prompt")
    },
}
"""Names of other libraries -> what to give here."""


def settings(config: type[Any]) -> tuple[Setting, ...]:
    """The settings of a Config class, in the order of its fields."""
    hints = get_type_hints(config, include_extras=True)
    settings_found = []
    for each in fields(config):
        kind, knob = get_args(hints[each.name])
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        name: Any = "choice" if choices else kind.__name__
        default: Any = each.default
        settings_found.append(Setting(each.name, name, default, choices, knob))
    return tuple(settings_found)


def from_transformers(values: Mapping[str, object]) -> dict[str, object]:
    """Return settings whose names may be those of `generate` of transformers, by their names here.

    `max_new_tokens` is `length`, `num_assistant_tokens` is `gamma`, and both `do_sample=False` and `temperature=0` are
    `top_k=1`, which is greedy.

    Raises:
        ConfigError: If a setting is given under both names.
    """
    known = dict(values)
    for other, name in _ALIASES.items():
        if other in known and name in known:
            raise ConfigError(f"{other}: is another name of {name}; give one of them.")
        if other in known:
            known[name] = known.pop(other)
    sampled = known.pop("do_sample", None)
    if sampled is not None and _BOOLEAN.parse(sampled) is False:
        known["top_k"] = 1
    if str(known.get("temperature")) in ("0", "0.0"):
        known.pop("temperature")
        known["top_k"] = 1
    return known


def _hint(name: object) -> str:
    """Return a sentence with the name of a setting of another library; empty for other names."""
    here = _ELSEWHERE.get(name) if isinstance(name, str) else None
    return f" What other libraries call {name} is {here} here." if here else ""


def make_config(config: type[C], values: Mapping[str, object]) -> C:
    """Return a Config from names and values.

    Args:
        config: Type of the Config.
        values: Values, also as text, by present or old names of settings; what is missing keeps its default.

    Raises:
        ConfigError: For a name or value that is not allowed.
    """
    known = {setting.name: setting for setting in settings(config)}
    parsed: dict[str, Value] = {}
    for given_name, value in values.items():
        name = given_name if given_name in known else RENAMED_SETTINGS.get(given_name, given_name)
        if name not in known:
            known_names = ", ".join(known)
            raise ConfigError(f"{format_name(given_name)}: no such setting; there are {known_names}.{_hint(name)}")
        if name in parsed:
            raise ConfigError(f"{name}: is given twice, once by its old name; remove one of them.")
        parsed[name] = known[name].parse(value)
    return config(**parsed)


def config_values(config: Any) -> dict[str, Value]:
    """A Config as names and values."""
    return asdict(config)
