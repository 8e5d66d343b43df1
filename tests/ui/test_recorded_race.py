"""The first screen in a real browser: a recorded race that plays by itself."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browser import SNAPSHOT, choose_raster, still, visit

from draftscope.traces import read
from draftscope.traces.files import ROOT
from draftscope.traces.schema import Fate

FASTER = ROOT / "assets" / "traces" / "scd-picture-same.json.gz"
"""The faster run of the race of pictures."""
NOW = f"{SNAPSHOT}.now"
COUNTS = "draftscopePlayers.viewer.stage.drawnFrame.counts"
TOKENS = f"{COUNTS}.map((text) => Number(text.match(/\\d+(?= token)/)[0]))"
FITS = """(width) => document.documentElement.scrollWidth <= width &&
  ["stage", "say", "controls"].every((part) => {
    const { left, right } = document.querySelector(`#viewer .ds-${part}`).getBoundingClientRect();
    return left >= 0 && right > left && right <= width;
  })"""


@pytest.fixture
def page(browser: Browser, shipped_server: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The opened app with the race of two pictures, or another one on request; fails the test on any error."""
    options: dict[str, Any] = {"viewport": {"width": 1280, "height": 720}} | getattr(request, "param", {})
    race = options.pop("race", "picture")
    with visit(browser, shipped_server, console=True, **{"reduced_motion": "no-preference", **options}) as opened:
        opened.get_by_role("button", name=race, exact=True).click()
        tokens = {"video": 1008}.get(race, 144)
        opened.wait_for_function(f"{SNAPSHOT}.lanes[0].tokens.length === {tokens} && {NOW} < 20")
        yield opened


@pytest.mark.parametrize("page", [{"viewport": {"width": 390, "height": 844}, "race": "video"}], indirect=True)
def test_two_runs_play_by_themselves_and_fit_a_screen_that_is_turned(page: Page) -> None:
    page.wait_for_function(f"{NOW} > 3")
    first = page.evaluate(TOKENS)
    ahead = f"([ordinary, other]) => {first[0]} < ordinary && ordinary < other && {first[1]} < other"
    page.wait_for_function(f"({ahead})({TOKENS})")
    screen = page.viewport_size
    assert page.locator("#viewer .ds-say").get_attribute("aria-live") == "off"
    page.wait_for_function(FITS, arg=screen["width"])
    before = page.evaluate(NOW)
    page.set_viewport_size({"width": screen["height"], "height": screen["width"]})  # turned while it plays
    page.wait_for_function(f"{NOW} !== {before} && {SNAPSHOT}.playing")
    page.wait_for_function(FITS, arg=screen["height"])


@pytest.mark.parametrize("page", [{"alone": True}], indirect=True)
@pytest.mark.nightly
def test_the_finish_is_marked_and_the_race_begins_again(page: Page) -> None:
    page.clock.install()  # seconds pass as fast as the page can draw them
    page.clock.pause_at(page.evaluate("Date.now()") + 60_000)

    def played(until: str) -> None:
        for _ in range(240):
            page.clock.fast_forward(250)
            if page.evaluate(until):
                return
        pytest.fail(f"a minute passed without {until}")

    caption = page.locator("#viewer .ds-say")
    finished = "document.querySelector('#viewer .ds-say').innerText.includes('instead of 144')"
    played(finished)
    passes = page.evaluate(f"{SNAPSHOT}.lanes[1].steps")
    assert passes < 144 / 2
    expect(caption).to_contain_text(f"{passes} passes instead of 144. Exact: why?")
    assert page.evaluate(COUNTS)[1] == f"✓ 144 tokens in {passes} passes"
    played(f"{NOW} > 100")
    played(f"{NOW} < 20")
    played(f"{NOW} > 20 && {SNAPSHOT}.playing")
    played(finished)
    page.get_by_role("button", name="why?").click()
    expect(page.locator("#viewer .ds-reason")).to_contain_text("the same random numbers at every position")
    assert not page.evaluate(f"{SNAPSHOT}.playing")


def test_a_sentence_says_what_the_pass_did_and_every_view_is_a_click_away(page: Page) -> None:
    page.get_by_role("button", name="First", exact=True).click()
    caption = page.locator("#viewer .ds-say strong")
    expect(caption).to_have_text("Draft several patches, verify them in one pass.")
    steps = read(FASTER).steps
    fates = [Counter(step.fate) for step in steps]
    with_two_accepted = next(n for n, fate in enumerate(fates, 1) if n > 1 and fate[Fate.ACCEPTED] == 2)
    none = next(n for n, fate in enumerate(fates, 1) if n > 1 and not fate[Fate.ACCEPTED])
    for number, words in ((with_two_accepted, "2 of 3 drafts"), (none, "0 of 1 draft")):
        page.evaluate(f"draftscopePlayers.viewer.set({number})")
        expect(page.locator("#viewer .ds-caption")).to_contain_text(f"{words} accepted in one pass.")
        unchanged, changed = (fates[number - 1][fate] for fate in (Fate.KEPT, Fate.CHANGED))
        expect(page.locator("#viewer .ds-caption")).to_contain_text(
            f"{unchanged} draft{'s' * (unchanged != 1)} kept, {changed} drawn again"
        )
    button, timeline = page.get_by_role("button", name="Every view"), page.locator("#viewer .ds-timeline").first
    expect(timeline).to_be_hidden()
    button.click()
    expect(timeline).to_be_visible()
    expect(button).to_be_focused()
    page.wait_for_function(
        """() => {
          const parts = document.querySelectorAll("#viewer .ds-cells, #viewer .ds-picture canvas");
          const [room, left, , right] = [...parts].map((part) => part.getBoundingClientRect().width);
          return left > 0.9 * room && Math.abs(left - right) <= 2;
        }"""
    )
    button.click()
    expect(timeline).to_be_hidden()


@pytest.mark.parametrize("page", [{"alone": True}], indirect=True)
def test_play_and_slider_take_over(page: Page) -> None:
    page.wait_for_function(f"{NOW} > 2")
    page.keyboard.press("Tab")  # keyboard users are not rushed
    page.locator("#viewer .ds-slider").focus()
    frame = still(page, NOW)
    assert page.evaluate(f"{SNAPSHOT}.playing")
    page.locator("#viewer .ds-slider").blur()
    page.wait_for_function(f"{NOW} > {frame}")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.mouse.move(2, 2)
    still(page, NOW)
    assert not page.evaluate(f"{SNAPSHOT}.playing")
    page.locator("#viewer .ds-slider").focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(NOW) == 143
    page.clock.install()
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_function(f"{NOW} === 144 && !{SNAPSHOT}.playing")
    page.clock.run_for(3500)
    assert page.evaluate(NOW) == 144  # and it does not begin again


def test_chips_choose_the_pair_for_all_pages(page: Page) -> None:
    chips = page.get_by_role("group", name="Recorded pairs")
    expect(chips.get_by_role("button", name="picture")).to_have_attribute("aria-pressed", "true")
    chips.get_by_role("button", name="text").click()
    expect(page.locator("#viewer .ds-stage")).to_be_visible()
    expect(page.locator("#viewer h2").first).to_have_text("Ordinary decoding")
    expect(page.locator("#outcome")).to_contain_text("ordinary: 34")
    expect(page.get_by_label("Prompt", exact=True)).to_have_value(re.compile("^Correct the spelling of this text"))
    chips.get_by_role("button", name="picture").click()
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("a penguin in the snow")
    page.wait_for_function(f"{NOW} > 2")
    chips.get_by_role("button", name="continuous").click()
    expect(page.locator("#viewer h2").nth(1)).to_contain_text("CSpD")
    page.wait_for_function(f"{SNAPSHOT}.lanes[0].tokens.length === 144 && {NOW} > 2")
    expect(page.locator("#outcome")).to_contain_text("of the drafter")
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("a taxi at sunset")
    page.locator("#trace > button").click()
    expect(page.locator("#command textarea")).to_have_value(re.compile("draftscope run cspd"))


def test_a_card_of_the_gallery_plays_on_the_stage_and_a_wrong_answer_is_flagged(page: Page) -> None:
    for _ in range(2):  # again, after a chip showed another one
        page.locator("#gallery button", has_text="PSD (Confidence), depth 3").click()
        page.wait_for_function(f"{SNAPSHOT}.lanes[1]?.tokens.length === 64 && {SNAPSHOT}.playing && {NOW} < 3")
        expect(page.locator("#viewer .ds-stage")).to_be_in_viewport()
        page.wait_for_function("location.hash === '#gallery=text-psd'")
        page.get_by_role("group", name="Recorded pairs").get_by_role("button", name="picture").click()
        page.wait_for_function(f"{SNAPSHOT}.lanes[1]?.tokens.length === 144")
    page.locator("#gallery button", has_text="PSD (Confidence), depth 3").click()
    page.wait_for_function(f"{SNAPSHOT}.lanes[1]?.tokens.length === 64")
    page.locator("#viewer").get_by_role("button", name="Last", exact=True).click()
    cards = ["✓ 55 tokens in 55 passes", "✗ wrong: 20, not 30 · 55 tokens in 4 passes"]
    page.wait_for_function(f"told => {COUNTS}.join() === told.join()", arg=cards)
    page.locator("#viewer").get_by_role("button", name="Numbers", exact=True).click()
    page.locator("#viewer").get_by_role("button", name="Next rejection").click()
    expect(page.locator("#viewer .ds-where")).to_contain_text("pass 3 of 4")


def test_the_address_names_the_race_and_opens_it_at_the_same_pass(page: Page) -> None:
    chips = page.get_by_role("group", name="Recorded pairs")
    chips.get_by_role("button", name="continuous").click()
    named = "gallery=cspd-mixture"
    page.wait_for_function(f"{NOW} > 2 && location.hash === '#{named}'")
    page.get_by_role("button", name="Numbers", exact=True).click()
    page.get_by_role("button", name="Next rejection").click()
    page.wait_for_function(f"location.hash === `#{named}&step=${{{SNAPSHOT}.lanes[1].steps}}&clock=passes`")
    clock, shown = page.evaluate(NOW), page.evaluate(f"{SNAPSHOT}.lanes")
    page.reload(wait_until="load")
    page.wait_for_function(f"globalThis.draftscopePlayers?.viewer?.called === '{named}' && {NOW} === {clock}")
    assert page.evaluate(f"{SNAPSHOT}.lanes") == shown
    expect(chips.get_by_role("button", name="continuous")).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("page", [{"reduced_motion": "reduce"}], indirect=True)
def test_reduced_motion_is_a_still_of_the_middle(page: Page) -> None:
    page.wait_for_function(f"{NOW} > 0")
    steps = read(FASTER).steps
    close = [
        count
        for count, step in enumerate(steps, 1)
        for fate, odds in zip(step.fate, step.accept_prob or (), strict=False)
        if fate is Fate.RESAMPLED and 0.3 <= (odds or 0) <= 0.7
    ]
    near = min(close, key=lambda count: (abs(count - len(steps) // 2), count))
    assert still(page, NOW) == near and not page.evaluate(f"{SNAPSHOT}.playing")
    assert page.evaluate(TOKENS)[0] == near
    expect(page.locator("#viewer .ds-caption")).to_contain_text("Another patch replaces it.")


def test_a_run_replaces_the_race(page: Page) -> None:
    page.wait_for_function(f"{NOW} > 1")
    choose_raster(page)
    seen = "!document.querySelector('.ds-races button').disabled"  # it can be pressed again when the run has finished
    page.evaluate(f"void (globalThis.gone = new Promise((yes) => setInterval(() => {seen} || yes(), 5)))")
    page.locator("#run").click()
    page.evaluate("gone")
    page.wait_for_function(f"{SNAPSHOT}.lanes[0]?.tokens.length === 256")
    page.set_viewport_size({"width": 390, "height": 844})  # a window made narrow while it runs
    expect(page.locator("#stop")).to_be_hidden(timeout=120_000)
    page.wait_for_function(f"{SNAPSHOT}.lanes.every(lane => lane.finals === 256)")
    still(page, NOW)
    assert page.evaluate(TOKENS) == [256, 256]
    expect(page.locator("#viewer .ds-say")).to_contain_text("instead of 256")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    chips = page.get_by_role("group", name="Recorded pairs").get_by_role("button")
    assert {chip.get_attribute("aria-pressed") for chip in chips.all()} == {"false"}
    chips.nth(1).click()
    page.wait_for_function(f"{SNAPSHOT}.lanes[0].tokens.length === 144 && {NOW} > 1")


HEIGHTS = """() => new Promise((done) => {
  const least = {};
  let live = false;
  const next = () => {
    const on = run.disabled;
    live ||= on;
    if (live && !on) return done(least);
    for (const id of ['outcome', 'why', 'again'])
      least[id] = Math.min(least[id] ?? Infinity, document.getElementById(id)?.offsetHeight ?? 0);
    least.hidden = Math.max(least.hidden ?? 0, document.querySelector('#outcome .waits') ? 1 : 0);
    requestAnimationFrame(next);
  };
  run.click();
  next();
})"""
"""The smallest heights of three parts below the stage during a run, and whether the numbers were hidden."""
EMPTIED = """(facts) => eval(gradio_config.dependencies.map(({ js }) => js)
  .find((js) => typeof js === 'string' && js.startsWith('(facts) =>')))(facts)"""
"""Changes below the stage at the end of a run."""


@pytest.mark.nightly
def test_figures_below_the_stage_do_not_jump_during_a_run(page: Page) -> None:
    expect(page.locator("#outcome .facts")).to_be_visible()
    expect(page.locator("#again button").first).to_be_visible()
    before = page.locator("#outcome .facts dd").all_inner_texts()
    heights = page.evaluate(HEIGHTS)
    assert min(heights["outcome"], heights["why"], heights["again"]) >= 30, heights
    assert heights["hidden"] == 1  # those of another run are not to be read
    expect(page.locator("#outcome .facts dd").first).to_be_visible()
    assert len(page.locator("#outcome .facts dd").all_inner_texts()) == len(before)
    failed_midway = {"waits": True}
    skipped, emptied = page.evaluate(EMPTIED, []), page.evaluate(EMPTIED, failed_midway)
    assert skipped == [{"__type__": "update"}] * len(emptied)
    assert len(emptied) == 3 and {"__type__": "update"} not in emptied


def test_a_coin_that_is_let_go_is_decoded_live_and_the_run_comes_back(page: Page) -> None:
    page.evaluate("draftscopePlayers.viewer.loadUrl('traces/traces/scd-picture.json.gz')")
    page.wait_for_function(f"{SNAPSHOT}.lanes.length === 1")
    page.locator("#viewer .ds-next").click()
    tokens = "draftscopePlayers.viewer.lanes[0].replay.latest.token.join()"
    before = page.evaluate(tokens)
    page.locator("#viewer .ds-draw-slider:visible").press("Home")
    expect(page.locator("#viewer .ds-say")).to_contain_text("What if, decoded live: ")
    assert page.evaluate(tokens) != before
    page.keyboard.press("Escape")
    page.wait_for_function(f"{tokens} === '{before}'")
