"""The stage in a browser: a run whose every frame follows from the trace and the clock."""

import re
from io import BytesIO
from itertools import accumulate, combinations
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect
from support.browser import accessible
from support.player_page import go, settle

from draftscope.traces import read
from draftscope.traces.files import ROOT
from draftscope.traces.replay import state_after
from draftscope.traces.schema import Fate, Step, Trace
from draftscope.traces.stats import cost_by_role, draft_forwards
from draftscope.visualizers.player_page import standalone

FOLDER = ROOT / "assets" / "traces"
SPECULATIVE, ORDINARY = (FOLDER / f"{name}.json.gz" for name in ("speculative-smollm2", "ar-smollm2"))
EVERY_FAMILY = (
    *("speculative-smollm2", "tally-ordinary", "tally-confidence", "tally-s2d2", "text-editing", "text-psd"),
    *("text-simsd", "scd-picture", "scd-picture-same", "gsd-picture", "speculative-picture", "scd-toy", "cspd-field"),
    "video-scd",
)
RACES = (
    "ar-smollm2 speculative-smollm2",
    "ar-picture scd-picture",
    "video-ar video-scd",
    "continuous-patch cspd-patch",
)
text_and_picture = pytest.mark.parametrize(
    "names", [("ar-smollm2", "speculative-smollm2"), ("ar-picture", "scd-picture")], ids=["text", "picture"]
)
wide_and_phone = pytest.mark.parametrize(
    "wide", [True, pytest.param(False, marks=pytest.mark.nightly)], ids=["wide", "phone"]
)
DRAWN = """() => {
  const { words, verdict, caption, ended } = player.stage.drawnFrame;
  const columns = verdict?.verdict.columns.map(({ text, p, q, share }) => [text, p, q, share]);
  const shownVerdict = verdict && {
    columns, uniform: verdict.uniform, separated: verdict.separated, word: verdict.verdict.replacement.text,
  };
  const shown = words.map(({ word, kind, alpha, landed }) => [word.text, kind, alpha, landed]);
  return { words: shown, verdict: shownVerdict, caption, ended };
}"""
PLACE = "(({ replay }, now) => replay.stepsAt('passes', now) + replay.partAt('passes', now))(player.stage, player.now)"
CANVAS = "document.querySelector('.ds-stage canvas').toDataURL()"
WRITTEN = """() => {
  const { stage, stage: { context } } = player;
  let written = [];
  stage.drawWord = () => {}; // words fly past what stands there
  context.fillText = (text, x, y) => {
    const at = context.getTransform().transformPoint({ x, y });
    const [{ width }, half] = [context.measureText(text), 0.36 * parseFloat(context.font.match(/[0-9.]+px/)[0])];
    const left = at.x - { left: 0, center: width / 2, right: width }[context.textAlign];
    if (context.globalAlpha <= 0.2 || at.y > stage.size.height - stage.size.strip) return; // the other text is cut off
    written.push([text, left, at.y - half, left + width, at.y + half]);
  };
  const verdicts = stage.script.passes.filter(({ verdict }) => verdict).slice(0, 6);
  return verdicts.flatMap(({ index }) => [0.4, 0.75, 0.99].map((share) => {
    written = [];
    player.set(player.readingOf(index + share)), stage.draw();
    return written;
  }));
}"""


def opened(page: Page, *traces: Trace, wide: bool = True) -> None:
    page.set_viewport_size({"width": 1280, "height": 720} if wide else {"width": 390, "height": 844})
    page.set_content(standalone(traces, "A test"))
    settle(page)


def go_into(page: Page, number: int, when: str) -> None:
    """Go to a moment of pass `number`, from 1, in milliseconds since it began."""
    page.evaluate(
        f"""number => {{
          const pass = player.stage.script.passes[number - 1];
          player.set(player.readingOf(number - 1 + ({when}) / pass.length));
        }}""",
        number,
    )
    settle(page)


def at(page: Page, number: int, part: str, after: float = 20) -> Any:
    """Return the drawing shortly after a part of the verdict of pass `number`, from 1, begins."""
    go_into(page, number, f"pass.verdict.times.{part} + {after}")
    return page.evaluate(DRAWN)


def recorded(name: str) -> Trace:
    return read(FOLDER / f"{name}.json.gz")


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

    def word(token: Any) -> str:
        return trace.legend.vocabulary[token].strip()

    opened(page, read(ORDINARY), trace)
    for number, entry, step in rejections(trace):
        draft, drawn = word(step.draft[entry]), word(step.token[entry])
        drawing = at(page, number, "judge")
        assert drawing["caption"][0] == "The draw fell above p: rejected."
        assert [text for text, kind, *_ in drawing["words"] if kind == "rejected"] == [draft]
        dropped = [word(token) for token, fate in zip(step.draft, step.fate, strict=True) if fate is Fate.DISCARDED]
        assert [text for text, kind, *_ in drawing["words"] if kind == "dropped"] == [text or "↵" for text in dropped]
        columns = {text: (p, q, share) for text, p, q, share in drawing["verdict"]["columns"]}
        assert columns[draft][:2] == pytest.approx((step.p[entry], step.q[entry]), abs=1e-3)
        assert drawing["verdict"]["uniform"] == pytest.approx(step.coin[entry])
        likely = {word(token): (p, q) for token, p, q in step.likely[entry]}
        total = step.numbers["tv"][entry]
        for text in columns.keys() - {"others"}:
            p, q = likely[text]
            assert columns[text] == pytest.approx((p, q, max(0, p - q) / total), abs=2e-3)
        assert sum(p for p, *_ in columns.values()) == pytest.approx(1, abs=0.02)
        # The residual's word flies, lands where the draft stood, and what followed is gone.
        flying = [look for look in at(page, number, "land")["words"] if look[1] == "drawn" and look[3] < 1]
        assert [(text, landed > 0) for text, _, _, landed in flying] == [(drawn, True)]
        go(page, number)
        over = page.evaluate(DRAWN)
        assert over["words"][-1] == [drawn, "drawn", 1, 1] and over["verdict"]["word"] == drawn
        assert over["verdict"]["separated"] == 1
        assert not {kind for _, kind, *_ in over["words"]} & {"rejected", "dropped", "draft"}
        figure = page.get_by_role("img", name=f"Pass {number} of {len(trace.steps)}")
        assert f"“{drawn}” is drawn from the residual." in str(figure.get_attribute("aria-label"))


@pytest.mark.parametrize(
    "names", [("ar-smollm2", "speculative-smollm2"), ("text-ordinary", "text-s2d2"), ("tally-ordinary", "tally-s2d2")]
)
def test_a_finished_text_closes_up_fills_the_stage_and_is_read_out_as_it_is(page: Page, names: tuple[str, str]) -> None:
    traces = [recorded(name) for name in names]
    opened(page, *traces)
    page.set_viewport_size({"width": 1440, "height": 900})
    settle(page)
    go(page, len(traces[1].steps))
    label = str(page.locator(".ds-stage canvas").get_attribute("aria-label"))
    words = (traces[1].output.text or "").partition("<")[0].split()  # before a sign that ends it
    assert label.partition("The text so far: ")[2].split() == words
    gaps, letters, fits = page.evaluate(
        """() => {
          const { stage, stage: { drawnFrame, script } } = player;
          const places = drawnFrame.words.filter(({ word: { kind } }) => kind !== "rejected")
            .sort((a, b) => a.word.position - b.word.position)
            .map(({ word }) => [...stage.cornerOf(word, drawnFrame), word.width]);
          const pairs = places.slice(1).map((place, i) => [place, places[i]]).filter(([a, b]) => a[1] === b[1]);
          const gaps = pairs.map(([[x], before]) => x - before[0] - before[2]);
          return [gaps.map((gap) => gap / script.ruler(" ")), stage.size.size, script.fits];
        }"""
    )
    assert min(gaps) > -0.1 and max(gaps) < 2.1  # words of a line neither overlap nor leave gaps
    smallest = {"ar-smollm2": 40, "text-ordinary": 24, "tally-ordinary": 15}
    assert fits and letters >= smallest[names[0]]


def test_both_texts_have_their_line_breaks_or_neither(page: Page) -> None:
    opened(page, recorded("tally-ordinary"), recorded("tally-s2d2"))
    breaks = """live => {
      player.stage.lane.live = live; // letters of a run that was seen live stay as large as they were
      player.stage.fit();
      return [player.stage.script.breaks, player.stage.otherScript.breaks];
    }"""
    assert page.evaluate(breaks, True) == [False, False]
    page.set_viewport_size({"width": 1280, "height": 2000})
    settle(page)
    assert page.evaluate(breaks, False) == [True, True]


def test_drafts_arrive_translucent_and_turn_solid_under_the_bar(page: Page) -> None:
    trace = read(SPECULATIVE)
    opened(page, read(ORDINARY), trace)
    number, step = next((n, step) for n, step in enumerate(trace.steps, 1) if len(step.fate) > 8)

    def alphas(when: str) -> list[float]:
        go_into(page, number, when)
        shown = page.evaluate(DRAWN)
        assert page.evaluate("player.stage.drawnFrame.bar?.alpha > 0.9") == ("sweep[" in when)
        return [alpha for _, kind, alpha, _ in shown["words"]][-len(step.fate) :]

    drafts = step.fate.count(Fate.ACCEPTED)
    assert alphas("pass.sweepStart - 20")[-drafts:] == pytest.approx([0.4] * drafts, abs=0.02)
    under = alphas("pass.sweep[2].until")
    assert under[-drafts] == 1 and under[-1] == pytest.approx(0.4)
    assert alphas("pass.length - 1") == [1] * (drafts + 1)


def test_the_card_has_the_counts_of_the_traces_and_ordinary_decoding_goes_on(page: Page) -> None:
    ordinary, trace = read(ORDINARY), read(SPECULATIVE)
    opened(page, ordinary, trace)
    accelerated, baseline, drafted = trace.summary, ordinary.summary, draft_forwards(trace.steps)
    card = page.locator(".ds-card")
    go(page, accelerated.forwards - 1)
    expect(card).to_be_hidden()
    go(page, accelerated.forwards)
    ratio = baseline.seconds / baseline.tokens / (accelerated.seconds / accelerated.tokens)
    assert float(card.locator("dd").first.inner_text().strip("×")) == pytest.approx(ratio, abs=0.06)
    expect(card.locator("dd").nth(1)).to_have_text(str(accelerated.forwards - drafted))
    assert accelerated.tokens != baseline.tokens  # so their passes are not compared
    expect(card.locator("dt").nth(1)).to_have_text(f"target passes for {accelerated.tokens} tokens")
    expect(card.locator("dd").nth(2)).to_have_text("Exact")
    expect(card.locator("dd")).to_have_count(3)
    assert page.evaluate("player.extent()") == baseline.forwards
    ends = page.evaluate(CANVAS)
    go(page, accelerated.forwards + 5)
    assert page.evaluate(CANVAS) != ends
    expect(card).to_be_visible()


def test_a_pass_of_the_drafter_counts_what_it_takes_beside_one_of_the_target(page: Page) -> None:
    opened(page, read(ORDINARY), trace := read(SPECULATIVE))
    draft_cost = cost_by_role(trace.steps)["draft"]
    target = min(step.call.milliseconds.total for step in trace.steps if step.call.role == "target")
    for count in range(1, len(trace.steps)):
        go(page, count)
        drafted, tokens = draft_forwards(trace.steps[:count]), state_after(trace, count).decoded
        equivalent = int(count - drafted + drafted * draft_cost.milliseconds.total / draft_cost.forwards / target)
        shown = re.findall(r"\d+", " ".join(page.evaluate("player.stage.drawnFrame.counts")))
        assert [int(number) for number in shown] == [equivalent, equivalent, tokens, count - drafted, drafted]
        assert tokens > equivalent or count < 3
    opened(page, recorded("ar-picture"), recorded("scd-picture"))  # without a drafter all count alike
    assert page.evaluate("player.present().every(({ replay: { ends } }) => ends.passes.every((end, at) => end === at))")


@wide_and_phone
def test_the_same_time_gives_the_same_frame(page: Page, wide: bool) -> None:
    opened(page, read(ORDINARY), read(SPECULATIVE), wide=wide)
    times = [0, 0.7, 4.4, 4.61, 4.9, 18.5, 19, 19.04, 28.99]
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
        assert box["x"] >= 0 and box["x"] + box["width"] <= screen["width"]
        assert box["y"] >= 0 and box["y"] + box["height"] <= screen["height"]
    page.emulate_media(color_scheme="light" if wide else "dark")
    for now in (4.4, 19, 29):
        go(page, now)
        accessible(page)


def test_still_pictures_show_whole_passes(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, read(ORDINARY), read(SPECULATIVE))
    go(page, 5)
    all_tokens = page.evaluate(CANVAS)
    go(page, 5.6)
    assert page.evaluate(CANVAS) == all_tokens
    assert page.evaluate(DRAWN)["words"][-1][1:] == ["drawn", 1, 1]


def test_the_coin_is_turned_and_the_numbers_are_a_click_away(page: Page) -> None:
    opened(page, read(ORDINARY), read(SPECULATIVE))
    at(page, 8, "judge", 300)
    coin = page.locator(".ds-draw-slider")
    before = page.evaluate("JSON.stringify(player.snapshot())")
    box = coin.bounding_box()
    page.mouse.move(box["x"] + 22, box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 22, box["y"] + 11 + 0.97 * (box["height"] - 22), steps=3)
    expect(page.locator(".ds-caption")).to_contain_text("Below p: accepted.")
    expect(page.locator(".ds-caption")).to_contain_text("9 tokens in this pass instead of 5")
    page.mouse.up()
    expect(page.locator(".ds-say")).to_contain_text("The model is not here. What follows is from this run's own")
    assert 0 < page.evaluate("player.stage.drawnFrame.verdict.uniform") < 0.059
    coin.press("End")
    expect(page.locator(".ds-caption")).to_contain_text("Above p: rejected.")
    assert page.evaluate("JSON.stringify(player.snapshot())") == before
    panel = page.get_by_role("region", name="This step, worked out")
    expect(panel).to_be_hidden()
    page.get_by_role("button", name="Numbers").click()
    expect(panel.locator(".ds-where")).to_have_text("target pass 5 of 10 · position 11")
    assert page.evaluate("player.stage.drawnFrame.verdict.uniform") == pytest.approx(0.62, abs=5e-3)


@pytest.mark.parametrize("page", [{"alone": True}], indirect=True)
def test_play_takes_its_time(page: Page) -> None:
    page.clock.install()
    opened(page, read(ORDINARY), read(SPECULATIVE))
    page.get_by_role("button", name="First", exact=True).click()
    lengths = page.evaluate("player.stage.script.passes.map(({ length }) => length)")
    assert lengths[4] > 3500 > 1500 > lengths[3]
    page.clock.pause_at(page.evaluate("Date.now()") + 60_000)  # only run_for moves it on
    page.get_by_role("button", name="Play", exact=True).click()
    page.clock.run_for(int(sum(lengths[:4]) + lengths[4] / 2))
    assert page.evaluate(PLACE) == pytest.approx(4.5, abs=0.1)
    expect(page.get_by_role("button", name="Next rejection")).to_be_enabled()


@pytest.mark.parametrize("name", EVERY_FAMILY)
def test_between_passes_the_stage_holds_what_the_trace_says(page: Page, name: str) -> None:
    trace = recorded(name)
    opened(page, trace)
    end = page.evaluate("player.stage.script.end ?? 1e9")
    length = len(trace.steps)
    for count in sorted({*range(1, 7), length // 3, length // 2, length - 1, length} & set(range(length + 1))):
        go(page, count)
        shown = page.evaluate(
            "player.stage.drawnFrame.words.map(({word: {position, token}, alpha}) => [position, token, alpha])"
        )
        state = state_after(trace, count)
        expected = {at: token for at, token in enumerate(state.tokens) if token is not None and at < end}
        assert len(shown) == len(expected)
        for position, token, alpha in shown:
            assert token == pytest.approx(expected[position]), (count, position)
            assert alpha == (1 if state.final[position] else pytest.approx(0.4)), (count, position)


def test_masks_give_way_under_the_bar_and_drafts_that_nobody_verifies_are_not_said_to_wait(page: Page) -> None:
    trace = recorded("tally-confidence")
    opened(page, recorded("tally-ordinary"), trace)
    caption = page.locator(".ds-say strong")
    expect(caption).to_have_text(re.compile(r"^\d\.\d times as fast: 15 passes instead of 89\.$"))
    masks = """(({ drawnFrame: { masks }, script: { slots } }) =>
      masks.filter(({ alpha }) => alpha > 0.95 * Math.max(...masks.map((mask) => mask.alpha)))
        .map(({ slot }) => slots.indexOf(slot)))(player.stage)"""
    swept = "player.stage.script.passes[0].sweep"
    page.evaluate(f"player.set({swept}[2].from / player.stage.script.passes[0].length)")
    settle(page)
    assert page.evaluate(masks) == [2, 3]  # of the block of four, two were crossed
    go(page, 1)
    assert page.evaluate(masks) == []
    expect(caption).to_have_text("Reveal several words in one pass.")
    expect(page.locator(".ds-caption")).to_have_text("One pass reveals 2 of 4 words.2 not sure enough yet")
    for count in range(len(trace.steps)):
        go(page, count)
        expect(page.locator(".ds-caption")).not_to_contain_text(re.compile("verif|accept"))
    go(page, 4)
    expect(page.locator(".ds-caption")).to_have_text("One pass reveals 8 of 8 words.")


@wide_and_phone
def test_a_greedy_check_shows_the_likeliest_token_and_no_coin(page: Page, wide: bool) -> None:
    trace = recorded("tally-s2d2")
    [(number, entry, step)] = rejections(trace)
    likely = [(trace.legend.vocabulary[token].strip(), p, q) for token, p, q in step.likely[entry] or ()]
    draft, drawn = (trace.legend.vocabulary[token].strip() for token in (step.draft[entry], step.token[entry]))
    opened(page, recorded("tally-ordinary"), trace, wide=wide)
    drawing = at(page, number, "judge", 300)
    assert drawing["caption"] == [
        "Draft rejected.",
        f"likeliest for the target: “ {drawn}” ≠ the draft “ {draft}”: rejected",
    ]
    assert max(likely, key=lambda one: one[1])[0] == drawn
    columns = [(text, p, q) for text, p, q, _ in drawing["verdict"]["columns"] if text != "others"]
    assert len(columns) >= 2 and set(columns) <= set(likely)
    assert [text for text, kind, *_ in drawing["words"] if kind == "rejected"] == [draft]
    assert drawing["verdict"]["separated"] == 0
    expect(page.locator(".ds-draw-slider")).to_be_hidden()
    stage, caption = (page.locator(part).bounding_box() for part in (".ds-stage", ".ds-caption"))
    assert stage["x"] <= caption["x"] and caption["x"] + caption["width"] <= stage["x"] + stage["width"]
    left, right = page.evaluate(
        "[player.stage.drawnFrame.layout.left, player.stage.drawnFrame.layout.right].map(Math.round)"
    )
    is_clear = caption["x"] - stage["x"] + caption["width"] <= left or caption["x"] - stage["x"] >= right
    base, unit = page.evaluate("[player.stage.drawnFrame.layout.base, player.stage.drawnFrame.layout.unit]")
    upper, lower = caption["y"] - stage["y"], caption["y"] + caption["height"] - stage["y"]
    assert is_clear or upper >= base or lower <= base - unit + 2
    assert at(page, number, "hold")["caption"][0] == f"“{drawn}” replaces it."


def judged(page: Page, resting: str, name: str, wide: bool = True) -> tuple[list[int], int, Step]:
    """Open a run: the passes whose verdict the stage shows, which are the close calls; entry and step of the first."""
    trace = recorded(name)
    opened(page, recorded(resting), trace, wide=wide)
    shown = page.evaluate("player.stage.script.passes.filter(({verdict}) => verdict).map(({index}) => index + 1)")
    steps = {number: (entry, step) for number, entry, step in rejections(trace)}
    assert shown == [n for n, (entry, step) in steps.items() if 0.3 <= step.accept_prob[entry] <= 0.7]
    return shown, *steps[shown[0]]


@wide_and_phone
def test_a_patch_is_judged_with_the_numbers_of_the_trace_and_redrawn_where_it_stood(page: Page, wide: bool) -> None:
    shown, entry, step = judged(page, "ar-picture", "scd-picture", wide)
    drawn = at(page, shown[0], "judge", 300)
    assert drawn["caption"][0] == "The draw fell above p: rejected."
    text, p, q, _ = drawn["verdict"]["columns"][0]
    assert (text, p, q) == (f"#{step.draft[entry]}", *(pytest.approx(x[entry], abs=1e-3) for x in (step.p, step.q)))
    assert drawn["verdict"]["uniform"] == pytest.approx(step.coin[entry])
    assert page.evaluate("player.stage.drawnFrame.layout.unit") > (100 if wide else 60)
    expect(page.locator(".ds-draw-slider")).to_be_visible()
    caption, stage = (page.locator(part).bounding_box() for part in (".ds-caption", ".ds-stage"))
    assert caption["y"] + caption["height"] <= stage["y"] + stage["height"]
    at(page, shown[0], "hold", 10)
    word_positions = (
        "player.stage.script.words.filter(({position}) => position === {}).map(({x, line}) => `${x} ${line}`)"
    )
    assert len(set(page.evaluate(word_positions.replace("{}", str(step.position[entry]), 1)))) == 1


def test_a_word_drawn_anew_begins_where_the_rejected_one_did(page: Page) -> None:
    opened(page, read(ORDINARY), read(SPECULATIVE))
    word_positions = page.evaluate(
        """player.stage.script.passes.filter(({ verdict }) => verdict).map(({ verdict: { word, replacement } }) =>
          [word, replacement].map(({ x, line }) => [x, line]))"""
    )
    assert [old == new for old, new in word_positions] == [True, False]  # the comma needs no space, the word did


def test_a_clip_plays_as_far_as_it_is_decided(page: Page) -> None:
    trace = recorded("video-scd")
    opened(page, recorded("video-ar"), trace)
    frames = set()
    for now in (0, 20, 24.5, 60, 300, 400):
        go(page, now)
        first = page.evaluate(CANVAS)
        go(page, now + 1)
        go(page, now)
        assert page.evaluate(CANVAS) == first
        frames.add(page.evaluate("Math.floor(player.stage.elapsed(player.stage.drawnFrame.done) / 200)"))
        decided = page.evaluate("player.lanes[1].clip.decidedIn(player.lanes[1].scene)")
        state = state_after(trace, min(int(now), len(trace.steps)))
        num_decided = next((n for n in range(7) if not all(state.final[144 * n : 144 * (n + 1)])), 7)
        assert decided == 2 + num_decided
    assert len(frames) == 6


@pytest.mark.parametrize(
    "size",
    [
        pytest.param((1280, 720), id="1280"),
        pytest.param((1440, 900), id="1440", marks=pytest.mark.nightly),
        pytest.param((390, 844), id="390"),
    ],
)
@pytest.mark.parametrize(
    "names", [("ar-picture-same", "scd-picture-same"), ("video-ar", "video-scd")], ids=["picture", "clip"]
)
def test_the_card_of_a_picture_covers_no_picture(page: Page, names: tuple[str, str], size: tuple[int, int]) -> None:
    traces = [recorded(name) for name in names]
    opened(page, *traces)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    go(page, len(traces[1].steps))
    expect(page.locator(".ds-card div")).to_have_count(3)
    card, stage = (page.locator(part).bounding_box() for part in (".ds-card", ".ds-stage"))
    assert card["x"] + card["width"] <= stage["x"] + stage["width"]
    card_box, other, top, right = page.evaluate(
        """(({ size, other: { picture: { width, height } } }) =>
          [size.pictureBox, { width, height }, size.top, size.right])(player.stage)"""
    )
    left, upper = card["x"] - stage["x"], card["y"] - stage["y"]
    assert left >= card_box["width"] or upper >= top + card_box["height"] + 24
    if size[0] > 700 and names[0] == "ar-picture-same":  # between two pictures of one size
        assert card_box["width"] == other["width"] and left + card["width"] <= right - other["width"]
    else:
        assert upper >= top + other["height"] + 24  # its count is below it
    if size[0] == 1440:  # what is seen of a clip are its latent frames
        assert card_box["height"] > stage["height"] / 2


def test_a_wrong_answer_is_told_on_the_card(page: Page) -> None:
    ordinary, trace = recorded("text-ordinary"), recorded("text-psd")
    opened(page, ordinary, trace)
    go(page, len(trace.steps))
    expect(page.locator(".ds-card")).not_to_contain_text("Wrong")
    page.evaluate(
        "answers => { player.answers[player.lanes[1].replay.meta.prompt] = answers; player.refresh(); }", "30"
    )
    go(page, len(trace.steps))
    expect(page.locator(".ds-card dd").last).to_have_text("Wrong")
    expect(page.locator(".ds-card dt").last).to_have_text("20, not 30")
    expect(page.locator(".ds-say")).to_contain_text("the answer is wrong: 20, not 30")


@wide_and_phone
def test_branches_of_a_draft_graph_light_up_and_the_best_one_goes_into_the_text(page: Page, wide: bool) -> None:
    trace = recorded("text-psd")
    number, step = next((n, step) for n, step in enumerate(trace.steps, 1) if step.graph)
    opened(page, recorded("text-ordinary"), trace, wide=wide)

    def shown(part: str) -> Any:
        go_into(page, number, f"pass.branches.{part} - 5")
        return page.evaluate(
            """(({ branches: { lit, judged, joined }, words }) => ({
              lit, judged, joined,
              solid: words.filter(({ alpha }) => alpha === 1).map(({ word }) => word.position),
            }))(player.stage.drawnFrame)"""
        )

    nodes = page.evaluate(f"player.stage.script.passes[{number - 1}].branches.nodes")
    assert [node["accepted"] for node in nodes] == [node.accepted for node in step.graph]
    assert [node["best"] for node in nodes].index(True) == step.signals["winner"]
    drafted = {at: draft for at, draft in zip(step.position, step.draft or (), strict=True) if draft is not None}
    for node, drawn in zip(step.graph, nodes, strict=True):
        words = [trace.legend.vocabulary[drafted[at]].strip() or "␣" for at in sorted(node.positions)]
        assert [draft for _, draft, _ in drawn["lines"]] == words
    assert page.evaluate("player.stage.size.lanes[1].height") > (190 if wide else 150)
    accepted = {at for at, fate in zip(step.position, step.fate, strict=True) if fate is Fate.ACCEPTED}
    lit = shown("crossed")
    assert lit["lit"] > 0.9 and lit["judged"] == 0 and not accepted & set(lit["solid"])
    expect(page.locator(".ds-caption")).to_have_text("One pass tries 6 branches of drafts at once.")
    assert shown("judge")["judged"] > 0.9
    expect(page.locator(".ds-caption")).to_have_text("3 of 6 branches accepted.")
    flying = page.evaluate(CANVAS)
    joined = shown("join")
    assert joined["joined"] > 0.9 and page.evaluate(CANVAS) != flying
    expect(page.locator(".ds-caption")).to_have_text("The deepest one accepted goes into the text.")
    go(page, number)
    assert accepted <= set(
        page.evaluate("player.stage.drawnFrame.words.filter(({alpha}) => alpha === 1).map(({word}) => word.position)")
    )


@text_and_picture
def test_the_next_rejection_is_a_click_away_and_stands_at_its_coin(page: Page, names: tuple[str, str]) -> None:
    traces = [recorded(name) for name in names]
    opened(page, *traces)
    go(page, 0)
    wanted = page.evaluate("player.stage.script.passes.filter(({verdict}) => verdict).map(({index}) => index + 1)")
    for number in (*wanted[:3],):
        page.get_by_role("button", name="Next rejection").click()
        settle(page)
        assert number - 1 < page.evaluate(PLACE) < number
        drawn = page.evaluate(DRAWN)
        assert drawn["caption"][0] == "The draw fell above p: rejected." and drawn["verdict"]["separated"] == 0
        coins = [step.coin[entry] for n, entry, step in rejections(traces[1]) if n == number and step.coin]
        assert drawn["verdict"]["uniform"] == pytest.approx(coins[0])
    go(page, 0)
    page.evaluate("player.stage.script.passes.forEach((pass) => (pass.verdict = null))")
    page.keyboard.press("r")
    settle(page)
    assert page.evaluate(PLACE) == wanted[0]  # the end of the pass, where no verdict is shown


@text_and_picture
def test_a_rejected_word_or_patch_is_pressed_for_its_numbers(page: Page, names: tuple[str, str]) -> None:
    traces = [recorded(name) for name in names]
    opened(page, *traces)
    number = page.evaluate("player.stage.script.passes.findLast(({ verdict }) => verdict).index + 1")
    entry = next(entry for n, entry, _ in rejections(traces[1]) if n == number)
    step = traces[1].steps[number - 1]
    at(page, number, "fall", -5)
    x, y = page.evaluate(
        """(({ drawnFrame: { verdict: { verdict: { word } }, top }, canvas }) => {
          const box = canvas.getBoundingClientRect();
          return [box.x + word.x + 4, box.y + player.stage.lineTop(word.line, top) + 4];
        })(player.stage)"""
    )
    page.mouse.click(x, y)
    settle(page)
    assert page.evaluate(f"[{PLACE}, player.position]") == [number, step.position[entry]]
    panel = page.get_by_role("region", name="This step, worked out")
    expect(panel).to_be_in_viewport(ratio=0.99)
    expect(panel.locator(".ds-where")).to_contain_text(page.evaluate(f"player.stage.replay.passName({number - 1})"))
    expect(panel.locator(".ds-formula")).to_contain_text(f"uniform draw {step.coin[entry]:.3g} ≥")
    expect(panel.locator(".ds-part-left")).to_contain_text("residual")
    page.mouse.click(x, page.locator(".ds-stage").bounding_box()["y"] + 2)
    assert page.evaluate("player.position") == step.position[entry]  # nothing is there
    expect(page.get_by_role("button", name="Numbers")).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("names", RACES)
def test_nothing_written_on_the_stage_overlaps(page: Page, names: str) -> None:
    opened(page, *map(recorded, names.split()))
    for width, height in ((1440, 900), (1280, 720), (800, 700), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        settle(page)
        for (one, *a), (other, *b) in (two for moment in page.evaluate(WRITTEN) for two in combinations(moment, 2)):
            assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3], (width, one, other, a, b)


@pytest.mark.parametrize(
    "size",
    [
        pytest.param((1440, 900), id="1440", marks=pytest.mark.nightly),
        pytest.param((1280, 720), id="1280"),
        pytest.param((390, 844), id="390"),
    ],
)
def test_no_third_of_the_stage_of_pictures_is_empty(page: Page, size: tuple[int, int]) -> None:
    opened(page, recorded("ar-picture-same"), recorded("scd-picture-same"))
    page.set_viewport_size({"width": size[0], "height": size[1]})
    verdict = page.evaluate("player.stage.script.passes.find(({ verdict }) => verdict).index + 0.99")
    length = len(recorded("scd-picture-same").steps)
    for now in (length / 3, verdict, length):
        go(page, now)
        image = np.asarray(Image.open(BytesIO(page.locator(".ds-stage").screenshot())).convert("RGB"))
        drawn = (image != image[8, 40]).any(-1)[4:-4, 4:-4]
        thirds = np.array_split(drawn, 3, axis=1 if size[0] > 700 else 0)  # next to one another, or below
        assert all(third.mean() > 0.015 for third in thirds), (now, [third.mean() for third in thirds])


@wide_and_phone
def test_a_vector_is_judged_by_the_last_denoising_step_and_by_all(page: Page, wide: bool) -> None:
    shown, entry, step = judged(page, "continuous-patch", "cspd-patch", wide)
    bare = page.evaluate(CANVAS)
    drawn = at(page, shown[0], "judge", 300)
    assert drawn["caption"][0] == "Draft rejected." and "min(1, w) = " in drawn["caption"][1]
    assert page.evaluate(CANVAS) != bare
    bells = page.evaluate("player.stage.drawnFrame.verdict.verdict.bells")
    names = ("last_std", "last_std_draft", "last_mean_distance", "last_place", "last_place_token")
    assert list(bells.values()) == [pytest.approx(step.numbers[name][entry]) for name in names]
    note = at(page, shown[0], "hold")["caption"][1]
    for name in ("path_log_ratio", "path_log_ratio_highest"):
        assert f"{step.numbers[name][entry]:.3f}".replace("-", "−") in note


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("field", r"Only 0\.\d+ times as fast: 37 target passes instead"),
        ("mixture", "74 target passes instead"),
    ],
)
def test_the_terms_of_log_w_are_drawn_below_bells_if_there_are_any(page: Page, kind: str, sentence: str) -> None:
    shown, entry, step = judged(page, "continuous-field" if kind == "field" else "continuous-patch", f"cspd-{kind}")
    at(page, shown[0], "judge", 300)
    terms = page.evaluate("player.stage.drawnFrame.verdict.verdict.terms")
    assert step.paths and (pair := step.paths[entry]) and (*pair.log_ratio,) == (*terms,)
    highest = max(accumulate(terms[:-1], initial=0.0)) if "path_log_ratio_highest" in step.numbers else 0.0
    assert sum(terms) - highest == pytest.approx(step.numbers["log_ratio"][entry], abs=1e-4)
    drawn = page.evaluate(CANVAS)
    assert drawn != page.evaluate(f"player.stage.drawnFrame.verdict.verdict.terms = [0], player.stage.draw(), {CANVAS}")
    page.evaluate("player.set(player.extent())")
    expect(page.locator(".ds-say")).to_contain_text(re.compile(sentence))


def test_what_is_printed_has_no_controls(page: Page) -> None:
    opened(page, recorded("ar-picture"), recorded("scd-picture"))
    page.emulate_media(media="print")
    expect(page.locator(".ds-controls")).to_be_hidden()
    expect(page.locator(".ds-stage")).to_be_visible()
