"""Chromium for tests, without sandbox or graphics card."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route, expect
from playwright.sync_api import TimeoutError as LateError

from benchmarks._browser import find_chromium

expect.set_options(timeout=60_000)  # a busy machine is slow, not wrong

_OPTIONS: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
_shared: WeakKeyDictionary[Browser, BrowserContext] = WeakKeyDictionary()

_SENT = re.compile(r"/gradio_api/(run/|queue/join)")
SNAPSHOT = "draftscopePlayers.viewer.snapshot()"
AXE = Axe().axe_script
# What passes is not reported: each of its nodes would be named by a selector, and sent.
_RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"]}
_QUIET = """() => new Promise((done) => {
  let timer = setTimeout(done, 250);
  setTimeout(done, 10000);  // where something moves all the time
  const later = () => { clearTimeout(timer); timer = setTimeout(done, 250); };
  new MutationObserver(later).observe(document.body, { subtree: true, childList: true, attributes: true });
})"""
_STILL = """async (read) => {
  const value = () => JSON.stringify(eval(read));
  for (let before = value(), since = Date.now(), begun = since; Date.now() - begun < 60000;) {
    await new Promise((done) => setTimeout(done, 50));
    if (value() !== before) [before, since] = [value(), Date.now()];
    if (Date.now() - since > 1000) return JSON.parse(before);
  }
  throw new Error(`${read} goes on changing`);
}"""


def executable() -> str:
    """The path of Chromium; the test is skipped where there is none."""
    return find_chromium() or pytest.skip("needs Chromium or Chrome on the path")


_FRESH = """try {
  if (!sessionStorage.visited) localStorage.clear();
  sessionStorage.visited = 1;
} catch { }"""
"""Script that removes what earlier visits kept; a page keeps its own when it is loaded again."""


@contextmanager
def visit(
    browser: Browser, address: str = "", *, console: bool = False, alone: bool = False, **options: Any
) -> Iterator[Page]:
    """A page of the app, once its player is there; fails on script errors, dialogs and requests to elsewhere.

    With `console`, whatever the browser writes as an error fails, too; `options` are `viewport`, and what
    `ApiBlocks.emulate_media` takes. Visits share a cache and a window, which halves their time, unless one is `alone`.
    """
    media = _OPTIONS | options
    size = media.pop("viewport")
    context = None if alone else _shared.get(browser)
    if context is None:
        context = browser.new_context(**_OPTIONS)
        context.set_default_timeout(60_000)
        if not alone:
            _shared[browser] = context
            context.new_page()  # keeps the window open
    wrong, allowed = list[str](), ("/".join(address.split("/")[:3]), "data:", "blob:", "file:")

    def watch(page: Page) -> None:
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("console", lambda message: wrong.append(message.text) if console and message.type == "error" else None)
        page.on("request", lambda sent: None if not address or sent.url.startswith(allowed) else wrong.append(sent.url))

    context.on("page", watch)
    page = context.new_page()
    page.add_init_script(_FRESH)
    page.set_viewport_size(size)
    page.emulate_media(**media)
    if address:
        page.goto(address, wait_until="load")
        page.wait_for_function(f"globalThis.draftscopePlayers?.viewer && {SNAPSHOT}.lanes.length === 2")
    yield page
    context.remove_listener("page", watch)
    (context if alone else page).close()
    assert not wrong, wrong


def press_once(page: Page, button: str, *, within: str = "body", timeout: float | None = None) -> None:
    """Press a button as soon as it and something else are there: while something runs a button may move, or go."""
    page.wait_for_function(
        """([button, there]) => {
          const found = document.querySelector(button);
          return found?.checkVisibility() && document.querySelector(there) && (found.click(), true);
        }""",
        arg=[button, within],
        timeout=timeout,
    )


def quiet(page: Page) -> None:
    """Wait until the page has not changed for a moment."""
    page.evaluate(_QUIET)


def still(page: Page, expression: str) -> Any:
    """The value of an expression once it has stayed the same for a second."""
    return page.evaluate(_STILL, expression)


def accessible(page: Page, *widths: int) -> None:
    """The page breaks no rule of WCAG 2.1 AA and fits, at each of these widths or as it is; contrast at the first."""
    size = page.viewport_size
    assert size is not None
    for number, width in enumerate(widths or (size["width"],)):
        if widths:
            page.set_viewport_size({"width": width, "height": 844})
        quiet(page)
        if not page.evaluate("'axe' in globalThis"):
            page.evaluate(AXE)
        rules = _RULES | {"rules": {"color-contrast": {"enabled": not number}}}  # takes nine tenths of the time
        broken = page.evaluate("rules => axe.run(rules).then(({ violations }) => violations)", rules)
        assert [(one["id"], node["html"][:200]) for one in broken for node in one["nodes"]] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def choose_raster(page: Page) -> None:
    """In the form of the app, choose the model that needs no weights and takes no prompt."""
    page.locator(".settings > button").first.click()
    page.get_by_label("Model").click()
    page.get_by_role("option", name="Toy raster, 16x16").click()
    expect(page.get_by_placeholder("Takes no prompt.")).to_be_disabled()


def downloaded(page: Page, link: Locator, path: Path) -> str:
    """Press what gives a file, which may take a while, and keep it at a path; its own name."""
    with page.expect_download(timeout=180_000) as download:
        link.click(timeout=180_000)
    download.value.save_as(path)
    return download.value.suggested_filename


def choose(page: Page, field: Locator, option: str) -> None:
    """Choose from a list, and open it again if an update of the page closed it."""
    wanted = page.get_by_role("option", name=option, exact=True)
    for _ in range(10):
        try:
            field.click(timeout=5000)
            wanted.click(timeout=2000)
            return
        except LateError:
            page.keyboard.press("Escape")
    pytest.fail(f"{option} could not be chosen")


@contextmanager
def answered_late(page: Page) -> Iterator[None]:
    """Hold what the page sends to the server meanwhile, and then let it go, the last first."""
    held_routes, end = list[Route](), "until-here"
    page.route(_SENT, lambda route: route.fulfill() if route.request.url.endswith(end) else held_routes.append(route))
    yield
    page.evaluate(f"fetch('gradio_api/run/{end}').then((answer) => answer.text())")  # comes after all others
    page.route(_SENT, lambda route: route.continue_())
    for route in reversed(held_routes):
        route.continue_()
        if answer := route.request.response():
            answer.finished()
    page.unroute(_SENT)
    page.evaluate("new Promise((done) => requestIdleCallback(done))")
