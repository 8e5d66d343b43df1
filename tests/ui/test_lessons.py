"""The lessons in a browser: what the reader does in each, and the walk to the first."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from support.browser import accessible, visit

from draftscope.visualizers.lessons import LESSONS, lesson_html

SITE = "http://lessons.test/"
SEEN = """() => {
  const { activeElement: stop } = document;
  const { outlineStyle } = getComputedStyle(stop);
  return stop !== document.body && (outlineStyle !== 'none' || stop.matches('.handle'));
}"""
"""Whether what has the focus shows it: by its outline, or a bar by its knob."""


@pytest.fixture
def lesson(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The page of all lessons at one of them; nothing else may be requested."""
    options = dict(request.param) if isinstance(request.param, dict) else {"name": request.param}
    name = options.pop("name")
    with visit(browser, console=True, **options) as opened:

        def answer(route: Route) -> None:
            assert route.request.url.partition("#")[0] == SITE, route.request.url
            route.fulfill(body=lesson_html(), content_type="text/html")

        opened.route("**/*", answer)
        opened.goto(f"{SITE}#{name}")
        yield opened


def is_done(page: Page, name: str) -> None:
    expect(page.locator(f"#{name} .task .state")).to_have_text("Done")
    expect(page.get_by_role("link", name=f"{LESSONS[name]} (done)")).to_be_visible()


def slide(page: Page, label: str, value: float) -> None:
    page.get_by_role("slider", name=label).fill(str(value))


@pytest.mark.parametrize("lesson", ["exact"], indirect=True)
def test_draws_meet_the_model_and_a_lossy_rule_misses_it_whatever_the_drafter(lesson: Page) -> None:
    figure, spoken = lesson.locator("#exact .figure"), lesson.locator("#exact .live")
    drafter = figure.get_by_role("slider", name="Drafter, q: there")
    drafter.focus()
    for _ in range(3):
        lesson.keyboard.press("PageUp")
    expect(drafter).to_have_attribute("aria-valuetext", "30 %")
    lesson.keyboard.press("End")  # a useless drafter: all others nearly vanish
    expect(drafter).to_have_attribute("aria-valuetext", "100 %")
    expect(drafter).to_be_focused()
    expect(figure.get_by_text("accepted")).to_have_text("14 % accepted")
    lesson.get_by_role("button", name="Draw 10,000").click()
    is_done(lesson, "exact")
    expect(figure.get_by_text("✓ chance alone")).to_be_visible()
    expect(spoken).to_contain_text("accept always: off by 86 %")
    lesson.get_by_role("button", name="replace from p").click()
    expect(spoken).to_contain_text("replace from p: off by")
    lesson.get_by_role("button", name="… keeper named").click()
    expect(lesson.locator("#exact .sentence")).to_contain_text("a lighthouse keeper named …")
    expect(figure.get_by_text("✓ chance alone")).to_be_visible()


@pytest.mark.parametrize("lesson", [{"name": "exact", "reduced_motion": "no-preference"}], indirect=True)
def test_a_bar_is_dragged_and_drafts_fall(lesson: Page) -> None:
    model = lesson.get_by_role("slider", name="Model, p: on")
    box = model.locator("circle").bounding_box()
    assert box is not None
    lesson.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    lesson.mouse.down()
    lesson.mouse.move(box["x"], box["y"] - 30, steps=3)
    lesson.mouse.up()
    assert int(model.get_attribute("aria-valuenow") or 0) > 30
    lesson.get_by_role("button", name="Draw 10,000").click()
    is_done(lesson, "exact")


@pytest.mark.parametrize("lesson", ["passes"], indirect=True)
def test_a_setting_at_which_drafting_loses_is_found_and_rescued(lesson: Page) -> None:
    says = lesson.locator("#passes-headline")
    expect(says).to_contain_text("2.10 times as fast; γ = 5 would give 2.11. This length pays above 38 % acceptance.")
    slide(lesson, "Acceptance α", 0.3)
    expect(says).to_contain_text("Drafting loses: 1.12 times slower")
    is_done(lesson, "passes")
    slide(lesson, "Length γ", 1)
    expect(says).to_contain_text("1.13 times as fast, the most that any length gives.")


@pytest.mark.parametrize("lesson", ["jacobi"], indirect=True)
def test_both_runs_of_a_picture_are_followed_to_the_last_pass(lesson: Page) -> None:
    says = lesson.locator("#jacobi .headline")
    lesson.get_by_role("slider", name="Pass").press("End")
    expect(says).to_have_text("Pass 28 of 28: 144 of 144 pieces are final, no guess is left.")
    lesson.get_by_role("button", name="off").click()
    expect(says).to_contain_text("Pass 28 of 40")
    strip = lesson.locator("#jacobi .strip canvas")
    box = strip.bounding_box()
    assert box is not None
    lesson.mouse.move(box["x"] + box["width"] - 2, box["y"] + 20)
    expect(strip).to_have_attribute("aria-label", re.compile("the other run took 28. Pass 40 of 40"))
    is_done(lesson, "jacobi")
    expect(lesson.locator("#jacobi .saved")).to_contain_text("28 passes with coupling, 40 without")


@pytest.mark.parametrize("lesson", ["blocks"], indirect=True)
def test_a_confident_wrong_word_is_checked_and_a_threshold_finds_it_last(lesson: Page) -> None:
    says, text = lesson.locator("#blocks .headline"), lesson.locator("#blocks .cells")
    expect(says).to_have_text("Pass 4 of 7 fills 5 holes at once.")
    expect(text).to_contain_text("Paris, 80 % sure")
    lesson.get_by_role("slider", name="Pass").press("ArrowRight")
    expect(says).to_have_text("Pass 5 of 7 checks from left to right: 2 words kept, “is” replaced by “Paris”.")
    expect(text).to_contain_text("Paris in place of  is")
    slide(lesson, "Threshold", 0.7)
    expect(says).to_have_text("1 wrong word kept, 1 right word held back.")
    slide(lesson, "Threshold", 0.81)
    expect(says).to_have_text("0 wrong words kept, 1 right word held back.")
    is_done(lesson, "blocks")
    expect(lesson.locator("#blocks .held")).to_contain_text("The capital of France France France")
    lesson.get_by_role("button", name="Seven loaves").click()
    slide(lesson, "Threshold", 0.95)
    expect(says).to_contain_text("1 wrong word kept")
    lesson.get_by_role("link", name="Next: Vectors").click()
    expect(lesson.get_by_role("heading", name="Drafts that are vectors")).to_be_focused()


@pytest.mark.parametrize("lesson", ["vectors"], indirect=True)
def test_an_accepted_and_a_rejected_vector_are_added_up(lesson: Page) -> None:
    says, steps = lesson.locator("#vectors .headline"), lesson.get_by_role("slider", name="Denoising steps")
    steps.press("End")
    expect(says).to_have_text("w = 0.232, and the uniform number is 0.092, below: accepted.")
    lesson.get_by_role("button", name="draft B").click()
    expect(says).to_contain_text("Nothing is added up yet")
    steps.press("End")
    expect(says).to_have_text("w = 0.200, and the uniform number is 0.952, not below: rejected.")
    is_done(lesson, "vectors")


@pytest.mark.parametrize(
    "lesson",
    [{"name": name, "color_scheme": scheme} for name, scheme in zip(LESSONS, ("light", "dark") * 3, strict=False)],
    indirect=True,
    ids=[*LESSONS],
)
def test_a_lesson_is_accessible_and_fits(lesson: Page) -> None:
    for button in lesson.get_by_role("button", name="Draw 10,000").all():
        button.click()
    accessible(lesson, 1280, 390)


def test_exactness_is_understood_in_two_clicks_and_back_and_reload_keep_the_lesson(page: Page) -> None:
    page.get_by_role("tab", name="Learn", exact=True).click()
    frame = page.frame_locator("#lessons iframe")
    frame.get_by_role("button", name="Draw 10,000").click()
    expect(frame.locator("#exact .task")).to_contain_text("A bad drafter costs time, never the truth.")
    expect(frame.locator("#exact .task .state")).to_have_text("Done")
    frame.get_by_role("link", name="Next: How many tokens a pass").click()
    expect(frame.get_by_role("heading", name="How many tokens a pass?")).to_be_focused()
    assert page.evaluate("location.hash").startswith("#tab=learn&lesson=passes")
    page.go_back()
    expect(frame.locator("#exact")).to_be_visible()
    page.go_forward()
    expect(frame.locator("#passes")).to_be_visible()
    page.reload(wait_until="load")
    expect(frame.locator("#passes")).to_be_visible()
    expect(frame.get_by_role("link", name=f"{LESSONS['exact']} (done)")).to_be_visible()


def test_why_a_race_is_exact_leads_to_the_lesson_and_back(page: Page) -> None:
    page.evaluate("draftscopePlayers.viewer.set(draftscopePlayers.viewer.extent())")
    page.get_by_role("button", name="why?").click()
    page.get_by_role("button", name="Try it yourself: the lesson").click()
    expect(page.frame_locator("#lessons iframe").locator("#exact")).to_be_visible()
    page.wait_for_function("location.hash.startsWith('#tab=learn&lesson=exact')")
    page.go_back()
    expect(page.locator("#viewer .ds-reason")).to_be_visible()
    page.wait_for_function("!location.hash.includes('lesson')")


def test_the_recorded_run_of_a_method_plays_on_its_page(page: Page) -> None:
    page.get_by_role("tab", name="Learn", exact=True).click()
    page.get_by_role("tab", name="Methods").click()
    page.locator("#method-scd > button").click()
    method = page.locator("#method-scd")
    expect(method.get_by_role("table").filter(has_text="Verdict").first).to_contain_text("holds")
    frame = page.frame_locator("#method-scd .recorded iframe")
    expect(frame.locator(".ds-stage")).to_be_visible()
    expect(frame.get_by_role("button", name="Play").or_(frame.get_by_role("button", name="Pause"))).to_be_visible()


@pytest.mark.parametrize("lesson", [""], indirect=True, ids=["first"])
def test_the_keyboard_alone_goes_through_a_lesson_and_words_point_at_shapes(lesson: Page) -> None:
    stops = list[str]()
    for _ in range(40):
        lesson.keyboard.press("Tab")
        stops.append(
            lesson.evaluate("(({ ariaLabel, textContent }) => ariaLabel ?? textContent)(document.activeElement)")
        )
        assert lesson.evaluate(SEEN), stops[-1]
        if stops[-1] == "drafter, q":
            expect(lesson.locator("#exact [data-part=p]").first).to_have_class(re.compile("is-pale"))
        if stops[-1] == "Draw 10,000":
            break
    assert [*LESSONS.values()] == stops[:5] and "Model, p: on" in stops and "… that lived" in stops
    expect(lesson.locator("#exact .is-pale")).to_have_count(0)
    lesson.keyboard.press("Enter")
    is_done(lesson, "exact")
    lesson.get_by_role("link", name="Next: How many tokens a pass").press("Enter")
    expect(lesson.get_by_role("heading", name="How many tokens a pass?")).to_be_focused()
