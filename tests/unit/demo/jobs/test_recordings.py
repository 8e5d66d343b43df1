"""Recorded pairs of the first screen and their texts, and the recordings of the tour."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from support.page_handlers import Parts

from benchmarks._toy_runs import decode_toy_raster
from draftscope.analysis.run_report import RunReport
from draftscope.demo.components.viewer import recorded_pairs_message
from draftscope.demo.jobs.recordings import Recording, pairs
from draftscope.demo.pages.watch import with_initial_values
from draftscope.engines.methods import METHODS
from draftscope.engines.settings import make_config
from draftscope.traces import Trace, read
from draftscope.traces.files import ROOT
from draftscope.traces.labels import method_name
from draftscope.traces.schema import Canvas


def recording(*traces: Trace) -> Recording:
    paths = tuple(Path(f"{number}.json.gz") for number in range(len(traces)))
    return Recording(traces[-1].method, "", "", "", paths, traces)


@pytest.mark.slow
def test_there_is_a_pair_of_each_kind_that_was_recorded_a_published_model_first(shipped: tuple[Recording, ...]) -> None:
    offer = pairs(shipped)
    assert [pair.kind for pair in offer if pair.kind != "video"] == ["text", "picture", "continuous"]
    assert [trace.model.id for trace in offer[0].recording.traces] == ["smollm2", "smollm2"]
    for pair in offer:
        baseline, accelerated = (trace.summary for trace in pair.recording.traces)
        assert baseline.judged == 0 < accelerated.judged
        if pair.kind in ("picture", "text"):
            assert accelerated.forwards < baseline.forwards
        if pair.kind == "picture":
            assert pair.recording.report.truth == "the same tokens"
            assert len({trace.output.image for trace in pair.recording.traces}) == 1
    short, long = (recording(decode_toy_raster("ar"), decode_toy_raster("scd", window=window)) for window in (2, 16))
    assert [pair.recording for pair in pairs([short, long])] == [long]  # a pass of it accepts more
    canvas = Canvas(kind="video", shape=(4, 8, 8))
    film = recording(
        *(replace(one, canvas=canvas) for one in (decode_toy_raster("ar"), decode_toy_raster("scd", window=16)))
    )
    assert "video" in [pair.kind for pair in pairs([*shipped, film])]


@pytest.mark.slow
def test_what_is_said_of_a_recording_is_what_its_method_says(shipped: tuple[Recording, ...]) -> None:
    for trace in (trace for one in shipped for trace in one.traces):
        method, settings = METHODS[trace.method], dict[str, Any](trace.config)
        deviation = method.deviation(make_config(method.config, settings))
        assert (RunReport(trace).fidelity == "exact") == (not deviation)


def test_runs_alone_and_of_unknown_methods_are_not_offered() -> None:
    ordinary, coupled = decode_toy_raster("ar"), decode_toy_raster("scd", window=16)
    unknown = replace(coupled, method="<b>")
    assert pairs([recording(coupled), recording(ordinary, ordinary), recording(ordinary, unknown)]) == ()
    assert recorded_pairs_message(()) is None


def test_a_chosen_pair_is_what_the_pages_speak_of(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    pair, page = recording(decode_toy_raster("ar"), decode_toy_raster("scd", window=16)), parts.watch
    monkeypatch.setattr(page, "pairs", pairs([pair]))
    values: dict[Any, Any] = {page.choices.sent_choice: {"index": 0}}
    update, trace = page.choose_pair(values), pair.traces[-1]
    assert update[page.site.shown].paths == pair.paths
    assert (update[page.method], update[page.seed], update[page.opening]) == ("scd", str(trace.seed), None)
    assert (update[page.model]["value"], update[page.prompt]["value"]) == (trace.model.id, trace.prompt)
    assert update[page.method_controls["scd"].of["window"]]["value"] == 16
    monkeypatch.setattr("draftscope.demo.jobs.links.is_available", lambda _: False)
    assert set(page.form).isdisjoint(page.choose_pair(values)), (
        "a run that cannot be requested leaves the form unchanged"
    )
    fetched = replace(trace, model=replace(trace.model, id="smollm2"))
    for name in ("draftscope.demo.pages.watch.is_available", "draftscope.demo.components.download_model.is_available"):
        monkeypatch.setattr(name, lambda _: False)
    notice, panel = page.as_recorded([fetched]), page.fetching
    assert panel and notice[panel.row]["visible"] and notice[panel.name] == "smollm2" and notice[page.problem] == {}
    monkeypatch.setattr(page, "fetching", None)  # others reach the server
    notice = page.as_recorded([fetched])
    assert notice.keys() == {page.problem} and "draftscope model download smollm2" in str(notice[page.problem])
    with_initial_values(notice | {page.seed: 7, page.prompt: gr.update(value="a boot")})
    assert (page.problem.value, page.seed.value, page.prompt.value) == (notice[page.problem], 7, "a boot")
    for index in (2, -1, "0", None, {"a": 1}):
        with pytest.raises(gr.Error, match="choose one of the 1 shown"):
            page.choose_pair({page.choices.sent_choice: {"index": index}})


RECORDED = ROOT / "assets" / "traces"


def test_titles_of_the_gallery_have_the_name_in_them() -> None:
    listed = json.loads((RECORDED / "gallery.json").read_text("utf-8"))
    titles = {entry["file"]: entry["title"] for entry in listed if "title" in entry}
    assert len(titles) > 40
    for file, title in titles.items():
        assert method_name(read(RECORDED / file)) in title, file
