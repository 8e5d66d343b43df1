"""The player on drafts of later steps: the graph of a pass, its words, and how deep a token's draft was."""

from playwright.sync_api import Page
from support.playing import chips, go, settle, show, snapshot
from support.speculation import Plan, speculated

from traces.schema import Fate, Trace


def drafted(trace: Trace) -> list[int]:
    """Numbers of the passes that looked at drafts, from 1."""
    return [number for number, step in enumerate(trace.steps, start=1) if step.graph]


def test_every_draft_is_told_with_its_verdict_and_under_which(page: Page) -> None:
    trace = speculated()
    show(page, trace, speculated(variant="Spiffy"))
    assert page.locator("h2").all_inner_texts()[:2] == ["PSD", "Spiffy"]
    show(page, trace)
    number = drafted(trace)[0]
    step = trace.steps[number - 1]
    go(page, number)
    assert page.locator(".ds-graph .ds-words").inner_text() == (
        "3 drafts in this pass: the largest one kept fills “ w2”, “ w3”."
    )
    page.get_by_text("Every draft in words").click()
    settle(page)
    assert page.locator(".ds-graph .ds-rows li").all_inner_texts() == [
        "{} fills nothing: accepted",
        "{1} fills “ w2”: accepted, accepted under {}",
        "{1 2} fills “ w2”, “ w3”: kept, accepted under {1}",
        "{1 2 3} fills “ w2”, “ w3”, “ w4”: rejected",
    ]
    # Pointing at a node chooses what it adds, and at a line of the ranking its token.
    for spot, position in (((150 + 2 + 92 + 20, 20), 1), ((30, 22 + 20), 2)):
        page.locator(".ds-graph canvas").hover(position={"x": spot[0], "y": spot[1]})
        settle(page)
        assert snapshot(page)["position"] == position
    # What was put to the test is framed, and its depth told.
    assert set(chips(page, "is-framed")) == {p for p, fate in zip(step.position, step.fate, strict=True) if fate.judged}
    accepted = [p for p, fate in zip(step.position, step.fate, strict=True) if fate is Fate.ACCEPTED]
    glyphs = [page.locator(".ds-token").nth(p).get_attribute("data-glyph") for p in accepted]
    assert glyphs == ["●1", "●2"]
    go(page, number + 1)
    assert page.locator(".ds-token").nth(accepted[0]).get_attribute("data-glyph") == ""


def test_a_pass_without_drafts_keeps_the_last_graph_faint(page: Page) -> None:
    trace = speculated(Plan(blocks=2))
    show(page, trace)
    number = next(n for n in range(2, len(trace.steps)) if not trace.steps[n - 1].graph)
    go(page, number)
    assert f"the faint graph is that of forward pass {number - 1}" in page.locator(".ds-graph .ds-words").inner_text()
    assert page.locator(".ds-graph canvas").evaluate("canvas => canvas.style.opacity") == "0.3"
    go(page, 1)
    assert page.locator(".ds-graph .ds-words").inner_text() == "No drafts so far."
