"""The page in a real browser."""

import csv
import gzip
import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from support.browser import SNAPSHOT, accessible, choose, choose_raster, downloaded, press_once, still
from support.results import sweep

from benchmarks.app import LISTEN
from draftscope.engines.models.catalog import MODELS
from draftscope.traces import read
from draftscope.visualizers import FIGURES


def steps(page: Page) -> list[list[int]]:
    return [[lane["steps"], lane["finals"]] for lane in page.evaluate(SNAPSHOT)["lanes"]]


def take_over(page: Page) -> None:
    """Stop the recording that plays by itself, at its last pass."""
    page.locator("#viewer").get_by_role("button", name="Last", exact=True).click()


def settled(page: Page) -> None:
    expect(page.locator("#stop")).to_be_hidden()
    expect(page.locator("#run")).to_be_enabled()


def test_a_run_arrives_pass_by_pass_and_can_be_taken_away_and_opened_again(page: Page, tmp_path: Path) -> None:
    page.locator(".settings > button").first.click()
    choose(page, page.get_by_label("Model"), MODELS["studio-image"].label)  # takes seconds: all passes are heard of
    expect(page.get_by_label("Prompt", exact=True)).to_have_value(MODELS["studio-image"].default_prompt)
    page.evaluate(LISTEN)
    page.locator("#run").click()
    page.wait_for_function(f"delivered.length && {SNAPSHOT}.lanes.map(({{ finals }}) => finals).join() === '144,144'")
    settled(page)
    expect(page.locator("#outcome")).to_contain_text("Forward passes (NFE)")
    coupled = steps(page)[1][0]
    assert sorted(still(page, "delivered")) == [[0, k] for k in range(144)] + [[1, k] for k in range(coupled)]

    page.locator("#trace > button").click()
    saved = tmp_path / "saved.json.gz"
    downloaded(page, page.get_by_role("button", name="Download trace"), saved)
    trace = read(saved)
    assert (trace.method, trace.summary.forwards) == ("scd", coupled)
    page.locator("#upload input[type=file]").set_input_files(saved)
    expect(page.locator("#upload-problem")).to_contain_text(
        f"MC-SJD on {MODELS['studio-image'].label}, {coupled} forward passes"
    )
    expect(page.get_by_text("It comes from the file you opened")).to_be_visible()
    page.wait_for_function(f"{SNAPSHOT}.lanes.length === 1 && {SNAPSHOT}.lanes[0].finals === 144")  # on the stage


def test_a_preset_moves_the_controls_and_a_moved_control_makes_it_custom(page: Page) -> None:
    page.locator(".settings > button").first.click()
    choose(page, page.get_by_label("Method"), "S2D2")
    preset, router = (page.get_by_label(label, exact=True).locator("visible=true") for label in ("Preset", "Router"))
    expect(router).to_be_visible()
    expect(preset).to_have_value("Custom")  # texts open in blocks of 32, not of the default's 8
    choose(page, preset, "SDAR-8B A")
    expect(router).to_have_value("score")
    tokens = page.get_by_label("Tokens", exact=True).locator("visible=true")
    expect(tokens).to_have_value("sample")
    expect(preset).to_have_value("SDAR-8B A")
    choose(page, router, "bandit")
    expect(preset).to_have_value("Custom")
    expect(tokens).to_have_value("sample")
    choose(page, preset, "Defaults")
    expect(router).to_have_value("always")
    expect(tokens).to_have_value("greedy")
    expect(preset).to_have_value("Defaults")


def test_stop_ends_the_decoding_within_a_pass_and_keeps_what_there_is(page: Page) -> None:
    page.locator(".settings > button").first.click()
    page.get_by_label("Model").click()
    page.get_by_role("option", name=MODELS["studio-video"].label, exact=True).click()  # takes seconds
    expect(page.get_by_label("Prompt", exact=True)).to_have_value(MODELS["studio-video"].default_prompt)
    page.locator("#run").click()
    # In one go: the run could end between seeing the first step and pressing the button.
    begun = f"{SNAPSHOT}.lanes[0]?.steps > 0 && {SNAPSHOT}.lanes[0].tokens.length === 1008"
    page.wait_for_function(f"{begun} && (document.getElementById('stop').click(), true)")
    settled(page)
    expect(page.locator("#problem")).to_contain_text("Stopped.")
    assert 0 < still(page, f"{SNAPSHOT}.lanes[0].steps") < 1008


def test_a_bad_prompt_is_answered_and_loses_nothing_and_the_keyboard_reaches_the_form(page: Page) -> None:
    take_over(page)
    before = steps(page)
    prompt = page.get_by_label("Prompt", exact=True)
    expect(prompt).to_be_disabled()  # the race is of a model without prompts, and so is the form
    page.locator(".settings > button").first.click()
    page.get_by_label("Model").click()
    page.get_by_role("option", name=MODELS["studio-image"].label, exact=True).click()
    expect(prompt).to_have_value(MODELS["studio-image"].default_prompt)
    prompt.fill("<img src=x onerror=alert(1)> boot")
    page.locator("#run").click()
    expect(page.locator("#problem [role=alert]")).to_be_visible()
    expect(page.locator("#run")).to_be_enabled()
    expect(prompt).to_have_value("<img src=x onerror=alert(1)> boot")
    assert steps(page) == before
    assert page.locator("#problem img").count() == 0
    prompt.focus()
    page.keyboard.press("Tab")
    expect(page.locator("#run")).to_be_focused()
    assert re.search("solid", page.evaluate("getComputedStyle(document.activeElement).outlineStyle"))


@pytest.mark.nightly
def test_the_figures_speak_of_the_recording_at_hand(page: Page, tmp_path: Path) -> None:
    page.get_by_role("tab", name="Compare", exact=True).click()
    page.get_by_role("tab", name="Figures").click()
    expect(page.locator("#compared-plot .js-plotly-plot")).to_be_visible()
    page.get_by_label("The race to the last token").check()
    expect(page.locator("#compared-plot")).to_contain_text("The race to the last token")
    expect(page.get_by_text(FIGURES["race"].caption[:40])).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})  # the phone is turned
    expect(page.locator("#compared-plot")).not_to_contain_text("The race to the last token")
    expect(page.locator("#compared-plot .js-plotly-plot")).to_be_visible()
    page.wait_for_function("document.documentElement.scrollWidth <= 390")
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(page.locator("#compared-plot")).to_contain_text("The race to the last token")
    page.get_by_role("button", name="Export PDF").first.click()
    downloaded(page, page.locator("a[download='race.pdf']"), tmp_path / "race.pdf")
    assert (tmp_path / "race.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.nightly
def test_the_runs_at_hand_can_be_taken_away_in_motion(page: Page, library: Path, tmp_path: Path) -> None:
    page.locator("#trace > button").click()
    page.locator("#upload input[type=file]").set_input_files(library / "scd.json.gz")  # alone has a third of the frames
    page.wait_for_function(f"{SNAPSHOT}.lanes.length === 1")
    ((passes, _),) = steps(page)
    page.locator("#watch-moving-gif").click()
    expect(page.locator("#watch-moving-progress")).to_contain_text(f"of {passes + 1} is drawn")
    link = page.locator("#watch-moving-file a[download$='.gif']")
    assert downloaded(page, link, tmp_path / "race.gif") == "scd-seed-0.gif"
    with Image.open(tmp_path / "race.gif") as image:
        assert (image.width, image.n_frames) == (720, passes + 1)
    expect(page.locator("#watch-moving-progress [role]")).to_have_count(0)


def test_an_experiment_draws_its_figure_and_can_be_stopped(page: Page) -> None:
    choose_raster(page)
    page.get_by_role("tab", name="Compare", exact=True).click()
    page.get_by_role("tab", name="Experiments").click()  # it begins by itself
    for _ in range(5):
        with suppress(PlaywrightTimeout):
            press_once(page, "#stop-experiment", within="#experiment-plot .js-plotly-plot", timeout=12_000)
            break
        page.locator("#run-experiment").click()  # it finished before its first figure appeared
    expect(page.locator("#run-experiment")).to_be_enabled()
    expect(page.locator("#experiment-plot .js-plotly-plot")).to_be_visible()


@pytest.mark.nightly
def test_ratios_are_compared_live_and_the_drawing_can_be_stopped(page: Page) -> None:
    page.get_by_role("tab", name="Learn").click()
    page.get_by_role("tab", name="Bias of published variants").click()  # it begins by itself
    plot, steps = page.locator("#bias-plot .js-plotly-plot"), page.get_by_label("number input for Denoising steps")
    expect(plot).to_contain_text("6 steps")
    steps.fill("20")  # takes seconds
    steps.press("Tab")
    page.locator("#run-bias").click()
    press_once(page, "#stop-bias")
    expect(page.locator("#bias-progress")).to_contain_text("Stopped.")
    expect(plot).to_contain_text("6 steps")
    page.get_by_label("number input for Draft's variances").fill("1")
    page.get_by_label("number input for Draft's shift").fill("0")
    steps.fill("2")
    steps.press("Tab")
    page.locator("#run-bias").click()
    expect(plot).to_contain_text("variances 1 times the true ones, means 0 to the right, 2 steps")
    rows = page.locator("#bias-table tbody tr")
    expect(rows).to_have_count(6)
    for row, name in zip(rows.all()[1:5], ("exact", "paper", "release", "distance-only"), strict=True):
        expect(row).to_contain_text(name)
        expect(row).to_contain_text("100.0 %")
    accessible(page, 1280, 390)


@pytest.mark.nightly
def test_results_and_timings_are_opened_drawn_and_taken_away(page: Page, tmp_path: Path) -> None:
    page.get_by_role("tab", name="Choose").click()
    page.locator("#results > button").click()
    upload = page.locator("#results-upload input[type=file]")
    rows = sweep(4)
    sound = tmp_path / "sound.jsonl.gz"
    sound.write_bytes(gzip.compress("".join(json.dumps(one | {"device": "here"}) + "\n" for one in rows).encode()))
    plot = page.locator("#results-plot .js-plotly-plot")
    expect(plot).to_be_visible()  # the results that ship, which would come after the file's
    upload.set_input_files(sound)
    expect(page.locator("#results-problem")).to_be_hidden()
    expect(page.locator("#results-table tbody tr")).to_have_count(13)
    expect(page.get_by_text("here", exact=True)).to_be_visible()

    page.get_by_label("Speed", exact=True).click()
    page.get_by_role("option", name="Speed-up in time").click()
    expect(plot).to_contain_text("speed-up against AR")  # block size 1 is found
    page.get_by_label("Accuracy and speed by one setting").check()
    expect(plot).to_contain_text("Accuracy and speed by one setting")
    page.get_by_label("dynamic", exact=True).uncheck()
    expect(page.locator("#results-table tbody tr")).to_have_count(9)
    downloaded(page, page.locator("#results-table a[download$=csv]"), tmp_path / "results.csv")
    lines = list(csv.DictReader((tmp_path / "results.csv").read_text().splitlines()))
    assert {line["method"] for line in lines} == {"ar", "s2d2"} and float(lines[0]["speed-up-time"]) == 1

    page.get_by_role("tab", name="Learn").click()
    page.get_by_role("tab", name="What drafting gains").click()
    plot = page.locator("#timings-plot .js-plotly-plot")
    expect(plot).to_contain_text("SJD, video")  # of what ships
    upload, file = page.locator("#timings-upload input[type=file]"), tmp_path / "own.json"
    timing = {"gamma": 3, "batch": 7, "tokens_per_verification": 2.5, "tokens_expected": 2.75}
    timing |= {f"faster_{name}": 1.25 for name in ("median", "low_quartile", "high_quartile")}
    timing |= {f"share_{name}": 0.25 for name in ("draft", "target", "head", "deciding")}
    file.write_text(json.dumps({"title": "<b>Mine</b>", "rows": [timing]}))
    upload.set_input_files(file)
    expect(page.locator("#timings-table tbody tr")).to_have_text(["371.252.502.75"])
    expect(page.locator("#timings-problem")).to_be_hidden()
    page.get_by_label("Where the time of drafting goes").check()
    expect(plot).to_contain_text("<b>Mine</b>")
    accessible(page, 1280, 390)
