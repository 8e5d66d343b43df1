"""Rules in a trace: what a formula may say, and what the checks refuse."""

from dataclasses import replace

import pytest
from support.raster import jacobi

from engines.config import ConfigError, make_config
from engines.methods import METHODS
from traces.errors import TraceError
from traces.io import dumps, loads
from traces.rules import check
from traces.schema import Fate, Rule, Trace


def with_rule(formula: str) -> Trace:
    return replace(jacobi(), rules=(Rule(fates=(Fate.ACCEPTED,), formula=formula),))


@pytest.mark.parametrize(
    "formula",
    [
        "{constructor}",
        "{p",
        "p}",
        "{p ? draft}",
        "{p ? q ? coin}",
        "{fate ? p}",
        "{set __proto__.x}",
        "{tv }{}",
        "{score}",
    ],
)
def test_a_formula_speaks_of_nothing_else(formula: str) -> None:
    with pytest.raises(ValueError):
        check(formula)
    with pytest.raises(TraceError, match=r"rules\[0\]\.formula"):
        loads(dumps(with_rule(formula)))


@pytest.mark.parametrize(
    "formula",
    [
        "min(1, {p} / {q}); coin {coin ? accept_prob} {set tau}: {fate}",
        "{confidence} {confidence ? set tau} {set tau}",
    ],
)
def test_a_trace_keeps_its_rules(formula: str) -> None:
    trace = with_rule(formula)
    assert loads(dumps(trace)) == trace


@pytest.mark.parametrize("name", METHODS)
def test_the_rules_of_every_method_can_be_read(name: str) -> None:
    method = METHODS[name]
    told = [method.rules(make_config(method.config, dict(values))) for values in ({}, *method.presets.values())]
    others = {"verdict": ("match", "ratio", "plain"), "mode": ("paper", "distance-only"), "same_noise": (True,)}
    for setting, values in others.items():
        for value in values:
            try:
                told.append(method.rules(make_config(method.config, {setting: value})))
            except ConfigError:
                continue  # a setting of another method
    for rules in told:
        assert bool(rules) is (name not in ("ar", "continuous"))
        for rule in rules:
            assert rule.fates and "{" in rule.formula
            check(rule.formula)


@pytest.mark.parametrize(
    ("likely", "field"),
    [
        (((3, 0.2, 0.1), (4, 0.3, 0.1)), r"likely\[\d+\]\[1\]\[1\]"),
        (((3, 0.2, 0.1), (3, 0.1, 0.1)), r"likely\[\d+\]"),
        (((-3, 0.2, 0.1),), r"likely\[\d+\]\[0\]\[0\]"),
        (((3, 1.2, 0.1),), r"likely\[\d+\]\[0\]\[1\]"),
    ],
)
def test_what_a_verdict_was_between_is_checked(likely: tuple[tuple[int, float, float], ...], field: str) -> None:
    trace = jacobi()
    step = replace(trace.steps[0], likely=(likely, *(None,) * (len(trace.steps[0].position) - 1)))
    with pytest.raises(TraceError, match=field):
        loads(dumps(replace(trace, steps=(step, *trace.steps[1:]))))
