"""The standalone page and the data the player is given, without a browser."""

import json
import re

import pytest
from support.hostile import HOSTILE, written

import draftscope as ds
from benchmarks._toy_runs import jacobi
from draftscope.traces.io import loads
from draftscope.traces.measures import MEASURES
from draftscope.traces.schema import FATES
from draftscope.visualizers import player
from draftscope.visualizers.palette import DARK, LIGHT, MARKS, contrast, ink
from draftscope.visualizers.player_page import standalone


def test_the_page_holds_the_traces_as_they_are_and_refers_to_nothing_outside() -> None:
    traces = [jacobi(), written()]
    html = standalone(traces, "Two")
    _, _, embedded = html.partition('<script type="application/json" id="player-traces">')
    documents = json.loads(embedded.partition("</script>")[0])
    assert [loads(json.dumps(document).encode()) for document in documents] == traces
    assert not re.search(r"<(link|iframe|img|object|embed)\b|\bsrc=|@import", standalone(traces[:1], "Page"))
    assert set(re.findall(r"https?://[^\s\"'<>]+", standalone(traces[:1], "Page"))) <= {"http://www.w3.org/2000/svg"}
    assert "default-src &#x27;none&#x27;" in html
    html = standalone([written()], HOSTILE)
    assert HOSTILE not in html and "<img" not in html
    assert html.count("<script") == html.count("</script>") == 5
    with pytest.raises(ValueError, match=r"^traces: a page needs at least one trace"):
        standalone([], "Nothing")


def test_the_player_knows_every_fate_and_measure() -> None:
    data = player.data()
    assert {fate["name"]: fate["meaning"] for fate in data["fates"]} == {
        fate.value: text for fate, text in FATES.items()
    }
    assert [fate["name"] for fate in data["fates"] if fate["final"]] == [fate.value for fate in FATES if fate.final]
    assert set(data["measures"]) == {name for name, measure in MEASURES.items() if measure.per == "position"}
    json.dumps(data)


def test_the_style_survives_the_templates_of_a_host() -> None:
    assert "${" not in player.style()
    assert "{{" not in player.style()
    rules = re.sub(r"/\*.*?\*/", "", player.style(), flags=re.DOTALL)
    selectors = [part.strip() for rule in re.findall(r"([^{}]+)\{", rules) for part in rule.split(",")]
    assert [s for s in selectors if not s.startswith((".ds", "@container", "@media"))] == []


def test_glyphs_and_words_are_legible() -> None:
    for mark in MARKS.values():
        for color in (mark.light, mark.dark):
            assert contrast(color, ink(color)) >= 4.5
    for surface in (LIGHT, DARK):
        for ground in (surface.background, surface.panel):
            assert contrast(surface.text, ground) >= 7
            assert contrast(surface.muted, ground) >= 4.5
            assert contrast(surface.accent, ground) >= 3
            assert contrast(surface.emphasis, ground) >= 3


def test_sums_are_a_text_instead_of_a_run_to_play() -> None:
    counters = "vllm:spec_decode_num_drafts_total 5\nvllm:spec_decode_num_draft_tokens_total 10\n"
    trace = ds.from_vllm(counters, HOSTILE, note=HOSTILE)
    html = standalone([trace], "Sums")
    assert "forwards            5" in html
    assert HOSTILE not in html and "player-traces" not in html and html.count("<script") == 1
    both = standalone([trace, jacobi()], "Both")
    _, _, embedded = both.partition('<script type="application/json" id="player-traces">')
    assert len(json.loads(embedded.partition("</script>")[0])) == 1
