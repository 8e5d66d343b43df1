"""The worked-out step in a browser: a verdict with its own numbers, and what another uniform draw would have done."""

import pytest
from playwright.sync_api import Page, expect
from support import handmade
from support.browser import accessible
from support.hostile import HOSTILE
from support.player_page import harness, plain, settle, stage

from benchmarks._toy_runs import ordinary
from draftscope.traces import read
from draftscope.traces.files import ROOT
from draftscope.traces.schema import Canvas, Fate, Rule, Trace
from draftscope.visualizers.player_page import standalone

FOLDER = ROOT / "assets" / "traces"
RATIO = "min(1, {p} / {q}) = {accept_prob}; uniform draw {coin} {coin ? accept_prob} {accept_prob}: {fate}"


def worked() -> Trace:
    """A pass that rejects the second of four drafts, one that accepts all that is left, and no pass after them."""
    first = handmade.step(
        "0:4=accepted 1:7=resampled 2:8=kept 3:9=changed",
        draft=(4, 6, 8, 10),
        p=(0.5, 0.1, 0.3, 0.2),
        q=(0.4, 0.5, 0.2, 0.4),
        accept_prob=(1.0, 0.2, 1.0, 0.5),
        coin=(0.31, 0.2004, 0.6, 0.7),
        likely=(None, ((7, 0.4, 0.1), (5, 0.3, 0.25), (6, 0.1, 0.5)), None, None),
        numbers={"tv": (0.1, 0.45, 0.1, 0.2)},
    )
    half, sure = (0.5, 0.5), (1.0, 1.0)
    second = handmade.step("2:8=accepted 3:9=accepted", draft=(8, 9), p=half, q=half, accept_prob=sure, coin=(0.1, 0.2))
    rules = (Rule(fates=(Fate.ACCEPTED, Fate.RESAMPLED), formula=RATIO, says=HOSTILE, redrawn="residual"),)
    return handmade.make("scd", Canvas(kind="image", shape=(2, 2)), [first, second], rules=rules)


def test_a_verdict_is_worked_out_and_its_coin_turned(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    page.set_content(standalone([ordinary(2, 2), worked()], "A test"))
    page.evaluate("player.set(1)")
    page.get_by_role("button", name="Numbers", exact=True).click()
    settle(page)
    panel = page.get_by_role("region", name="This step, worked out")
    expect(panel.locator(".ds-where")).to_have_text("pass 1 of 2 · row 1, column 2")
    # As many digits as it takes to tell the draw from the probability.
    expect(panel.locator(".ds-formula")).to_have_text("min(1, 0.1 / 0.5) = 0.2uniform draw 0.2004 ≥ 0.2: rejected")
    assert HOSTILE in panel.inner_text() and page.locator(".ds-worked script, .ds-worked img").count() == 0
    check = panel.locator(".ds-part-verify li").all_inner_texts()
    assert [row.split()[0] for row in check] == ["#7", "#5", "#6", "rest"]
    assert "drawn" in check[0] and "draft" in check[2] and "q is 0.5" in check[2] and "0.2\nis p, q is 0.15" in check[3]
    left = panel.locator(".ds-part-left li").all_inner_texts()
    assert [row.split()[0] for row in left] == ["#7", "#5"] and "67 %" in left[0] and "11 %" in left[1]
    for part in (page.locator(".ds-stage"), page.get_by_role("button", name="Play")):
        box = part.bounding_box()
        assert box is not None and box["y"] >= 0 and box["y"] + box["height"] <= 720

    # Its draw is below the probability: the draft is accepted, the next by its own draw, and the third is rejected.
    coin = panel.get_by_role("slider", name="This step's numbers if the uniform draw had been")
    before = page.evaluate("JSON.stringify(player.snapshot())")
    coin.fill("0.1")
    expect(panel.locator(".ds-formula")).to_contain_text("uniform draw 0.1 < 0.2: accepted")
    expect(panel.locator(".ds-then")).to_have_text(
        "Then the draft is accepted: 4 tokens in this pass instead of 2, and the next pass begins nowhere, as all "
        "tokens are final, not at row 2, column 1."
    )
    assert page.evaluate("JSON.stringify(player.snapshot())") == before
    # What was drawn then is not drawn now, neither in the bars nor from the residual.
    expect(panel.locator(".ds-mark")).to_have_text(["draft"])
    expect(panel.locator(".ds-part-left")).to_contain_text("With this draw nothing is sampled from here")
    panel.get_by_role("button", name="as it was").click()
    expect(panel.locator(".ds-then")).to_have_text("")
    expect(coin).to_have_value("0.2")
    expect(panel.locator(".ds-mark")).to_have_text(["drawn", "draft", "drawn"])

    # The draw is in the draft's column, at its share of q, and follows the slider.
    coin.fill("0.1")
    assert panel.locator(".ds-ball").evaluate("ball => parseFloat(ball.style.bottom)") == pytest.approx(10)
    panel.get_by_role("button", name="as it was").click()

    # From the keyboard.
    page.locator("h1").click()
    page.keyboard.press("d")
    expect(panel.locator(".ds-where")).to_have_text("pass 2 of 2 · row 2, column 1")
    expect(panel).to_contain_text("The likeliest tokens were not recorded.")
    page.keyboard.press("r")
    expect(panel.locator(".ds-where")).to_have_text("pass 1 of 2 · row 1, column 2")
    panel.get_by_role("button", name="Next long acceptance").click()
    expect(panel.locator(".ds-where")).to_have_text("pass 2 of 2 · row 2, column 2")
    expect(panel.locator(".ds-formula")).to_contain_text("= 1uniform draw 0.2 < 1: accepted")

    term = panel.locator(".ds-part-verify .ds-term").first
    term.focus()
    tip = page.get_by_role("tooltip")
    expect(tip).to_contain_text("under the distribution that verifies it")
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.locator(".ds-say .ds-term").last.hover()  # of the headline, too, and of the key to the colours
    expect(tip).to_contain_text("the model runs once")
    page.get_by_role("button", name="Every view").click()
    page.locator(".ds-key .ds-term").first.click()
    expect(tip).to_contain_text("Kept: the pending draft stays as it was.")
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    for dark in ("light", "dark"):
        page.emulate_media(color_scheme=dark)
        accessible(page)


def rejected(*accept_probs: float) -> Trace:
    """Passes that reject their only draft, with these probabilities of acceptance and a draw above them."""
    steps = [
        handmade.step(f"{at}:7=resampled", draft=(6,), p=(accept * 0.5,), q=(0.5,), accept_prob=(accept,), coin=(0.9,))
        for at, accept in enumerate(accept_probs)
    ]
    return handmade.make("scd", Canvas(kind="image", shape=(1, len(steps))), steps)


def test_the_first_rejection_is_one_that_could_have_gone_either_way(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    baseline, other = ordinary(1, 8), rejected(0.0, 0.0, 0.1, 0.0, 0.9, 0.5, 0.0, 0.2)
    stage(page, baseline, other, loop=True)
    page.get_by_role("button", name="Numbers", exact=True).click()
    panel = page.locator(".ds-worked")
    expect(panel.locator(".ds-formula")).to_contain_text("= 0.5")  # near the middle, which itself rejects at 0
    page.emulate_media(reduced_motion="no-preference")
    button = panel.get_by_role("button", name="Next rejection").element_handle()
    page.evaluate(  # at once, as the run plays on
        "([traces, button]) => { player.load(traces, { loop: true }); button.click(); }",
        [[plain(baseline), plain(other)], button],
    )
    expect(panel.locator(".ds-formula")).to_contain_text("= 0.5")
    panel.get_by_role("button", name="Next rejection").click()  # and from there on each one
    expect(panel.locator(".ds-where")).to_contain_text("pass 7 of 8")
    # A run without one such shows its own.
    page.evaluate("traces => player.load(traces, { loop: true })", [plain(baseline), plain(rejected(0.0, 0.1))])
    panel.get_by_role("button", name="Next rejection").click()
    expect(panel.locator(".ds-where")).to_contain_text("of 2")


def test_the_panel_and_the_headline_follow_the_race(page: Page) -> None:
    stage(page, rejected(*[0.1] * 60))
    page.get_by_role("button", name="Numbers", exact=True).click()
    trailing = page.evaluate(
        """async () => {
          player.set(0);
          player.speed = 20;
          player.play();
          const late = [];
          for (let frame = 0; frame < 60; frame += 1) {
            await new Promise(requestAnimationFrame);
            const shown = Number(/pass (\\d+)/.exec(document.querySelector('.ds-where').textContent)?.[1] ?? 0);
            late.push(player.snapshot().lanes[0].steps - shown);
          }
          return late;
        }"""
    )
    assert max(map(abs, trailing[2:])) <= 1


def test_rejections_in_any_row_are_found_and_a_run_without_one_says_so(page: Page) -> None:
    harness(page)
    page.evaluate("trace => player.load([trace])", plain(handmade.psd()))
    page.evaluate("player.set(0)")
    settle(page)
    panel = page.locator(".ds-worked")
    button = panel.get_by_role("button", name="Next rejection")
    expect(button).to_be_enabled()
    button.click()
    expect(panel.locator(".ds-where")).to_have_text("pass 2 of 3 · position 4")
    expect(panel.locator(".ds-part-draft")).to_contain_text("#6")
    page.evaluate("trace => player.load([trace])", plain(handmade.ar()))
    settle(page)
    expect(button).to_have_text("Next rejection: none in this run")
    expect(button).to_be_disabled()


def test_log_w_of_a_continuous_draft_is_taken_apart(page: Page) -> None:
    trace = read(FOLDER / "cspd-field.json.gz")
    page.emulate_media(reduced_motion="reduce")  # else it plays on, and the next rejection may be a later one
    page.set_content(standalone([trace], "A test"))
    page.evaluate("player.set(0)")
    settle(page)
    page.get_by_role("button", name="Numbers").click()  # the stage alone would go to a close call
    page.keyboard.press("r")
    panel = page.locator(".ds-worked")
    expect(panel).to_contain_text("log w is their summed log ratio", use_inner_text=True)  # what is hidden was there
    numbers = next(step.numbers for step in trace.steps if Fate.RESAMPLED in step.fate)
    at = next(step.fate.index(Fate.RESAMPLED) for step in trace.steps if Fate.RESAMPLED in step.fate)
    for name in ("path_log_ratio", "path_log_ratio_highest"):
        value = numbers[name][at]
        assert f"{value:.3f}".replace("-", "−") in panel.inner_text()


def test_rules_of_strangers_are_text_and_old_traces_show_what_they_have(page: Page) -> None:
    harness(page)
    trace = plain(worked())
    odd = [
        {"fates": ["resampled"], "formula": "{constructor} {__proto__} {nothing}"},
        {"fates": "resampled", "formula": 7},
        None,
        {"fates": ["resampled"], "formula": f"{HOSTILE} {{draft ? best}} {{draft}}, {{set size}}"},
    ]
    bare = {name: trace["steps"][0][name] for name in ("call", "position", "token", "fate", "accept_prob", "coin")}
    formulas = (
        ({"rules": odd, "config": {"size": HOSTILE}}, f"{HOSTILE} ≠ #6, {HOSTILE}".replace("; ", "")),
        ({"rules": []}, "min(1, 0.1 / 0.5) = 0.2uniform draw 0.2004 ≥ 0.2: rejected"),
        ({"steps": [bare], "rules": []}, "accepted with probability 0.2uniform draw 0.2004 ≥ 0.2: rejected"),
    )
    for changed, formula in formulas:
        page.evaluate("trace => { player.load([trace]); player.set(1); }", trace | changed)
        settle(page)
        expect(page.locator(".ds-formula")).to_have_text(formula)
    assert page.evaluate("globalThis.pwned") is None
