"""What a run can be compared with: the same with one setting changed, or another seed. Knows nothing of the page."""

from dataclasses import replace
from typing import Any, Final, NamedTuple

from demo.panels.controls import own_settings
from demo.runs.decoding import Asked
from engines.config import ConfigError, Setting, Value, as_values, make_config
from engines.methods import METHODS
from engines.sampling.chance import LARGEST_SEED

MOST: Final = 8
"""As many as are read at a glance."""
_OF_ONE: Final = 2
"""Values of one setting: half and double, or two other choices."""


class Variation(NamedTuple):
    """A run that differs in one thing."""

    label: str
    asked: Asked


def variations(asked: Asked) -> tuple[Variation, ...]:
    """The same run under other settings of its method, one changed at a time, and last with another seed."""
    now = as_values(asked.config)
    offered = []
    for setting in own_settings(METHODS[asked.method]):
        if setting.matters(now):
            others = (_changed(asked, setting, value) for value in _others(setting, now[setting.name]))
            offered += [other for other in others if other is not None][:_OF_ONE]
    seed = asked.seed + 1 if asked.seed < LARGEST_SEED else 0
    return (*offered[: MOST - 1], Variation(f"Seed: {seed}", replace(asked, seed=seed)))


def _changed(asked: Asked, setting: Setting, value: Value) -> Variation | None:
    """None where the value does not go together with the others."""
    config: Any = type(asked.config)
    try:
        other = make_config(config, {**as_values(asked.config), setting.name: value})
    except ConfigError:
        return None
    said = ("on" if value else "off") if isinstance(value, bool) else value
    return Variation(f"{setting.knob.label}: {said}", replace(asked, config=other))


def _others(setting: Setting, now: Value) -> list[Value]:
    """Values beside the present one: other choices, the next ones first, or half and double of a number if allowed."""
    if setting.kind == "bool":
        return [not now]
    if setting.kind == "choice":
        place = setting.choices.index(str(now))
        near_first = sorted(range(len(setting.choices)), key=lambda index: abs(index - place))
        return [setting.choices[index] for index in near_first[1:]]
    if isinstance(now, str) or setting.knob.low is None or setting.knob.high is None:
        return []
    low, high = setting.knob.low, setting.knob.high
    whole = setting.kind == "int"
    near: list[Value] = [int(now // 2), int(now * 2)] if whole else [now / 2, now * 2]
    return [value for value in near if isinstance(value, int | float) and low <= value <= high and value != now]
