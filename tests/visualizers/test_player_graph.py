"""The player on drafts of later steps: the graph of a pass, its words, and how deep a token's draft was."""

import json

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from support.blocks import diffusion
from support.playing import every_view, go, harness, pixels, plain, settle, show, snapshot
from support.speculation import Plan, speculated

from traces.schema import Fate, Trace
from visualizers.page import standalone

pytestmark = pytest.mark.browser


def drafted(trace: Trace) -> list[int]:
    """Numbers of the passes that looked at drafts, from 1."""
    return [number for number, step in enumerate(trace.steps, start=1) if step.graph]


def test_every_draft_is_told_with_its_verdict_and_who_vouched(page: Page) -> None:
    trace = speculated()
    show(page, trace)
    go(page, drafted(trace)[0])
    assert page.locator(".ds-graph .ds-words").inner_text() == (
        "3 drafts beside the text as it was: the largest one kept fills “ w2”, “ w3”."
    )
    page.get_by_text("Every draft in words").click()
    settle(page)
    assert page.locator(".ds-graph .ds-rows li").all_inner_texts() == [
        "{} fills nothing: accepted",
        "{1} fills “ w2”: accepted, vouched for by {}",
        "{1 2} fills “ w2”, “ w3”: kept, vouched for by {1}",
        "{1 2 3} fills “ w2”, “ w3”, “ w4”: rejected",
    ]


def test_a_run_of_a_variant_goes_by_its_name(page: Page) -> None:
    show(page, speculated(), speculated(variant="Spiffy"))
    assert page.locator("h2").all_inner_texts()[:2] == ["PSD", "Spiffy"]


def test_pointing_at_a_node_chooses_what_it_adds(page: Page) -> None:
    trace = speculated()
    show(page, trace)
    go(page, drafted(trace)[0])
    canvas = page.locator(".ds-graph canvas")
    box = canvas.bounding_box()
    assert box is not None
    assert box["width"] > 420
    canvas.hover(position={"x": 150 + 2 + 92 + 20, "y": 20})
    settle(page)
    assert snapshot(page)["position"] == 1
    canvas.hover(position={"x": 30, "y": 22 + 20})
    settle(page)
    assert snapshot(page)["position"] == 2


def test_accepted_drafts_are_filled_and_refused_ones_are_not(page: Page) -> None:
    trace = speculated()
    show(page, trace)
    number = drafted(trace)[0]
    go(page, number)
    canvas = page.locator(".ds-graph canvas")
    image, box = pixels(canvas), canvas.bounding_box()
    assert box is not None
    scale = image.width / box["width"]
    for level, node in enumerate(trace.steps[number - 1].graph or ()):
        at = (int(scale * (150 + 2 + level * 92 + 60)), int(scale * (8 + 5)))
        assert (image.getpixel(at) == (0, 114, 178)) is node.accepted, level


def test_a_pass_without_drafts_keeps_the_last_graph_faint(page: Page) -> None:
    trace = speculated(Plan(blocks=2))
    show(page, trace)
    number = next(n for n in range(2, len(trace.steps)) if not trace.steps[n - 1].graph)
    go(page, number)
    assert f"the faint graph is that of forward pass {number - 1}" in page.locator(".ds-graph .ds-words").inner_text()
    assert page.locator(".ds-graph canvas").evaluate("canvas => canvas.style.opacity") == "0.3"
    go(page, 1)
    assert page.locator(".ds-graph .ds-words").inner_text() == "No drafts so far."


def test_runs_without_drafts_of_later_steps_show_no_graph(page: Page) -> None:
    show(page, diffusion())
    assert page.locator(".ds-graph").is_hidden()


def test_what_was_put_to_the_test_is_framed_and_its_depth_told(page: Page) -> None:
    trace = speculated()
    number = drafted(trace)[0]
    step = trace.steps[number - 1]
    show(page, trace)
    go(page, number)
    framed = page.locator(".ds-token.is-framed").evaluate_all("all => all.map(chip => Number(chip.dataset.position))")
    judged = {p for p, fate in zip(step.position, step.fate, strict=True) if fate.judged}
    assert set(framed) == judged
    accepted = [p for p, fate in zip(step.position, step.fate, strict=True) if fate is Fate.ACCEPTED]
    glyphs = [page.locator(".ds-token").nth(p).get_attribute("data-glyph") for p in accepted]
    assert glyphs == ["●1", "●2"]
    go(page, number + 1)
    assert page.locator(".ds-token").nth(accepted[0]).get_attribute("data-glyph") == ""


@pytest.mark.parametrize(
    "graph",
    [
        "no",
        [],
        [{"row": 0}],
        [{"row": 0, "parents": [0], "positions": [], "accepted": True}],
        [{"row": 0, "parents": [], "positions": ["<b>"], "accepted": True}],
        [None],
    ],
)
def test_a_graph_that_makes_no_sense_is_left_out(page: Page, graph: object) -> None:
    whole = json.loads(json.dumps(plain(speculated())))
    for step in whole["steps"]:
        step["graph"] = graph
    harness(page)
    page.evaluate("trace => player.load([trace])", whole)
    settle(page)
    assert page.locator(".ds-graph").is_hidden()
    assert snapshot(page)["lanes"][0]["steps"] == len(whole["steps"])


def test_it_appears_in_a_running_decoder(page: Page) -> None:
    whole = plain(speculated())
    harness(page)
    page.evaluate("meta => player.begin(0, meta)", {**whole, "steps": []})
    assert page.locator(".ds-graph").is_hidden()
    for number in range(2):
        page.evaluate("([number, step]) => player.push(0, number, step)", [number, whole["steps"][number]])
    settle(page)
    assert page.locator(".ds-graph").is_visible()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_page_is_accessible_and_fits(browser: Browser, scheme: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    page.set_content(standalone([diffusion(), speculated(Plan(depth=7, held=(0, 5)))], "A sum"))
    every_view(page)
    page.evaluate("player.set(2)")
    page.get_by_text("Every draft in words").locator("visible=true").click()
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()
    context.close()
