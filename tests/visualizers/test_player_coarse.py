"""The player shows traces that say less than usual, and says nothing that is not there."""

from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect
from support import handmade
from support.playing import show

from traces import Canvas, Legend, Output, Step, Trace, filled
from traces.coarse import summary_of

COUNTS = ({"accepted": 3.0, "window": 4.0, "committed": 4.0}, {"accepted": 1.0, "window": 1.0, "committed": 2.0})


def coarse(**fields: object) -> Trace:
    steps = tuple(Step(call=handmade.step().call, signals=signals) for signals in COUNTS)
    canvas = Canvas(kind="text", shape=(6,))
    made = handmade.make("elsewhere", canvas, steps, seed=None, output=Output(), legend=Legend())
    made = filled(replace(made, **fields))  # type: ignore[arg-type]
    return replace(made, summary=summary_of(made.steps, canvas))


@pytest.mark.browser
def test_a_coarse_trace_plays(page: Page) -> None:
    show(page, coarse(), fragment="#step=1&token=1")
    outcome = page.locator(".ds-lane").first
    expect(outcome.get_by_text("accepted: the draft was judged and is final")).to_be_visible()
    expect(page.locator(".ds-tokens")).to_contain_text("· · · ·")
    expect(page.locator("body")).not_to_contain_text("undefined")
    expect(page.locator("body")).not_to_contain_text("token none")


@pytest.mark.browser
def test_a_coarse_trace_with_ids_shows_its_words(page: Page) -> None:
    words = {1: "The", 2: " small", 3: " red", 4: " boot", 5: " is", 6: " new"}
    show(page, coarse(output=Output(tokens=(1, 2, 3, 4, 5, 6)), legend=Legend(vocabulary=words)), fragment="#step=2")
    expect(page.locator(".ds-tokens")).to_contain_text("The small red boot is new")


@pytest.mark.browser
def test_three_traces_without_a_seed_can_be_chosen_from(page: Page) -> None:
    show(page, coarse(), coarse(), coarse())
    choice = page.get_by_label("Trace on the left")
    expect(choice.locator("option").first).to_have_text("1. ELSEWHERE")
