"""Rules of methods are formulas that can be read."""

import pytest

from draftscope.engines.methods import METHODS
from draftscope.engines.settings import ConfigError, make_config
from draftscope.traces import explanations as rules


@pytest.mark.parametrize("name", METHODS)
def test_the_rules_of_every_method_can_be_read(name: str) -> None:
    method = METHODS[name]
    all_rules = [
        method.explanations(make_config(method.config, dict(values))) for values in ({}, *method.presets.values())
    ]
    others = {"verdict": ("match", "ratio", "plain"), "mode": ("paper", "distance-only"), "same_noise": (True,)}
    for setting, values in others.items():
        for value in values:
            try:
                all_rules.append(method.explanations(make_config(method.config, {setting: value})))
            except ConfigError:
                continue  # a setting of another method
    for texts in all_rules:
        assert bool(texts) is (name not in ("ar", "continuous"))
        for rule in texts:
            assert rule.fates and "{" in rule.formula
            rules.check(rule.formula)
