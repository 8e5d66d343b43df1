"""The first screen before the app has started, by keyboard alone, read aloud, in a lecture and on a phone."""

import re
from collections.abc import Iterator
from threading import Event

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from support.browser import AXE, quiet, still, visit

PLAYER = "(globalThis.draftscopeFirst?.player ?? globalThis.draftscopePlayers?.viewer)"
FOCUSED = """() => {
  const { activeElement: node } = document;
  const { outlineStyle, outlineWidth } = getComputedStyle(node);
  const about = node.closest("#gallery, #viewer, #ask, #pages > .tab-wrapper")?.id ?? "";
  return { name: node.getAttribute("aria-label") ?? node.textContent.trim().slice(0, 40), about,
    seen: outlineStyle !== "none" && outlineWidth !== "0px" };
}"""
_ALONE: dict[str, object] = {"resultTypes": ["violations"]}
_CONTRAST = {"runOnly": ["color-contrast"]}  # alone depends on the colours, and takes nine tenths of the time
_NO_CONTRAST = {"rules": {"color-contrast": {"enabled": False}}}
COVERED = """() => [...document.querySelectorAll("#viewer .ds-controls :is(button, input), #run")]
  .filter((node) => node.checkVisibility()).filter((node) => {
    const { x, y, width, height } = node.getBoundingClientRect();
    const [upper] = document.elementsFromPoint(x + width / 2, y + height / 2);
    return y + height < innerHeight && !(node === upper || node.contains(upper));
  }).map((node) => node.outerHTML.slice(0, 80))"""


@pytest.fixture
def page(browser: Browser, shipped_server: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    with visit(browser, shipped_server, **getattr(request, "param", {})) as opened:
        opened.wait_for_function("globalThis.draftscopeOpened")
        yield opened


def test_the_first_race_plays_before_the_app_has_started_which_takes_it_over(
    browser: Browser, shipped_server: str
) -> None:
    with visit(browser, alone=True, reduced_motion="no-preference") as page:
        routes, open_gate = list[Route](), Event()
        hold = lambda route: route.continue_() if open_gate.is_set() else routes.append(route)  # noqa: E731
        page.route("**/assets/**", hold)
        page.goto(shipped_server, wait_until="commit")
        page.wait_for_function(f"{PLAYER}?.now > 1 && {PLAYER}.playing")
        expect(page.locator("#first .ds-stage")).to_be_visible()
        assert page.evaluate(f"{PLAYER}.stage.laneNames()") == ["SmolLM2-135M, speculative", "the same model, ordinary"]
        page.get_by_role("button", name="Pause", exact=True).click()
        page.evaluate(f"void (globalThis.early = {PLAYER})")
        now = page.evaluate(f"{PLAYER}.now")
        open_gate.set()
        for route in routes:
            route.continue_()
        page.wait_for_function("globalThis.draftscopeOpened && draftscopePlayers.viewer === early")
        expect(page.locator("#first")).to_have_count(0)
        expect(page.locator("#viewer .ds-stage")).to_be_visible()
        plain = "[gradio_config.layout, ...gradio_config.dependencies].filter((one) => one.constructor === Object)"
        assert page.evaluate(plain) == []  # plain objects would slow the start
        quiet(page)
        assert page.evaluate(f"{PLAYER}.now") == now  # neither begun again nor moved on


def test_a_page_at_rest_draws_nothing(browser: Browser, shipped_server: str) -> None:
    with visit(browser) as page:
        page.add_init_script("""{
          const request = requestAnimationFrame;
          globalThis.frames = 0;
          globalThis.requestAnimationFrame = (draw) => (globalThis.frames++, request(draw));
        }""")
        page.goto(shipped_server, wait_until="load")
        page.wait_for_function("globalThis.draftscopeOpened", polling=100)
        assert still(page, "globalThis.frames") > 0


def test_the_keyboard_alone_leads_through_the_page_and_the_gallery_is_one_stop(page: Page) -> None:
    stops = list[dict[str, str]]()
    while not stops or ("Download or open" not in stops[-1]["name"] and len(stops) < 60):
        page.keyboard.press("Tab")
        stops.append(page.evaluate(FOCUSED))
    names = [stop["name"] for stop in stops]
    assert len(stops) < 60, names
    assert [stop["name"] for stop in stops if not stop["seen"]] == []
    assert sum(stop["about"] == "gallery" for stop in stops) == 1
    assert {"Next rejection", "Lecture", "Run"} <= {*names}
    first = page.locator("#gallery button").first
    first.focus()
    for key, index in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", -1), ("Home", 0)):
        page.keyboard.press(key)
        expect(page.locator("#gallery button").nth(index)).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#gallery button").nth(1)).to_have_attribute("aria-pressed", "true")


def test_a_lecture_begins_and_ends_by_keys_and_the_stage_is_read_out_as_it_is_seen(page: Page) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("l")
    stage = page.locator("#viewer .ds-stage")
    page.wait_for_function("draftscopePlayers.viewer.lecturing")
    box = stage.bounding_box()
    assert box is not None and box["width"] > 1800 and box["height"] > 850
    page.keyboard.press("End")
    page.keyboard.press("r")  # goes to the first rejection after the end: none, so it stays
    page.keyboard.press("Home")
    page.keyboard.press("r")
    label = stage.get_by_role("img")
    expect(label).to_have_attribute("aria-label", re.compile("is drawn from the residual"))
    page.keyboard.press("Escape")
    page.wait_for_function("!draftscopePlayers.viewer.lecturing")
    page.evaluate("draftscopePlayers.viewer.set(draftscopePlayers.viewer.extent())")
    expect(label).to_have_attribute("aria-label", re.compile("The text so far: The old library stands on the hill"))
    tree = page.locator("#viewer").aria_snapshot()
    assert "The text so far: The old library stands on the hill. Every morning, the librarian opens" in tree
    for spoken in ('button "Play"', 'button "Next rejection"', 'button "Lecture"', 'slider "Position on the clock"'):
        assert spoken in tree
    expect(page.locator("#viewer .ds-say")).to_contain_text(re.compile(r"\d\.\d times as fast"))


def unfold(page: Page, tab: str) -> None:
    """Open what a tab folds away, or shows after a choice."""
    if tab == "Watch":
        for fold in (".settings > button", "#why summary", "#trace > button"):
            page.locator(fold).first.click()
        expect(page.get_by_label("Method")).to_be_visible()
        expect(page.locator("#trace-details table")).to_be_visible()
    elif tab == "Choose":
        expect(page.locator("#choose-plot .js-plotly-plot")).to_be_visible()
        page.locator("#results > button").click()
        expect(page.locator("#results-plot .js-plotly-plot")).to_be_visible()
    elif tab == "Learn":
        page.get_by_role("tab", name="Methods").click()
        page.locator("#method-gsd > button").click()


_MOVING = """[...document.querySelectorAll('.gradio-container *')]
  .filter((element) => parseFloat(getComputedStyle(element).transitionDuration) > 0)
  .map((element) => element.outerHTML.slice(0, 100))"""


@pytest.mark.parametrize("tab", ["Watch", "Compare", "Choose", "Learn"])
def test_a_tab_breaks_no_rule_wide_or_narrow_light_or_dark(page: Page, tab: str) -> None:
    page.get_by_role("tab", name=tab, exact=True).click()
    unfold(page, tab)
    page.evaluate(AXE)
    found = list[tuple[object, ...]]()
    for width, scheme, rules in ((1440, "light", {}), (1440, "dark", _CONTRAST), (390, "dark", _NO_CONTRAST)):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        expect(page.locator("body.dark")).to_have_count(int(scheme == "dark"))
        quiet(page)
        assert page.evaluate(_MOVING) == []  # nor is a colour read that is on its way to another
        broken = page.evaluate("rules => axe.run(rules).then(({ violations }) => violations)", _ALONE | rules)
        found += [(width, scheme, one["id"], node["html"][:200]) for one in broken for node in one["nodes"]]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert found == []


@pytest.mark.parametrize("page", [{"viewport": {"width": 390, "height": 844}}], indirect=True, ids=["phone"])
def test_a_rejection_is_found_on_a_phone_in_two_taps(page: Page) -> None:
    assert page.evaluate(COVERED) == []
    page.get_by_role("button", name="Next rejection").click()
    caption = page.locator("#viewer .ds-caption.is-close")
    expect(caption).to_be_in_viewport(ratio=1)
    expect(page.locator("#viewer .ds-draw-slider")).to_be_in_viewport()
    page.get_by_role("button", name="Numbers", exact=True).click()
    expect(page.locator("#viewer .ds-where")).to_contain_text("target pass")
    expect(page.locator("#viewer .ds-part-verdict")).to_contain_text("rejected")
    assert page.evaluate(COVERED) == []
