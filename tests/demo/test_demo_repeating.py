"""Repeating a run with many seeds, or once more with one thing changed: what is offered, shown and refused."""

import csv
import io
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

import gradio as gr
import pytest
from support import handmade
from support.page_handlers import Parts
from support.toy_raster_runs import MODEL, decode_toy_raster

from analysis.groups import gathered
from analysis.results import SweepError, read_results
from analysis.seeds import estimate, paired_by_seed, target_forwards
from demo.components.repeat import repeat, repeated, rows_of, whole_seeds
from demo.components.variation_buttons import MOST, CurrentRuns, variations
from demo.jobs.beside import comparison_table
from demo.jobs.links import request_from_trace
from demo.jobs.live_run import LiveRuns
from demo.jobs.recordings import Recording
from demo.jobs.run_selection import RunSelection, entry_of
from demo.jobs.series import duration
from demo.server.limits import Deadline
from demo.server.sessions import CurrentTraces
from engines.methods import METHODS
from engines.runtime.run_request import RunRequest
from engines.settings import ConfigError, config_values, make_config
from traces.schema import Trace
from visualizers import FIGURES


def asked(*methods: str) -> list[RunRequest]:
    settings = {"ar": {}, "scd": {"window": 32}}
    return [RunRequest(name, MODEL, "", make_config(METHODS[name].config, settings[name])) for name in methods]


@pytest.mark.slow
def test_every_seed_is_decoded_both_ways_and_means_are_paired() -> None:
    (first, *rest) = messages = list(repeat(asked("ar", "scd"), 3, lambda: False))
    traces = whole_seeds([one.trace for one in messages if one.trace], 2)
    assert (first.done, first.total, first.share) == (0, 6, 0.0) and first.seconds_left > 0
    assert [(trace.method, trace.seed) for trace in traces] == [(m, s) for s in range(3) for m in ("ar", "scd")]
    for trace in traces:
        own = decode_toy_raster(trace.method, trace.seed or 0, **({"window": 32} if trace.method == "scd" else {}))
        assert trace.output.tokens == own.output.tokens
    shares = [one.share for one in rest]
    assert shares == sorted(shares) and shares[-1] == 1.0

    ordinary, made = traces[::2], traces[1::2]
    table = comparison_table(traces)
    usual, own = (dict(zip(table["heads"], row, strict=True)) for row in table["rows"])
    passes = [float(trace.summary.forwards) for trace in made]
    assert usual["Run"] == "Ordinary decoding, 3 seeds (baseline)" and own["Run"] == "MC-SJD, 3 seeds"
    assert own["Target passes"] == f"{fmean(passes):.3g} ± {stdev(passes) / sqrt(3):.2g}"
    ratios = [a / b for a, b in paired_by_seed(ordinary, made, target_forwards).values()]
    assert own["Times fewer target passes"] == str(estimate(ratios))
    assert table["more"].startswith("Baseline: ordinary decoding, 3 seeds. ")
    assert table["more"].endswith(" Of several seeds, means ± standard errors.")
    rows = list(csv.DictReader(io.StringIO(table["files"]["runs.csv"])))
    assert [row["seed"] for row in rows] == ["0", "1", "2"] * 2
    assert float(rows[-1]["target_passes_mean"]) == pytest.approx(fmean(passes))
    assert float(rows[-1]["target_passes_standard_error"]) == pytest.approx(stdev(passes) / sqrt(3))
    assert FIGURES["seeds"].supports(traces) is None
    drawn = FIGURES["seeds"].draw(traces)
    lines = [list(trace.y) for trace in drawn.data if trace.legendgroup == "seed" and trace.xaxis == "x"]
    assert lines == [[a.summary.forwards, b.summary.forwards] for a, b in zip(ordinary, made, strict=True)]


@pytest.mark.slow
def test_stop_and_time_that_runs_out_keep_whole_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(10**6))
    messages = list(repeat(asked("ar", "scd"), 4, lambda: next(calls) > 600))
    assert messages[-1].ended == "Stopped."
    decoded_runs = [one.trace for one in messages if one.trace]
    whole = whole_seeds(decoded_runs, 2)
    assert 0 < len(whole) == len(decoded_runs) // 2 * 2 < 8
    assert all(trace.summary.complete for trace in whole)
    running = repeat(asked("ar", "scd"), 8, lambda: False)
    next(one for one in running if one.done == 2)
    monkeypatch.setattr(Deadline, "expired", True)
    *_, last = running
    assert "which is what this server gives" in last.ended and last.done == 2


def test_what_would_take_too_long_is_refused_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiveRuns, "estimate_seconds", lambda runs: 40.0)
    with pytest.raises(ConfigError, match=r"32 would take about 21 min here, .* gives 10 min; use at most 15"):
        next(repeat(asked("scd"), 32, lambda: False))
    monkeypatch.setattr(LiveRuns, "estimate_seconds", lambda runs: 1000.0)
    with pytest.raises(ConfigError, match="choose a shorter text, a smaller model"):
        next(repeat(asked("scd"), 2, lambda: False))
    assert [duration(amount) for amount in (0.2, 42, 150, 1200)] == ["1 s", "42 s", "2.5 min", "20 min"]
    for seeds in (1, 33, -1, 2.5, "8", None, True):
        with pytest.raises(ConfigError, match=r"seeds: .* use a whole number from 2 to 32"):
            next(repeat(asked("scd"), seeds, lambda: False))


def test_what_is_repeated_are_the_ticked_runs_each_once_and_one_that_cannot_be_is_told() -> None:
    ticked = [entry_of(decode_toy_raster("scd", seed, window=8), Path("run"), "yours") for seed in (3, 4)]
    (request,) = repeated([*ticked])
    assert (request.method, request.seed, request.config.window) == ("scd", 0, 8)
    foreign = entry_of(replace(decode_toy_raster("scd"), method="somebody's"), Path("run"), "opened")
    for chosen, said in (([], "runs: none is selected"), ([foreign], "runs: somebody's .* untick it")):
        with pytest.raises(ConfigError, match=said):
            repeated(chosen)


def test_rows_can_be_read_again_and_claim_no_accuracy() -> None:
    traces = [decode_toy_raster("ar"), decode_toy_raster("scd", window=32), decode_toy_raster("scd", 1, window=32)]
    rows = read_results(rows_of(traces)).rows
    assert [(row.method, row.seed, row.forwards) for row in rows] == [
        (trace.method, trace.seed, trace.summary.forwards) for trace in traces
    ]
    assert {row.correct for row in rows} == {None}
    with pytest.raises(SweepError, match="`correct` is null in 3 of 3, so there is no accuracy"):
        gathered(rows)


AT_HAND = decode_toy_raster("scd", window=16)


def test_one_thing_is_changed_at_a_time_and_nothing_is_offered_twice() -> None:
    asked = request_from_trace(AT_HAND)
    assert asked is not None and asked.config.window == 16
    offered = variations(asked)
    assert len({one.label for one in offered}) == len(offered) <= MOST
    for label, other in offered:
        before, after = config_values(asked.config), config_values(other.config)
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
    assert request_from_trace(elsewhere) is None


@pytest.mark.slow
def test_a_press_of_no_button_is_refused_and_without_a_new_run_nothing_is_shown(
    parts: Parts, recorded: tuple[Recording, ...]
) -> None:
    run, compare, paths = parts.watch, parts.compare, recorded[0].paths
    values = parts.values(tray=RunSelection()) | {run.site.shown: CurrentTraces(paths), run.again.wanted: paths}
    assert compare.show_again(values, gr.Request(session_hash="mine")) == {run.again.wanted: ()}
    for wrong in (None, -1, 99, "<b>", True):
        with pytest.raises(gr.Error, match=r"setting: there is no number .*; choose one of the 0 shown") as caught:
            compare.vary({run.again.at_hand: CurrentRuns()}, gr.EventData(None, {"index": wrong}))
        assert "<" not in str(caught.value)
