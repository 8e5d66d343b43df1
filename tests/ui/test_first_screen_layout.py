"""The first screen of the app: few words, and on every screen size the whole stage with its controls."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browser import SNAPSHOT, visit

KINDS = {"text": 64, "picture": 144, "video": 1008, "continuous tokens": 144}
"""Kinds of output, and the number of tokens of their canvas."""
MAX_WORDS = 70
TOLD = """() => {
  const { stage, now } = draftscopePlayers.viewer;
  const { replay } = stage.other;
  const state = replay.seek(replay.stepsAt("passes", now));
  const decoded = stage.isText ? replay.textIn(state).replaceAll("\\n", " ") : null;
  const told = [];
  Object.assign(stage, { write: (color, text) => text !== decoded && told.push(text), drawWord() {} });
  stage.draw();
  delete stage.write;
  delete stage.drawWord;
  stage.draw();
  const seen = (node, box) => box.width > 1 && box.top < innerHeight && box.bottom > 0 &&
    node.checkVisibility({ opacityProperty: true, visibilityProperty: true }) &&
    getComputedStyle(node).clipPath === "none" && !node.closest(".ds-sr, script, style, select");
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(text);
    if (text.textContent.trim() && seen(text.parentElement, range.getBoundingClientRect())) told.push(text.textContent);
  }
  return told;
}"""
"""All texts of the first screen except the prompt, which is in its field, and the decoded output."""
MOMENTS = """() => {
  const { passes } = draftscopePlayers.viewer.stage.script;
  const verdict = passes.findLast(({ verdict }) => verdict);
  const times = Object.values(verdict?.verdict.times ?? {}).map((time) => verdict.index + (time + 30) / verdict.length);
  return [0.5, 1, ...times, passes.length / 2, passes.length, draftscopePlayers.viewer.extent()];
}"""
FRAMES = """() => new Promise((done) => {
  const frames = [];
  const next = (time, last) => {
    if (last) frames.push(time - last);
    if (frames.length === 150) return done(frames.sort((a, b) => a - b)[75]);
    requestAnimationFrame((now) => next(now, time));
  };
  requestAnimationFrame(next);
})"""
"""The median of the milliseconds between frames."""


@pytest.fixture
def page(browser: Browser, shipped_server: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    size = dict(zip(("width", "height"), request.param, strict=True))
    with visit(browser, shipped_server, viewport=size, reduced_motion="no-preference") as opened:
        yield opened


def moments(page: Page) -> Iterator[tuple[str, float]]:
    """Show every kind of run at its beginning, in every part of a verdict, and at its end."""
    for kind, tokens in KINDS.items():
        page.get_by_role("button", name=kind, exact=True).click()
        page.wait_for_function(f"{SNAPSHOT}.lanes[1].tokens.length === {tokens} && {SNAPSHOT}.now < 20")
        page.evaluate("draftscopePlayers.viewer.pause()")
        for now in page.evaluate(MOMENTS):
            page.evaluate("now => draftscopePlayers.viewer.set(now)", now)
            page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            yield kind, now


_BOXES = """() => ["#viewer .ds-say", "#viewer .ds-stage", "#viewer .ds-controls"].map((part) =>
  [part, document.querySelector(part).getBoundingClientRect().toJSON()])"""


@pytest.mark.parametrize("page", [(390, 844), (1280, 720)], indirect=True, ids=str)
def test_stage_and_controls_end_above_the_fold_where_few_words_stand(page: Page) -> None:
    screen = page.viewport_size
    for kind, now in moments(page):
        expect(page.locator("#run")).to_be_in_viewport(ratio=1)  # the form follows the chip
        words = [word for text in page.evaluate(TOLD) for word in text.split() if any(map(str.isalpha, word))]
        assert {"Watch", "Run"} <= {*words}
        assert len(words) <= MAX_WORDS, f"{kind} at {now}: {' '.join(words)}"
        for part, box in page.evaluate(_BOXES):
            assert box["top"] >= 0 and box["bottom"] <= screen["height"], (kind, now, part)
            assert box["left"] >= 0 and box["right"] <= screen["width"], (kind, now, part)


@pytest.mark.timed
def test_the_first_screen_moves_at_once(browser: Browser, shipped_server: str) -> None:
    moved = [9999.0]
    while min(moved) > 4000 and len(moved) <= 5:  # the best of five; 1,100 on a quiet machine, slow ones take 2,800
        with visit(browser, shipped_server, alone=True, reduced_motion="no-preference") as page:
            first = page.wait_for_function("draftscopePlayers.viewer.now > 0 && performance.now()")
            moved.append(first.json_value())
    assert min(moved) <= 4000, moved


@pytest.mark.timed
@pytest.mark.parametrize("kind", ["text", "picture"])
def test_the_stage_plays_at_sixty_frames_a_second(browser: Browser, shipped_server: str, kind: str) -> None:
    with visit(browser, shipped_server, reduced_motion="no-preference") as page:
        page.get_by_role("button", name=kind, exact=True).click()
        page.wait_for_function(f"{SNAPSHOT}.lanes[1].tokens.length === {KINDS[kind]} && {SNAPSHOT}.now > 0")
        assert any((between := page.evaluate(FRAMES)) <= 17.5 for _ in range(3)), between
        assert page.evaluate("draftscopePlayers.viewer.playing && draftscopePlayers.viewer.stage.shown")


@pytest.mark.parametrize(
    "page",
    [pytest.param((1280, 720), id="1280", marks=pytest.mark.nightly), pytest.param((390, 844), id="390")],
    indirect=True,
)
def test_what_is_wrong_with_a_run_is_told_in_sight(page: Page) -> None:
    page.locator("#prompt textarea").fill("")
    page.locator("#run").click()
    problem = page.locator("#problem .notice.error")
    expect(problem).to_contain_text("prompt: is empty")
    expect(problem).to_be_in_viewport(ratio=1)
    expect(page.locator("#viewer .ds-stage")).to_be_visible()


CLIP = """() => {
  const { stage } = draftscopePlayers.viewer;
  const { context, caption, canvas, size, other } = stage;
  const { drawImage } = context;
  let clip = null;
  Object.assign(context, { drawImage: (image, ...where) => {
    if (where.length === 4) clip = where;
    return drawImage.call(context, image, ...where);
  } });
  stage.draw();
  delete context.drawImage;
  const box = caption.getBoundingClientRect();
  const top = box.top - canvas.getBoundingClientRect().top;
  return { clip, caption: [top, top + box.height], lanes: [size.pictureBox.width, other.picture.width] };
}"""
"""Left, top, width and height of the clip on the stage, the caption's top and bottom, and the widths of both lanes."""


@pytest.mark.parametrize(
    "page",
    [*(pytest.param(size, marks=pytest.mark.nightly) for size in ((1920, 1080), (900, 800))), (1280, 720), (390, 844)],
    indirect=True,
    ids=str,
)
def test_both_lanes_of_a_clip_have_one_size_and_its_caption_covers_nothing(page: Page) -> None:
    page.get_by_role("button", name="video", exact=True).click()
    page.wait_for_function(f"{SNAPSHOT}.lanes[1].tokens.length === {KINDS['video']} && {SNAPSHOT}.now < 20")
    page.evaluate("draftscopePlayers.viewer.pause()")
    for now, lecture in ((40, False), (60, False), (75, False), (60, True), (75, True)):
        page.evaluate("on => draftscopePlayers.viewer.lecture(on)", lecture)
        page.evaluate("now => draftscopePlayers.viewer.set(now)", now)
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        seen = page.evaluate(CLIP)
        assert seen["lanes"][0] == seen["lanes"][1] >= 150
        assert seen["clip"] is not None, now
        _, top, _, height = seen["clip"]
        assert seen["caption"][1] <= top or seen["caption"][0] >= top + height, (now, lecture, seen)


def test_a_lecture_in_the_dark_has_a_dark_ground(browser: Browser, shipped_server: str) -> None:
    with visit(browser, shipped_server, color_scheme="dark") as page:
        page.evaluate("draftscopePlayers.viewer.lecture(true)")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        expect(page.locator("#viewer .ds.is-lecture")).to_have_css("background-color", ground)
        assert ground == "rgb(15, 17, 21)"
