"""Every view of the player: where it shows, how it grows with a running decoder, and what it makes of broken data."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from support import handmade
from support.blocks import diffusion, s2d2, simsd
from support.film import film, plain_film
from support.playing import every_view, harness, plain, settle, show, snapshot
from support.speculation import Plan, speculated
from support.synthetic import jacobi, ordinary, written

from traces.schema import Trace
from visualizers.page import standalone

pytestmark = pytest.mark.browser

VIEWS: dict[str, tuple[Callable[[], Trace], Callable[[], Trace]]] = {
    "acceptance": (jacobi, ordinary),
    "agreement": (jacobi, ordinary),
    "text": (diffusion, jacobi),
    "mask": (s2d2, diffusion),
    "routing": (s2d2, simsd),
    "graph": (speculated, diffusion),
    "paths": (handmade.cspd, diffusion),
}
"""View -> a run that has it, and one that has not."""


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shows_where_there_is_something_and_grows_with_a_running_decoder(page: Page, name: str) -> None:
    has, lacks = VIEWS[name]
    show(page, lacks())
    view = page.locator(f".ds-{name}")
    assert view.is_hidden()
    whole = plain(has())
    harness(page)
    page.evaluate("meta => player.begin(0, meta)", {**whole, "steps": []})
    assert name == "text" or view.is_hidden()
    for number, step in enumerate(whole["steps"][:12]):
        page.evaluate("([number, step]) => player.push(0, number, step)", [number, step])
    settle(page)
    assert view.is_visible()


def path(*points: object, other: object = ((0, 0), (1, 1)), distances: object = (0, 2)) -> list[object]:
    return [None, {"draft": points, "target": other, "distance_squared": distances}]


BROKEN = [
    *(
        ("mask", s2d2, {"queries": ["a", "b"], "keys": ["c"], "runs": runs})
        for runs in ([[1, 2]], "no", [[-1, 2], [0, 1]], [[2], [1]], [None, [1]])
    ),
    *(("paths", handmade.cspd, paths) for paths in ("no", [7, {}], path([0, 0], [0, "<b>"]), path([0, 0]))),
    *(
        ("graph", speculated, graph)
        for graph in (
            "no",
            [{"row": 0}],
            [{"row": 0, "parents": [0], "positions": [], "accepted": True}],
            [{"row": 0, "parents": [], "positions": ["<b>"], "accepted": True}],
            [None],
        )
    ),
]


@pytest.mark.parametrize(("name", "maker", "value"), BROKEN)
def test_data_that_makes_no_sense_is_left_out(page: Page, name: str, maker: Callable[[], Trace], value: Any) -> None:
    whole = plain(maker())
    for step in whole["steps"]:
        step[name] = json.loads(json.dumps(value))
    harness(page)
    page.evaluate("trace => player.load([trace])", whole)
    settle(page)
    assert page.locator(f".ds-{name}").is_hidden()
    assert snapshot(page)["lanes"][0]["steps"] == len(whole["steps"])


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
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    for traces, moment in RUNS:
        page.set_content(standalone(traces, "A page"))
        every_view(page)
        page.evaluate("now => player.set(now)", moment)
        for closed in page.locator("summary:visible").all():
            closed.click()
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.locator(".ds").evaluate("root => root.classList.contains('is-dark')") == (scheme == "dark")
        results = Axe().run(page)
        assert results.violations_count == 0, results.generate_report()
    context.close()
