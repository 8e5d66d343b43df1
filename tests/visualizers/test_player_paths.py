"""The player on continuous tokens: how draft and target denoised the chosen one, and the map of acceptance."""

import json
from dataclasses import replace

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from support import handmade
from support.blocks import diffusion
from support.playing import every_view, go, harness, pixels, plain, settle, show, snapshot

from traces.schema import Trace
from visualizers.page import standalone

pytestmark = pytest.mark.browser

REJECTED = (
    "The same noise: both paths start at one point and end 1.58 apart, 1.58 of it in this plane. "
    "The draft was rejected; a new draw (□) took its place."
)
KEPT = (
    "The same noise: both paths start at one point and end 0.354 apart, 0.354 of it in this plane. The draft was kept."
)
CELLS = {"kept": 1, "rejected": 0}
"""Position 0 lies in the right cell."""


def words(page: Page) -> str:
    return page.locator(".ds-paths .ds-words").inner_text()


def cell(page: Page, column: int) -> dict[str, float]:
    box = page.locator(".ds-picture canvas").bounding_box()
    assert box is not None
    return {"x": box["width"] * (0.25 + 0.5 * column), "y": box["height"] / 2}


def apart() -> Trace:
    """The same run with noise of the target's own."""
    trace = handmade.cspd()
    first, second = trace.steps[1].paths or ()
    assert first is not None
    away = replace(first, target=((0.0, 0.0), *first.target[1:]), distance_squared=(4.0, *first.distance_squared[1:]))
    steps = (trace.steps[0], replace(trace.steps[1], paths=(away, second)))
    return replace(trace, config={**trace.config, "align": False}, steps=steps)


def test_hovering_a_judged_token_tells_its_paths(page: Page) -> None:
    show(page, handmade.cspd())
    assert words(page) == "Choose a token whose draft was judged to see how draft and target came by it."
    picture = page.locator(".ds-picture canvas")
    picture.hover(position=cell(page, CELLS["rejected"]))
    settle(page)
    assert words(page) == REJECTED
    picture.hover(position=cell(page, CELLS["kept"]))
    settle(page)
    assert words(page) == KEPT
    assert page.locator(".ds-paths canvas").get_attribute("aria-valuetext") == KEPT
    go(page, 1)
    assert words(page) == "Only a judged draft has two paths; this token was drafted."


def test_the_keyboard_reaches_them(page: Page) -> None:
    show(page, handmade.cspd())
    page.locator(".ds-picture canvas").focus()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert (snapshot(page)["position"], words(page)) == (1, REJECTED)
    page.locator(".ds-paths canvas").focus()
    page.keyboard.press("ArrowLeft")
    settle(page)
    assert (snapshot(page)["position"], words(page)) == (0, KEPT)


def test_a_tap_reaches_them(browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    page.set_content(standalone([handmade.cspd()], "A test"))
    every_view(page)
    settle(page)
    page.locator(".ds-picture canvas").tap(position=cell(page, CELLS["rejected"]))
    settle(page)
    assert words(page) == REJECTED
    context.close()


def test_noise_of_their_own_is_told(page: Page) -> None:
    show(page, apart(), fragment="#token=0")
    assert words(page).startswith("Noise of their own: the paths start 2 apart and end 0.354 apart")


def test_paths_are_drawn_from_one_point_to_two_ends(page: Page) -> None:
    """Position 1: both start at (-0.707, -0.707); the draft ends at (0.177, 0.177), the target at (1.591, 0.884)."""
    show(page, handmade.cspd(), fragment="#token=1")
    canvas = page.locator(".ds-paths canvas")
    image, box = pixels(canvas), canvas.bounding_box()
    assert box is not None
    scale = image.width / box["width"]
    (low, high), (left, right) = (-0.707, 0.884), (-0.707, 1.591)
    unit = min((box["width"] - 32) / (right - left), (230 - 46) / (high - low))

    def colour(x: float, y: float) -> tuple[int, ...]:
        across = box["width"] // 1 / 2 + (x - (left + right) / 2) * unit
        down = 230 / 2 - 7 - (y - (low + high) / 2) * unit
        return image.getpixel((round(scale * across), round(scale * down)))  # type: ignore[return-value]

    blue, vermillion, nothing = (0, 114, 178), (213, 94, 0), (255, 255, 255)
    assert colour(1.591, 0.884) == blue
    assert colour(1.1, 0.7925) == blue  # half way of the last step
    assert colour(0.177, 0.177) == vermillion
    assert colour(1.5, -0.6) == nothing


def test_text_has_no_panel(page: Page) -> None:
    show(page, diffusion())
    assert page.locator(".ds-paths").is_hidden()


def test_an_older_trace_has_no_panel(page: Page) -> None:
    old = handmade.cspd()
    show(page, replace(old, steps=tuple(replace(step, paths=None) for step in old.steps)), fragment="#token=1")
    assert page.locator(".ds-paths").is_hidden()
    assert page.locator(".ds-numbers").is_visible()


@pytest.mark.parametrize(
    "paths",
    [
        "no",
        [7, {}],
        [None, {"draft": [[0, 0]], "target": [[0, 0]], "distance_squared": [0]}],
        [None, {"draft": [[0, 0], [0, "<b>"]], "target": [[0, 0], [1, 1]], "distance_squared": [0, 2]}],
        [None, {"draft": [[0, 0], [0, 1]], "target": [[0, 0], [1, 1]], "distance_squared": [0]}],
    ],
)
def test_paths_that_make_no_sense_are_left_out(page: Page, paths: object) -> None:
    whole = json.loads(json.dumps(plain(handmade.cspd())))
    whole["steps"][1]["paths"] = paths
    harness(page)
    page.evaluate("trace => player.load([trace])", whole)
    settle(page)
    assert page.locator(".ds-paths").is_hidden()
    assert snapshot(page)["lanes"][0]["steps"] == 2


def test_they_appear_in_a_running_decoder(page: Page) -> None:
    whole = plain(handmade.cspd())
    harness(page)
    page.evaluate("meta => player.begin(0, meta)", {**whole, "steps": []})
    assert page.locator(".ds-paths").is_hidden()
    for number in range(2):
        page.evaluate("([number, step]) => player.push(0, number, step)", [number, whole["steps"][number]])
    settle(page)
    assert page.locator(".ds-paths").is_visible()


def test_the_map_of_acceptance_has_the_bars_of_vectors(page: Page) -> None:
    show(page, handmade.cspd())
    image = pixels(page.locator(".ds-acceptance canvas"))
    left, right = (image.getpixel((image.width // 4 * place, image.height // 2)) for place in (1, 3))
    assert right == (254, 232, 56)  # certain to pass
    assert left != right


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_page_is_accessible_and_fits(browser: Browser, scheme: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    page.set_content(standalone([handmade.cspd(), apart()], "Two runs"))
    every_view(page)
    settle(page)
    page.locator(".ds-picture canvas").first.hover()
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()
    context.close()
