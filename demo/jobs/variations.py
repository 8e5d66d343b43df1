"""Variations of a run: each changes one setting of its method, the last one changes the seed."""

from dataclasses import replace
from typing import Any, Final

from draftscope.engines.methods import METHODS, settings_for
from draftscope.engines.models.catalog import available_choices
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.sampling.random_source import MAX_SEED
from draftscope.engines.settings import ConfigError, Setting, Value, config_values, make_config

MAX_VARIATIONS: Final = 8
"""Variations of one run, few enough to read at a glance."""
MAX_VALUES: Final = 2
"""Values of one setting: half and double, or two other choices."""


def variations(request: RunRequest) -> tuple[tuple[str, RunRequest], ...]:
    """Return labels and requests of runs that differ from a run in one setting or in the seed.

    Args:
        request: A run with a method of the registry, a config and a seed.

    Returns:
        At most `MAX_VARIATIONS`; the seed is last.
    """
    current = config_values(request.config)
    offered = []
    for setting in settings_for(METHODS[request.method]):
        if setting.is_active(current):
            changed = (_changed(request, setting, value) for value in _other_values(setting, current[setting.name]))
            offered += [variation for variation in changed if variation is not None][:MAX_VALUES]
    seed = request.seed + 1 if request.seed < MAX_SEED else 0
    return (*offered[: MAX_VARIATIONS - 1], (f"Seed: {seed}", replace(request, seed=seed)))


def _changed(request: RunRequest, setting: Setting, value: Value) -> tuple[str, RunRequest] | None:
    """Return the run with another value; None if that cannot be combined with the other settings."""
    config: Any = type(request.config)
    try:
        changed = make_config(config, {**config_values(request.config), setting.name: value})
    except ConfigError:
        return None
    shown = ("on" if value else "off") if isinstance(value, bool) else value
    return f"{setting.knob.label}: {shown}", replace(request, config=changed)


def _other_values(setting: Setting, current: Value) -> list[Value]:
    """Return other values of a setting: other choices, the next ones first, or half and double of a number."""
    if setting.kind == "bool":
        return [not current]
    if setting.kind == "choice":
        index = setting.choices.index(str(current))
        by_distance = sorted(range(len(setting.choices)), key=lambda other: abs(other - index))
        available = available_choices(setting)
        return [choice for other in by_distance[1:] if (choice := setting.choices[other]) in available]
    low, high = setting.knob.low, setting.knob.high
    if isinstance(current, str) or low is None or high is None:
        return []
    values: list[Value] = [current // 2, current * 2] if setting.kind == "int" else [current / 2, current * 2]
    return [value for value in values if isinstance(value, int | float) and low <= value <= high and value != current]
