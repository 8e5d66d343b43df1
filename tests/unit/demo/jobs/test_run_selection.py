"""The list of runs: what is chosen together, and what cannot be; without a browser."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest
from support import handmade
from support.page_handlers import Parts

from benchmarks._toy_runs import decode_toy_raster
from draftscope.analysis.hardware import predict
from draftscope.analysis.oracle import oracle_savings
from draftscope.demo.components.context import Update
from draftscope.demo.components.export import _clocked
from draftscope.demo.jobs.beside import comparison_table
from draftscope.demo.jobs.links import PageLink, parse_machine
from draftscope.demo.jobs.run_selection import (
    MAX_SELECTED,
    MAX_STORED_RUNS,
    RunSelection,
    SelectableRun,
    comparison_error,
    comparison_warning,
    entries_of,
    entry_of,
)
from draftscope.demo.pages.compare import ComparePage
from draftscope.demo.server.sessions import CurrentTraces
from draftscope.traces import dumps, read
from draftscope.traces.files import ROOT
from draftscope.traces.schema import Milliseconds, Trace
from draftscope.visualizers.export_zip.words import command

MINE = gr.Request(session_hash="mine")
ORDINARY, SHORT, LONG = decode_toy_raster("ar"), decode_toy_raster("scd", window=8), decode_toy_raster("scd", window=16)


def entry(trace: Trace) -> SelectableRun:
    return entry_of(trace, Path("run.json.gz"), "yours")


def test_two_settings_of_a_method_stand_beside_their_one_baseline() -> None:
    tray = RunSelection().with_run([entry(ORDINARY), entry(SHORT)]).with_run([entry(ORDINARY), entry(LONG)])
    assert [one.title for one in tray.chosen] == ["Ordinary decoding", "MC-SJD, window 8", "MC-SJD, window 16"]
    assert tray.chosen[0].note == "seed 0: 256 passes"
    text = handmade.s2d2()
    tray = RunSelection().with_run([entry(SHORT)]).with_run([entry(text)])
    assert [one.kind for one in tray.chosen] == ["text"]
    assert [one.kind for one in tray.added] == ["picture", "text"]


def test_what_cannot_stand_together_or_is_to_be_minded_is_said() -> None:
    text = handmade.s2d2()
    empty = replace(SHORT, steps=())
    assert comparison_error([entry(SHORT), entry(LONG)]) == ""
    assert "decodes a picture, another a text" in comparison_error([entry(SHORT), entry(text)])
    assert "has no forward pass, so it has no clock to share: deselect it" in comparison_error(
        [entry(SHORT), entry(empty)]
    )
    assert comparison_error([entry(SHORT)] * (MAX_SELECTED + 1)).startswith(
        f"{MAX_SELECTED + 1} runs are selected and at most {MAX_SELECTED} can be compared"
    )
    stopped = replace(SHORT, summary=replace(SHORT.summary, complete=False))
    assert comparison_warning([entry(SHORT), entry(LONG)]) == ""
    untimed = [replace(step, call=replace(step.call, milliseconds=Milliseconds())) for step in SHORT.steps]
    assert "compare by forward passes" in comparison_warning([entry(LONG), entry(replace(SHORT, steps=tuple(untimed)))])
    assert "A run was stopped" in comparison_warning([entry(LONG), entry(stopped)])


def test_the_tray_keeps_what_is_ticked_when_it_is_full() -> None:
    tray = RunSelection().with_run([entry(replace(LONG, seed=seed)) for seed in range(MAX_SELECTED)])
    first = tray.chosen
    tray = tray.with_run([entry(replace(SHORT, seed=seed)) for seed in range(MAX_STORED_RUNS)])
    assert len(tray.added) == MAX_STORED_RUNS
    assert tray.chosen == first and set(first) <= set(tray.added)


@pytest.fixture
def page(parts: Parts) -> ComparePage:
    return parts.compare


def tick(parts: Parts, tray: RunSelection, chosen: object) -> Update:
    event = gr.EventData(None, {"chosen": chosen})
    return parts.compare.choose(parts.values(tray=tray), MINE, event)


def opened(parts: Parts, *files: bytes) -> Update:
    return parts.compare.open(parts.values(tray=RunSelection(), upload=list(files)), MINE)


@pytest.mark.slow
def test_opened_files_play_at_once_and_every_page_speaks_of_them(parts: Parts, page: ComparePage) -> None:
    update = opened(parts, dumps(SHORT), dumps(ORDINARY))
    assert [trace.method for trace in update[page.site.shown].traces()] == ["ar", "scd"]
    message = update[page.viewer]["value"]
    assert message["kind"] == "compare" and len(message["urls"]) == 2
    assert len(update[page.costs]["rows"]) == 2
    assert update[page.chooser.panel.plot]["visible"]
    update = opened(parts, dumps(SHORT), b"{", dumps(SHORT))
    assert len(update[page.tray].added) == 1  # the same run twice is one chip
    assert update[page.problem]["text"].startswith("file 2: ")
    tokens = SHORT.output.tokens or ()
    other = replace(SHORT, output=replace(SHORT.output, tokens=(*tokens[:-1], (tokens[-1] + 1) % 8)))
    assert len(RunSelection().with_run([entry(SHORT), entry(other)]).added) == 2  # of other tokens, it is another run


def test_the_table_names_its_baseline_and_its_files_have_every_setting(parts: Parts, page: ComparePage) -> None:
    strange = replace(SHORT, prompt="=1+1 & [b]|c", config={**SHORT.config, "=x": "@y"})
    table = comparison_table([strange, ORDINARY, replace(LONG, prompt="=1+1 & [b]|c")])
    names = [row[0] for row in table["rows"]]
    assert names == ["MC-SJD, window 8", "Ordinary decoding (baseline)", "MC-SJD, window 16"]
    assert table["more"].startswith("Baseline: ordinary decoding. Avoidable work: ")
    assert comparison_table([ORDINARY])["more"] == "Baseline: ordinary decoding."
    rows = list(csv.DictReader(io.StringIO(table["files"]["runs.csv"])))
    settings = [(row["method"], row["seed"], row["set.window"]) for row in rows]
    assert settings == [("scd", "0", "8"), ("ar", "0", ""), ("scd", "0", "16")]
    assert rows[0]["prompt"] == "'=1+1 & [b]|c" and rows[0]["set.=x"] == "'@y"
    assert rows[2]["command"] == command(replace(LONG, prompt="=1+1 & [b]|c"))
    assert rows[2]["baseline"] == "Ordinary decoding"
    ratio = ORDINARY.summary.forwards / SHORT.summary.forwards
    assert float(rows[0]["times_the_tokens_per_target_pass"]) == pytest.approx(ratio)
    best = oracle_savings(SHORT)
    assert best and float(rows[0]["avoidable_work_percent"]) == pytest.approx(100 * best.saved)
    assert rows[1]["avoidable_work_percent"] == ""
    assert r"=1+1 \& {[}b{]}\textbar{}c" in table["files"]["runs.tex"] and r"\[b\]\|c" in table["files"]["runs.md"]
    first = comparison_table([LONG, SHORT])
    assert first["more"].startswith("Baseline: MC-SJD, window 16, the first selected run")
    # the runs that the page speaks of are ticked on opening, ordinary decoding first
    recorded = page.recorded["Picture: Toy raster, 16x16 grey levels"]
    shown = CurrentTraces(tuple(entry.path for entry in reversed(recorded)), "a recorded run")
    update = page.show(parts.values(tray=RunSelection(), wanted=()) | {page.site.shown: shown}, MINE)
    assert len(update[page.tray].chosen) == 2 and update[page.costs]["rows"][0][0].endswith("(baseline)")
    assert [trace.method for trace in update[page.set].traces()] == ["ar", "scd"]


def test_the_table_has_seconds_computed_for_the_hardware_that_is_chosen(parts: Parts, page: ComparePage) -> None:
    on = "H100,CUDA_graphs,Lumina-mGPT_7B,Llama_3.2_1B,8"
    machine = parse_machine(on)
    assert machine is not None and machine.batch == 8
    table = comparison_table([ORDINARY, SHORT], machine)
    computed = [predict(trace, machine).seconds for trace in (ORDINARY, SHORT)]
    seconds, ratio = (table["heads"].index(name) for name in ("Seconds, computed for H100", "Times as fast, computed"))
    assert [float(row[seconds]) for row in table["rows"]] == pytest.approx(computed, rel=5e-3)
    assert float(table["rows"][1][ratio]) == pytest.approx(computed[0] / computed[1], rel=5e-3)
    assert "Computed, not measured: H100, CUDA graphs, Lumina-mGPT 7B, batch 8." in table["more"]
    (_, row) = csv.DictReader(io.StringIO(table["files"]["runs.csv"]))
    assert float(row["seconds_computed_for_h100"]) == pytest.approx(computed[1])
    patches = comparison_table([read(ROOT / "assets/traces/continuous-patch.json.gz")], machine)
    assert patches["more"].endswith("The steps of a diffusion head are left out, as Lumina-mGPT 7B has none.")
    assert (
        "choose a larger device" in comparison_table([ORDINARY], parse_machine("T4,eager,Lumina-mGPT_7B,,900"))["more"]
    )
    paths = page.site.visitor(MINE).keep([ORDINARY, SHORT], "").paths
    update = page.update_clock({page.set: CurrentTraces(paths)}, gr.EventData(None, {"on": on}))
    assert update[page.on] == on and update[page.costs]["rows"] == table["rows"]
    wrong = page.update_clock({page.set: CurrentTraces(paths)}, gr.EventData(None, {"on": "H10,,,,1"}))
    assert wrong.keys() == {page.problem} and "there is no 'H10'" in wrong[page.problem]["text"]
    assert page.named(PageLink(compare=(), at={"on": on}))[page.on] == on
    assert _clocked(on) == {"clock": "computed", "machine": machine} and _clocked("passes") == {"clock": "passes"}


def test_own_runs_and_opened_files_come_into_the_tray_and_recordings_do_not(parts: Parts, page: ComparePage) -> None:
    paths = page.site.visitor(MINE).keep([SHORT], "").paths
    values = parts.values(tray=RunSelection(), wanted=(), waits=False)
    for origin, source in (("your last run", "yours"), ("the file you opened", "opened")):
        update = page.take(values | {page.site.shown: CurrentTraces(paths, origin)}, MINE)
        assert [(one.path, one.source) for one in update[page.tray].added] == [(paths[0], source)]
    after = page.take(values | {page.site.shown: CurrentTraces(paths, "a recorded run")}, MINE)
    assert not isinstance(after[page.tray], RunSelection)  # it stays as it is


@pytest.mark.parametrize("origin", ["your last run", "a recorded run"])
def test_a_page_that_was_opened_before_there_was_a_run_shows_the_first_one(
    parts: Parts, page: ComparePage, origin: str
) -> None:
    empty = page.show(parts.values(tray=RunSelection(), wanted=()), MINE)
    assert empty[page.waits] and not empty[page.viewer]["visible"]
    visitor_paths = page.site.visitor(MINE).keep([SHORT], "").paths
    recorded = page.recorded["Picture: Toy raster, 16x16 grey levels"]
    paths = visitor_paths if origin == "your last run" else tuple(entry.path for entry in recorded)
    values = parts.values(tray=RunSelection(), wanted=(), waits=empty[page.waits])
    update = page.take(values | {page.site.shown: CurrentTraces(paths, origin)}, MINE)
    assert {entry.path for entry in update[page.tray].chosen} == {*paths}
    assert update[page.viewer]["visible"] and len(update[page.bench]["runs"]) == len(paths)
    assert not update[page.waits]


def test_a_tick_that_cannot_be_leaves_what_was_ticked(parts: Parts, page: ComparePage) -> None:
    *_, recorded = page.recorded["Picture: Toy raster, 16x16 grey levels"]
    text = entry(handmade.s2d2())
    selection = RunSelection((replace(text, path=recorded.path),), (recorded,))
    update = tick(parts, selection, [recorded.id, text.id])
    assert page.site.shown not in update and page.tray not in update
    assert update[page.box]["chosen"] == [recorded.id]
    assert "cannot be compared" in update[page.problem]["text"]
    missing = tick(parts, RunSelection((replace(text, path=recorded.path.with_name("gone")),), ()), [text.id])
    assert "no longer here" in missing[page.problem]["text"]


def test_a_run_is_taken_out_and_the_others_stay(parts: Parts, page: ComparePage) -> None:
    tray = RunSelection().with_run(entries_of(page.site.visitor(MINE).keep([SHORT, LONG], "").paths, "yours"))
    first, second = tray.added
    event = gr.EventData(None, {"run": first.id})
    update = page.drop(parts.values(tray=tray), MINE, event)
    assert [row["id"] for row in update[page.box]["rows"] if row["own"]] == [second.id]
    assert update[page.tray] == RunSelection((second,), (second,))
    assert "window" in second.address and update[page.box]["address"].count("compare=") == 1
    for wrong in (None, "<b>", ["x"]):
        with pytest.raises(gr.Error, match="run: is not in the selection"):
            page.drop(parts.values(tray=tray), MINE, gr.EventData(None, {"run": wrong}))


def test_ticks_of_a_stranger_are_refused(parts: Parts) -> None:
    for chosen in (None, "x", [1], ["../../etc/passwd"], ["<b>"], ["0" * 16] * 1000):
        with pytest.raises(gr.Error, match="select up to 6 of the runs shown"):
            tick(parts, RunSelection(), chosen)
