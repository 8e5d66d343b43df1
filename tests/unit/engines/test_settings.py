"""Distributions after post-processing, all rows at once or a few; settings and prompts: clear when they are wrong."""

import json
from typing import Any

import pytest

from draftscope.engines.methods import METHODS, scd
from draftscope.engines.settings import ConfigError, config_values, make_config, settings
from draftscope.traces.setting_names import METHODS_WITH_RENAMED_SETTINGS, RENAMED_SETTINGS

DEEP: Any = json.loads("[" * 900 + "]" * 900)
"""Too deep for repr."""


def test_settings_are_read_from_text() -> None:
    config = make_config(scd.Config, {"window": "16", "alpha": "0.5", "coupling": "gumbel", "stale": "true"})
    assert (config.window, config.alpha, config.coupling, config.reuse_old_probs) == (16, 0.5, "gumbel", True)
    assert make_config(scd.Config, config_values(config)) == config


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"window": "0"}, "window: '0' is not allowed; use a whole number from 1 to 256"),
        ({"window": 2.5}, "window: 2.5"),
        ({"alpha": "nan"}, "alpha: 'nan'"),
        ({"coupling": "tight"}, "coupling: 'tight' is not allowed; use one of maximal, gumbel, none"),
        ({"reuse_old_probs": "perhaps"}, "reuse_old_probs: 'perhaps' is not allowed; use true or false"),
        ({"windw": "3"}, "windw: no such setting; there are"),
        ({"window": DEEP}, "window: [[[[[...]]]]] is not allowed"),
        ({"win\ndow": 3}, "'win\\ndow': no such setting"),
    ],
)
def test_bad_settings_name_setting_value_and_remedy(values: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_config(scd.Config, values)
    assert named in str(caught.value)
    assert len(str(caught.value)) < 500 and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("method", "values", "problem"),
    [
        ("cspd", {"sampler": "ddim", "eta": 0}, "eta: with 0 denoising is deterministic"),
        ("blockwise", {"block": "3"}, "block: '3' is not allowed"),
        ("blockwise", {"block": "4", "rule": "static", "steps": 8}, "steps: 8 is more than a block of 4"),
        ("blockwise", {"block": "4", "sub_block": "8"}, "sub_block: 8 does not divide a block of 4"),
        ("s2d2", {"router": "hysteresis", "switch_on": -5.0}, "switch_on: -5 must be above switch_off, -5"),
        ("simsd", {"block": "4", "gamma": 8}, "gamma: 8 is more than a block of 4"),
        ("psd", {"mode": "sample"}, "mode: 'sample' is not allowed; use one of greedy"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(method: str, values: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make_config(METHODS[method].config, values)


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_has_help_and_an_allowed_default(method: str) -> None:
    for setting in settings(METHODS[method].config):
        assert setting.knob.help.endswith("."), setting.name
        assert setting.parse(setting.default) == setting.default


@pytest.mark.parametrize(
    ("method", "preset", "top_k", "top_p", "guidance", "window"),
    [
        ("scd", "Lumina-mGPT", 2000, 1.0, 3.0, 64),
        ("scd", "Janus-Pro", 1000, 1.0, 5.0, 32),
        ("scd", "Cosmos", 0, 0.8, 1.0, 128),
        ("gsd", "Lumina-mGPT, G = 3", 2000, 1.0, 3.0, 32),
        ("gsd", "Lumina-mGPT, G = 10", 2000, 1.0, 3.0, 32),
    ],
)
def test_presets_sample_as_the_paper_does(
    method: str, preset: str, top_k: int, top_p: float, guidance: float, window: int
) -> None:
    config = make_config(METHODS[method].config, METHODS[method].preset(preset))
    assert (config.top_k, config.top_p, config.guidance, config.window) == (top_k, top_p, guidance, window)
    assert config.temperature == 1
    assert (METHODS[method].deviation(config) == "") == (method == "scd")


def test_every_present_name_is_a_setting_and_no_old_name_is_one_any_more() -> None:
    known = {name: {setting.name for setting in settings(method.config)} for name, method in METHODS.items()}
    assert set().union(*known.values()) >= set(RENAMED_SETTINGS.values())
    assert not set().union(*known.values()) & set(RENAMED_SETTINGS)
    with_renamed = {name for name, names in known.items() if names & set(RENAMED_SETTINGS.values())}
    assert with_renamed == METHODS_WITH_RENAMED_SETTINGS


def test_a_setting_may_be_given_by_its_old_name_but_not_twice() -> None:
    config = METHODS["s2d2"].config
    assert make_config(config, {"cost": "2"}) == make_config(config, {"verification_cost": 2.0})
    with pytest.raises(ConfigError, match=r"^verification_cost: is given twice, once by its old name"):
        make_config(config, {"cost": 2.0, "verification_cost": 1.0})
    with pytest.raises(ConfigError, match=r"^tries: no such setting"):
        make_config(METHODS["ar"].config, {"tries": 3})
