"""The small pieces of page, with text of strangers in them."""

from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from playwright.sync_api import Browser, Page, expect
from support import handmade
from support.browser import visit
from support.hostile import EVERY, RAN
from support.toy_videos import film, plain_film

from draftscope.demo.app import build
from draftscope.demo.components.context import unread
from draftscope.demo.components.experiment import preview
from draftscope.demo.components.widgets import (
    Card,
    Fact,
    card_grid,
    data_table,
    metric_row,
    notice,
    notice_box,
    table,
    values_of,
)
from draftscope.demo.jobs.recordings import recordings
from draftscope.demo.server.sessions import Visitors

PNG = handmade.png(2, 2)
CARDS = [
    Card(EVERY, EVERY, EVERY, PNG),
    Card(EVERY, EVERY, "", f'{PNG}" onerror="globalThis.pwned=1', EVERY),
    Card("no picture", "no text", "", "data:image/svg+xml;base64,PHN2Zz4="),
]
TABLE = table((EVERY, "second"), [(EVERY, 0), (None, 0.25)])


def test_no_data_go_through_a_template(library: Path) -> None:
    blocks = build(Visitors(), recordings(library))
    components = [block for block in blocks.blocks.values() if isinstance(block, gr.HTML)]
    assert len(components) > 20
    for component in components:
        for template in (component.html_template, component.css_template):
            assert "{{" not in template
            assert "${" not in template
            assert "`" not in template


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Every piece once, empty or filled, and a button that changes it."""
    with gr.Blocks(analytics_enabled=False) as blocks:
        box = notice_box(elem_id="notice")
        row = metric_row([Fact("one", "1")], elem_id="facts")
        wall = card_grid(CARDS, elem_id="cards")
        data = data_table(EVERY, elem_id="table")
        grid = card_grid(elem_id="grid")
        chosen = gr.Textbox(elem_id="chosen")
        button = gr.Button("Change", elem_id="change")

        def change() -> tuple[Any, ...]:
            column: Any = SimpleNamespace(title=EVERY, note="")
            clips = values_of([preview(clip, column, EVERY) for clip in (film(2, 5), plain_film(2, 5))])
            return (
                notice("error", EVERY, EVERY),
                values_of([Fact(EVERY, EVERY, EVERY), Fact("two", "2")]),
                TABLE,
                clips,
            )

        def choose(event: gr.EventData) -> str:
            return f"number {event.index}"

        button.click(change, None, [box, row, data, grid])
        wall.choose(choose, None, chosen)
    _, address, _ = blocks.launch(prevent_thread_lock=True, quiet=True, ssr_mode=False, server_name="127.0.0.1")
    with visit(browser, reduced_motion="no-preference") as opened:
        opened.goto(address)
        yield opened
    blocks.close()


def test_pieces_show_a_strangers_text_as_it_is(page: Page) -> None:
    expect(page.locator("#facts dl.facts > div")).to_have_text(["one1"])
    assert page.locator("#notice .notice, #table .scroller").count() == 0
    cards = page.locator("#cards ul.cards > li > button[type=button]")
    expect(cards).to_have_count(3)
    assert [card.get_attribute("data-index") for card in cards.all()] == ["0", "1", "2"]
    assert cards.locator("img").evaluate_all("all => all.map((one) => [one.src, one.alt])") == [[PNG, ""]]
    expect(cards.locator(".title")).to_have_text([EVERY, EVERY, "no picture"])
    expect(cards.locator(".note")).to_have_text([EVERY, EVERY, "no text"])
    expect(cards.locator(".about")).to_have_text([EVERY])
    expect(cards.nth(1).locator(".excerpt")).to_have_text(EVERY)
    expect(cards.nth(2).locator(".blank[aria-hidden=true]")).to_have_count(1)
    cards.nth(1).click()
    expect(page.locator("#chosen textarea, #chosen input")).to_have_value("number 1")
    assert [card.get_attribute("aria-pressed") for card in cards.all()] == ["false", "true", "false"]

    page.locator("#change").click()
    box = page.locator("#notice .notice.error[role=alert]")
    expect(box).to_have_text(f"{EVERY} {EVERY}")
    expect(page.locator("#facts dd")).to_have_text([EVERY, EVERY, "2", ""])
    expect(page.locator("#facts dt")).to_have_text([EVERY, "two"])
    scroller = page.locator("#table .scroller[tabindex='0'][role=region]")
    expect(scroller).to_have_attribute("aria-label", EVERY)
    expect(scroller.locator("thead th[scope=col]")).to_have_text([EVERY, "second"])
    expect(scroller.locator("tbody td")).to_have_text([EVERY, "0", "", "0.25"])
    clips = page.locator("#grid button")
    expect(clips.locator(".title")).to_have_text([EVERY, EVERY])
    expect(page.locator("#grid h2")).to_have_text([EVERY])
    expect(clips.last.locator(".badge")).to_contain_text("clip of 16 frames")
    assert clips.locator("img").evaluate_all("all => all.every((one) => one.src.startsWith('data:image/webp'))")
    assert page.locator("[src=x], [href^=javascript]").count() == 0
    assert page.evaluate(f"typeof {RAN}") == "undefined"


def test_what_was_opened_last_is_drawn_last() -> None:
    page = build(Visitors(), [])
    tables = (("results", "results-table"), ("timings", "timings-table"))
    for name, shows in (*tables, ("trace", "download-page"), ("choose", "choose-points")):
        parts = {part._id for part in page.blocks.values() if getattr(part, "elem_id", None) == shows}
        drawing = [fn for fn in page.fns.values() if parts & {part._id for part in fn.outputs}]
        assert len(drawing) == 3 and {fn.concurrency_id for fn in drawing} == {name}


def test_the_last_of_quick_inputs_is_answered_with_its_own_data(library: Path) -> None:
    for event in build(Visitors(), recordings(library)).fns.values():
        if event.fn is None:
            continue
        what = (event.fn, event.targets)
        if any(parameter.annotation is gr.EventData for parameter in signature(event.fn).parameters.values()):
            assert event.trigger_mode != "always_last", what  # gradio would send the data of the first again
        elif any(name == "input" for _, name in event.targets):
            assert event.trigger_mode == "always_last", what  # gradio would drop the second


def test_an_update_leaves_what_was_read_to_the_browser() -> None:
    with gr.Blocks():
        chosen, other, plot = gr.Radio(["a", "b"]), gr.Slider(0, 9), gr.Plot()
    figure = gr.update(value=None, visible=True)
    update = unread(
        {chosen: "a", other: 3},
        {chosen: gr.update(choices=["a", "b"], value="a"), other: gr.update(value=4), plot: figure},
    )
    assert "value" not in update[chosen] and update[chosen]["choices"] == ["a", "b"]
    assert update[other]["value"] == 4 and update[plot] == figure
