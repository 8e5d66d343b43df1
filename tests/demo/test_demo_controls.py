import gradio as gr
import pytest

from demo import controls
from engines.config import ConfigError, make_config, settings
from engines.methods import METHODS


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_has_a_control_that_starts_at_its_default(name: str) -> None:
    config = METHODS[name].config
    with gr.Blocks():
        own = controls.build(controls.own_settings(METHODS[name]))
        shared = controls.build(controls.sampling_settings(METHODS[name].family))
    assert set(own.of) | set(shared.of) == {setting.name for setting in settings(config)}
    values = {setting: component.value for setting, component in (*own.of.items(), *shared.of.items())}
    assert controls.read_config(config, values) == config()


@pytest.mark.parametrize("name", METHODS)
def test_a_control_says_what_its_field_says(name: str) -> None:
    shown = settings(METHODS[name].config)
    with gr.Blocks():
        made = [controls.control(setting) for setting in shown]
    for setting, component in zip(shown, made, strict=True):
        assert component.label == setting.knob.label
        assert component.info == setting.knob.help
        if setting.kind == "choice":
            assert [value for _, value in component.choices] == list(setting.choices)
        elif setting.kind != "bool":
            assert (component.minimum, component.maximum) == (setting.knob.low, setting.knob.high)


@pytest.mark.parametrize("name", METHODS)
def test_a_setting_depends_on_values_that_others_of_its_group_can_have(name: str) -> None:
    for group in (controls.own_settings(METHODS[name]), controls.sampling_settings(METHODS[name].family)):
        known = {setting.name: setting for setting in group}
        for setting in group:
            for head, values in setting.knob.when.items():
                choices = {True, False} if known[head].kind == "bool" else set(known[head].choices)
                assert set(values) < choices, f"{setting.name} depends on {head}"


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
    found = {name for name, component in built.of.items() if shown.get(component)}
    assert found == {"cost", "scoring", "switch_on", "switch_off", "cut", "tempering"}


@pytest.mark.parametrize("name", METHODS)
def test_every_preset_is_a_sound_choice_that_leaves_nothing_of_the_one_before(name: str) -> None:
    method = METHODS[name]
    with gr.Blocks():
        choice = controls.preset_choice(method)
    if not method.presets:
        assert choice is None
        return
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


@pytest.mark.parametrize(("value", "told"), [(None, "window: ''"), (0, "window: 0"), ("many", "window: 'many'")])
def test_a_bad_value_names_setting_value_and_remedy(value: object, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        controls.read_config(METHODS["scd"].config, {"window": value})
    assert told in str(caught.value)
    assert "from 1 to 256" in str(caught.value)
