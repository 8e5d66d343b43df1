"""Old names of settings are read in traces and results."""

from dataclasses import replace

from support import handmade
from support.results import row

from draftscope.analysis.results import read_rows
from draftscope.traces import dumps, loads
from draftscope.traces.schema import Fate, Rule


def test_a_trace_with_old_names_is_read_with_present_ones() -> None:
    rule = Rule(fates=(Fate.EDITED,), formula="{p} {p ? set edit} {set edit}, {draft}")
    trace = replace(handmade.scd(), config={"initial": "random", "window": 4}, rules=(rule,))
    same = loads(dumps(trace))
    assert same.config == {"initial_drafts": "random", "window": 4}
    assert same.rules[0].formula == "{p} {p ? set edit_threshold} {set edit_threshold}, {draft}"
    custom = replace(trace, method="custom")
    assert loads(dumps(custom)) == custom


def test_results_with_old_names_are_read_with_present_ones() -> None:
    (read,) = read_rows([row("s2d2", "S2D2", {"cost": 1.0, "block": "4"})])
    assert read.config == {"verification_cost": 1.0, "block": "4"}
