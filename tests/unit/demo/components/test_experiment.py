"""Experiments of the page: grids, tables by seed, prepared questions, and what a run can be compared with."""

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import gradio as gr
import pytest
from support import handmade
from support.page_handlers import Parts
from support.toy_videos import film

from benchmarks._toy_runs import MODEL, decode_toy_raster
from draftscope.analysis.groups import gathered
from draftscope.analysis.results import SweepError, read_results
from draftscope.analysis.seeds import estimate, paired_by_seed, target_forwards
from draftscope.analysis.tables import duration
from draftscope.demo.components import experiment as panel_module
from draftscope.demo.components.experiment import CurrentRuns, preview
from draftscope.demo.jobs.beside import comparison_table
from draftscope.demo.jobs.experiment import (
    EXPERIMENTS,
    complete_groups,
    describe_grid,
    grid_columns,
    grid_experiment,
    max_seeds,
    prepared_experiment,
    repeated_runs,
    row_titles,
    rows_file,
    run_here,
    seeds_experiment,
)
from draftscope.demo.jobs.links import request_from_trace
from draftscope.demo.jobs.recordings import Recording
from draftscope.demo.jobs.run_selection import RunSelection, SelectableRun, entries_of, entry_of
from draftscope.demo.server.limits import EXPERIMENT_RUNS
from draftscope.demo.server.sessions import CurrentTraces
from draftscope.engines.methods import METHODS
from draftscope.engines.models.catalog import MODELS
from draftscope.engines.settings import ConfigError, make_config
from draftscope.experiments import Experiment, MemoryStore, Progress, RunOutcome
from draftscope.traces.schema import Trace
from draftscope.visualizers import FIGURES

RUN = decode_toy_raster("scd", window=32)


def other(trace: Trace = RUN, **settings: object) -> Trace:
    return replace(trace, config={**trace.config, **settings})


def entries(*traces: Trace) -> tuple[SelectableRun, ...]:
    return tuple(entry_of(trace, Path("run.json.gz"), "yours") for trace in traces)


def columns(*traces: Trace) -> tuple[SelectableRun, ...]:
    return grid_columns(entries(*traces))


SHORT, LONG = other(window=8), other(window=16)
(ROW,) = read_results(rows_file([SHORT])).rows


class TestGrid:
    def test_columns_are_settings_and_each_stands_once(self) -> None:
        settings = columns(RUN, SHORT, replace(SHORT, seed=3), LONG)
        assert [one.title for one in settings] == ["MC-SJD", "MC-SJD, window 8", "MC-SJD, window 16"]
        with pytest.raises(ConfigError, match="none is selected; select runs of 1 to 4 settings"):
            columns()
        with pytest.raises(ConfigError, match="have 5 different settings"):
            columns(*(other(window=window) for window in (2, 3, 4, 5, 6)))
        with pytest.raises(ConfigError, match=r"came as a file .* deselect it"):
            columns(RUN, replace(SHORT, method="theirs"))

    def test_rows_are_prompts_by_seeds(self) -> None:
        pictures = [replace(column, request=replace(column.request, model="studio-image")) for column in columns(SHORT)]
        grid = grid_experiment(pictures, " a boot \n\na bag\na boot", 2, 7)
        assert [(run.request.prompt, run.request.seed) for run in grid.runs()] == [
            ("a boot", 7), ("a boot", 8), ("a bag", 7), ("a bag", 8)
        ]  # fmt: skip
        assert [*row_titles(grid).values()] == ["a boot, seed 7", "a boot, seed 8", "a bag, seed 7", "a bag, seed 8"]
        plain = grid_experiment(columns(SHORT), "what is said to a model without prompts", 2, 0)
        assert (plain.prompts, plain.seeds) == (("",), [0, 1]) and [*row_titles(plain).values()] == ["seed 0", "seed 1"]
        for prompts, seeds, problem in (
            ("", 1, "there is none; write at least one"),
            ("a\nb\nc\nd", 2, "4 with 2 seeds each make 8 rows, and the maximum is 6"),
            ("a", 0, "use a whole number from 1 to 6"),
            ("a" * 1001, 1, "number 1 has 1001 characters; the maximum is 1000"),
        ):
            with pytest.raises(ConfigError, match=problem):
                grid_experiment(pictures, prompts, seeds, 0)
        two = grid_experiment(pictures, "a\nb", 1, 0)
        assert describe_grid(two, pictures).startswith("2 prompts × 1 setting: 2 runs")
        assert [*row_titles(two).values()] == ["a", "b"]
        both = columns(SHORT, LONG)
        one = grid_experiment(both, "", 1, 0)
        assert describe_grid(one, both).startswith("1 seed × 2 settings: 2 runs, about")

    def test_cells_equal_runs_of_their_own(self) -> None:
        store = MemoryStore()
        grid = grid_experiment(columns(RUN, other(coupling="none")), "", 1, 3)
        first, *others = run_here(grid, store, lambda: False)
        assert (first.num_done, first.num_runs, first.fraction) == (0, 2, 0.0) and first.seconds_left
        alone = [decode_toy_raster("scd", 3, window=32), decode_toy_raster("scd", 3, window=32, coupling="none")]
        assert [trace.output.tokens for trace in store.traces] == [trace.output.tokens for trace in alone]
        assert others[-1].num_done == 2

    def test_a_cell_shows_a_picture_or_a_text_with_its_passes(self) -> None:
        text = handmade.s2d2()
        text = replace(text, output=replace(text.output, text="<b>10</b>"))
        (column,) = columns(SHORT)
        picture, words, clip = (preview(trace, column, "a row") for trace in (SHORT, text, film(3, 5, prefix=9)))
        assert picture.image.startswith("data:image/png;base64,")
        assert (picture.title, picture.group) == (column.title, "a row")
        assert picture.badge == f"{SHORT.summary.forwards} passes"
        assert words.text == "<b>10</b>" and not words.image
        assert clip.badge.endswith("clip of 33 frames") and clip.image.startswith("data:image/webp;base64,")
        assert clip.still.startswith("data:image/png;base64,")

    @pytest.mark.slow
    def test_a_cell_plays_its_row_and_changes_no_column(self, parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
        def run(
            experiment: Experiment, store: MemoryStore, stop: Callable[[], bool], **_: object
        ) -> Iterator[Progress]:
            yield Progress(num_done=0, num_runs=4, fraction=0.0, seconds_left=0.0)
            for done, planned in enumerate(experiment.runs(), 1):
                trace = replace((SHORT, LONG)[planned.order[2]], seed=planned.request.seed)
                outcome = RunOutcome(run=planned, row=ROW, trace=trace)
                store.add(outcome)
                yield Progress(num_done=done, num_runs=4, fraction=done / 4, seconds_left=0.0, finished=outcome)

        monkeypatch.setattr(panel_module, "run_here", run)
        request, site, page = gr.Request(session_hash="mine"), parts.site, parts.compare
        panel, fns = page.grid, parts.blocks.fns.values()
        heard = [target for fn in fns for target in fn.targets if getattr(fn.fn, "__name__", "") == "describe"]
        assert (panel.prompts._id, "change") in heard  # what is pasted, too
        ticked = entries_of(site.visitor(request).keep([SHORT, LONG], "").paths, "yours")
        values = parts.values(tray=RunSelection(ticked, ticked)) | {panel.prompts: "", panel.seeds: 2}
        updates = list(panel.conduct(values, request))
        lengths = [len(update[panel.box]) for update in updates if panel.box in update]
        assert lengths == [0, 1, 2, 3, 4, 4]  # gradio may show the last one alone
        traces = updates[-1][panel.stored_runs].traces()
        assert [(trace.config["window"], trace.seed) for trace in traces] == [(8, 0), (16, 0), (8, 1), (16, 1)]
        values |= {part: updates[-1][part] for part in (panel.stored_runs, panel.wide)}
        update = page.play_row(values, request, gr.EventData(None, {"index": 3}))
        chosen = update[page.tray].chosen
        assert [trace.seed for trace in update[site.shown].traces()] == [1, 1]
        assert [one.note for one in grid_columns(chosen)] == [one.note for one in grid_columns(ticked)]
        for wrong in (9, -1, True, "0", None, [0]):
            with pytest.raises(gr.Error, match="cell: "):
                page.play_row(values, request, gr.EventData(None, {"index": wrong}))


def repeat(num_seeds: object, store: MemoryStore, stop: Callable[[], bool] = lambda: False) -> Iterator[Progress]:
    """Ordinary decoding and MC-SJD."""
    runs = repeated_runs(entries(decode_toy_raster("ar"), RUN))
    yield from run_here(seeds_experiment(runs, num_seeds), store, stop)


class TestSeeds:
    def test_every_seed_is_decoded_both_ways_and_means_are_paired(self) -> None:
        store = MemoryStore()
        (first, *others) = repeat(3, store)
        traces = complete_groups(store, 2)
        assert (first.num_done, first.num_runs, first.fraction) == (0, 6, 0.0) and first.seconds_left
        assert [(trace.method, trace.seed) for trace in traces] == [(m, s) for s in range(3) for m in ("ar", "scd")]
        for trace in traces:
            alone = decode_toy_raster(
                trace.method, trace.seed or 0, **({"window": 32} if trace.method == "scd" else {})
            )
            assert trace.output.tokens == alone.output.tokens
        fractions = [one.fraction for one in others]
        assert fractions == sorted(fractions) and fractions[-1] == 1.0

        ordinary, accelerated = traces[::2], traces[1::2]
        table = comparison_table(traces)
        baseline, alone = (dict(zip(table["heads"], row, strict=True)) for row in table["rows"])
        passes = [float(trace.summary.forwards) for trace in accelerated]
        assert baseline["Run"] == "Ordinary decoding, 3 seeds (baseline)" and alone["Run"] == "MC-SJD, 3 seeds"
        assert alone["Target passes"] == str(estimate(passes))
        ratios = [a / b for a, b in paired_by_seed(ordinary, accelerated, target_forwards).values()]
        assert alone["Times the tokens per target pass"] == str(estimate(ratios))
        assert table["more"].startswith("Baseline: ordinary decoding, 3 seeds. ")
        assert table["more"].endswith(" Of several seeds, means ± standard errors.")
        rows = list(csv.DictReader(io.StringIO(table["files"]["runs.csv"])))
        assert [row["seed"] for row in rows] == ["0", "1", "2"] * 2
        assert float(rows[-1]["target_passes_mean"]) == pytest.approx(fmean(passes))
        assert float(rows[-1]["target_passes_standard_error"]) == pytest.approx(stdev(passes) / sqrt(3))
        assert FIGURES["seeds"].supports(traces) is None
        drawn = FIGURES["seeds"].draw(traces)
        lines = [list(trace.y) for trace in drawn.data if trace.legendgroup == "seed" and trace.xaxis == "x"]
        assert lines == [[a.summary.forwards, b.summary.forwards] for a, b in zip(ordinary, accelerated, strict=True)]

    def test_stop_keeps_complete_seeds(self) -> None:
        calls, store = iter(range(10**6)), MemoryStore()
        *_, last = repeat(4, store, lambda: next(calls) > 600)
        assert last.stop_reason == "Stopped."
        complete = complete_groups(store, 2)
        assert 0 < len(complete) == len(store.outcomes) // 2 * 2 < 8
        assert all(trace.summary.complete for trace in complete)

    def test_an_error_on_the_way_keeps_what_is_done_and_an_early_one_is_raised(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = MemoryStore()
        running = repeat(2, store)
        next(progress for progress in running if progress.num_done == 1)
        monkeypatch.setattr(store, "add", lambda outcome: (_ for _ in ()).throw(ValueError("window: broke.")))
        *_, last = running
        assert (last.stop_reason, last.finished, last.num_done) == ("window: broke.", None, 1)
        for seeds in (1, 33, -1, 2.5, "8", None, True):
            with pytest.raises(ConfigError, match=r"seeds: .* use a whole number from 2 to 32"):
                next(repeat(seeds, MemoryStore()))
        assert [duration(amount) for amount in (0.2, 42, 150, 1200)] == ["1 s", "42 s", "2.5 min", "20 min"]

    def test_what_is_repeated_are_the_ticked_runs_each_once_and_one_that_cannot_be_is_told(self) -> None:
        (run,) = repeated_runs(entries(*(decode_toy_raster("scd", seed, window=8) for seed in (3, 4))))
        (planned, *_) = seeds_experiment([run], 2).runs()
        assert (planned.request.method, planned.request.seed, planned.config["window"]) == ("scd", 0, 8)
        (foreign,) = entries(replace(RUN, method="somebody's"))
        for chosen, problem in (([], "runs: none is selected"), ([foreign], "runs: somebody's .* deselect it")):
            with pytest.raises(ConfigError, match=problem):
                repeated_runs(chosen)

    def test_rows_can_be_read_again_and_claim_no_accuracy(self) -> None:
        traces = [decode_toy_raster("ar"), decode_toy_raster("scd", window=32), decode_toy_raster("scd", 1, window=32)]
        rows = read_results(rows_file(traces)).rows
        assert [(row.method, row.seed, row.forwards) for row in rows] == [
            (trace.method, trace.seed, trace.summary.forwards) for trace in traces
        ]
        assert {row.correct for row in rows} == {None}
        with pytest.raises(SweepError, match="`correct` is null in 3 of 3, so there is no accuracy"):
            gathered(rows)


class TestPrepared:
    def test_they_fit_the_limit_and_name_a_figure(self) -> None:
        for name, experiment in EXPERIMENTS.items():
            assert experiment.figure in FIGURES and experiment.title and experiment.question
            assert len(experiment.seeds) <= max_seeds(name) <= EXPERIMENT_RUNS // len(experiment.arms)
            family = {METHODS[arm.method].family for arm in experiment.arms}
            assert family <= set(MODELS[experiment.model].families)
            for arm in experiment.arms:
                make_config(METHODS[arm.method].config, arm.settings)

    def test_a_model_of_another_family_is_replaced(self) -> None:
        prepared = prepared_experiment("difference", MODEL, "", 2, {"temperature": 0.5})
        assert (prepared.model, prepared.prompts, list(prepared.seeds)) == (MODEL, ("",), [0, 1])
        assert {arm.settings["temperature"] for arm in prepared.arms} == {0.5}
        elsewhere = prepared_experiment("gamma", MODEL, "", 99, {})
        assert (elsewhere.model, len(elsewhere.seeds)) == ("toy-field", max_seeds("gamma"))
        unshifted = prepared_experiment("self-drafts", "tally-target", "49: Hal +1", 1, {})
        assert unshifted.model == "smollm2-block" and unshifted.prompts != ("49: Hal +1",)
        tempered = prepared_experiment("temperature", MODEL, "", 1, {"temperature": 0.5})
        assert [arm.settings["temperature"] for arm in tempered.arms] == [0.6, 0.8, 1.0, 1.2, 1.4]

    @pytest.mark.parametrize(
        "name", ["difference", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gamma", "ddim", "ratio"))]
    )
    def test_an_experiment_answers_with_its_figure(self, name: str) -> None:
        vectors = name != "difference"
        fewer: dict[str, Any] = {"steps": 2, "last_timestep": 150} if vectors else {}
        prepared = prepared_experiment(name, "toy-field" if vectors else MODEL, "", 2 - vectors, fewer)
        store = MemoryStore()
        *_, last = run_here(replace(prepared, arms=prepared.arms[:2]), store, lambda: False, batched=True)
        assert last.num_done == len(store.outcomes) == 2 * (2 - vectors)
        assert FIGURES[prepared.figure].supports(store.traces) is None
        if not vectors:
            couplings = {(trace.seed, trace.config["coupling"]) for trace in store.traces}
            assert couplings == {(seed, coupling) for seed in (0, 1) for coupling in ("none", "gumbel")}

    def test_an_experiment_stops_within_a_pass(self) -> None:
        calls: list[None] = []

        def stop() -> bool:
            calls.append(None)
            return len(calls) == 3

        store = MemoryStore()
        *_, last = run_here(prepared_experiment("difference", MODEL, "", 2, {}), store, stop, batched=True)
        assert (store.outcomes, last.stop_reason, len(calls)) == ((), "Stopped.", 3)


AT_HAND = decode_toy_raster("scd", window=16)


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
    values = parts.values(tray=RunSelection()) | {run.site.shown: CurrentTraces(paths), run.again.compared: paths}
    assert compare.show_again(values, gr.Request(session_hash="mine")) == {run.again.compared: ()}
    for wrong in (None, -1, 99, "<b>", True):
        with pytest.raises(gr.Error, match=r"setting: there is no number .*; choose one of the 0 shown") as caught:
            compare.vary({run.again.current: CurrentRuns(), run.choices.sent_choice: {"index": wrong}})
        assert "<" not in str(caught.value)
