"""The player on text decoded in blocks: chips to read, the mask of a call, and what the router decided."""

import re
from dataclasses import replace

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from support.blocks import END, PROMPT, Blocks, diffusion, s2d2, simsd
from support.playing import every_view, go, harness, pixels, plain, settle, show, snapshot
from support.synthetic import jacobi

from traces.replay import PENDING, state_after
from traces.schema import Canvas, Fate, Mask, Trace
from visualizers.page import standalone

pytestmark = pytest.mark.browser


def chips(page: Page, *classes: str) -> list[int]:
    """Positions of the chips that have all the classes."""
    found = page.locator("".join(f".{name}" for name in ("ds-token", *classes)))
    return found.evaluate_all("all => all.map(chip => Number(chip.dataset.position))")


def passes(trace: Trace, mode: str) -> list[int]:
    """Numbers of the forward passes of a mode, from 1."""
    return [number for number, step in enumerate(trace.steps, start=1) if step.call.mode == mode]


@pytest.mark.parametrize("trace", [s2d2(), simsd(), diffusion()], ids=["s2d2", "simsd", "diffusion"])
def test_chips_say_what_is_masked_drafted_and_final(page: Page, trace: Trace) -> None:
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
        assert texts == [words[t].strip(" ").replace("\n", "↵") for t in state.tokens if isinstance(t, int)]


def test_the_chips_together_read_as_the_text(page: Page) -> None:
    trace = diffusion()
    show(page, trace)
    words = trace.legend.vocabulary or {}
    whole = "".join(words[token] for token in trace.output.tokens if isinstance(token, int))
    shown = page.locator(".ds-tokens").text_content() or ""
    assert shown.replace("↵", "").rstrip("\u00b7\u200b") == whole


def test_words_that_come_with_a_step_are_told_from_then_on(page: Page) -> None:
    trace = diffusion()
    words = trace.legend.vocabulary or {}
    whole, bare = plain(trace), plain(replace(trace, legend=replace(trace.legend, vocabulary={})))
    harness(page)
    page.evaluate("meta => player.begin(0, meta)", {**bare, "steps": []})
    for number, step in enumerate(whole["steps"]):
        new = {str(token): words[token] for token in trace.steps[number].token if isinstance(token, int)}
        page.evaluate("([number, step]) => player.push(0, number, step)", [number, {**step, "words": new}])
    settle(page)
    texts = page.locator(".ds-token:not(.is-open)").all_text_contents()
    assert texts == [words[t].strip(" ").replace("\n", "↵") for t in trace.output.tokens if isinstance(t, int)]


def test_the_prompt_stands_before_the_text_and_lines_break_where_the_text_does(page: Page) -> None:
    trace = s2d2()
    show(page, trace)
    assert page.locator(".ds-prompt").text_content() == PROMPT
    assert PROMPT[:20] not in page.locator(".ds-subtitle").inner_text()
    words = [trace.legend.vocabulary[token] for token in trace.output.tokens if token is not None]
    after = next(position for position, word in enumerate(words) if word == "\n") + 1
    tops = page.locator(".ds-token").evaluate_all("all => all.map(chip => chip.getBoundingClientRect().top)")
    assert tops[after] > tops[after - 1] + 10
    assert "↵" in page.locator(".ds-token").nth(after - 1).inner_text()


def test_blocks_are_bordered_where_the_canvas_says(page: Page) -> None:
    trace = s2d2(Blocks(block=8, length=24))
    for offset, expected in ((0, [8, 16]), (3, [5, 13, 21])):
        show(page, replace(trace, canvas=Canvas(kind="text", shape=(24,), block=8, block_offset=offset)))
        borders = "all => all.map(border => Number(border.nextElementSibling.nextElementSibling.dataset.position))"
        assert page.locator(".ds-border").evaluate_all(borders) == expected


def test_the_frame_is_the_run_that_is_put_to_the_test(page: Page) -> None:
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


def test_drafts_that_were_dropped_are_struck_for_one_pass(page: Page) -> None:
    trace = s2d2()
    number = next(n for n, step in enumerate(trace.steps, start=1) if Fate.DISCARDED in step.fate)
    step = trace.steps[number - 1]
    dropped = [position for position, fate in zip(step.position, step.fate, strict=True) if fate is Fate.DISCARDED]
    show(page, trace)
    go(page, number)
    assert chips(page, "is-lost") == dropped
    assert page.locator(".is-lost").first.inner_text().strip() not in ("", "·")
    go(page, number + 1)
    assert chips(page, "is-lost") == []


def test_what_follows_the_first_end_is_grey_and_signs_are_small(page: Page) -> None:
    trace = diffusion()
    show(page, trace)
    end = trace.output.tokens.index(END)
    assert chips(page, "is-behind") == list(range(end + 1, 64))
    assert end in chips(page, "is-sign")
    go(page, 2)
    assert chips(page, "is-behind") == []


def test_colours_mark_this_pass_and_every_pass_on_request(page: Page) -> None:
    trace = s2d2()
    show(page, trace)
    number = passes(trace, "verify")[2]
    go(page, number)
    touched = set(trace.steps[number - 1].position)
    coloured = "all => all.filter(chip => chip.style.background).map(chip => Number(chip.dataset.position))"
    assert set(page.locator(".ds-token").evaluate_all(coloured)) == touched
    page.get_by_label("Mark what became of each token").check()
    settle(page)
    told = {i for i, fate in enumerate(state_after(trace, number).fates) if fate is not None}
    assert set(page.locator(".ds-token").evaluate_all(coloured)) == told


def test_a_chip_tells_its_numbers_by_their_labels_and_what_went_before(page: Page) -> None:
    trace = s2d2()
    number = passes(trace, "verify")[0]
    step = trace.steps[number - 1]
    show(page, trace)
    go(page, number)
    page.locator(".ds-token").nth(step.position[0]).hover()
    settle(page)
    numbers = page.locator(".ds-numbers").inner_text().split("\n")
    assert float(numbers[numbers.index("Ratio") + 1]) == pytest.approx(step.numbers["ratio"][0], rel=0.005)
    assert float(numbers[numbers.index("q, drafting distribution") + 1]) == pytest.approx(step.q[0], rel=0.005)
    assert page.locator(".ds-top li").count() == 4
    assert f"in pass {number - 1}" in page.locator(".ds-before").inner_text()


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


class TestMask:
    def test_cells_are_filled_where_a_query_sees_a_key(self, page: Page) -> None:
        trace = s2d2()
        number = passes(trace, "verify")[2]
        show(page, trace)
        go(page, number)
        mask = trace.steps[number - 1].mask
        assert mask is not None
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

    def test_pointing_says_who_sees_whom(self, page: Page) -> None:
        trace = s2d2()
        number = passes(trace, "verify")[0]
        show(page, trace)
        go(page, number)
        canvas = page.locator(".ds-mask canvas")
        canvas.hover(position={"x": 24 + 2.5 * 18, "y": 22 + 9.5 * 18})
        settle(page)
        assert page.locator(".ds-mask .ds-words").inner_text() == "Query M1 does not see key D2."
        canvas.focus()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        settle(page)
        assert canvas.get_attribute("aria-valuetext") == "Query M1 sees key D0."
        assert snapshot(page)["now"] == number

    def test_the_list_says_what_every_query_sees(self, page: Page) -> None:
        trace = simsd()
        show(page, trace)
        go(page, passes(trace, "verify")[1])
        page.get_by_text("What every query sees").click()
        settle(page)
        rows = page.locator(".ds-rows li").all_inner_texts()
        assert rows[1] == "D1 sees cache 4, D0 to D1, M2 to M3"
        assert rows[4] == "M0 sees cache 4, M0 to M3"

    def test_a_pass_without_one_keeps_the_last_faint_and_says_so(self, page: Page) -> None:
        trace = s2d2()
        number = passes(trace, "verify")[0]
        show(page, trace)
        go(page, number + 1)
        assert trace.steps[number].mask is None
        assert f"faint one is that of forward pass {number}" in page.locator(".ds-mask .ds-words").inner_text()
        assert page.locator(".ds-mask canvas").evaluate("canvas => canvas.style.opacity") == "0.3"
        go(page, 1)
        assert page.locator(".ds-mask .ds-words").inner_text() == "No mask is recorded so far."

    def test_a_large_mask_fits_and_a_run_without_masks_shows_none(self, page: Page) -> None:
        page.set_viewport_size({"width": 390, "height": 800})
        wide = Mask(
            queries=tuple(f"M{i}" for i in range(64)),
            keys=tuple(f"D{i}" for i in range(96)),
            runs=tuple((i, 96 - i) for i in range(64)),
        )
        trace = s2d2()
        steps = tuple(replace(step, mask=wide) if step.mask else step for step in trace.steps)
        show(page, replace(trace, steps=steps))
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        show(page, diffusion())
        assert page.locator(".ds-mask").is_hidden()

    @pytest.mark.parametrize("runs", [[[1, 2]], "no", [[-1, 2], [0, 1]], [[0.5, 0.5], [1]], [[2], [1]], [None, [1]]])
    def test_a_mask_that_does_not_add_up_is_left_out(self, page: Page, runs: object) -> None:
        whole = plain(s2d2())
        for step in whole["steps"]:
            step["mask"] = {"queries": ["a", "b"], "keys": ["c"], "runs": runs}
        harness(page)
        page.evaluate("trace => player.load([trace])", whole)
        settle(page)
        assert page.locator(".ds-mask").is_hidden()
        assert snapshot(page)["lanes"][0]["steps"] == len(whole["steps"])


class TestRouting:
    def test_the_sentence_holds_the_signals_and_the_verdict(self, page: Page) -> None:
        trace = s2d2()
        show(page, trace)
        decisions = [n for n, step in enumerate(trace.steps, start=1) if "verify" in step.signals]
        for number in decisions[:6]:
            go(page, number)
            words = page.locator(".ds-routing .ds-words").inner_text()
            signals = trace.steps[number - 1].signals
            expected = re.search(r"pass (\d+): ([\d.]+) of (\d+) drafts expected", words)
            assert expected is not None, words
            assert (int(expected[1]), int(expected[3])) == (number, signals["span"])
            assert float(expected[2]) == pytest.approx(signals["expected_accepted"], rel=0.005)
            assert ("do not verify" in words) == (signals["verify"] == 0)
            if signals["verify"]:
                assert f"{trace.steps[number].fate.count(Fate.ACCEPTED)} accepted" in words

    def test_it_grows_with_a_running_decoder(self, page: Page) -> None:
        whole = plain(s2d2())
        harness(page)
        page.evaluate("meta => player.begin(0, meta)", {**whole, "steps": []})
        assert page.locator(".ds-routing").is_hidden()
        for number in range(4):
            page.evaluate("([number, step]) => player.push(0, number, step)", [number, whole["steps"][number]])
        settle(page)
        assert page.locator(".ds-routing").is_visible()
        assert page.locator(".ds-mask").is_visible()

    def test_runs_without_a_router_have_none(self, page: Page) -> None:
        for trace in (diffusion(), simsd(), jacobi()):
            show(page, trace)
            assert page.locator(".ds-routing").is_hidden()


@pytest.mark.timed
def test_a_long_text_is_laid_out_once_a_frame(page: Page) -> None:
    """Hundreds of chips, of which some change their look with every step and move all that follow."""
    show(page, diffusion(Blocks(block=32, length=512, endless=True)))
    page.get_by_label("Mark what became of each token").check()
    counters = page.context.new_cdp_session(page)
    counters.send("Performance.enable")

    def layouts() -> float:
        metrics = counters.send("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "LayoutCount"))

    sweep = """() => new Promise(done => {
        const frames = [];
        let last = 0, count = 0;
        const next = time => {
            if (last) frames.push(time - last);
            last = time;
            if (count >= 120) return done(frames.sort((a, b) => a - b)[60]);
            player.set(4 * count++);
            requestAnimationFrame(next);
        };
        requestAnimationFrame(next);
    })"""
    before = layouts()
    frame = page.evaluate(sweep)
    assert (layouts() - before) / 120 < 1.2
    # The best of several sweeps: whatever else the machine does must not decide. It takes 33 ms where it is idle.
    for _ in range(5):
        if frame <= 40:
            break
        frame = min(frame, page.evaluate(sweep))
    assert frame <= 80, f"a frame takes {frame:.1f} ms"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_page_is_accessible_and_fits(browser: Browser, scheme: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    for traces, moment in (([diffusion(), s2d2()], 14), ([simsd()], 6), ([diffusion()], 1000)):
        page.set_content(standalone(traces, "A sum"))
        every_view(page)
        page.evaluate("now => player.set(now)", moment)
        page.locator(".ds-token.is-final").first.hover()
        for closed in page.get_by_text("What every query sees").all():
            if closed.is_visible():
                closed.click()
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        results = Axe().run(page)
        assert results.violations_count == 0, results.generate_report()
    context.close()
