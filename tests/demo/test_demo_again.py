"""The run at hand once more with one thing changed: what is offered, and what stands side by side afterwards."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest
from support import handmade
from support.raster import decoded

from demo.addresses import asked_of
from demo.outcome import as_csv, beside
from demo.pages.again import Again
from demo.pages.compare import ComparePage
from demo.pages.run import RunPage
from demo.recordings import Recording
from demo.sessions import Shown, Visitors
from demo.site import Site
from demo.workbench.again import AtHand
from demo.workbench.tray import Tray
from demo.workbench.variations import MOST, variations
from engines.config import as_values
from traces import write
from traces.schema import Trace

ORDINARY, AT_HAND, OTHER = decoded("ar"), decoded("scd", window=16), decoded("scd", window=8)


def test_one_thing_is_changed_at_a_time_and_nothing_is_offered_twice() -> None:
    asked = asked_of(AT_HAND)
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
        replace(AT_HAND, seed=None),
        replace(AT_HAND, model=replace(AT_HAND.model, id="theirs")),
        replace(AT_HAND, config={**AT_HAND.config, "window": -1}),
        replace(AT_HAND, config={**AT_HAND.config, "more": 1}),
        replace(AT_HAND, prompt="x" * 5000),
        handmade.s2d2(),
    ],
)
def test_nothing_is_offered_for_a_run_that_cannot_be_asked_for_here(elsewhere: Trace) -> None:
    assert asked_of(elsewhere) is None


@pytest.fixture
def again(tmp_path: Path) -> Again:
    paths = (tmp_path / "ar.json.gz", tmp_path / "scd.json.gz")
    for trace, path in zip((ORDINARY, AT_HAND), paths, strict=True):
        write(trace, path)
    with gr.Blocks():
        site = Site(Visitors(), gr.State(Shown()), gr.Textbox("", visible=False))
        run = RunPage(site)
        recorded = Recording("scd", "SCD", "", "", paths, (ORDINARY, AT_HAND))
        return Again(gr.Tabs(), run, ComparePage(site, run, [recorded]))


def test_a_press_fills_the_form_and_the_new_run_stands_beside_the_old_ones(again: Again, tmp_path: Path) -> None:
    run, compare = again.run, again.compare
    paths = (tmp_path / "ar.json.gz", tmp_path / "scd.json.gz")
    asked = asked_of(AT_HAND)
    assert asked is not None
    index = [one.label for one in variations(asked)].index("Window L: 8")
    event = gr.EventData(None, {"index": index})
    update = again.vary({run.again.at_hand: AtHand(asked, paths)}, event)
    assert update[run.own["scd"].of["window"]] == 8 and update[run.seed] == AT_HAND.seed
    assert update[run.again.wanted] == paths

    request = gr.Request(session_hash="mine")
    shown = run.site.visitor(request).keep([ORDINARY, OTHER], "your last run")
    chooser = compare.chooser
    values = {compare.tray: Tray(), compare.set: Shown(), run.site.look: "", run.site.shown: shown}
    values |= {chooser.name: None, chooser.scope: "Whole run", chooser.step: 0, run.again.wanted: paths}
    told = again.show(values, request)
    assert [entry.note.split(",")[0] for entry in told[compare.tray].chosen] == [
        "seed 0: 256 passes",
        "window 16",
        "window 8",
    ]
    assert told[again.tabs].selected == "compare" and told[run.again.wanted] == ()
    assert again.show({**values, run.site.shown: Shown(paths)}, request) == {run.again.wanted: ()}  # it was refused


@pytest.mark.parametrize("index", [None, -1, 99, "<b>"])
def test_a_button_that_there_is_not_is_refused(again: Again, index: object) -> None:
    with pytest.raises(gr.Error, match=r"setting: there is no number .*; choose one of the 0 shown") as wrong:
        again.vary({again.run.again.at_hand: AtHand()}, gr.EventData(None, {"index": index}))
    assert "<" not in str(wrong.value)


def test_what_runs_took_is_a_file_too() -> None:
    rows = list(csv.reader(io.StringIO(as_csv(beside([ORDINARY, AT_HAND])).decode())))
    assert rows[0][:3] == ["Run", "Tokens", "Target passes"]
    assert rows[2][2] == str(AT_HAND.summary.forwards)
