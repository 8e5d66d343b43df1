"""Choose: the shipped answer agrees with the shipped rows, and results of papers are separate."""

import gzip
import json
import re
from cProfile import Profile
from dataclasses import replace
from statistics import fmean, median, quantiles, stdev
from typing import Any

import gradio as gr
import pytest
from playwright.sync_api import Browser, Route, expect
from support.browser import choose, visit

from draftscope.analysis.hardware import DEVICES, SIZES
from draftscope.analysis.hardware_models import MODELS
from draftscope.analysis.shipped_results import FOLDER
from draftscope.analysis.tradeoffs import Tradeoff
from draftscope.demo.components.calculator import CalculatorPanel, _plan, _rate, curves_of
from draftscope.demo.components.context import Site
from draftscope.demo.components.method_docs import method_text
from draftscope.demo.jobs.links import parse_link
from draftscope.demo.jobs.recordings import recordings
from draftscope.demo.pages.choose import recording_of
from draftscope.demo.server.sessions import CurrentTraces, Visitors
from draftscope.engines.settings import ConfigError
from draftscope.recommendations import (
    REPORTED,
    answer,
    measured_tradeoffs,
    reported_near,
    reported_tradeoffs,
    speed_in_words,
)
from draftscope.visualizers.calculator import FIRST, NO_DRAFTER
from draftscope.visualizers.figures.calculator import Calculation, calculator_figure, device_curves
from draftscope.visualizers.figures.tradeoffs import TradeoffView, tradeoffs_figure

PLAN, RATE = _plan(FIRST), _rate(FIRST)
_QUEUE = "**/queue/join*"


@pytest.fixture(scope="module")
def alone() -> list[Tradeoff]:
    """Return the measurements at batch 1."""
    return [one for one in measured_tradeoffs() if one.batch == 1]


def rows_of(name: str) -> list[dict[str, Any]]:
    return list(json.loads((FOLDER / f"{name}.json").read_text("utf-8"))["rows"])


@pytest.mark.slow
def test_the_answer_for_pictures_is_what_the_rows_say(alone: list[Tradeoff]) -> None:
    fast = max(
        (row for row in rows_of("speed") if row["guidance"] == 2.0 and row["method"] == "scd"),
        key=lambda row: row["faster_median"],
    )
    graded = {row["decoder"]: row for row in rows_of("quality")}
    fast_row, baseline = graded[fast["decoder"]], graded["vanilla"]
    change = fast_row["as_asked_percent"] - baseline["as_asked_percent"]
    error = (fast_row["as_asked_error"] ** 2 + baseline["as_asked_error"] ** 2) ** 0.5
    called = f"{fast['decoder']} with window {fast['window']}"
    median, low, high = (fast[f"faster_{part}"] for part in ("median", "low_quartile", "high_quartile"))
    speed = speed_in_words(Tradeoff(kind="", method="", setting="", speed=median, speed_low=low, speed_high=high))
    assert answer(alone, "picture", 0, 1) == (
        f"Use {called} for pictures: {speed}, quality within noise ({change:+.1f} ± {error:.1f} points), exact."
        if low > 1 and -change <= error
        else "Nothing here is faster than ordinary decoding for pictures within the noise of the quality: "
        f"the fastest, {called}, comes to {speed}."
    )


@pytest.mark.slow
def test_the_answer_for_text_is_what_the_rows_say(alone: list[Tradeoff]) -> None:
    lines = [json.loads(line) for line in gzip.decompress((FOLDER / "tally.jsonl.gz").read_bytes()).splitlines()]
    by_label: dict[str, dict[int, dict[str, float]]] = {}
    for row in lines:
        if "label" in row:
            by_label.setdefault(row["label"], {})[row["problem"]] = row
    label = "confidence, block 4, threshold 0.3"
    fast_row, baseline = by_label[label], by_label["ordinary"]
    cost = {name: {k: row["seconds"] / row["tokens"] for k, row in rows.items()} for name, rows in by_label.items()}
    faster = [cost["ordinary"][k] / cost[label][k] for k in fast_row]
    low, _, high = quantiles(faster, n=4)
    off = [100.0 * (fast_row[k]["correct"] - baseline[k]["correct"]) for k in fast_row]
    error = stdev(off) / len(off) ** 0.5
    assert answer(alone, "text", 0, 1) == (
        f"Use Block diffusion with {label} for text: {median(faster):.1f} × "
        f"({low:.1f} to {high:.1f}), quality within noise ({fmean(off):+.1f} ± {error:.1f} points), "
        "though not the model's own distribution."
    )
    exact = [one for one in alone if one.exact]
    assert answer(exact, "text", 0, 1).startswith("Use S2D2 with always, block ")
    drawn = next(one for one in alone if one.setting == "drawn: confidence, threshold 0.5")
    fast_row, baseline = by_label[drawn.setting], by_label["drawn: ordinary"]
    assert drawn.change == pytest.approx(
        fmean(100.0 * (fast_row[k]["correct"] - baseline[k]["correct"]) for k in fast_row)
    )


def test_continuous_tokens_are_graded_without_guidance_as_they_were_timed(alone: list[Tradeoff]) -> None:
    shares = {row["decoder"]: row["as_asked_percent"] for row in rows_of("patches") if row["guidance"] == 1}
    change = shares["CSpD whole paths"] - shares["target"]
    assert {one.change for one in alone if one.kind == "continuous"} == {change}


def test_the_answer_says_where_nothing_pays_what_is_lost_and_what_is_predicted(alone: list[Tradeoff]) -> None:
    small = [one for one in alone if one.kind == "continuous" and "drafter small" in one.setting]
    best = max(small, key=lambda one: one.speed)
    assert best.speed < 1
    assert answer(small, "continuous", 0, 1) == (
        "Nothing here is faster than ordinary decoding for continuous tokens within the noise of the quality: "
        f"the fastest, CSpD, whole paths (ours) with {best.setting}, "
        f"comes to {speed_in_words(best)}."
    )
    assert answer(alone, "continuous", 0, 1).startswith("Use CSpD, whole paths (ours) with gamma ")
    together = [one for one in measured_tradeoffs() if one.batch == 16]
    assert (
        answer(together, "video", 0, 16) == "Nothing was measured for videos under these conditions, in batches of 16."
    )
    lossy = Tradeoff(kind="text", method="lopa", setting="LoPA, k 3", speed=3.0, change=-9.0, error=1.0, predicted=True)
    assert answer([lossy], "text", 10, 1) == (
        "Use LoPA with k 3 for text: 3.0 × as predicted, quality lower by more than noise (-9.0 ± 1.0 points), "
        "though not the model's own distribution."
    )
    refused = answer([lossy], "text", 5, 1)
    assert refused.startswith("Nothing here is faster than ordinary decoding for text within a loss of 5 percentage")
    assert "quality not measured" in answer([replace(lossy, change=None, exact=True)], "text", 0, 1)


def test_nothing_exact_loses_more_than_chance() -> None:
    assert not any(one.exact and (one.change or 0) < -3 * (one.error or 0) for one in measured_tradeoffs())


def test_reported_numbers_stand_in_the_prose_with_their_table() -> None:
    prose = {entry["method"]: method_text(entry["method"]) for entry in json.loads(REPORTED.read_text("utf-8"))}
    prose["blockwise"] = method_text("s2d2")  # its paper's baseline
    prose["gsd"] = method_text("gsd")
    for entry in json.loads(REPORTED.read_text("utf-8")):
        numbers = entry.get("ratio") or [entry["speed"]]
        for number in numbers:
            assert re.search(rf"\b{re.escape(f'{number:g}')}0?\b", prose[entry["method"]]), entry
        assert re.search(r"arXiv \d{4}\.\d{5}, Table \d", entry["source"])
    assert all(one.reported and not one.exact for one in reported_tradeoffs())
    names = {one.name for one in reported_tradeoffs()}
    assert names.isdisjoint(prose) and {"SJD", "Block diffusion", "CSpD"} <= names


@pytest.mark.slow
def test_a_point_opens_the_recording_with_the_nearest_settings(alone: list[Tradeoff]) -> None:
    shipped = recordings()
    opened = {}
    for one in alone:
        entry = recording_of(one, shipped)
        opened[one.kind, one.method, one.setting] = entry and entry.paths[-1].name
    assert opened["picture", "scd", "GS-SJD, window 32"] == "scd-picture-gumbel.json.gz"
    assert opened["picture", "scd", "SJD, window 32"] == "scd-picture-none.json.gz"
    assert opened["video", "scd", "GS-SJD, window 32"] == "video-gumbel.json.gz"
    assert opened["text", "speculative", "drafts by look-up, gamma 4"] == "speculative-lookup.json.gz"
    assert opened["text", "s2d2", "S2D2, always, block 16"] == "tally-s2d2.json.gz"
    assert recording_of(replace(alone[0], method="unheard"), shipped) is None


@pytest.mark.parametrize("max_loss", [0.0, 3.0])
def test_the_figure_keeps_measured_and_reported_apart(alone: list[Tradeoff], max_loss: float) -> None:
    figure = tradeoffs_figure.draw(TradeoffView(measured=alone, reported=reported_tradeoffs(), max_loss=max_loss))
    for trace in figure.data:
        hollow = trace.name.endswith("reported")
        assert (trace.yaxis == "y2") == hollow
        if hollow:
            assert trace.marker.symbol.endswith("-open")
        else:  # a point can be pressed
            assert [alone[number].speed for number in trace.customdata] == list(trace.x)
            assert all(alone[number].kind == trace.name for number in trace.customdata)
    (band,) = [shape for shape in figure.layout.shapes if shape.type == "rect"]
    assert band.y0 == -max_loss
    labels = [text for trace in figure.data for text in trace.text or () if text]
    assert len(labels) == len(set(labels)) and 3 <= len(labels) <= 8


@pytest.fixture(scope="module")
def panel() -> CalculatorPanel:
    with gr.Blocks():
        return CalculatorPanel(Site(Visitors(), gr.State(CurrentTraces()), gr.Textbox("", visible=False)), recordings())


def test_the_calculator_answers_or_says_what_cannot_be_computed(panel: CalculatorPanel) -> None:
    visitor = gr.Request(session_hash="mine")
    form = {control: control.value for control in panel.inputs}
    shown = panel.draw(form, visitor)
    assert shown[panel.answer] == panel.answer.value
    assert shown[panel.details] == panel.details.value and shown[panel.reasons] == panel.reasons.value
    verdict = "# Yes: about 1.5 times, 1.3 to 1.8, at batch 1; memory ends at batch 365. *80% (70% to 90%) of drafts"
    assert shown[panel.answer] == f"{verdict} accepted, set by hand; it breaks even at 52%.*"
    assert (
        "Drafts cost nothing"
        in panel.draw({**form, panel.fields["draft"]: panel.fields["draft"].choices[0][0]}, visitor)[panel.details]
    )
    names = [name for name, _ in panel.source.choices]
    assert names == ["set by hand", *panel.recorded, *panel.measured] and panel.recorded
    assert {pair.target for pair in panel.measured.values()} == {"studio-image", "text-target", "patch-target"}
    for name, pair in panel.measured.items():
        (started,) = panel.starts.value[name].values()
        assert started["acceptance"] == pair.acceptance
        assert started["spread"] == pytest.approx(min(pair.spread, pair.acceptance), abs=0.01)
        assert (started["drafter"] == "lookup") is (pair.drafter == "lookup")
        plotted = calculator_figure.draw(Calculation(PLAN, RATE, pair)).select_traces(
            lambda trace: trace.name == "measured"
        )
        batches = (1, 8) if pair.target == "patch-target" else (1,)
        lengths = (*(length for length, batch in pair.speeds if batch == 1),)
        assert [(*trace.x,) for trace in plotted] == ([lengths, batches] if PLAN.drafts in lengths else [lengths])
    for name, found in panel.recorded.items():
        drawn = panel.draw({**form, panel.source: name}, visitor)
        assert f"*{found.rates[0]} of drafts accepted, {name}; " in drawn[panel.answer]
    methods = {row[0]: row[1:] for row in shown[panel.others]["rows"]}
    assert len(methods) == len(panel.methods) == 9
    assert methods["MC-SJD"][:3] == [
        "Yes: about 5.0 times, 2.8 to 7.2, at batch 1; no from batch 27 on.", "exact", "Lumina-mGPT 7B",
    ]  # fmt: skip
    assert methods["PSD (Confidence) of a tally"][1] == "lossy"
    figure = calculator_figure.draw(Calculation(PLAN, RATE))
    (star,) = figure.select_traces(lambda trace: trace.name == "fastest")
    assert (*star.x, *star.y) == (PLAN.with_best_draft_length().drafts, PLAN.with_best_draft_length().speed_up)
    band = next(shape for shape in figure.layout.shapes if shape.type == "rect")
    assert (band.x0, band.x1) == (RATE.low, RATE.high)
    drafts, ordinary = (
        next(trace for trace in figure.data if trace.name == name) for name in ("with drafts", "ordinary")
    )
    assert drafts.x[0] / ordinary.x[0] == pytest.approx(PLAN.speed_up) and ordinary.y[2] == 4 * ordinary.x[2]
    for control, value, problem in (
        (panel.fields["target"], "Llama 3", "target: there is no 'Llama 3'; did you mean"),
        (panel.fields["batch"], 500, "device: Llama 3.1 8B and Llama 3.2 1B"),
        (panel.fields["draft"], "7", "draft: 7 parameters are not allowed"),
        (panel.fields["batch"], None, "batch: is empty; give a number."),
        (panel.fields["context"], -5, "context: -5 is not allowed"),
        (panel.fields["batch"], 1.5, "batch: 1.5 is not allowed; give a whole number."),
        (panel.fields["target"], "", "target: is empty; choose a model"),
        (panel.fields["gpus"], 3, "gpus: 3 is not allowed; use 0, 1, 2, 4, 8."),
        (panel.fields["spread"], 2, "spread: 2 is not allowed; use 0 to 1."),
    ):
        refused = panel.draw({**form, panel.fields["gpus"]: 1, control: value}, visitor)
        assert refused[panel.problem]["text"].startswith(problem)
        assert "times" not in refused[panel.answer] and refused[panel.reasons] == refused[panel.rows] == {}
        assert refused[panel.details] == refused[panel.link] == ""
        assert not refused[panel.panel.plot]["visible"]
        tiles = {each["device"]: each["note"] for each in refused[panel.devices]["curves"]}
        # A device with more memory still has an answer; of numbers out of range nothing has.
        assert (
            tiles["H100"] == "too little memory" and any(each["speeds"] for each in refused[panel.devices]["curves"])
            if value == 500
            else not tiles
        ), value
    assert shown[panel.rows]["link"] and shown[panel.link] == "" and len(shown[panel.rows]["files"]) == 3
    changed = panel.draw({**form, panel.fields["drafts"]: 6, panel.fields["target"]: "7e9"}, visitor)
    address = parse_link("#" + changed[panel.link])
    assert address is not None and address.tab == "choose"
    opened = panel.opened(address.plan)
    fields = ("drafts", "target", "device", "gpus", "spread")
    assert [opened[panel.fields[field]] for field in fields] == [6, "7e9", "H100", 0, 0.1]
    (line,) = [row for row in changed[panel.rows]["rows"] if row[0] == "6"]
    assert f"about {float(line[-1]):.1f} times" in changed[panel.answer]


def test_a_model_brings_its_drafter_and_as_many_gpus_as_hold_it(panel: CalculatorPanel) -> None:
    visitor = gr.Request(session_hash="mine")
    form = {control: control.value for control in panel.inputs}
    for target, drafter, gpus in (
        ("Llama 3.3 70B", "Llama 3.2 1B", "on 2 H100"), ("Gemma 3 27B", "Gemma 3 1B", "on H100"),
        ("Qwen3 235B A22B", "Qwen3 1.7B", "on 8 H100"),
    ):  # fmt: skip
        assert MODELS[target].drafter == drafter
        chosen = panel.draw({**form, panel.fields["target"]: target, panel.fields["draft"]: drafter}, visitor)
        assert f"{target}, drafts by {drafter}, {gpus}:" in chosen[panel.details]
    assert "Its 4 tokens touch 29 of 128 experts in a layer, ordinary decoding's 8." in chosen[panel.details]
    small = panel.draw({**form, panel.fields["target"]: "Llama 3.3 70B", panel.fields["weights"]: 4}, visitor)
    assert "Llama 3.3 70B in 4 bits, drafts by Llama 3.2 1B in 4 bits, on H100:" in small[panel.details]


def test_an_opened_file_gives_the_acceptance_by_kind_of_prompt(panel: CalculatorPanel) -> None:
    visitor = gr.Request(session_hash="mine")
    form = {control: control.value for control in panel.inputs}
    opened = panel.open({**form, panel.upload: json.dumps(bench_file()).encode()})
    source, found = opened[panel.source]["value"], opened[panel.opened_file]
    assert source == "opened: bench of mine, eager" and source in opened[panel.source]["choices"]
    assert opened[panel.kind]["choices"] == ["all prompts", "code", "story"] == [*opened[panel.starts][source]]
    now = {**form, panel.source: source, panel.opened_file: found}
    drawn = panel.draw(now, visitor)
    assert f"({found[0].rates[0].low:.0%} to" in drawn[panel.answer] and f"accepted, {source};" in drawn[panel.answer]
    assert "By kind of prompt: code " in drawn[panel.details]
    start = opened[panel.starts][source]
    assert start["code"]["acceptance"] == round(found[0].rates[1].rate, 4) > start["all prompts"]["acceptance"]
    code = panel.draw({**now, panel.kind: "code"}, visitor)
    assert f"{found[0].rates[1]} of drafts accepted, {source}, code;" in code[panel.answer]
    refused = panel.open({**form, panel.upload: b"PK"})
    assert [*refused] == [panel.file_notice, panel.upload]
    assert "is of no known form; give a result of" in refused[panel.file_notice]["text"]


def bench_file() -> dict[str, Any]:
    """A result of `draftscope bench` with two kinds of prompts."""
    shared = {
        "method": "speculative",
        "config": {"gamma": 2},
        "correct": True,
        "forwards_by_mode": {},
        "row_forwards": 9,
    }
    shared |= {"forwards": 9, "query_tokens": 30, "tokens": 20, "seconds": 1.0, "model": "mine", "label": "eager"}
    counts = [(40, 38, 36), (40, 39, 35), (40, 20, 11), (40, 22, 9)]
    rows = [
        {
            **shared,
            "problem": at,
            "verifications": first,
            "judged_by_place": [first, one],
            "accepted_by_place": [one, two],
        }
        for at, (first, one, two) in enumerate(counts)
    ]
    kinds = {"0": "code", "1": "code", "2": "story", "3": "story"}
    return {"title": "draftscope bench", "rows": rows, "categories": kinds}


def test_every_device_has_a_curve_with_its_optimum_and_its_crossing_of_one(panel: CalculatorPanel) -> None:
    curves = {each.device: each for each in device_curves(PLAN)}
    assert [*curves] == [*DEVICES]
    assert not curves["T4"].speeds  # its memory does not hold both networks
    for name, each in curves.items():
        plan = replace(PLAN, device=DEVICES[name]) if each.speeds else PLAN
        best, last = plan.with_best_draft_length(), each.pays_to
        if each.speeds:
            assert (each.best, each.speeds[each.best]) == (best.drafts, best.speed_up)
            assert replace(plan, drafts=last).speed_up >= 1 > replace(plan, drafts=last + 1).speed_up
    curve_notes = {each["device"]: (each["fastest"], each["note"]) for each in panel.devices.value["curves"]}
    assert curve_notes["T4"] == ("", "too little memory") and curve_notes["H100"] == ("1.5× at γ 3", "slower from γ 13")
    never = curves_of(replace(PLAN, acceptance=0.0))
    assert {each["note"] for each in never["curves"]} == {"too little memory", "never faster"}
    always = curves_of(replace(PLAN, acceptance=1.0, draft=None))
    assert {each["note"] for each in always["curves"]} >= {"never slower"}
    figure = calculator_figure.draw(Calculation(PLAN, RATE))
    assert {trace.name for trace in figure.data} >= {*DEVICES} - {"H100", "T4"}


def test_a_device_is_chosen_by_its_curve(browser: Browser, server: str) -> None:
    with visit(browser, f"{server}/#tab=choose", console=True) as page:
        answer, curves = page.locator("#calculator-answer"), page.get_by_role("group", name="Computed speed-up")
        expect(curves.get_by_role("radio")).to_have_count(len(DEVICES))
        expect(curves.get_by_role("radio", name="H100")).to_be_checked()
        expect(curves.get_by_role("radio", name="T4")).to_be_disabled()
        curves.locator("label", has_text="L4").click()
        expect(answer).to_contain_text("1.9 times")
        expect(page.get_by_label("Device", exact=True)).to_have_value("L4")
        expect(page.locator("#calculator-plot .gtitle-subtitle")).to_contain_text("L4")
        page.keyboard.press("ArrowRight")
        expect(page.get_by_label("Device", exact=True)).to_have_value("RTX 3090")
        expect(curves.get_by_role("radio", name="RTX 3090")).to_be_focused()
        expect(page.locator("#calculator-plot .gtitle-subtitle")).to_contain_text("RTX 3090")
        page.wait_for_function("/plan.device=RTX(_|[+]|%20)3090/.test(location.hash)")


@pytest.mark.nightly
def test_an_answer_that_is_late_takes_no_newer_choice_back(browser: Browser, server: str) -> None:
    with visit(browser, f"{server}/#tab=choose") as page:
        curves, subtitle = page.locator("#calculator-devices"), page.locator("#calculator-plot .gtitle-subtitle")
        device, routes = page.get_by_label("Device", exact=True), list[Route]()
        expect(subtitle).to_contain_text("H100")
        page.route(_QUEUE, lambda route: routes.append(route))
        curves.get_by_role("radio", name="H100").focus()
        with page.expect_request(_QUEUE):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        chosen = curves.get_by_role("radio", name="M3 Max")
        expect(device).to_have_value("M3 Max")
        with page.expect_request(_QUEUE):
            routes.pop().continue_()
        expect(subtitle).to_contain_text("H200")  # the answer to the first key
        expect(chosen).to_be_checked()
        expect(chosen).to_be_focused()
        expect(device).to_have_value("M3 Max")
        choose(page, page.get_by_label("Your model", exact=True), "Gemma 3 27B")
        page.get_by_label("Context").fill("4096")
        expect(page.get_by_role("option")).to_have_count(0)
        choose(page, page.get_by_label("Drafter", exact=True), "Gemma 3 4B")
        with page.expect_request(_QUEUE):
            routes.pop().continue_()
        expect(subtitle).to_contain_text("Llama 3.1 8B, drafts by Llama 3.2 1B, 1 M3 Max")
        expect(page.get_by_label("Drafter", exact=True)).to_have_value("Gemma 3 4B")
        routes.pop().continue_()
        expect(subtitle).to_contain_text("Gemma 3 27B, drafts by Gemma 3 4B, 1 M3 Max")
        expect(subtitle).to_contain_text("context 4096")


@pytest.mark.nightly
def test_measurements_are_of_the_kind_pressed_last(browser: Browser, server: str) -> None:
    with visit(browser, f"{server}/#tab=choose") as page:
        kinds, answers, routes = page.locator("#choose-kind"), page.locator("#choose-answer p"), list[Route]()
        expect(answers).to_have_count(4)
        page.route(_QUEUE, lambda route: routes.append(route))
        with page.expect_request(_QUEUE):
            kinds.get_by_role("radio", name="Pictures").check()
        text = kinds.get_by_role("radio", name="Text", exact=True)
        text.check()
        with page.expect_request(_QUEUE):
            routes.pop().continue_()
        expect(answers).to_contain_text("for pictures")
        expect(text).to_be_checked()
        routes.pop().continue_()
        expect(answers).to_contain_text("for text")
        expect(text).to_be_checked()


def test_verdict_and_break_even_stand_in_the_first_screen(browser: Browser, server: str) -> None:
    with visit(browser, f"{server}/#tab=choose") as page:
        reasons = page.locator("#calculator-reasons figure")
        rate, batch = reasons.first, reasons.last
        for width, height in ((1440, 900), (1280, 720), (390, 844)):
            page.set_viewport_size({"width": width, "height": height})
            for part in (
                page.locator("#calculator-answer"),
                rate,
                rate.get_by_role("img", name="1.5× with 80% of drafts accepted; breaks even at 52%."),
                rate.get_by_text("breaks even at 52%", exact=True),
                batch.get_by_text("memory ends at batch 365", exact=True),
                *([page.get_by_label("Your model", exact=True)] if width > 500 else []),
            ):
                expect(part).to_be_in_viewport(ratio=1)
            assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.nightly
def test_a_source_fills_the_form_until_a_hand_changes_it(browser: Browser, server: str) -> None:
    with visit(browser, f"{server}/#tab=choose", console=True) as page:
        answer, source = page.locator("#calculator-answer"), page.get_by_label("Acceptance", exact=True)
        rate, draft = page.get_by_label("number input for Drafts accepted"), page.get_by_label("Drafter", exact=True)
        upload, notice = page.locator("#acceptance-upload input"), page.locator("#acceptance-notice .notice")
        source.click()
        page.keyboard.press("Escape")
        expect(page.get_by_role("option")).to_have_count(0)
        source.click()  # opens it again
        page.get_by_role("option", name="measured here: text-target by lookup", exact=True).click()
        expect(draft).to_have_value(NO_DRAFTER)
        expect(rate).not_to_have_value("0.8")
        rate.fill("0.5")
        expect(source).to_have_value("set by hand")
        expect(answer).to_contain_text("50% (")
        kinds = page.locator("#prompt-kind")
        expect(kinds).to_be_hidden()
        content = json.dumps(bench_file()).encode()
        upload.set_input_files({"name": "bench.json", "mimeType": "application/json", "buffer": content})
        expect(source).to_have_value("opened: bench of mine, eager")
        expect(answer).to_contain_text("75% (36% to 100%) of drafts accepted, opened: bench of mine, eager")
        expect(notice).to_have_text("Opened: bench of mine, eager, 75% (36% to 100%) of drafts accepted.")
        kinds.get_by_role("radio", name="code").check()
        expect(answer).to_contain_text("of drafts accepted, opened: bench of mine, eager, code;")
        for name, content, problem in (
            ("empty.json", b"\n", "is empty"),
            ("wrong.log", b"\x89PNG", "is of no known form"),
        ):
            upload.set_input_files({"name": name, "mimeType": "text/plain", "buffer": content})
            expect(notice).to_contain_text(f"Invalid file file: {problem}; give a result of draftscope bench")
            expect(notice).to_be_in_viewport(ratio=1)
            expect(source).to_have_value("opened: bench of mine, eager")
        expect(answer).to_contain_text("opened: bench of mine, eager, code;")
        rate.fill("0.6")
        expect(kinds).to_be_hidden()
        expect(answer).to_contain_text("of drafts accepted, set by hand;")


def test_another_draft_length_takes_half_a_million_calls(panel: CalculatorPanel) -> None:
    form, visitor = {control: control.value for control in panel.inputs}, gr.Request(session_hash="mine")
    panel.draw(form, visitor)
    with Profile() as profile:
        panel.draw({**form, panel.fields["drafts"]: 5}, visitor)
    assert (
        sum(entry.callcount for entry in profile.getstats()) < 550_000
    )  # about a sixth of a second, nearly all of it plotly's


def test_reported_points_stand_in_the_curve_where_target_device_and_batch_are_theirs() -> None:
    near = replace(PLAN, target=SIZES["Lumina-mGPT 7B"], device=DEVICES["A100 80GB"], draft=None)
    points = reported_near(near)
    assert {(one.window, round(one.speed, 2)) for one in points} >= {(16, 3.12), (32, 3.81), (64, 4.18)}
    (drawn,) = calculator_figure.draw(Calculation(near, RATE, None, points)).select_traces(
        lambda trace: trace.name == "reported"
    )
    assert {*drawn.x} == {15, 31, 63} and "Table 1" in drawn.text[0]
    for far in ({"batch": 8}, {"device": DEVICES["H100"]}, {"target": SIZES["Cosmos 4B"]}, {"draft": PLAN.draft}):
        assert reported_near(replace(near, **far)) == ()


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        ({"devise": "H100"}, "plan: there is no field 'devise'; use target, draft"),
        ({"device": "H20O"}, "device: there is no 'H20O'; did you mean 'H200'"),
        ({"drafts": "nan"}, "drafts: -1 is not allowed; use 1 to 128"),
        ({"batch": "many"}, "batch: 'many' is not a number; give a number"),
    ],
)
def test_an_address_without_a_calculation_is_told(plan: dict[str, str], problem: str, panel: CalculatorPanel) -> None:
    with pytest.raises(ConfigError) as caught:
        panel.opened(plan)
    assert str(caught.value).startswith(problem)
