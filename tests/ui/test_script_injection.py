"""Files, prompts and addresses of strangers that try to run script in the page."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from support import handmade
from support.browser import downloaded, visit
from support.hostile import EVERY, RAN, TEXTS, hostile
from support.results import sweep

from draftscope.analysis.timings import Timing
from draftscope.traces import dumps
from draftscope.visualizers import SweepError, read_results, read_timings

FILE_NAME = "${eval(name)} `${globalThis.pwned=1}` <img src=x onerror=globalThis.pwned=1>"


@pytest.fixture(scope="module")
def page(browser: Browser, server: str) -> Iterator[Page]:
    """The app, for all tests: one fails when script of a stranger ran, or made an element, a dialog or an error."""
    address = f"{server}/?prompt={quote(EVERY)}#step={quote(EVERY)}&{quote(EVERY)}"
    with visit(browser, address, console=True) as opened:
        yield opened
        harmless(opened)


def harmless(page: Page) -> None:
    assert page.evaluate(f"typeof {RAN}") == "undefined"
    assert page.locator("[src=x], [href*='javascript:'], [*|href*='javascript:']").count() == 0


def named(data: bytes, ending: str = ".json") -> Any:
    return {"name": FILE_NAME + ending, "mimeType": "application/json", "buffer": data}


def give(target: Locator, data: bytes, ending: str = ".json") -> None:
    target.locator("input[type=file]").set_input_files(named(data, ending))


def test_compared_traces_are_only_text(page: Page) -> None:
    page.get_by_role("tab", name="Compare", exact=True).click()
    for trace in (handmade.psd(), handmade.s2d2()):
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Open traces").click()
        chooser.value.set_files(named(dumps(hostile(trace, EVERY))))
        expect(page.locator("#tray")).to_contain_text(EVERY)
    page.wait_for_function("draftscopePlayers['compare-viewer']?.snapshot()?.lanes.length === 2")
    harmless(page)
    page.get_by_role("tab", name="Figures").click()
    expect(page.locator("#compared-plot .js-plotly-plot")).to_be_visible()
    harmless(page)


def test_a_trace_is_only_text_wherever_it_is_shown(page: Page, tmp_path: Path) -> None:
    page.get_by_role("tab", name="Watch").click()
    page.locator("#trace > button").click()
    for trace, text in ((handmade.s2d2(), EVERY), (handmade.psd(), TEXTS[0])):
        page.get_by_role("tab", name="Watch").click()
        give(page.locator("#upload"), dumps(hostile(trace, text)))
        summary = f"{text} on {text}, {len(trace.steps)} forward passes."
        expect(page.locator("#upload-problem [role=status] > span")).to_have_text(summary)
        details = page.locator("#trace-details")
        for label in ("Method", "Model", "Licence", "Prompt", f"Setting {text}", "Note", f"Weights {text}"):
            row = details.locator("tr", has=page.get_by_role("cell", name=label, exact=True))
            expect(row.locator("td").last).to_have_text("0" * 64 if label.startswith("Weights") else text)
        alone = page.context.new_page()
        for _ in range(20):  # gradio may change the link of the button after the text next to it
            downloaded(page, page.locator("#download-page"), tmp_path / "page.html")
            alone.goto((tmp_path / "page.html").as_uri())
            harmless(alone)
            if alone.locator(".ds-prompt").all_text_contents() == [text]:
                break
            page.wait_for_timeout(250)
        expect(alone.locator(".ds-prompt")).to_have_text([text])
        alone.get_by_role("button", name="Every view").click()
        alone.get_by_text("Table of forward passes").click()
        expect(alone.locator(".ds-table tbody td", has_text=text)).to_have_count(len(trace.steps))
        harmless(alone)
        alone.close()


def test_results_and_timings_are_only_text(page: Page) -> None:
    page.get_by_role("tab", name="Choose").click()
    page.locator("#results > button").click()
    expect(page.locator("#results-plot .js-plotly-plot")).to_be_visible()  # what ships would come after the file
    upload = page.locator("#results-upload")
    row = sweep(1)[0]

    def refuse(name: str, read: Callable[[bytes], object], document: object) -> None:
        data = json.dumps(document).encode()
        with pytest.raises(SweepError) as caught:
            read(data)
        give(page.locator(f"#{name}-upload"), data)
        expect(page.locator(f"#{name}-problem [role=alert] > span")).to_have_text(str(caught.value))
        harmless(page)

    refuse("results", read_results, [row | {"seconds": TEXTS[0]}, row | {"config": {TEXTS[3]: {}}}])
    names = dict.fromkeys(("device", "model", "curve"), EVERY)
    rows = []
    for one in sweep(2):
        changed = {"method": f"{one['method']} {EVERY}", "label": f"{one['label']} {EVERY}"}
        rows.append(one | names | changed | {"config": {EVERY: one["config"]["block"]}})
    about = {"about": {"commit": TEXTS[0], "threads": 1, "libraries": {"torch": EVERY}, "created": EVERY}}
    give(upload, "".join(f"{json.dumps(one)}\n" for one in (about, *rows)).encode(), ".jsonl")
    expect(page.locator("#results-table tbody td").first).to_have_text(f"AR {EVERY}")
    expect(page.get_by_text(EVERY, exact=False).locator("visible=true").first).to_be_visible()
    page.get_by_label("Baseline").click()
    page.get_by_role("option", name=EVERY).first.click()
    harmless(page)
    page.get_by_label("Accuracy and speed by one setting").check()
    expect(page.locator("#results-plot")).to_contain_text("Accuracy and speed by one setting")
    page.get_by_role("tab", name="Learn").click()
    page.get_by_role("tab", name="What drafting gains").click()
    timing: Mapping[str, object] = {field.name: EVERY[:40] if field.default == "" else 1 for field in fields(Timing)}
    refuse("timings", read_timings, {"rows": [{**timing, "gamma": TEXTS[0]}]})
    give(page.locator("#timings-upload"), json.dumps({"title": EVERY[:200], "rows": [timing]}).encode())
    expect(page.locator("#timings-plot")).to_contain_text(EVERY[:40])
