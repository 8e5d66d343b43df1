"""Controls generated from the fields of a Config."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import gradio as gr
from gradio.components import Component

from draftscope.demo.components.context import AT_ONCE, Update
from draftscope.engines.methods import settings_for
from draftscope.engines.methods.method import Method
from draftscope.engines.models.catalog import available_choices
from draftscope.engines.settings import Setting, Value, make_config, settings

DEFAULTS: Final = "Defaults"
CUSTOM: Final = "Custom"
_MAX_SLIDER_STEPS = 1000
"""A slider finer than this cannot be aimed with; the number is typed instead."""


class Controls(NamedTuple):
    """The components of some settings, by name."""

    of: Mapping[str, Component]

    def values(self, values: Mapping[Any, Any]) -> dict[str, Any]:
        """The settings among the values of many components."""
        return {name: values[component] for name, component in self.of.items()}


def preset_choice(method: Method) -> gr.Dropdown | None:
    """A choice among the presets of a method; nothing for a method without any."""
    if not method.presets:
        return None
    help_ = "Settings that a paper names. Choosing one moves the controls; moving one makes it your own."
    return gr.Dropdown([DEFAULTS, *method.presets, CUSTOM], value=DEFAULTS, label="Preset", info=help_)


def preset_values(method: Method, name: str) -> dict[str, Value]:
    """Return the value that a preset gives to every setting it may change: the method's own, and shared ones it names.

    Raises:
        ConfigError: If the preset does not exist.
    """
    touched = {setting.name for setting in settings_for(method)}.union(*method.presets.values())
    defaults = {setting.name: setting.default for setting in settings(method.config) if setting.name in touched}
    chosen = {} if name == DEFAULTS else method.preset(name)
    return defaults | {setting: getattr(make_config(method.config, chosen), setting) for setting in chosen}


def build(of: tuple[Setting, ...]) -> Controls:
    """Create the components, in the order of the settings; each shows only while it matters."""
    defaults = {setting.name: setting.default for setting in of}
    built = Controls({setting.name: control(setting, visible=setting.is_active(defaults)) for setting in of})
    dependent = [setting for setting in of if setting.knob.active_if]
    heads = {name: built.of[name] for setting in dependent for name in setting.knob.active_if}

    def show(*values: object) -> Update:
        now = dict(zip(heads, values, strict=True))
        return {built.of[setting.name]: gr.update(visible=setting.is_active(now)) for setting in dependent}

    shown = [built.of[setting.name] for setting in dependent]
    if heads:
        gr.on([head.change for head in heads.values()], show, list(heads.values()), shown, **AT_ONCE)  # type: ignore[attr-defined]
    return built


def control(setting: Setting, *, visible: bool = True) -> Component:
    """One component for one setting."""
    common: dict[str, Any] = {
        "value": setting.default,
        "label": setting.knob.label,
        "info": setting.knob.help,
        "visible": visible,
    }
    if setting.kind == "bool":
        return gr.Checkbox(**common)
    if setting.kind == "choice":
        return gr.Dropdown(choices=list(available_choices(setting)), **common)
    low, high, step = setting.knob.low, setting.knob.high, setting.knob.step
    if low is None or high is None:
        raise ValueError(f"{setting.name}: a number needs low and high to be shown")
    step = step or (1 if setting.kind == "int" else (high - low) / 100)
    if (high - low) / step > _MAX_SLIDER_STEPS:
        return gr.Number(minimum=low, maximum=high, step=step, precision=0 if setting.kind == "int" else None, **common)
    return gr.Slider(minimum=low, maximum=high, step=step, **common)


def read_config(config: type[Any], values: Mapping[str, Any]) -> Any:
    """The Config of what the controls say. Raises ConfigError naming setting, value and remedy."""
    return make_config(config, {name: "" if value is None else value for name, value in values.items()})
