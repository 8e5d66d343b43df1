"""Pages of `draftscope site`, opened from a folder: address parameters, iframes, hostile text, first paint."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from plotly.colors import hex_to_rgb
from support import handmade
from support.hostile import EVERY, RAN, hostile

from draftscope.traces import read
from draftscope.traces.files import ROOT
from draftscope.visualizers.palette import DARK
from draftscope.visualizers.site import write_site

BACKGROUND = "getComputedStyle(document.documentElement).backgroundColor"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    names = ("speculative-juice", "ar-juice")
    recorded = [(name, read(ROOT / "assets" / "traces" / f"{name}.json.gz")) for name in names]
    write_site([*recorded, ("hostile", hostile(handmade.psd(), EVERY))], folder, EVERY)
    frame = '<iframe src="speculative-juice.html#theme=dark&embed=1&step=2" width="800" height="600"></iframe>'
    (folder / "host.html").write_text(f"<!doctype html><title>t</title>{frame}")
    return folder


def test_the_address_gives_position_theme_and_what_is_around(page: Page, site: Path) -> None:
    page.goto(f"{(site / 'speculative-juice.html').as_uri()}#step=3&theme=dark")
    page.wait_for_function("player.lanes.length === 2")
    assert page.evaluate("[player.now > 0 && player.now < player.extent(), player.playing, player.theme.dark]") == [
        *(True, False, True),
    ]
    assert page.evaluate(BACKGROUND) == f"rgb{hex_to_rgb(DARK.background)}"
    expect(page.locator("h1")).to_be_visible()
    page.goto("about:blank")
    page.goto((site / "host.html").as_uri())
    frame = page.frame_locator("iframe")
    expect(frame.locator(".ds")).to_be_visible()
    expect(frame.locator("h1")).to_be_hidden()
    assert frame.locator("html").evaluate(f"() => {BACKGROUND}") == f"rgb{hex_to_rgb(DARK.background)}"


def test_autoplay_plays_from_the_beginning_and_respects_reduced_motion(page: Page, site: Path) -> None:
    address = f"{(site / 'speculative-juice.html').as_uri()}#autoplay=1"
    page.goto(address)
    page.wait_for_function("player.playing && player.now > 0")
    page.emulate_media(reduced_motion="reduce")
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_function("player.lanes.length === 2")
    assert not page.evaluate("player.playing")


def test_hostile_text_stays_text_and_nothing_is_requested(page: Page, site: Path) -> None:
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    for name in ("index.html", "hostile.html"):
        page.goto(f"{(site / name).as_uri()}#theme={EVERY}&step=1")
        page.wait_for_load_state()
        assert page.evaluate(f"typeof {RAN}") == "undefined"
        assert page.locator("[src=x], [href*='javascript:']").count() == 0
    assert [url for url in requested if not url.startswith((site.as_uri(), "data:", "blob:"))] == []


@pytest.mark.timed
def test_the_first_paint_takes_less_than_a_second(page: Page, site: Path) -> None:
    for name in ("index.html", "speculative-juice.html"):
        page.goto((site / name).as_uri())
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length === 1")
        assert page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") < 1000
