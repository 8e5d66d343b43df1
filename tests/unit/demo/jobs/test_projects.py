"""Projects: what is kept comes back, and what is wrong with one is said in a sentence."""

import base64
import json
from dataclasses import replace
from typing import Any

import gradio as gr
import pytest
from support.page_handlers import Parts

from benchmarks._toy_runs import decode_toy_raster
from draftscope.demo.jobs.projects import KIND, MAX_BYTES, VERSION, read_project, saved_runs
from draftscope.demo.jobs.run_selection import RunSelection, entries_of
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import ConfigError
from draftscope.traces import dumps
from draftscope.traces.schema import Trace

MINE = gr.Request(session_hash="mine")
OWN = "method=scd&model=toy-raster&seed=5&set.window=8"
SHORT = decode_toy_raster("scd", window=8)


def project(*runs: object, **more: object) -> str:
    return json.dumps({"kind": KIND, "version": VERSION, "name": "Mine", "runs": runs, **more})


def file_of(trace: Trace) -> str:
    return base64.b64encode(dumps(trace)).decode()


def test_recordings_links_and_traces_are_read() -> None:
    found = read_project(
        project({"link": "scd", "chosen": 2}, {"link": OWN, "chosen": 0}, {"file": file_of(SHORT), "chosen": 1})
    )
    name, request, trace = (each.run for each in found.runs)
    assert (found.name, name, [each.chosen for each in found.runs]) == ("Mine", "scd", [2, 0, 1])
    assert isinstance(request, RunRequest) and (request.method, request.seed) == ("scd", 5)
    assert isinstance(trace, Trace) and trace.output.tokens == SHORT.output.tokens


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "project: is not a text of at most 4 MiB; export the project again with fewer traces."),
        (" " * (MAX_BYTES + 1), "project: is not a text of at most 4 MiB"),
        ("{", "project: is not JSON; export the project again."),
        ("[" * 100_000, "project: is not JSON"),
        ("[]", "project: kind and version are not draftscope-project 1"),
        (project(version=2), "project: kind and version are not draftscope-project 1"),
        (project(path="/etc"), "project: has an unknown field 'path'; remove it."),
        (project(name="x" * 61), "name: is not a text of 1 to 60 characters; rename the project."),
        (project(runs="x"), "runs: is not a list of up to 120 runs"),
        (project(1), "run 1: does not have the two fields chosen and link or file"),
        (project({"link": "scd", "chosen": True}), "run 1: chosen is not a whole number from 0 to 60"),
        (project({"link": "", "chosen": 0}), "run 1: link or file is not a text"),
        (project({"link": "method=magic", "chosen": 0}), "run 1: method: 'magic' is not available"),
        (project({"link": "x" * 20_000, "chosen": 0}), "run 1: link: has more than 8000 characters; remove the run."),
        (project({"file": "%%", "chosen": 0}), "run 1: file: is not base64; export the project again."),
        (project({"file": "AAAA" * 400_000, "chosen": 0}), "run 1: file: has more than 1 MiB"),
        (project({"file": "e30=", "chosen": 0}), "run 1: "),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(text: Any, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_project(text)
    assert str(error.value).startswith(words) and "\n" not in str(error.value)


def test_a_selection_is_kept_by_names_links_and_traces(parts: Parts) -> None:
    page = parts.compare
    visitor = page.site.visitor(MINE)
    (run,) = entries_of(visitor.keep([SHORT], "").paths, "yours")
    (foreign,) = entries_of(visitor.keep([_foreign()], "").paths, "opened")
    recorded = page.recorded["Picture: Toy raster, 16x16 grey levels"][-1]
    runs = saved_runs(RunSelection((run, foreign), (recorded, run)), ["method=ar"])
    assert [(run.get("link", "")[:10], run["chosen"]) for run in runs] == [
        ("method=scd", 2),
        ("", 0),
        ("scd", 1),
        ("method=ar", 0),
    ]
    assert runs[1]["url"].startswith("traces/") and runs[1]["id"] == foreign.id


def _foreign() -> Trace:

    return replace(SHORT, model=replace(SHORT.model, id="elsewhere/model"), seed=3)


def test_a_project_comes_back_with_its_selection_and_its_undecoded_runs(parts: Parts) -> None:
    page = parts.compare
    text = project({"link": "ar", "chosen": 1}, {"link": OWN, "chosen": 0}, {"file": file_of(_foreign()), "chosen": 2})
    values = parts.values(tray=RunSelection(), wanted=())
    update = page.restore(values, MINE, gr.EventData(None, {"project": text, "afresh": True}))
    tray = update[page.tray]
    assert [(entry.source, entry.method) for entry in tray.chosen] == [
        ("recorded", "Ordinary decoding"),
        ("opened", "MC-SJD"),
    ]
    assert update[page.fetch]["value"] == "Decode 1 run of this project" and len(update[page.saved]) == 1
    assert update[page.box]["project"] == "Mine"
    assert [run["chosen"] for run in update[page.box]["runs"]] == [2, 1, 0]  # nothing that is kept gets lost
    assert page.site.shown not in update  # what Watch shows stays

    *_, last = page.decode(values | {page.tray: tray, page.saved: update[page.saved]}, MINE)
    assert last[page.saved] == () and last[page.fetch]["visible"] is False
    assert [entry.source for entry in last[page.tray].chosen] == ["recorded", "opened", "yours"]


def test_a_wrong_project_leaves_the_runs_as_they_are(parts: Parts) -> None:
    page = parts.compare
    values = parts.values(tray=RunSelection(), wanted=())
    update = page.restore(values, MINE, gr.EventData(None, {"project": "{", "afresh": True}))
    assert set(update) == {page.box, page.problem} and update[page.problem]["title"] == "Not opened."
    assert update[page.box]["project"] == ""
