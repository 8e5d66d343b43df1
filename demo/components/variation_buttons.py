"""Compare with another setting: buttons for the run at hand once more, with one thing changed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import gradio as gr

from demo.components.context import Update
from demo.components.settings_form import own_settings
from demo.components.widgets import choice_row, choices, chosen_index
from demo.jobs.links import request_of
from engines.methods import METHODS
from engines.models.catalog import offered
from engines.runtime.run_request import Request
from engines.sampling.random_source import LARGEST_SEED
from engines.settings import ConfigError, Setting, Value, as_values, make_config
from traces.schema import Trace

MOST: Final = 8
"""As many as are read at a glance."""
_OF_ONE: Final = 2
"""Values of one setting: half and double, or two other choices."""


class Variation(NamedTuple):
    """A run that differs in one thing."""

    label: str
    request: Request


@dataclass(frozen=True, slots=True)
class AtHand:
    """The runs that the player of Watch shows, and what the last of them can be compared with."""

    paths: tuple[Path, ...] = ()
    variations: tuple[Variation, ...] = ()


class AgainRow:
    """Buttons, one a setting that can be changed."""

    def __init__(self) -> None:
        self.at_hand = gr.State(AtHand())
        self.wanted = gr.State(())
        """Files of the runs that the next one is to stand beside."""
        self.row = choice_row("again", "Compare with another setting")
        self.parts: list[Any] = [self.at_hand, self.row]
        """What `show` and `cleared` change."""

    def show(self, traces: Sequence[Trace], paths: Sequence[Path]) -> Update:
        """These runs are shown now."""
        request = request_of(traces[-1])
        offered = variations(request) if request else ()
        return {self.at_hand: AtHand(tuple(paths), offered), self.row: choices([one.label for one in offered])}

    def cleared(self) -> Update:
        """Runs are on their way."""
        return {self.row: choices(())}

    def chosen(self, values: Update, event: gr.EventData) -> Request:
        """The run of the button that was pressed, or a gr.Error for a button that there is not."""
        offered: tuple[Variation, ...] = values[self.at_hand].variations
        return offered[chosen_index(event, len(offered), "setting")].request


def variations(request: Request) -> tuple[Variation, ...]:
    """The same run under other settings of its method, one changed at a time, and last with another seed."""
    now = as_values(request.config)
    offered = []
    for setting in own_settings(METHODS[request.method]):
        if setting.matters(now):
            others = (_changed(request, setting, value) for value in _others(setting, now[setting.name]))
            offered += [other for other in others if other is not None][:_OF_ONE]
    seed = request.seed + 1 if request.seed < LARGEST_SEED else 0
    return (*offered[: MOST - 1], Variation(f"Seed: {seed}", replace(request, seed=seed)))


def _changed(request: Request, setting: Setting, value: Value) -> Variation | None:
    """None where the value does not go together with the others."""
    config: Any = type(request.config)
    try:
        other = make_config(config, {**as_values(request.config), setting.name: value})
    except ConfigError:
        return None
    name = ("on" if value else "off") if isinstance(value, bool) else value
    return Variation(f"{setting.knob.label}: {name}", replace(request, config=other))


def _others(setting: Setting, now: Value) -> list[Value]:
    """Values beside the present one: other choices, the next ones first, or half and double of a number if allowed."""
    if setting.kind == "bool":
        return [not now]
    if setting.kind == "choice":
        place = setting.choices.index(str(now))
        near_first = sorted(range(len(setting.choices)), key=lambda index: abs(index - place))
        return [choice for index in near_first[1:] if (choice := setting.choices[index]) in offered(setting)]
    if isinstance(now, str) or setting.knob.low is None or setting.knob.high is None:
        return []
    low, high = setting.knob.low, setting.knob.high
    whole = setting.kind == "int"
    near: list[Value] = [int(now // 2), int(now * 2)] if whole else [now / 2, now * 2]
    return [value for value in near if isinstance(value, int | float) and low <= value <= high and value != now]
