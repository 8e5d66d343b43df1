"""A late answer of the server takes back neither a newer choice of the visitor nor what was typed."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browser import SNAPSHOT, answered_late, choose, visit

from draftscope.engines.methods import METHODS
from draftscope.engines.models.catalog import MODELS


def served(page: Page, method: str) -> None:
    """The server speaks of a run of this method: it reads the trace once the panel is unfolded."""
    page.locator("#trace > button").click()
    expect(page.locator("#command textarea")).to_have_value(re.compile(f"draftscope run {method} "))
    page.locator("#trace > button").click()


@pytest.mark.nightly
def test_the_newest_choice_wins_and_what_was_typed_stays(browser: Browser, shipped_server: str) -> None:
    with visit(browser, shipped_server) as page:
        page.wait_for_function("globalThis.draftscopeOpened")
        chips, prompt = page.get_by_role("group", name="Recorded pairs"), page.get_by_label("Prompt", exact=True)
        method, model = (page.get_by_label(name, exact=True).locator("visible=true") for name in ("Method", "Model"))
        card = page.locator("#gallery button", has_text="PSD (Confidence), depth 3")
        page.locator(".settings > button").first.click()

        def show(pair: str) -> None:
            chip = chips.get_by_role("button", name=pair)
            chip.click()
            expect(chip).to_have_attribute("aria-pressed", "true")

        with answered_late(page):
            show("video")
            show("continuous")
        expect(prompt).to_have_value("a taxi at sunset")
        expect(model).to_have_value(MODELS["patch-target"].label)
        served(page, "cspd-block")
        with answered_late(page):
            card.click()
            show("picture")
        expect(prompt).to_have_value("a penguin in the snow")
        served(page, "scd")
        assert page.evaluate(f"{SNAPSHOT}.lanes[0].tokens.length") == 144
        with answered_late(page):
            show("video")
            card.click()
        expect(method).to_have_value(METHODS["psd"].title)
        served(page, "psd")
        page.wait_for_function(f"{SNAPSHOT}.lanes[0].tokens.length === 64")

        show("picture")
        expect(model).to_have_value(MODELS["studio-image"].label)
        with answered_late(page):
            choose(page, model, MODELS["tally-target"].label)
            prompt.fill("49: Ann +1")
            page.get_by_label("Seed", exact=True).fill("7")
        expect(page.get_by_role("button", name="49: Hal +1").first).to_be_visible()  # the answer has come
        expect(prompt).to_have_value("49: Ann +1")
        expect(page.get_by_label("Seed", exact=True)).to_have_value("7")
        with answered_late(page):
            model.click()
            page.keyboard.press("Escape")
        expect(prompt).to_have_value("49: Ann +1")
        with answered_late(page):
            prompt.fill("50: Ann +1")
            choose(page, method, METHODS["s2d2"].title)
            choose(page, model, MODELS["toy-raster"].label)
        expect(page.get_by_placeholder("Takes no prompt.")).to_be_disabled()
        expect(prompt).to_have_value("")
        expect(model).to_have_value(MODELS["toy-raster"].label)
        expect(method).not_to_have_value(METHODS["s2d2"].title)


@pytest.mark.nightly
def test_examples_and_presets_need_no_answer(browser: Browser, shipped_server: str) -> None:
    with visit(browser, shipped_server) as page:
        page.wait_for_function("globalThis.draftscopeOpened")
        page.get_by_role("button", name="picture", exact=True).click()
        prompt, method, model = (page.get_by_label(name, exact=True) for name in ("Prompt", "Method", "Model"))
        expect(prompt).to_have_value("a penguin in the snow")
        page.locator(".settings > button").first.click()
        with answered_late(page):
            page.get_by_role("button", name="a whale by the sea").click()
            expect(prompt).to_have_value("a whale by the sea")
        choose(page, model, MODELS["studio-video"].label)
        with answered_late(page):
            page.locator("#clip-cards button").nth(4).click()
            expect(prompt).to_have_value("clip 5")
        choose(page, method, "S2D2")
        preset, router = (page.get_by_label(name, exact=True).locator("visible=true") for name in ("Preset", "Router"))
        expect(router).to_have_value("always")
        with answered_late(page):
            choose(page, preset, "SDAR-8B A")
            expect(router).to_have_value("score")

        page.get_by_role("button", name="picture", exact=True).click()
        page.get_by_role("tab", name="Compare", exact=True).click()
        page.get_by_role("tab", name="Grid: prompts by settings").click()
        prompts, row = page.locator("#grid-prompts textarea"), page.locator("#grid-examples")
        before, examples = prompts.input_value(), row.get_by_role("button")
        with answered_late(page):
            for number in (0, 1, 1):
                examples.nth(number).click()
            added = [examples.nth(number).inner_text() for number in (0, 1)]
        expect(prompts).to_have_value("\n".join([before, *added]))
        expect(examples.filter(has_text=added[0])).to_have_count(0)
