"""The player on continuous tokens: how draft and target denoised the chosen one, and the map of acceptance."""

from playwright.sync_api import Page
from support import handmade
from support.playing import go, pixels, settle, show, snapshot

REJECTED = (
    "The same noise: both paths start at one point and end 1.58 apart, 1.58 of it in this plane. "
    "The draft was rejected; a new draw (□) took its place."
)
START = "The same noise: both paths start at one point"
KEPT = f"{START} and end 0.354 apart, 0.354 of it in this plane. The draft was accepted."
CELLS = {"kept": 1, "rejected": 0}
"""Position 0 lies in the right cell."""


def words(page: Page) -> str:
    return page.locator(".ds-paths .ds-words").inner_text()


def cell(page: Page, column: int) -> dict[str, float]:
    box = page.locator(".ds-picture canvas").bounding_box()
    assert box is not None
    return {"x": box["width"] * (0.25 + 0.5 * column), "y": box["height"] / 2}


def test_pointing_at_a_judged_token_and_the_keyboard_tell_its_paths(page: Page) -> None:
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
    page.keyboard.press("Escape")
    for view, key, chosen in (("picture", "ArrowRight", (1, REJECTED)), ("paths", "ArrowLeft", (0, KEPT))):
        page.locator(f".ds-{view} canvas").focus()
        page.keyboard.press(key)
        settle(page)
        assert (snapshot(page)["position"], words(page)) == chosen
    go(page, 1)
    assert words(page) == "Only a judged draft has two paths; this token was drafted."


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
