"""Drafts of later steps: the branches that a pass verified on the stage, in words, and how deep a token's draft was."""

from playwright.sync_api import Page
from support.playing import chips, every_view, go, show
from support.speculation import speculated

from traces.schema import Fate


def told(page: Page) -> str:
    return str(page.locator(".ds-stage canvas").get_attribute("aria-label"))


def test_every_draft_is_told_with_its_verdict_and_under_which(page: Page) -> None:
    trace = speculated()
    show(page, trace, speculated(variant="Spiffy"))
    assert page.locator("h2").all_inner_texts()[:2] == ["PSD", "Spiffy"]
    show(page, trace)
    number, step = next((number, step) for number, step in enumerate(trace.steps, start=1) if step.graph)
    # What was put to the test is framed, and its depth told.
    go(page, number)
    assert set(chips(page, "is-framed")) == {p for p, fate in zip(step.position, step.fate, strict=True) if fate.judged}
    accepted = [p for p, fate in zip(step.position, step.fate, strict=True) if fate is Fate.ACCEPTED]
    glyphs = [page.locator(".ds-token").nth(p).get_attribute("data-glyph") for p in accepted]
    assert glyphs == ["●1", "●2"]
    go(page, number + 1)
    assert page.locator(".ds-token").nth(accepted[0]).get_attribute("data-glyph") == ""
    every_view(page)  # and back to the stage
    go(page, number - 0.1)
    assert (
        "“w2”: accepted, accepted under the text alone. “w2 … w3”: kept, accepted under “w2”. "
        "“w2 … w3 … w4”: rejected." in told(page)
    )
    go(page, next(n for n in range(number + 1, len(trace.steps)) if not trace.steps[n - 1].graph) - 0.1)
    assert "accepted under" not in told(page)
