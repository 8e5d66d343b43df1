"""Buttons that run the current run again with one setting changed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import gradio as gr

from demo.components.context import Update
from demo.components.settings_form import own_settings
from demo.components.widgets import choice_row, choices, chosen_index
from demo.jobs.links import request_from_trace
from engines.methods import METHODS
from engines.models.catalog import available_choices
from engines.runtime.run_request import RunRequest
from engines.sampling.random_source import MAX_SEED
from engines.settings import ConfigError, Setting, Value, config_values, make_config
from traces.schema import Trace

MOST: Final = 8
"""Maximum number of buttons, so that they fit at a glance."""
_OF_ONE: Final = 2
"""Values of one setting: half and double, or two other choices."""


class Variation(NamedTuple):
    """A run that differs in one thing."""

    label: str
    request: RunRequest


@dataclass(frozen=True, slots=True)
class CurrentRuns:
    """The runs that the player of Watch shows, and what the last of them can be compared with."""

    paths: tuple[Path, ...] = ()
    variations: tuple[Variation, ...] = ()


class VariationButtons:
    """Buttons, one a setting that can be changed."""

    def __init__(self) -> None:
        self.at_hand = gr.State(CurrentRuns())
        self.wanted = gr.State(())
        """Files of the runs with which the next one is compared."""
        self.row = choice_row("again", "Compare with another setting")
        self.parts: list[Any] = [self.at_hand, self.row]
        """Components that `show` and `cleared` update."""

    def show(self, traces: Sequence[Trace], paths: Sequence[Path]) -> Update:
        """These runs are shown now."""
        request = request_from_trace(traces[-1])
        offered = variations(request) if request else ()
        return {self.at_hand: CurrentRuns(tuple(paths), offered), self.row: choices([one.label for one in offered])}

    def cleared(self) -> Update:
        """Runs are on their way."""
        return {self.row: choices(())}

    def chosen(self, values: Update, event: gr.EventData) -> RunRequest:
        """The run of the button that was pressed, or a gr.Error for a button that there is not."""
        offered: tuple[Variation, ...] = values[self.at_hand].variations
        return offered[chosen_index(event, len(offered), "setting")].request


def variations(request: RunRequest) -> tuple[Variation, ...]:
    """Return variations of a run: each changes one setting of its method, the last one changes the seed."""
    now = config_values(request.config)
    offered = []
    for setting in own_settings(METHODS[request.method]):
        if setting.is_active(now):
            others = (_changed(request, setting, value) for value in _others(setting, now[setting.name]))
            offered += [other for other in others if other is not None][:_OF_ONE]
    seed = request.seed + 1 if request.seed < MAX_SEED else 0
    return (*offered[: MOST - 1], Variation(f"Seed: {seed}", replace(request, seed=seed)))


def _changed(request: RunRequest, setting: Setting, value: Value) -> Variation | None:
    """None where the value does not go together with the others."""
    config: Any = type(request.config)
    try:
        other = make_config(config, {**config_values(request.config), setting.name: value})
    except ConfigError:
        return None
    name = ("on" if value else "off") if isinstance(value, bool) else value
    return Variation(f"{setting.knob.label}: {name}", replace(request, config=other))


def _others(setting: Setting, now: Value) -> list[Value]:
    """Return other values of a setting.

    Other choices, the next ones first, or half and double of a number if allowed.
    """
    if setting.kind == "bool":
        return [not now]
    if setting.kind == "choice":
        place = setting.choices.index(str(now))
        near_first = sorted(range(len(setting.choices)), key=lambda index: abs(index - place))
        return [choice for index in near_first[1:] if (choice := setting.choices[index]) in available_choices(setting)]
    if isinstance(now, str) or setting.knob.low is None or setting.knob.high is None:
        return []
    low, high = setting.knob.low, setting.knob.high
    whole = setting.kind == "int"
    near: list[Value] = [int(now // 2), int(now * 2)] if whole else [now / 2, now * 2]
    return [value for value in near if isinstance(value, int | float) and low <= value <= high and value != now]
