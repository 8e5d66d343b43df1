"""The workbench in a real browser, from two runs to a zip for a paper; and addresses that are opened."""

import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect
from support.broken_engines import SpeculativeEngine
from support.browser import accessible, answered_late, downloaded, press_once, visit
from support.fake_server import fake_server

import draftscope as ds
from benchmarks._toy_runs import decode_toy_raster
from draftscope.analysis.filters import FILTERS, entries, matches
from draftscope.traces import read, write

OWN = "#method=scd&model=toy-raster&seed=5&set.window=8&step=7"
SEEN = "globalThis.draftscopePlayers?.viewer?.snapshot()"
COMPARED = "globalThis.draftscopePlayers?.['compare-viewer']?.snapshot()"
NUM_TICKS_DURING_REDRAW = """async () => {
  const open = name => [...document.querySelectorAll('[role=tab]')].find(tab => tab.innerText.trim() === name).click();
  const ticks = () => tray.querySelectorAll('input:checked').length;
  const seen = [];
  open('Watch');
  open('Compare');
  tray.querySelector('tr:not(.own) input').click();
  new MutationObserver(() => seen.push(ticks())).observe(tray, { childList: true, subtree: true });
  for (const until = Date.now() + 60000; Date.now() < until; await new Promise(requestAnimationFrame))
    if (draftscopePlayers['compare-viewer'].snapshot().lanes.length === 3) return Math.min(...seen);
  return 'the tick is lost';
}"""

SIX = ("ordinary", "psd", "simsd", "s2d2", "confidence", "lopa")
CUT = """() => [...document.querySelectorAll(
  '.ticked .chip, #compare-buttons > button, #compare-viewer :is(.ds-controls > *, .ds-outcome, .ds-cells)')]
  .map((part) => [part, part.closest('.ds-lane, .ds-controls, #compare-bar').getBoundingClientRect().right + 1])
  .filter(([part, end]) => part.checkVisibility() &&
    (part.scrollWidth > part.clientWidth + 1 || part.getBoundingClientRect().right > end))
  .map(([part]) => `${part.className}: ${part.innerText}`)"""
"""Parts that are wider than their boxes, and would be cut."""


@pytest.mark.nightly
def test_two_settings_of_a_method_are_ticked_played_drawn_and_taken_away(page: Page, tmp_path: Path) -> None:
    page.get_by_role("tab", name="Compare", exact=True).click()
    page.wait_for_function(f"{COMPARED}?.lanes.length === 2")  # before anything was ticked
    rows = page.locator("#tray-costs tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("Ordinary decoding (baseline)")
    expect(page.locator("#tray-costs")).to_contain_text("Baseline: ordinary decoding.")
    expect(page.locator("#bench .list")).to_be_in_viewport(ratio=1)  # all of the workbench is on one screen
    for names in (".heats strong", ".churns small"):  # as on the stage, with the compared run first
        expect(page.locator(f"#bench {names}").last).to_contain_text("Ordinary decoding")
    expect(page.locator("#tray-costs .scroller")).to_have_css("background-attachment", "local, scroll")  # cut columns
    other = tmp_path / "other.json.gz"
    write(decode_toy_raster("scd", window=8), other)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Open traces").click()
    chooser.value.set_files(other)
    page.wait_for_function(f"{COMPARED}?.lanes.length === 3")
    for lane in page.locator("#compare-viewer .ds-lane").all():  # three runs share the screen
        expect(lane).to_be_in_viewport(ratio=1)
    expect(page.locator("#compare-viewer .ds-say")).to_contain_text("3 runs on one clock.")  # not a pair's verdict
    page.locator("#tray details summary").click()
    for name, count in (("Ordinary decoding", 1), ("MC-SJD", 2)):
        expect(page.locator("#tray label").filter(has_text=name)).to_have_count(count)
    page.locator("#tray tr:not(.own) input").first.uncheck()
    page.wait_for_function(f"{COMPARED}?.lanes.length === 2")
    assert page.evaluate(NUM_TICKS_DURING_REDRAW) == 3  # an earlier answer takes no tick back
    page.wait_for_function(f"{COMPARED}.lanes.map(({{ finals }}) => finals).join() === '256,256,256'")
    verdict = page.locator("#compare-viewer .ds-lead", has_text="as ordinary decoding")
    expect(verdict).to_have_count(2)  # regardless of the order of selection
    page.locator("#compare-viewer .ds-slider").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert [lane["steps"] for lane in page.evaluate(COMPARED)["lanes"]] == [1, 1, 1]  # one clock
    expect(page.locator("#tray-costs tbody tr")).to_have_count(3)

    page.get_by_role("tab", name="Figures").click()
    plot = page.locator("#compared-plot .js-plotly-plot")
    expect(plot).to_be_visible()
    page.get_by_label("Acceptance heat map").check()
    expect(plot).to_contain_text("when it was verified last")  # the whole run
    page.get_by_label("One pass", exact=True).check()
    expect(plot).to_contain_text("in forward pass")
    page.get_by_label("number input for After forward pass").last.fill("0")
    page.get_by_label("number input for After forward pass").last.press("Tab")
    expect(plot).to_contain_text("in forward pass 0")
    link, saved = page.locator("#compared-zip"), tmp_path / "saved.zip"
    assert downloaded(page, link, saved) == "ar-scd-acceptance-seed0.zip"  # nothing more to press
    names = {name.partition("/")[2] for name in zipfile.ZipFile(saved).namelist()}
    assert {f"ar-scd-acceptance-seed0.{kind}" for kind in ("pdf", "svg", "png", "csv")} <= names
    page.locator("#compared-name label", has_text="Token churn").click()
    churn = page.get_by_label("Token churn: the outcome of every draft, pass by pass")
    expect(churn).to_be_checked()
    page.locator("#tray .own input").focus()
    page.keyboard.press("Delete")
    expect(page.locator("#tray .own")).to_have_count(0)
    page.wait_for_function(f"{COMPARED}.lanes.length === 2")
    page.get_by_role("tab", name="Grid: prompts by settings").click()
    expect(page.locator("#grid-plan")).to_contain_text("1 seed × 2 settings: 2 runs")
    page.get_by_label("number input for Seeds for each prompt").fill("2")
    page.get_by_label("number input for Seeds for each prompt").press("Tab")
    expect(page.locator("#grid-plan")).to_contain_text("2 seeds × 2 settings: 4 runs")
    page.wait_for_function("location.hash.startsWith('#tab=compare&compare=') && location.hash.endsWith('&seeds=2')")
    page.locator("#grid-run").click()
    expect(page.locator("#grid img")).to_have_count(4)  # one by one
    expect(page.locator("#grid-zip")).to_be_visible()
    page.locator("#grid button").last.click()
    expect(page.get_by_role("tab", name="Workbench", exact=True)).to_have_attribute("aria-selected", "true")
    page.wait_for_function(f"{COMPARED}.lanes.length === 2")
    expect(page.locator("#tray .own small", has_text="seed 1:")).to_have_count(2)  # the row of the second seed
    page.get_by_role("tab", name="Grid: prompts by settings").click()
    accessible(page, 1280, 390)


def test_a_selection_in_one_panel_is_one_in_all_and_filters_pick_what_python_picks(page: Page, library: Path) -> None:
    traces = [read(library / f"{name}.json.gz") for name in ("ar", "scd")]
    page.get_by_role("tab", name="Compare", exact=True).click()
    page.wait_for_function(f"{COMPARED}?.lanes.length === 2")
    bench, here = page.locator("#bench"), page.locator("#bench tbody tr[aria-current]")
    offered = bench.get_by_label("Filter", exact=True)
    names = offered.locator("option").evaluate_all("options => options.map(({ value }) => value).filter(Boolean)")
    assert {"sure", "close", "old", "slow", "long", "none"} <= set(names)
    for question in (one for one in FILTERS if one.name in names):
        offered.select_option(question.name)
        count = sum(len(matches(trace, question)) for trace in traces)
        expect(bench.locator(".list h2")).to_contain_text(re.compile(rf"^{count} (pass|verdict)"))

    offered.select_option("long")  # a pass in the list moves the player
    row = bench.locator("tbody tr").nth(2)
    number = int(row.locator("button").inner_text())
    row.locator("button").click()
    page.wait_for_function(f"{COMPARED}.lanes[1].steps === {number}")
    expect(here).to_have_count(1)

    offered.select_option("close")  # so does a verdict, with its position
    bench.get_by_role("button", name="Next match").click()
    match = matches(traces[1], next(one for one in FILTERS if one.name == "close"))[0]
    page.wait_for_function(f"{COMPARED}.position === {match[1]} && {COMPARED}.lanes[1].steps === {match[0] + 1}")
    expect(bench.locator(".said")).to_contain_text(f"1 of {bench.locator('tbody tr').count()}: row, column")

    picture = bench.locator(".picture").last  # a cell of the picture, and the keyboard from there
    box = picture.bounding_box()
    assert box
    side = min(box["width"], box["height"]) / 16
    picture.click(position={"x": 2.5 * side, "y": 4.5 * side})
    page.wait_for_function(f"{COMPARED}.position === {4 * 16 + 2}")
    picture.press("ArrowRight")
    page.wait_for_function(f"{COMPARED}.position === {4 * 16 + 3}")

    page.evaluate("draftscopePlayers['compare-viewer'].showPosition(1, 7)")  # and the player marks the list
    offered.select_option("")
    expect(here.locator("td:nth-child(2)").first).to_have_text("8")
    bench.locator("svg .point").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")  # a point of the curve lists its verdicts
    age = [one.numbers["age"] for one in entries(traces[1]) if one.numbers]
    expect(bench.locator(".list h2")).to_contain_text(f"{age.count(2)} verdict")


def test_runs_are_sorted_filtered_kept_as_a_project_and_carried_as_a_file(page: Page, tmp_path: Path) -> None:
    page.get_by_role("tab", name="Compare", exact=True).click()
    page.wait_for_function(f"{COMPARED}?.lanes.length === 2")
    other = tmp_path / "other.json.gz"
    trace = decode_toy_raster("scd", window=8)
    write(replace(trace, model=replace(trace.model, id="elsewhere/model")), other)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Open traces").click()
    chooser.value.set_files(other)
    page.wait_for_function(f"{COMPARED}?.lanes.length === 3")
    tray = page.locator("#tray")
    tray.locator("summary").click()
    tray.get_by_role("button", name="Passes per token").click()
    values = tray.locator("td.passes").all_inner_texts()
    assert values == sorted(values, key=float) and len(values) == 3
    expect(tray.locator("td.ratio", has_text="×")).to_have_count(1)
    tray.get_by_label("Filter runs").fill("ordinary")
    expect(tray.locator("tbody tr")).to_have_count(1)
    tray.get_by_label("Filter runs").fill("")
    projects = "JSON.parse(localStorage['draftscope.projects'] ?? '{}').projects"
    page.wait_for_function(f"{projects}?.Untitled?.runs.length === 3")
    tray.get_by_role("button", name="Rename").click()
    tray.get_by_label("Name of the project").fill("Paper")
    page.keyboard.press("Enter")
    page.wait_for_function(f"{projects}.Paper && !{projects}.Untitled")
    with page.expect_download() as download:
        tray.get_by_role("button", name="Export", exact=True).click()
    download.value.save_as(tmp_path / "Paper.json")

    page.goto("about:blank")
    page.go_back()  # as after a reload: the trace that was opened is there without its file
    page.wait_for_function(f"{COMPARED}?.lanes.length === 3")
    expect(tray.locator(".chip")).to_have_count(3)
    tray.locator("summary").click()
    tray.get_by_role("button", name="New").click()
    expect(tray.locator(".own")).to_have_count(0)
    project = tray.get_by_label("Project file")
    (tmp_path / "wrong.json").write_text("{}")
    project.set_input_files(tmp_path / "wrong.json")
    expect(page.locator("#tray-problem [role=alert]")).to_contain_text("export the project again")
    project.set_input_files(tmp_path / "Paper.json")
    page.wait_for_function(f"Object.keys({projects}).includes('Paper 2')")
    expect(tray.locator(".own")).to_have_count(1)
    expect(tray.get_by_label("Project", exact=True)).to_have_value("Paper 2")
    accessible(page, 1280, 390)


@pytest.mark.nightly
def test_a_moving_picture_runs_by_the_clock_of_the_page(page: Page, tmp_path: Path) -> None:
    page.evaluate("draftscopePlayers.viewer.useClock('computed')")
    page.locator("#watch-moving-gif").click()
    downloaded(page, page.locator("#watch-moving-file a[download$='.gif']"), tmp_path / "race.gif")
    with Image.open(tmp_path / "race.gif") as image:
        assert image.n_frames < 150  # a frame a pass would be 257


def test_a_computed_clock_gives_the_table_columns_and_comes_back_by_its_address(page: Page, server: str) -> None:
    page.get_by_role("tab", name="Compare", exact=True).click()
    page.wait_for_function(f"{COMPARED}?.lanes.length === 2")
    expect(page.locator("#tray-costs")).not_to_contain_text("computed")
    page.evaluate("draftscopePlayers['compare-viewer'].useClock('computed')")
    expect(page.locator("#tray-costs")).to_contain_text("Seconds, computed for H100")
    page.wait_for_function("location.hash.includes('clock=computed&on=H100,CUDA_graphs')")
    address = page.evaluate("location.hash")
    page.goto("about:blank")
    page.goto(server + address)
    expect(page.locator("#tray-costs")).to_contain_text("Times as fast, computed")
    page.wait_for_function(f"{COMPARED}?.clock === 'computed'")


def test_a_tab_that_is_chosen_again_has_its_place_in_the_address_again(page: Page) -> None:
    page.evaluate("draftscopePlayers.viewer.jump(7)")
    page.wait_for_function("location.hash.includes('step=7')")
    compare, watch, learn = (page.get_by_role("tab", name=name, exact=True) for name in ("Compare", "Watch", "Learn"))
    compare.click()
    page.wait_for_function(f"{COMPARED}?.lanes.length === 2")
    page.evaluate("draftscopePlayers['compare-viewer'].useClock('computed')")
    page.wait_for_function("location.hash.includes('clock=computed&on=H100,CUDA_graphs')")
    address = page.evaluate("location.hash")
    for other in (watch, learn):
        other.click()
        page.wait_for_function("!location.hash.includes('clock=computed') && location.hash.includes('step=7')")
        compare.click()
        page.wait_for_function("location.hash.includes('tab=compare')")
        page.wait_for_function(f"{COMPARED}?.clock === 'computed'")
        page.wait_for_function(f"location.hash === {address!r}")
    page.go_back()
    expect(learn).to_have_attribute("aria-selected", "true")
    page.go_forward()
    expect(compare).to_have_attribute("aria-selected", "true")
    page.wait_for_function(f"location.hash === {address!r}")


def test_another_setting_stands_beside_the_first_with_its_data_in_two_clicks(
    page: Page, server: str, tmp_path: Path
) -> None:
    with answered_late(page):
        for window in (32, 8):  # the last of quick presses counts
            page.locator("#again").get_by_role("button", name=f"Window L: {window}").click()
    page.wait_for_function(f"{COMPARED}?.lanes.length === 3")
    expect(page.get_by_role("tab", name="Compare", exact=True)).to_have_attribute("aria-selected", "true")
    downloaded(page, page.locator("#tray-zip"), tmp_path / "saved.zip")
    names = {name.partition("/")[2] for name in zipfile.ZipFile(tmp_path / "saved.zip").namelist()}
    assert {"runs.csv", "runs.tex", "runs.md", "caption.txt", "commands.sh", "traces/scd-seed0-2.json.gz"} <= names
    assert sum(name.endswith(".pdf") for name in names) == 3

    page.wait_for_function("/^#tab=compare&compare=ar&compare=scd&compare=method.*window%3D8$/.test(location.hash)")
    address = page.evaluate("location.hash")  # brings the tray back: recordings by name, own runs decoded again
    tokens = [lane["tokens"] for lane in page.evaluate(COMPARED)["lanes"]]
    page.goto("about:blank")
    page.goto(f"{server}{address}")
    decoded = f"JSON.stringify({COMPARED}?.lanes.map(({{ tokens }}) => tokens))"
    page.wait_for_function(f"tokens => {decoded} === JSON.stringify(tokens)", arg=tokens)


def test_an_address_decodes_its_run_again_and_a_wrong_one_is_told(page: Page, server: str) -> None:
    page.route("**/live/*", lambda route: None)  # the run finishes before one of its passes is reported
    page.goto("about:blank")
    page.goto(f"{server}/{OWN.removesuffix('&step=7')}")
    page.wait_for_function("location.hash.includes('step=256&clock=passes')")
    page.goto("about:blank")
    page.goto(f"{server}/{OWN}")
    page.wait_for_function(
        f"{SEEN}?.now === 7 && document.querySelector('#outcome')?.innerText.includes('for') "
        "&& location.hash.includes('clock=passes')"
    )
    tokens = page.evaluate(SEEN)["lanes"][1]["tokens"]
    assert page.evaluate("location.hash").startswith(OWN)
    page.get_by_role("button", name="Last", exact=True).first.click()
    assert page.evaluate(SEEN)["lanes"][1]["tokens"] == list(decode_toy_raster("scd", 5, window=8).output.tokens or ())
    assert tokens != page.evaluate(SEEN)["lanes"][1]["tokens"]

    page.goto("about:blank")
    page.goto(f"{server}#gallery=scd")
    page.wait_for_function(
        "globalThis.draftscopePlayers?.viewer?.called === 'gallery=scd' && draftscopePlayers.viewer.snapshot().now < 2"
    )
    expect(page.locator("#viewer .ds-stage")).to_be_in_viewport()
    page.goto("about:blank")
    page.goto(f"{server}#tab=compare&method=scd&model=toy-raster&seed=5&set.window=8")
    page.wait_for_function(f"{COMPARED}?.lanes.length === 2 && location.hash.startsWith('#tab=compare&compare=method')")
    page.goto("about:blank")
    page.goto(f"{server}#gallery=gone")
    expect(page.locator("#problem [role=alert]")).to_contain_text("'gone' is not available")
    page.wait_for_function(f"{SEEN}?.lanes.length === 2")


@pytest.mark.parametrize("page", [{"address": "#method=scd&model=toy-raster&set.window=8"}], indirect=True)
def test_a_run_is_repeated_with_seeds_and_stopped(page: Page) -> None:
    page.wait_for_function("location.hash.includes('set.window=8') && location.hash.includes('step=')")
    page.get_by_role("tab", name="Compare", exact=True).click()
    page.get_by_role("tab", name="Repeat with many seeds").click()
    expect(page.locator("#repeat-what")).to_contain_text("Repeats: Ordinary decoding; MC-SJD, window 8, of “Toy raster")
    page.get_by_label("number input for Seeds").first.fill("32")
    page.get_by_label("number input for Seeds").first.press("Tab")
    page.locator("#repeat-run").click()
    expect(page.locator("#repeat-problem")).to_contain_text("left")
    expect(page.locator("#repeat-table")).to_contain_text(re.compile(r"Ordinary decoding(, \d+ seeds)? \(baseline\)"))
    press_once(page, "#repeat-stop")
    expect(page.locator("#repeat-problem")).to_contain_text("complete seed")
    expect(page.locator("#repeat-run")).to_be_enabled()
    expect(page.locator("#repeat-table a[download$=jsonl]")).to_be_visible()
    expect(page.locator("[aria-label='Empty value']:visible")).to_have_count(0)  # gradio's, until a plot is there
    accessible(page)


@pytest.mark.nightly
def test_sums_of_an_engine_are_opened_and_drawn(page: Page, tmp_path: Path) -> None:
    names = ("drafts", "draft_tokens", "accepted_tokens", 'accepted_tokens_per_pos_total{position="0"}')
    counters = "\n".join(f"vllm:spec_decode_num_{name} 40" for name in names)
    ds.write(ds.from_vllm(counters, "served"), tmp_path / "sums.json")
    page.get_by_role("tab", name="Compare", exact=True).click()
    page.wait_for_function(f"{COMPARED}?.lanes.length === 2")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Open traces").click()
    chooser.value.set_files(tmp_path / "sums.json")
    rows = page.locator("#tray-costs tbody tr")
    expect(rows.filter(has_text="vLLM")).to_contain_text("80")
    with fake_server(kind="sglang") as url:
        ds.bench_server(url, ["a"], warmup=0).write(tmp_path / "bench.json")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Open traces").click()
    chooser.value.set_files(tmp_path / "bench.json")
    expect(rows.filter(has_text="sglang")).to_contain_text("106")
    page.get_by_role("tab", name="Figures").click()
    page.get_by_label("Acceptance by position in the draft").check()
    expect(page.locator("#compared-plot .js-plotly-plot")).to_contain_text("vLLM: mean accepted length 1.00")
    page.get_by_role("tab", name="Watch", exact=True).click()
    page.locator("#trace > button").click()
    page.locator("#upload input[type=file]").set_input_files(tmp_path / "sums.json")
    expect(page.locator("#viewer")).to_contain_text("Counts over many passes: nothing to play")


def test_a_certificate_of_an_engine_is_opened_and_drawn(page: Page, tmp_path: Path) -> None:
    found = ds.certify(SpeculativeEngine("greedy acceptance"), tokens=320)
    path = tmp_path / "certificate.json"
    ds.write_certificate(replace(found, engine="<b>mine</b>"), path)
    page.get_by_role("tab", name="Compare").click()
    page.get_by_role("tab", name="Certificate of an engine").click()
    upload = page.locator("#certificate-upload input[type=file]")
    upload.set_input_files(path)
    verdict = page.locator("#certificate-verdict [role=alert]")
    expect(verdict).to_contain_text("Biased")
    expect(verdict).to_contain_text("a draft is accepted if it is the likeliest token")
    plot = page.locator("#certificate-plot .js-plotly-plot")
    expect(plot).to_contain_text("Exact and observed frequencies")
    expect(page.get_by_label("Certificate", exact=True)).to_have_value(
        re.compile("<b>mine</b>; 320 tokens in 20 texts")
    )
    page.get_by_label("What would have been found").check()
    expect(plot).to_contain_text("Tokens with the defect (%)")
    path.write_text("{}")
    upload.set_input_files(path)
    expect(verdict).to_contain_text("Invalid certificate")
    expect(plot).to_be_visible()


@pytest.mark.nightly
def test_greedy_texts_of_two_engines_are_opened_side_by_side(page: Page, tmp_path: Path) -> None:
    top = {"x": -0.1, "<b>": -2.1}
    a = [{"prompt": "<i>p", "tokens": ["x"] * 120 + ["<b>"], "top": [top] * 120 + [{"<b>": -0.2, "y": -1.7}]}]
    b = [{"prompt": "<i>p", "tokens": ["x"] * 120 + ["y"], "top": [top] * 120 + [{"y": -0.4, "<b>": -1.1}]}]
    ds.diff(a, b).write(tmp_path / "diff.json")
    page.get_by_role("tab", name="Compare").click()
    page.get_by_role("tab", name="Greedy texts of two engines").click()
    upload = page.locator("#diff-upload input[type=file]")
    upload.set_input_files(tmp_path / "diff.json")
    expect(page.locator("#diff-verdict [role=alert]")).to_contain_text("1 of 1 texts part: 1 more than rounding.")
    expect(page.locator("#diff-splits mark")).to_have_text(["<b>", "y"])
    expect(page.locator("#diff-splits .side .note").first).to_have_text("p(<b>) = 0.8187, p(y) = 0.1827")
    expect(page.locator("#diff-splits section > .note")).to_have_text("<i>p")
    plot = page.locator("#diff-plot .js-plotly-plot")
    expect(plot).to_contain_text("Margins where the texts part")
    page.get_by_label("Prompts whose texts stay the same").check()
    expect(plot).to_contain_text("Prompts with the same text (%)")
    accessible(page)
    (tmp_path / "diff.json").write_text("{}")
    upload.set_input_files(tmp_path / "diff.json")
    expect(page.locator("#diff-verdict [role=alert]")).to_contain_text("Invalid comparison")


@pytest.mark.slow
@pytest.mark.parametrize(
    "size", [pytest.param((1440, 900), marks=pytest.mark.nightly), (1280, 720), (390, 844)], ids=str
)
def test_six_runs_share_the_screen_and_no_name_or_number_is_cut(
    browser: Browser, shipped_server: str, size: tuple[int, int], tmp_path: Path
) -> None:
    address = f"{shipped_server}/#{'&'.join(f'compare=text-{name}' for name in SIX)}"
    with visit(browser, address, viewport={"width": size[0], "height": size[1]}) as page:
        page.wait_for_function(f"{COMPARED}?.lanes.length === 6")
        curve = page.locator("#bench .curve .names span")
        expect(curve.first).to_be_visible()
        assert page.evaluate(CUT) == []
        expect(page.locator("#bench .churns .draw")).to_have_count(6)
        below = "(panel) => panel.scrollHeight - panel.clientHeight"
        assert page.locator("#bench .churn").evaluate(below) <= 1  # every run has its strip
        if size[0] > 900:
            for lane in page.locator("#compare-viewer .ds-lane").all():
                expect(lane).to_be_in_viewport(ratio=1)
        page.locator("#tray summary").click()
        drawer, tabs = page.locator("#tray .drawer").bounding_box(), page.locator("#compare-bar").bounding_box()
        assert drawer is not None and tabs is not None and drawer["width"] > 0.98 * tabs["width"]
        if size[0] > 900:  # a run is up to three lines
            heights = page.evaluate("[...document.querySelectorAll('#tray tbody tr')].map((row) => row.offsetHeight)")
            assert max(heights) < 70
        if size[0] < 900:  # what is refused is so at every width
            files = [tmp_path / f"{seed}.json.gz" for seed in range(8)]
            for seed, file in enumerate(files):
                write(decode_toy_raster("scd", window=8, seed=seed), file)
            with page.expect_file_chooser() as chooser:
                page.get_by_role("button", name="Open traces").click()
            chooser.value.set_files(files)
            expect(page.locator("#tray-problem")).to_contain_text(
                "Of 8 opened runs, 2 are in the list and not selected"
            )
