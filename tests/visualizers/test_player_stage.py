"""The stage in a browser: a run that drafts ahead, whose every frame follows from the trace and the clock."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from support.browser import accessible
from support.playing import go, settle

from traces import read
from traces.schema import Fate, Step, Trace
from visualizers.page import standalone

FOLDER = Path(__file__).parents[2] / "assets" / "traces"
SPECULATIVE, ORDINARY, PICTURE = (
    FOLDER / f"{name}.json.gz" for name in ("speculative-smollm2", "ar-smollm2", "speculative-picture")
)
DRAWN = """() => {
  const { words, verdict, caption, ended } = player.stage.drawn;
  const columns = verdict?.verdict.columns.map(({ text, p, q, share }) => [text, p, q, share]);
  const told = verdict && { columns, coin: verdict.coin, apart: verdict.apart, word: verdict.verdict.drawn.text };
  const shown = words.map(({ word, kind, alpha, landed }) => [word.text, kind, alpha, landed]);
  return { words: shown, verdict: told, caption, ended };
}"""
CANVAS = "document.querySelector('.ds-stage canvas').toDataURL()"


def opened(page: Page, *traces: Trace, wide: bool = True) -> None:
    page.set_viewport_size({"width": 1280, "height": 720} if wide else {"width": 390, "height": 844})
    page.set_content(standalone(traces, "A test"))
    settle(page)


def at(page: Page, number: int, part: str, after: float = 20) -> Any:
    """What is drawn a little after a part of the verdict of pass `number`, from 1, begins."""
    page.evaluate(
        """([number, part, after]) => {
          const pass = player.stage.script.passes[number - 1];
          player.set(number - 1 + (pass.verdict.times[part] + after) / pass.length);
        }""",
        [number, part, after],
    )
    settle(page)
    return page.evaluate(DRAWN)


def rejections(trace: Trace) -> list[tuple[int, int, Step]]:
    """Number of the pass from 1, entry and step of every draft that was redrawn."""
    return [
        (number, entry, step)
        for number, step in enumerate(trace.steps, 1)
        for entry, fate in enumerate(step.fate)
        if fate is Fate.RESAMPLED
    ]


def test_every_rejection_is_shown_with_the_numbers_of_the_trace(page: Page) -> None:
    trace = read(SPECULATIVE)
    assert trace.legend is not None and trace.legend.vocabulary is not None
    vocabulary = trace.legend.vocabulary

    def word(token: Any) -> str:
        return vocabulary[token].strip()

    opened(page, read(ORDINARY), trace)
    for number, entry, step in rejections(trace):
        assert step.draft and step.p and step.q and step.coin and step.likely and step.likely[entry]
        draft, drawn = word(step.draft[entry]), word(step.token[entry])
        told = at(page, number, "judge")
        assert told["caption"][0] == "The coin fell above p: rejected."
        assert [text for text, kind, *_ in told["words"] if kind == "rejected"] == [draft]
        dropped = [word(token) for token, fate in zip(step.draft, step.fate, strict=True) if fate is Fate.DISCARDED]
        assert [text for text, kind, *_ in told["words"] if kind == "dropped"] == [text or "↵" for text in dropped]
        columns = {text: (p, q, share) for text, p, q, share in told["verdict"]["columns"]}
        assert columns[draft][:2] == pytest.approx((step.p[entry], step.q[entry]), abs=1e-3)
        assert told["verdict"]["coin"] == pytest.approx(step.coin[entry])
        likely = {word(token): (p, q) for token, p, q in step.likely[entry]}
        total = step.numbers["tv"][entry]
        for text in columns.keys() - {"others"}:
            p, q = likely[text]
            assert total is not None
            assert columns[text] == pytest.approx((p, q, max(0, p - q) / total), abs=2e-3)
        assert sum(p for p, *_ in columns.values()) == pytest.approx(1, abs=0.02)
        # The residual's word flies, lands where the draft stood, and what followed is gone.
        flying = [look for look in at(page, number, "land")["words"] if look[1] == "drawn" and look[3] < 1]
        assert [(text, landed > 0) for text, _, _, landed in flying] == [(drawn, True)]
        page.evaluate(f"player.set({number})")
        settle(page)
        over = page.evaluate(DRAWN)
        assert over["words"][-1] == [drawn, "drawn", 1, 1] and over["verdict"]["word"] == drawn
        assert over["verdict"]["apart"] == 1
        assert not {kind for _, kind, *_ in over["words"]} & {"rejected", "dropped", "draft"}
        said = page.get_by_role("img", name=f"Pass {number} of {len(trace.steps)}")
        assert f"“{drawn}” is drawn from the residual." in str(said.get_attribute("aria-label"))


def test_drafts_arrive_translucent_and_turn_solid_under_the_bar(page: Page) -> None:
    trace = read(SPECULATIVE)
    opened(page, read(ORDINARY), trace)
    number, step = next((n, step) for n, step in enumerate(trace.steps, 1) if Fate.BONUS in step.fate)

    def alphas(when: str) -> list[float]:
        page.evaluate(
            f"""() => {{
              const pass = player.stage.script.passes[{number - 1}];
              player.set({number - 1} + ({when}) / pass.length);
            }}"""
        )
        settle(page)
        shown = page.evaluate(DRAWN)
        assert page.evaluate("player.stage.drawn.bar?.alpha > 0.9") == ("sweep" in when)
        return [alpha for _, kind, alpha, _ in shown["words"]][-len(step.fate) :]

    drafts = step.fate.count(Fate.ACCEPTED)
    assert alphas("pass.swept - 170")[-drafts:] == pytest.approx([0.4] * drafts, abs=0.02)
    under = alphas("pass.sweep[2].until")
    assert under[-drafts] == 1 and under[-1] == pytest.approx(0.4)
    assert alphas("pass.length - 1") == [1] * (drafts + 1)


def test_the_card_has_the_counts_of_the_traces_and_ordinary_decoding_goes_on(page: Page) -> None:
    ordinary, trace = read(ORDINARY), read(SPECULATIVE)
    opened(page, ordinary, trace)
    made, usual = trace.summary, ordinary.summary
    card = page.locator(".ds-card")
    go(page, made.forwards - 1)
    expect(card).to_be_hidden()
    go(page, made.forwards)
    expect(card.locator("dd").first).to_have_text(str(made.forwards))
    expect(card.locator("dt").first).to_have_text(f"passes, not {usual.forwards}")
    # Nothing says here that the run is exact.
    ratio = usual.seconds / usual.tokens / (made.seconds / made.tokens)
    assert float(card.locator("dd").nth(1).inner_text().strip("×")) == pytest.approx(ratio, abs=0.06)
    expect(card.locator("dd")).to_have_count(2)
    assert page.evaluate("player.extent()") == usual.forwards
    ends = page.evaluate(CANVAS)
    go(page, made.forwards + 5)
    assert page.evaluate(CANVAS) != ends
    expect(card).to_be_visible()


@pytest.mark.parametrize("wide", [True, False], ids=["wide", "phone"])
def test_the_same_time_gives_the_same_frame(page: Page, wide: bool) -> None:
    opened(page, read(ORDINARY), read(SPECULATIVE), wide=wide)
    times = [0, 0.7, 2.4, 2.61, 2.9, 6.5, 7, 7.04, 10.99]
    first = {}
    for now in times:
        go(page, now)
        first[now] = page.evaluate(CANVAS)
    assert len(set(first.values())) == len(times)
    for now in reversed(times):
        go(page, now)
        assert page.evaluate(CANVAS) == first[now], now
    for part in (".ds-stage", ".ds-controls"):
        box, screen = page.locator(part).bounding_box(), page.viewport_size
        assert box is not None and screen is not None
        assert box["x"] >= 0 and box["x"] + box["width"] <= screen["width"]
        assert box["y"] >= 0 and box["y"] + box["height"] <= screen["height"]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for now in (2.4, 7, 11):
            go(page, now)
            accessible(page)


def test_still_pictures_show_whole_passes(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, read(ORDINARY), read(SPECULATIVE))
    go(page, 7)
    whole = page.evaluate(CANVAS)
    go(page, 7.6)
    assert page.evaluate(CANVAS) == whole
    assert page.evaluate(DRAWN)["words"][-1][1:] == ["drawn", 1, 1]


def test_the_coin_is_turned_and_the_numbers_are_a_click_away(page: Page) -> None:
    opened(page, read(ORDINARY), read(SPECULATIVE))
    at(page, 7, "judge", 300)
    coin = page.locator(".ds-coin-slider")
    before = page.evaluate("JSON.stringify(player.snapshot())")
    box = coin.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 22, box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 22, box["y"] + 0.7 * box["height"], steps=3)
    expect(page.locator(".ds-caption")).to_contain_text("Below p: accepted.")
    expect(page.locator(".ds-caption")).to_contain_text("5 tokens in this pass instead of 1")
    page.mouse.up()
    settle(page)
    assert 0.1 < page.evaluate("player.stage.drawn.verdict.coin") < 0.6
    coin.press("Home")
    settle(page)
    assert page.evaluate("player.stage.drawn.verdict.coin") == 0
    coin.press("End")
    expect(page.locator(".ds-caption")).to_contain_text("Above p: rejected.")
    assert page.evaluate("JSON.stringify(player.snapshot())") == before
    panel = page.get_by_role("region", name="This step, worked out")
    expect(panel).to_be_hidden()
    page.get_by_role("button", name="Numbers").click()
    expect(panel.locator(".ds-where")).to_have_text("pass 7 of 11 · position 17")
    assert page.evaluate("player.stage.drawn.verdict.coin") == pytest.approx(0.711, abs=1e-3)
    page.get_by_role("button", name="Every view").click()
    expect(page.locator(".ds-stage")).to_be_hidden()
    expect(page.locator(".ds-tokens").last).to_be_visible()
    page.get_by_role("button", name="Every view").click()
    expect(page.locator(".ds-stage")).to_be_visible()


def test_play_takes_its_time_and_pictures_keep_their_lanes(page: Page) -> None:
    page.clock.install()
    opened(page, read(ORDINARY), read(SPECULATIVE))
    page.get_by_role("button", name="First", exact=True).click()
    page.get_by_role("button", name="Play", exact=True).click()
    lengths = page.evaluate("player.stage.script.passes.map(({ length }) => length)")
    assert lengths[6] > 4000 > lengths[5]
    page.clock.run_for(int(sum(lengths[:6]) + lengths[6] / 2))
    assert page.evaluate("player.now") == pytest.approx(6.5, abs=0.1)
    opened(page, read(PICTURE))
    expect(page.locator(".ds-stage")).to_be_hidden()
    expect(page.locator(".ds-picture canvas").first).to_be_visible()
