"""The player on text decoded in blocks: chips to read, the mask of a call, and what the router decided."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect
from support.blocks import PROMPT, Blocks, diffusion, s2d2, simsd
from support.handmade import make, step
from support.player_page import chips, every_view, go, harness, pixels, plain, settle, show, snapshot, stage
from support.psd_runs import speculated

from draftscope.demo.jobs.recordings import answers_to
from draftscope.traces.replay import PENDING, state_after
from draftscope.traces.schema import Canvas, Fate, Legend, Mask, Output, Trace
from draftscope.traces.stats import summarise


def counts(page: Page) -> list[str]:
    """The progress of each run in the words of the stage."""
    return page.evaluate("player.stage.drawnFrame.counts")


def passes(trace: Trace, mode: str) -> list[int]:
    """Numbers of the forward passes of a mode, from 1."""
    return [number for number, step in enumerate(trace.steps, start=1) if step.call.mode == mode]


@pytest.mark.parametrize("make", [s2d2, simsd, diffusion])
def test_chips_say_what_is_masked_drafted_and_final(page: Page, make: Callable[[], Trace]) -> None:
    trace = make()
    show(page, trace)
    words = trace.legend.vocabulary or {}
    for count in (0, 1, 2, 3, len(trace.steps) // 2, len(trace.steps)):
        go(page, count)
        state = state_after(trace, count)
        drafts = [i for i, fate in enumerate(state.fates) if fate in PENDING]
        assert chips(page, "is-final") == [i for i, final in enumerate(state.final) if final]
        assert chips(page, "is-draft") == drafts
        assert chips(page, "is-open") == [i for i, token in enumerate(state.tokens) if token is None]
        texts = page.locator(".ds-token:not(.is-open)").all_text_contents()
        assert texts == [words[t].strip(" ").replace("\n", "↵") or "␣" for t in state.tokens if isinstance(t, int)]


def test_the_prompt_lines_and_blocks_stand_where_the_trace_says(page: Page) -> None:
    trace = s2d2()
    show(page, trace)
    assert page.locator(".ds-prompt").text_content() == PROMPT
    assert PROMPT[:20] not in page.locator(".ds-subtitle").inner_text()
    words = [trace.legend.vocabulary[token] for token in trace.output.tokens if token is not None]
    after = next(position for position, word in enumerate(words) if word == "\n") + 1
    tops = page.locator(".ds-token").evaluate_all("all => all.map(chip => chip.getBoundingClientRect().top)")
    assert tops[after] > tops[after - 1] + 10
    assert "↵" in page.locator(".ds-token").nth(after - 1).inner_text()
    trace = s2d2(Blocks(block=8, length=24))
    for offset, expected in ((0, [8, 16]), (3, [5, 13, 21])):
        show(page, replace(trace, canvas=Canvas(kind="text", shape=(24,), block=8, block_offset=offset)))
        borders = "all => all.map(border => Number(border.nextElementSibling.nextElementSibling.dataset.position))"
        assert page.locator(".ds-border").evaluate_all(borders) == expected


def story(*lines: str, padding: int = 0) -> Trace:
    """A text that one pass writes, its last token <end>, followed by more of these."""
    words = [*lines, *["<end>"] * (1 + padding)]
    ids = {word: number for number, word in enumerate(dict.fromkeys(words))}
    entries = " ".join(f"{at}:{ids[word]}=unmasked" for at, word in enumerate(words))
    steps = [step(entries, mode="diffusion")]
    legend = Legend(vocabulary={number: word for word, number in ids.items()})
    summary = summarise(steps, len(words), complete=True, ends=(ids["<end>"],))
    tokens = tuple(ids[word] for word in words)
    output = Output(tokens=tokens, text="".join(lines))
    return make("psd", Canvas(kind="text", shape=(len(words),)), steps, legend=legend, summary=summary, output=output)


def test_padding_behind_the_end_is_neither_counted_nor_shown(page: Page) -> None:
    padded = story("a", " b", padding=5)
    stage(page, padded, padded)
    assert counts(page) == ["✓ 3 tokens in 1 pass"] * 2
    expect(page.locator(".ds-outcome").last).to_contain_text("3 / 3")
    assert page.evaluate("player.stage.drawnFrame.words.map(({ word }) => word.text)") == ["a", "b"]
    page.evaluate("trace => player.load([trace])", plain(padded))
    settle(page)
    expect(page.locator(".ds-caption")).to_contain_text("One pass reveals 2 words.")
    page.evaluate("player.useStage(false)")
    settle(page)
    assert page.locator(".ds-lane").first.locator(".ds-token:visible").count() == 8


def test_a_wrong_answer_is_flagged_where_the_right_one_is_known(page: Page) -> None:
    right, wrong = (story("It is $", number, "\n#### ", number) for number in ("30", "20"))
    stage(page, right, wrong)
    assert counts(page) == ["✓ 5 tokens in 1 pass"] * 2  # unknown
    page.evaluate("prompt => { player.answers[prompt] = '30'; player.set(1); }", right.prompt)
    settle(page)
    assert counts(page) == ["✓ 5 tokens in 1 pass", "✗ wrong: 20, not 30 · 5 tokens in 1 pass"]
    expect(page.locator(".ds-lead").last).to_contain_text("The answer is wrong: 20, not 30.")
    page.evaluate("player.set(0)")
    settle(page)
    assert counts(page)[1] == "0 tokens in 0 passes"


@pytest.mark.parametrize(
    ("right", "wrong", "sentence"),
    [("makes four", "made four", "wrong in line 1"), ("44 overall\n", "44 overall\nlater\n", "wrong in line 3")],
)
def test_the_line_in_which_a_story_is_wrong_is_named(page: Page, right: str, wrong: str, sentence: str) -> None:
    harness(page)
    prompt = "45: Ann +2 Hal -3 Ann +1 Ann +1 Ann +1"
    known = {prompt: answers_to([prompt, "How many?", None])[prompt][:2]}
    text = "then Ann adds two more which makes four seven now\nlater Hal took 3 away and left 44 overall\n"
    runs = [plain(story(each)) | {"prompt": prompt} for each in (text, text.replace(right, wrong))]
    page.evaluate("([runs, known]) => { Object.assign(player.answers, known); player.load(runs); }", [runs, known])
    settle(page)
    expect(page.locator(".ds-lead").first).to_have_text("")
    expect(page.locator(".ds-lead").last).to_contain_text(f"The answer is {sentence}.")


def test_a_text_longer_than_its_room_shows_what_is_written(page: Page) -> None:
    words = 300
    steps = [step(f"{at}:0=sampled") for at in range(words)]
    long = make("ar", Canvas(kind="text", shape=(words,)), steps, legend=Legend(vocabulary={0: " word"}))
    stage(page, long)
    for count in (words, 5, 150):
        page.evaluate("count => player.set(count)", count)
        settle(page)
        line, top, lines, shown = page.evaluate(
            """(({ drawnFrame: { words, top }, size }) =>
              [words.at(-1).word.line, top, size.lines, words.length])(player.stage)"""
        )
        assert shown == count and top <= line < top + lines
    assert page.evaluate("player.stage.size.lines") < 30


def test_a_stopped_run_says_how_far_it_came_of_what_was_asked_for(page: Page) -> None:
    stopped = make("ar", Canvas(kind="image", shape=(4, 4)), [step("0:1=sampled"), step("1:2=sampled")])
    stage(page, stopped)
    assert counts(page) == ["stopped: 2 tokens in 2 passes"]
    assert page.locator(".ds-outcome dd").first.text_content() == "2 / 16"
    page.evaluate("player.set(1)")
    settle(page)
    assert counts(page) == ["1 token in 1 pass"]


def test_a_mask_in_which_all_see_all_is_not_shown_and_a_pass_without_one_keeps_the_last_one_faint(page: Page) -> None:
    dense, mask = (Mask(queries=("x0", "x1"), keys=("x0", "x1"), runs=((0, 2), row)) for row in ((0, 2), (0, 1, 1)))
    show(page, make("psd", Canvas(kind="text", shape=(2,)), [step("0:1=unmasked 1:2=unmasked", mask=dense)]))
    expect(page.locator(".ds-mask")).to_be_hidden()
    passes = [step("0:1=unmasked"), step("1:2=unmasked", mask=mask), step("2:2=unmasked")]
    show(page, make("psd", Canvas(kind="text", shape=(3,)), passes))
    expect(page.locator(".ds-mask")).to_be_visible()
    words, canvas = page.locator(".ds-mask .ds-words"), page.locator(".ds-mask canvas")
    for count, text, opacity in ((1, "No mask so far.", "0.3"), (2, "2 queries by 2 keys", "1")):
        go(page, count)
        expect(words).to_contain_text(text)
        assert canvas.evaluate("canvas => canvas.style.opacity") == opacity
    go(page, 3)
    expect(words).to_contain_text("the faint mask is that of forward pass 2")
    assert canvas.evaluate("canvas => canvas.style.opacity") == "0.3"


def test_drafts_that_are_tested_are_framed_and_dropped_ones_struck_for_one_pass(page: Page) -> None:
    trace = s2d2()
    show(page, trace)
    for number in passes(trace, "verify")[:4]:
        step = trace.steps[number - 1]
        judged = [position for position, fate in zip(step.position, step.fate, strict=True) if fate.judged]
        go(page, number)
        assert chips(page, "is-framed") == judged
        drafted = trace.steps[number - 2]
        go(page, number - 1)
        assert chips(page, "is-framed") == sorted(drafted.position)[: int(drafted.signals["span"])]
    skipped = next(n for n, step in enumerate(trace.steps, start=1) if step.signals.get("verify") == 0)
    go(page, skipped)
    assert chips(page, "is-framed") == []
    number = next(n for n, step in enumerate(trace.steps, start=1) if Fate.DISCARDED in step.fate)
    step = trace.steps[number - 1]
    dropped = [position for position, fate in zip(step.position, step.fate, strict=True) if fate is Fate.DISCARDED]
    go(page, number)
    assert chips(page, "is-lost") == dropped
    assert page.locator(".is-lost").first.inner_text().strip() not in ("", "·")
    go(page, number + 1)
    assert chips(page, "is-lost") == []


def test_arrows_move_along_the_lines_that_are_seen(page: Page) -> None:
    show(page, diffusion())
    page.locator(".ds-tokens").focus()
    tops = page.locator(".ds-token").evaluate_all("all => all.map(chip => chip.getBoundingClientRect().top)")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert snapshot(page)["position"] == 1
    page.keyboard.press("ArrowDown")
    below = snapshot(page)["position"]
    assert tops[below] > tops[1] + 10
    page.keyboard.press("ArrowUp")
    assert abs(tops[snapshot(page)["position"]] - tops[1]) < 5


def test_the_mask_is_drawn_and_the_router_is_told(page: Page) -> None:
    trace = s2d2()
    first, _, number = passes(trace, "verify")[:3]
    show(page, trace)
    go(page, number)
    mask = trace.steps[number - 1].mask
    canvas = page.locator(".ds-mask canvas")
    image, box = pixels(canvas), canvas.bounding_box()
    size = 18
    left = max(len(label) for label in mask.queries) * 7.5 + 9
    top = max(min(len(label), 12) for label in mask.keys) * 7.5 + 7
    scale = image.width / box["width"]
    for row, runs in enumerate(mask.runs):
        seen = [index % 2 == 1 for index, length in enumerate(runs) for _ in range(length)]
        for column, expected in enumerate(seen):
            at = (int(scale * (left + (column + 0.4) * size)), int(scale * (top + (row + 0.4) * size)))
            assert (image.getpixel(at) == (0, 114, 178)) is expected, (row, column)

    go(page, first)
    canvas.hover(position={"x": left + 3.5 * size, "y": top + 9.5 * size})
    settle(page)
    assert page.locator(".ds-mask .ds-words").inner_text() == "Query M2 does not see key D3."
    canvas.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    settle(page)
    assert canvas.get_attribute("aria-valuetext") == "Query M2 sees key D1."
    assert snapshot(page)["now"] == first
    every_view(page)  # and back to the stage
    caption = page.locator(".ds-caption")
    for number in [n for n, each in enumerate(trace.steps, start=1) if "verify" in each.signals][:6]:
        go(page, number)
        words, signals = caption.inner_text(), trace.steps[number - 1].signals
        expected = re.search(r"([\d.]+) of (\d+) expected to be accepted: (not|to be) verified", words)
        assert expected is not None, words
        assert int(expected[2]) == signals["span"]
        assert float(expected[1]) == pytest.approx(signals["expected_accepted"], rel=0.005)
        assert (expected[3] == "not") == (signals["verify"] == 0)
        if signals["verify"] and Fate.RESAMPLED not in trace.steps[number].fate:  # else its verdict is shown
            go(page, number + 1)
            expect(caption).to_contain_text(f"{trace.steps[number].fate.count(Fate.ACCEPTED)} of ")


def test_a_text_that_ended_early_is_done_with_its_own_tokens_and_shows_no_empty_boxes(page: Page) -> None:
    legend = Legend(vocabulary={0: "One", 1: " two", 2: "</s>"}, ends=(2,))
    steps = [step("0:0=sampled 1:1=sampled 2:2=sampled")]
    summary = summarise(steps, 6, complete=True, ends=legend.ends)
    show(page, make("ar", Canvas(kind="text", shape=(6,)), steps, legend=legend, summary=summary))
    go(page, 0)
    assert len(chips(page, "is-open")) == 6 and page.locator(".ds-token:visible").count() == 6
    go(page, 1)
    assert page.locator(".ds-token:visible").count() == 3
    assert "3 / 3" in page.locator(".ds-outcome").inner_text()


def heading(page: Page) -> str:
    return str(page.locator(".ds-stage canvas").get_attribute("aria-label"))


def test_every_draft_is_told_with_its_verdict_and_under_which(page: Page) -> None:
    trace = speculated()
    show(page, trace, speculated(variant="Spiffy"))
    assert page.locator("h2").all_inner_texts()[:2] == ["PSD", "Spiffy"]
    show(page, trace)
    number, step = next((number, step) for number, step in enumerate(trace.steps, start=1) if step.graph)
    # Verified tokens are framed, and their depth is shown.
    go(page, number)
    assert set(chips(page, "is-framed")) == {p for p, fate in zip(step.position, step.fate, strict=True) if fate.judged}
    accepted = [p for p, fate in zip(step.position, step.fate, strict=True) if fate is Fate.ACCEPTED]
    glyphs = [page.locator(".ds-token").nth(p).get_attribute("data-glyph") for p in accepted]
    assert glyphs == ["●1", "●2"]
    go(page, number + 1)
    assert page.locator(".ds-token").nth(accepted[0]).get_attribute("data-glyph") == ""
    every_view(page)  # and back to the stage
    go(page, number - 0.1)
    assert (
        "“w2”: accepted, accepted under the text alone. “w2 … w3”: kept, accepted under “w2”. "
        "“w2 … w3 … w4”: rejected." in heading(page)
    )
    go(page, next(n for n in range(number + 1, len(trace.steps)) if not trace.steps[n - 1].graph) - 0.1)
    assert "accepted under" not in heading(page)
