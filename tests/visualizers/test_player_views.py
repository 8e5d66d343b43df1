"""Every view of the player: where it shows, how it grows with a running decoder, and what it makes of coarse traces."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page, expect
from support import handmade
from support.blocks import diffusion, s2d2, simsd
from support.browser import accessible
from support.film import film, plain_film
from support.hostile import written
from support.playing import every_view, push, settle, show, start
from support.raster import jacobi, ordinary
from support.speculation import Plan, speculated

from traces import Trace, loads
from traces.schema import Legend
from visualizers.page import standalone

VIEWS: dict[str, tuple[Callable[[], Trace], Callable[[], Trace]]] = {
    "text": (diffusion, jacobi),
    "mask": (s2d2, jacobi),
}
"""View -> a run that has it, and one that has not."""


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shows_where_there_is_something_and_grows_with_a_running_decoder(page: Page, name: str) -> None:
    has, lacks = VIEWS[name]
    show(page, lacks())
    view = page.locator(f".ds-{name}")
    assert view.is_hidden()
    whole = start(page, has())
    assert name == "text" or view.is_hidden()
    push(page, whole, *range(min(12, len(whole["steps"]))))
    assert view.is_visible()


COUNTS = ({"accepted": 3, "window": 4, "committed": 4}, {"accepted": 1, "window": 1, "committed": 2})


def test_a_coarse_trace_says_nothing_that_is_not_there(page: Page) -> None:
    coarse = loads(handmade.coarse(COUNTS, 6))
    show(page, coarse, fragment="#step=1&token=1")
    expect(page.locator(".ds-lane").first.get_by_text("accepted: the draft was judged and is final")).to_be_visible()
    expect(page.locator(".ds-tokens")).to_contain_text("· · · ·")
    for missing in ("undefined", "token none"):
        expect(page.locator("body")).not_to_contain_text(missing)
    words = Legend(vocabulary={1: "The", 2: " small", 3: " red", 4: " boot", 5: " is", 6: " new"})
    known = loads(handmade.coarse(COUNTS, 6, output={"tokens": [1, 2, 3, 4, 5, 6]}))
    show(page, replace(known, legend=words), fragment="#step=2&ids")
    expect(page.locator(".ds-tokens")).to_contain_text("The small red boot is new")
    show(page, coarse, coarse, coarse, fragment="#three")
    expect(page.get_by_label("Trace on the left").locator("option").first).to_have_text("1. elsewhere")


RUNS: list[tuple[list[Trace], int]] = [
    ([ordinary(), jacobi()], 40),
    ([written()], 1),
    ([diffusion(), s2d2()], 14),
    ([simsd()], 6),
    ([diffusion(), speculated(Plan(depth=7, held=(0, 5)))], 2),
    ([handmade.cspd()], 2),
    ([plain_film(3, 6), film(3, 6)], 40),
]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_pages_are_accessible_and_fit(browser: Browser, scheme: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    for traces, moment in RUNS:
        page.set_content(standalone(traces, "A page"))
        every_view(page)
        page.evaluate("now => player.set(now)", moment)
        for closed in page.locator("summary:visible").all():
            closed.click()
        settle(page)
        assert page.locator(".ds").evaluate("root => root.classList.contains('is-dark')") == (scheme == "dark")
        accessible(page)
    context.close()
