"""The run at hand once more with one thing changed: what is offered, and what stands side by side afterwards."""

from dataclasses import replace

import gradio as gr
import pytest
from support import handmade
from support.parts import Parts
from support.raster import decoded

from demo.addresses import request_of
from demo.panels.again import MOST, AtHand, variations
from demo.runs.recordings import Recording
from demo.runs.tray import Tray
from demo.server.sessions import Shown
from engines.config import as_values
from traces.schema import Trace

ORDINARY, AT_HAND, OTHER = decoded("ar"), decoded("scd", window=16), decoded("scd", window=8)


def test_one_thing_is_changed_at_a_time_and_nothing_is_offered_twice() -> None:
    asked = request_of(AT_HAND)
    assert asked is not None and asked.config.window == 16
    offered = variations(asked)
    assert len({one.label for one in offered}) == len(offered) <= MOST
    for label, other in offered:
        before, after = as_values(asked.config), as_values(other.config)
        changed = [name for name in before if before[name] != after[name]]
        assert len(changed) + (other.seed != asked.seed) == 1, label
    assert {"Coupling: none", "Window L: 8", "Window L: 32", "Seed: 1"} <= {one.label for one in offered}


@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(AT_HAND, method="mine"),
        replace(AT_HAND, model=replace(AT_HAND.model, id="theirs")),
        replace(AT_HAND, config={**AT_HAND.config, "window": -1}),
        replace(AT_HAND, prompt="x" * 5000),
        handmade.s2d2(),
    ],
)
def test_nothing_is_offered_for_a_run_that_cannot_be_asked_for_here(elsewhere: Trace) -> None:
    assert request_of(elsewhere) is None


@pytest.mark.slow
def test_a_press_fills_the_form_and_puts_the_new_run_beside_the_old(
    parts: Parts, recorded: tuple[Recording, ...]
) -> None:
    run, compare, paths = parts.watch, parts.compare, recorded[0].paths
    at_hand = run.again.show([AT_HAND], paths)[run.again.at_hand]
    index = [one.label for one in at_hand.variations].index("Window L: 8")
    update = compare.vary({run.again.at_hand: at_hand}, gr.EventData(None, {"index": index}))
    assert update[run.own["scd"].of["window"]]["value"] == 8 and update[run.seed] == AT_HAND.seed
    assert update[run.again.wanted] == paths

    request = gr.Request(session_hash="mine")
    shown = run.site.visitor(request).keep([ORDINARY, OTHER], "your last run")
    values = parts.values(tray=Tray()) | {run.site.shown: shown, run.again.wanted: paths}
    update = compare.show_again(values, request)
    titles = [entry.title for entry in update[compare.tray].chosen]
    assert titles == ["Ordinary decoding", "MC-SJD, window 16", "MC-SJD, window 8"]
    assert update[compare.tabs].selected == "compare" and update[run.again.wanted] == ()
    refused = compare.show_again({**values, run.site.shown: Shown(paths)}, request)
    assert refused == {run.again.wanted: ()}
    for wrong in (None, -1, 99, "<b>", True):
        with pytest.raises(gr.Error, match=r"setting: there is no number .*; choose one of the 0 shown") as caught:
            compare.vary({run.again.at_hand: AtHand()}, gr.EventData(None, {"index": wrong}))
        assert "<" not in str(caught.value)
