"""A page with the player in a browser, and how to ask it what it shows."""

import json
from typing import Any

from PIL import Image
from playwright.sync_api import Locator, Page, Route

from draftscope.traces.io import dumps
from draftscope.traces.schema import Trace
from draftscope.visualizers import player
from draftscope.visualizers.picture import picture_of
from draftscope.visualizers.player_page import standalone

SITE = "http://player.test/"
HARNESS = '<!doctype html><html lang="en"><title>t</title><body><main><div id="root"></div></main></body></html>'

_SETTLED = """async () => {
  const images = player.lanes.flatMap(({ picture, clip }) =>
    [picture.sheet?.image, picture.picture, ...picture.frames.map(({ image }) => image), ...clip.frames]);
  await Promise.all(images.map((image) => image && !image.complete && image.decode().catch(() => null)));
  for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
}"""


def show(page: Page, *traces: Trace, fragment: str = "") -> None:
    """Open a standalone page; no other URL may be requested."""
    requests: list[str] = []
    html = standalone(traces, "A test")
    page.route(
        "**/*", lambda route: (requests.append(route.request.url), route.fulfill(body=html, content_type="text/html"))
    )
    page.goto("about:blank")  # another fragment alone would not load the page again
    page.goto(SITE + fragment)
    every_view(page)
    settle(page)
    assert [url for url in requests if not url.startswith(SITE)] == []


def every_view(page: Page) -> None:
    """Open the views that a standalone page begins without."""
    page.evaluate("document.querySelector('.ds-whole').click(); document.activeElement.blur()")
    settle(page)


def harness(page: Page, files: dict[str, bytes] | None = None) -> None:
    """Open an empty page with a player as a host such as the app would make it."""

    def answer(route: Route) -> None:
        name = route.request.url.removeprefix(SITE)
        if name in (files or {}):
            route.fulfill(body=(files or {})[name])
        elif name == "":
            route.fulfill(body=HARNESS, content_type="text/html")
        else:
            route.fulfill(status=404, body="")

    page.route("**/*", answer)
    page.goto(SITE)
    page.add_style_tag(content=player.style())
    page.add_script_tag(content=player.script())
    page.evaluate(
        "data => { globalThis.heard = []; globalThis.player = Draftscope.mount(document.getElementById('root'),"
        " { data, emit: (...event) => heard.push(event) }); }",
        player.data(),
    )


def stage(page: Page, *traces: Trace, **options: bool) -> None:
    """Open such a page with runs on the stage."""
    harness(page)
    page.evaluate(
        "([traces, options]) => { player.useStage(true); player.load(traces, options); }",
        [[plain(trace) for trace in traces], options],
    )
    settle(page)


def plain(trace: Trace) -> Any:
    return json.loads(dumps(trace))


def settle(page: Page) -> None:
    """Let the drawing catch up, once all pictures of the runs are there."""
    page.evaluate(_SETTLED)


def go(page: Page, passes: float) -> None:
    page.evaluate("passes => player.set(player.readingOf(passes))", passes)
    settle(page)


def snapshot(page: Page) -> Any:
    return page.evaluate("player.snapshot()")


def pixels(canvas: Locator) -> Image.Image:
    return picture_of(canvas.evaluate("canvas => canvas.toDataURL()"))


def chips(page: Page, *classes: str) -> list[int]:
    """Positions of the chips of a text that have all the classes."""
    chosen = page.locator("".join(f".{name}" for name in ("ds-token", *classes)))
    return chosen.evaluate_all("all => all.map(chip => Number(chip.dataset.position))")


def start(page: Page, trace: Trace, passes: int = 0) -> Any:
    """Open a player, announce a run to it and show its first passes; return the whole trace as plain data."""
    document = plain(trace)
    harness(page)
    page.evaluate("meta => player.begin(0, meta)", {**document, "steps": []})
    push(page, document, *range(passes))
    return document


def push(page: Page, document: Any, *numbers: int) -> None:
    """Let passes of a run arrive, by their numbers from 0."""
    for number in numbers:
        page.evaluate("([number, step]) => player.push(0, number, step)", [number, document["steps"][number]])
    settle(page)
