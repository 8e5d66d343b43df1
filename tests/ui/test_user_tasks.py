"""Visitors with a question each, and how many clicks an answer takes; test_compare_page.py walks with an author."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from support.browser import SNAPSHOT, accessible, downloaded, visit

from benchmarks._toy_runs import decode_toy_raster
from draftscope.traces import write

TOUR = (
    (2, "8 drafts at once.", "({ drafts, judged }) => drafts === 8 && !judged"),
    (3, "8 of 8 drafts accepted in one pass.", "({ drafts, judged }) => drafts === 0 && !judged"),
    (
        4,
        "The draw fell above p: rejected.",
        "({ uniform, verdict: v, separated }) => uniform > v?.columns[0].p && !separated",
    ),
    (5, "is drawn from the residual.", "({ separated, scaled }) => separated === 1 && scaled === 1"),
)
"""Scenes, their text on the stage, and what it shows."""
METRICS = "\n".join(
    f"vllm:spec_decode_num_{name} {count}"
    for name, count in {
        "drafts_total": 1300, "draft_tokens_total": 5200, "accepted_tokens_total": 2600,
        'accepted_tokens_per_pos_total{position="0"}': 1000, 'accepted_tokens_per_pos_total{position="1"}': 800,
        'accepted_tokens_per_pos_total{position="2"}': 500, 'accepted_tokens_per_pos_total{position="3"}': 300,
    }.items()
)  # fmt: skip
ON_STAGE = """(holds) => {
  const { playing, now, stage: { drawnFrame } } = draftscopePlayers.viewer;
  const { words, verdict } = drawnFrame ?? { words: [] };
  const drafts = words.filter(({ kind, alpha }) => alpha < 1 && kind !== "rejected").length;
  return drawnFrame && !playing && now > 1 && holds({ drafts, judged: Boolean(verdict), ...verdict });
}"""


class Walk:
    """A visitor who counts clicks."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0

    def click(self, what: Locator) -> None:
        what.click()
        self.clicks += 1


@pytest.fixture
def walk(browser: Browser, shipped_server: str) -> Iterator[Walk]:
    with visit(browser, shipped_server, reduced_motion="no-preference") as page:
        yield Walk(page)


def test_a_visitor_a_student_and_an_engineer_get_their_answers(walk: Walk) -> None:
    page = walk.page
    page.wait_for_function(f"{SNAPSHOT}.now > 2")  # the visitor: it plays
    assert walk.clicks == 0

    walk.click(page.get_by_role("button", name="Numbers", exact=True))  # the student: a token that was rejected
    walk.click(page.get_by_role("button", name="Next rejection").first)
    worked = page.locator("#viewer .ds-worked")
    expect(worked).to_contain_text("rejected")
    expect(worked).to_contain_text("min(1,")
    assert walk.clicks <= 2

    walk.clicks = 0
    walk.click(page.get_by_role("tab", name="Choose"))  # the engineer: a sentence, with its plot
    answer = page.locator("#choose-answer p")
    expect(answer.first).to_contain_text(re.compile(r"for pictures.*: .*\d\.\d+ × \(\d\.\d+ to \d\.\d+\)"))
    expect(page.locator("#choose-plot .js-plotly-plot")).to_be_visible()  # plotly is fetched first
    walk.click(page.get_by_label("Continuous tokens"))
    expect(answer).to_have_count(1)
    expect(answer).to_contain_text("Use CSpD, whole paths (ours)")
    assert walk.clicks <= 2

    page.get_by_role("button", name="See it happen").first.click()
    expect(page.get_by_role("tab", name="Watch")).to_have_attribute("aria-selected", "true")
    reasons = page.locator("#why")
    expect(reasons).to_contain_text("What decides the speed here?")
    reasons.locator("summary").click()
    expect(reasons).to_contain_text("passes of the drafter for every target pass")


@pytest.mark.nightly
def test_an_engineer_gets_a_verdict_for_a_model_of_theirs_in_three_clicks(walk: Walk) -> None:
    page, answer = walk.page, walk.page.locator("#calculator-answer h1")
    walk.click(page.get_by_role("tab", name="Choose"))
    expect(answer).to_contain_text("Yes: about 1.5 times, 1.3 to 1.8, at batch 1; memory ends at batch 365.")
    walk.click(page.get_by_label("Your model", exact=True))
    walk.click(page.get_by_role("option", name="Qwen3 32B"))
    expect(answer).to_contain_text("Yes: about 2.1 times, 1.7 to 2.7, at batch 1; memory ends at batch 28.")
    expect(answer).to_contain_text("80% (70% to 90%) of drafts accepted, set by hand; it breaks even at 43%.")
    expect(page.get_by_label("Drafter", exact=True)).to_have_value("Qwen3 1.7B")
    expect(page.locator("#calculator-details p")).to_contain_text("computed from data sheets, not measured")
    assert walk.clicks == 3

    page.locator("#acceptance-upload input").set_input_files(
        {"name": "metrics.txt", "mimeType": "text/plain", "buffer": METRICS.encode()}
    )
    expect(answer).to_contain_text("72% (71% to 74%) of drafts accepted, opened: vLLM's /metrics")
    page.locator("#acceptance-upload input").set_input_files(
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"nothing"}
    )
    expect(page.locator("#acceptance-notice [role=alert]")).to_contain_text("file: is of no known form; give a result")


@pytest.mark.nightly
def test_the_tour_is_walked_by_keyboard_and_left(walk: Walk) -> None:
    page = walk.page
    walk.click(page.get_by_role("button", name="Take the tour"))
    card = page.get_by_role("region", name="Tour")
    expect(card).to_contain_text("Scene 1 of")
    expect(card.locator("h2")).to_be_focused()
    for number, words, holds in TOUR:
        page.keyboard.press("ArrowRight")
        expect(card).to_contain_text(f"Scene {number} of")
        expect(page.locator("#viewer .ds-caption")).to_contain_text(words)
        page.wait_for_function(f"({ON_STAGE})({holds})")
        assert page.evaluate("location.hash") == f"#tour={number}"
        if number == 4:
            accessible(page)
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    expect(page.get_by_role("button", name="Take the tour")).to_be_focused()
    assert "tour" not in page.evaluate("location.hash")

    page.evaluate("location.hash = 'tour=6'")  # a link that was sent to a user
    page.reload(wait_until="load")
    expect(card).to_contain_text("Coupled drafts settle")
    drawn = "draftscopePlayers.viewer.present().map(({ scene }) => scene?.overlay).join()"
    page.wait_for_function(f"{SNAPSHOT}.now > 1 && {drawn} === 'true,true'")
    expect(page.locator("#viewer .ds-stage")).to_be_visible()
    page.keyboard.press("Escape")
    page.wait_for_function(f"{drawn} === 'false,false'")


def test_the_tour_stands_still_at_what_it_points_at(browser: Browser, shipped_server: str) -> None:
    with visit(browser, f"{shipped_server}/#tour=4") as page:
        expect(page.get_by_role("region", name="Tour")).to_contain_text("Scene 4 of")
        expect(page.locator("#viewer .ds-caption")).to_contain_text(TOUR[2][1])
        page.wait_for_function(f"({ON_STAGE})({TOUR[2][2]})")


@pytest.mark.parametrize("page", [{"address": "#method=scd&model=toy-raster&set.window=8"}], indirect=True)
def test_an_author_gets_a_figure_of_an_own_run_as_pdf_in_four_clicks(page: Page, tmp_path: Path) -> None:
    walk = Walk(page)
    page.wait_for_function("location.hash.includes('step=')")  # the author's own run has finished
    walk.click(page.get_by_role("tab", name="Compare", exact=True))
    walk.click(page.get_by_role("tab", name="Figures"))
    expect(page.locator("#compared-plot .js-plotly-plot")).to_be_visible()
    walk.click(page.get_by_label("One column (3.25 in)"))
    page.wait_for_function(
        """() => {
          const parts = [...document.querySelectorAll('#compared-plot .main-svg, #compared-ruler .ruler')];
          const wide = parts.map((part) => Math.round(part.getBoundingClientRect().width));
          return parts.at(-1)?.matches('.main-svg') && wide.every((width) => width === 312);
        }"""
    )  # the preview has the true width
    walk.clicks += 1
    name = downloaded(page, page.get_by_role("button", name="Export PDF").first, tmp_path / "figure.pdf")
    assert name.endswith(".pdf") and walk.clicks == 4
    box = re.search(rb"/MediaBox ?\[ ?0 0 ([\d.]+) ", (tmp_path / "figure.pdf").read_bytes())
    assert box and abs(float(box[1]) / 72 - 3.25) < 0.02  # inches


def test_a_researcher_compares_an_own_trace_in_three_clicks(page: Page, tmp_path: Path) -> None:
    walk = Walk(page)
    path = tmp_path / "own.json.gz"
    trace = decode_toy_raster("scd", window=8)
    write(replace(trace, model=replace(trace.model, id="elsewhere/model")), path)
    expect(page.locator("#outcome")).to_contain_text("passes")  # the race is known to the server
    walk.click(page.get_by_role("tab", name="Compare", exact=True))
    page.wait_for_function("globalThis.draftscopePlayers?.['compare-viewer']?.snapshot().lanes.length === 2")
    with page.expect_file_chooser() as chooser:
        walk.click(page.get_by_role("button", name="Open traces"))
    chooser.value.set_files(path)
    expect(page.locator("#tray .chip")).to_have_count(3)
    walk.click(page.locator("#bench tbody button").first)  # a verdict, in all panels
    expect(page.locator("#bench tbody tr[aria-current]").first).to_be_visible()
    expect(page.locator("#bench figure")).to_have_count(3)
    assert walk.clicks == 3
