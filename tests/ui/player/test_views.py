"""The player's views, and those of videos: latent frames side by side, and the clip as far as it is decided."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import pytest
from PIL import ImageColor
from playwright.sync_api import Browser, Page, expect
from support import handmade
from support.blocks import diffusion, s2d2, simsd
from support.browser import accessible, still, visit
from support.hostile import written
from support.player_page import every_view, go, pixels, push, settle, show, snapshot, start
from support.psd_runs import Plan, speculated
from support.toy_videos import EACH, film, plain_film

from benchmarks._toy_runs import jacobi, ordinary, tile_color
from draftscope.traces import Trace, loads
from draftscope.traces.replay import canvas_states
from draftscope.traces.schema import Legend
from draftscope.visualizers.palette import LIGHT
from draftscope.visualizers.player_page import standalone

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
    document = start(page, has())
    assert name == "text" or view.is_hidden()
    push(page, document, *range(min(12, len(document["steps"]))))
    assert view.is_visible()


COUNTS = ({"accepted": 3, "window": 4, "committed": 4}, {"accepted": 1, "window": 1, "committed": 2})


def test_a_coarse_trace_says_nothing_that_is_not_there(page: Page) -> None:
    coarse = loads(handmade.coarse(COUNTS, 6))
    show(page, coarse, fragment="#step=1&token=1")
    expect(page.locator(".ds-lane").first.get_by_text("accepted: the draft was verified and is final")).to_be_visible()
    expect(page.locator(".ds-tokens")).to_contain_text("· · · ·")
    for missing in ("undefined", "token none"):
        expect(page.locator("body")).not_to_contain_text(missing)
    words = Legend(vocabulary={1: "The", 2: " small", 3: " red", 4: " boot", 5: " is", 6: " new"})
    known = loads(handmade.coarse(COUNTS, 6, output={"tokens": [1, 2, 3, 4, 5, 6]}))
    show(page, replace(known, legend=words), fragment="#step=2&ids")
    expect(page.locator(".ds-tokens")).to_contain_text("The small red boot is new")
    show(page, coarse, coarse, coarse, fragment="#three")
    expect(page.locator(".ds-lane")).to_have_count(3)


def runs() -> list[tuple[list[Trace], int]]:
    """Runs of every kind, each with a pass to look at."""
    return [
        ([ordinary(), jacobi()], 40),
        ([written()], 1),
        ([diffusion(), s2d2()], 14),
        ([simsd()], 6),
        ([diffusion(), speculated(Plan(depth=7, num_final=(0, 5)))], 2),
        ([handmade.cspd()], 2),
        ([plain_film(3, 6), film(3, 6)], 40),
    ]


@pytest.mark.parametrize(("scheme", "width"), [pytest.param("light", 1280, marks=pytest.mark.nightly), ("dark", 390)])
def test_pages_are_accessible_and_fit(browser: Browser, scheme: str, width: int) -> None:
    with visit(browser, viewport={"width": width, "height": 844}, color_scheme=scheme) as page:
        for traces, moment in runs():
            page.set_content(standalone(traces, "A page"))
            every_view(page)
            page.evaluate("now => player.set(now)", moment)
            for closed in page.locator("summary:visible").all():
                closed.click()
            settle(page)
            assert page.locator(".ds").evaluate("root => root.classList.contains('is-dark')") == (scheme == "dark")
            accessible(page)


@pytest.mark.parametrize(("width", "height"), [(390, 844), (620, 844), (1440, 900)])
def test_nothing_covers_the_controls_or_the_views(browser: Browser, width: int, height: int) -> None:
    """Regression: on a phone the clock covered the buttons; the worked step covered a third of the screen."""
    with visit(browser, viewport={"width": width, "height": height}) as page:
        page.set_content(standalone([ordinary(), jacobi()], "A page"))
        every_view(page)
        boxes = page.evaluate(
            """[...document.querySelectorAll(".ds-buttons button, .ds-slider, .ds-clock, .ds-reading span, .ds-whole")]
              .filter((node) => node.checkVisibility()).map((node) => node.getBoundingClientRect().toJSON())"""
        )
        assert len(boxes) >= 9
        for one, other in combinations(boxes, 2):
            apart = one["right"] <= other["left"] + 1 or other["right"] <= one["left"] + 1
            assert apart or one["bottom"] <= other["top"] + 1 or other["bottom"] <= one["top"] + 1, (one, other)
        worked = page.locator(".ds-worked")
        page.get_by_role("button", name="Next rejection").first.click()
        folded = worked.bounding_box()
        assert folded and folded["height"] < height / 6
        expect(worked.locator(".ds-formula")).to_be_visible()
        worked.get_by_role("button", name="more").click()
        expect(worked.locator(".ds-part-left")).to_be_visible()


SIDE = 6
PANEL = ImageColor.getrgb(LIGHT.panel)
FRAMES = 3
COLUMNS = FRAMES * (SIDE + 1) - 1
HEAD = -(-COLUMNS // 20)
RUN = film(FRAMES, SIDE)


def spot(position: int, cell: float) -> dict[str, float]:
    """The middle of a position's cell on the canvas: latent frames in a row, a column apart, below their names."""
    frame, inside = divmod(position, SIDE * SIDE)
    row, column = divmod(inside, SIDE)
    return {"x": (frame * (SIDE + 1) + column + 0.5) * cell, "y": (HEAD + row + 0.5) * cell}


def hover(page: Page, position: int) -> None:
    canvas = page.locator(".ds-picture canvas")
    box = canvas.bounding_box()
    canvas.hover(position=spot(position, box["width"] / COLUMNS))
    settle(page)


def note(page: Page) -> str:
    return page.locator(".ds-clip-controls .ds-note").inner_text()


def test_every_final_token_lies_in_its_latent_frame(page: Page) -> None:
    show(page, RUN)
    for state in list(canvas_states(RUN))[20::25]:
        go(page, state.step)
        image = pixels(page.locator(".ds-picture canvas"))
        cell = image.width / COLUMNS
        for position in range(FRAMES * SIDE * SIDE):
            cell_spot = spot(position, cell)
            color = image.getpixel((int(cell_spot["x"]), int(cell_spot["y"])))
            if state.final[position]:
                assert color == tile_color(state.tokens[position])
            elif state.tokens[position] is None:
                assert color == PANEL


def test_latent_frames_are_pointed_at_and_parted_in_the_timeline_and_the_clip_plays(page: Page) -> None:
    show(page, RUN)
    for position in (0, SIDE * SIDE + 8, 3 * SIDE * SIDE - 1):
        hover(page, position)
        assert snapshot(page)["position"] == position
        frame = position // (SIDE * SIDE)
        marker = page.locator(".ds-place").first
        assert f"frames {EACH * frame + 1} to {EACH * (frame + 1)}" in marker.inner_text()
    canvas = page.locator(".ds-picture canvas")
    cell = canvas.bounding_box()["width"] / COLUMNS
    for x, y in ((SIDE + 0.5, HEAD + 2.5), (2.5, HEAD / 2)):
        canvas.hover(position={"x": x * cell, "y": y * cell})
        assert snapshot(page)["position"] == 3 * SIDE * SIDE - 1
    show(page, RUN)
    assert "lines: where latent frames end" in page.locator(".ds-timeline .ds-note").inner_text()
    go(page, 0)
    image = pixels(page.locator(".ds-timeline canvas"))
    row = [image.getpixel((x, image.height // 2)) for x in range(38, image.width - 2)]
    dark = [x for x, color in enumerate(row) if sum(color) < 200]
    wanted = [round(len(row) * frame / FRAMES) for frame in range(1, FRAMES)]
    assert len(dark) == len(wanted)
    assert all(abs(x - at) <= 2 for x, at in zip(dark, wanted, strict=True))
    page.get_by_role("button", name="Play the clip").click()
    page.wait_for_function("Number(document.querySelector('.ds-scrubber').value) > 3")
    page.get_by_role("button", name="Pause the clip").click()
    still(page, "document.querySelector('.ds-scrubber').value")


def test_the_clip_shows_what_is_decided_and_where_the_token_is(page: Page) -> None:
    show(page, RUN)
    done = list(canvas_states(RUN))
    first = next(state.step for state in done if all(state.final[: SIDE * SIDE]))
    canvas, slider = page.locator(".ds-clip canvas"), page.locator(".ds-scrubber")
    go(page, first - 1)
    assert note(page) == "frame 1 of 24, not decided yet"
    assert pixels(canvas).getpixel((8, 8)) == PANEL
    go(page, first)
    assert note(page) == "frame 1 of 24"
    assert pixels(canvas).getpixel((8, 8)) == pytest.approx(tile_color(RUN.output.tokens[0]), abs=1)
    slider.focus()
    for _ in range(EACH):
        page.keyboard.press("ArrowRight")
    settle(page)
    assert note(page) == "frame 9 of 24, not decided yet"
    assert snapshot(page)["now"] == first  # The arrow moved the clip, not the run.
    go(page, len(RUN.steps))
    before = pixels(canvas)
    hover(page, SIDE * SIDE + 7)
    marked = pixels(canvas)
    across = marked.width / SIDE
    assert marked.getpixel((int(across), int(across * 1.5))) != before.getpixel((int(across), int(across * 1.5)))
    hover(page, 7)
    assert pixels(canvas).tobytes() == before.tobytes()


def test_given_frames_are_there_from_the_beginning_and_shift_the_names(page: Page) -> None:
    trace = film(FRAMES, SIDE, prefix=9)
    show(page, trace)
    go(page, 0)
    assert note(page) == "frame 1 of 33, given"
    page.locator(".ds-scrubber").fill("10")
    settle(page)
    assert note(page) == "frame 10 of 33, not decided yet"
    page.locator(".ds-picture canvas").focus()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert "frames 10 to 17" in page.locator(".ds-place").first.inner_text()
