"""Controls are made from what a Config says of its fields."""

import gradio as gr
import pytest

from demo.panels import controls
from engines.config import ConfigError, make_config, settings
from engines.methods import METHODS, SHARED
from engines.models.catalog import offered


@pytest.mark.slow
def test_every_setting_has_a_control_that_says_what_its_field_says() -> None:
    for method in METHODS.values():
        of = settings(method.config)
        with gr.Blocks():
            own = controls.build(controls.own_settings(method))
            shared = controls.build(settings(SHARED[method.family]))
        made = {**own.of, **shared.of}
        assert made.keys() == {setting.name for setting in of}
        assert controls.read_config(method.config, {name: one.value for name, one in made.items()}) == method.config()
        for setting in (*controls.own_settings(method), *settings(SHARED[method.family])):
            component = made[setting.name]
            assert (component.label, component.info) == (setting.knob.label, setting.knob.help)
            if setting.kind == "choice":
                assert [value for _, value in component.choices] == list(offered(setting))
            elif setting.kind != "bool":
                assert (component.minimum, component.maximum) == (setting.knob.low, setting.knob.high)
        for group in (controls.own_settings(method), settings(SHARED[method.family])):
            known = {setting.name: setting for setting in group}
            for name, head, values in ((one.name, *when) for one in group for when in one.knob.when.items()):
                choices = {True, False} if known[head].kind == "bool" else set(known[head].choices)
                assert set(values) < choices, f"{method.name}: {name} depends on {head}"


def test_a_control_shows_only_while_it_matters() -> None:
    with gr.Blocks() as page:
        built = controls.build(controls.own_settings(METHODS["s2d2"]))
    hidden = {name for name, component in built.of.items() if not component.visible}
    assert {"span_threshold", "switch_on", "bins", "tempering", "cut"} <= hidden
    assert "exponent" not in hidden
    (change,) = [fn for fn in page.fns.values() if fn.name == "show"]
    now = {"router": "hysteresis", "estimator": "margin", "verdict": "ratio"}
    values = [next(now[name] for name, c in built.of.items() if c is component) for component in change.inputs]
    shown = {c: update["visible"] for c, update in change.fn(*values).items()}
    visible = {name for name, component in built.of.items() if shown.get(component)}
    assert visible == {"cost", "scoring", "switch_on", "switch_off", "cut", "tempering"}


@pytest.mark.slow
def test_every_preset_is_a_sound_choice_that_leaves_nothing_of_the_one_before() -> None:
    for method in METHODS.values():
        with gr.Blocks():
            choice = controls.preset_choice(method)
        if not method.presets:
            assert choice is None
            continue
        assert [value for _, value in choice.choices] == [controls.DEFAULTS, *method.presets, controls.CUSTOM]
        defaults = controls.preset_values(method, controls.DEFAULTS)
        assert {setting.name for setting in controls.own_settings(method)} <= defaults.keys()
        assert make_config(method.config, defaults) == method.config()
        for preset, named in method.presets.items():
            values = controls.preset_values(method, preset)
            assert values == defaults | dict(named)
            assert make_config(method.config, values) == make_config(method.config, named)
        with pytest.raises(ConfigError, match=r"preset: .* has no 'none such'; there are "):
            controls.preset_values(method, "none such")
