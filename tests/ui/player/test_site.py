"""Pages of `draftscope site`, opened from a folder: address parameters, iframes, hostile text, first paint."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from plotly.colors import hex_to_rgb
from support import handmade
from support.hostile import EVERY, RAN, hostile

from draftscope.acceptance_files import drafter_rates
from draftscope.analysis.acceptance_rate import AcceptanceRate, hand_set
from draftscope.demo.components.calculator import _plan, description
from draftscope.traces import read
from draftscope.traces.files import ROOT
from draftscope.visualizers.calculator import FIRST
from draftscope.visualizers.palette import DARK
from draftscope.visualizers.site import write_site

TRACES = ROOT / "assets" / "traces"
NAMES = ("speculative-juice", "ar-juice")
BACKGROUND = "getComputedStyle(document.documentElement).backgroundColor"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    recorded = [(name, read(TRACES / f"{name}.json.gz")) for name in NAMES]
    rates = [*drafter_rates(recorded), (EVERY, hand_set(0.5, 0.1))]
    write_site([*recorded, ("hostile", hostile(handmade.psd(), EVERY))], folder, EVERY, rates=rates)
    frame = '<iframe src="speculative-juice.html#theme=dark&embed=1&step=2" width="800" height="600"></iframe>'
    (folder / "host.html").write_text(f"<!doctype html><title>t</title>{frame}")
    return folder


def test_the_address_gives_position_theme_and_what_is_around(page: Page, site: Path) -> None:
    page.goto(f"{(site / 'speculative-juice.html').as_uri()}#step=3&theme=dark")
    page.wait_for_function("player.lanes.length === 2")
    assert page.evaluate("[player.now > 0 && player.now < player.extent(), player.playing, player.theme.dark]") == [
        *(True, False, True),
    ]
    assert page.evaluate(BACKGROUND) == f"rgb{hex_to_rgb(DARK.background)}"
    expect(page.locator("h1")).to_be_visible()
    page.goto("about:blank")
    page.goto((site / "host.html").as_uri())
    frame = page.frame_locator("iframe")
    expect(frame.locator(".ds")).to_be_visible()
    expect(frame.locator("h1")).to_be_hidden()
    assert frame.locator("html").evaluate(f"() => {BACKGROUND}") == f"rgb{hex_to_rgb(DARK.background)}"


def test_the_calculator_answers_in_the_browser_what_python_answers(page: Page, site: Path) -> None:
    def answers(form: dict[str, Any], rate: AcceptanceRate, source: str = "set by hand") -> None:
        heading, details = description(_plan({**FIRST, **form}), rate, source).translate({42: None}).split("\n\n")
        verdict, dot, basis = heading.removeprefix("# ").partition(". ")
        expect(page.locator(".verdict")).to_have_text(verdict + dot.strip())
        expect(page.locator(".reasons [role=img]")).to_have_count(2)
        expect(page.locator(".basis")).to_have_text(basis)
        expect(page.locator(".details")).to_have_text(details)

    page.goto(f"{(site / 'calculator.html').as_uri()}#plan.target=Qwen3+30B+A3B&plan.batch=8&embed=1&theme=dark")
    form: dict[str, Any] = {"target": "Qwen3 30B A3B", "batch": 8}
    answers(form, hand_set(0.8, 0.1))
    expect(page.locator("h1")).to_be_hidden()
    page.get_by_label("Your model").select_option("Llama 3.3 70B")
    page.locator(".curves label", has_text="H200").click()
    form |= {"target": "Llama 3.3 70B", "draft": "Llama 3.2 1B", "device": "H200"}
    answers(form, hand_set(0.8, 0.1))
    page.get_by_label("Acceptance").select_option("recorded: speculative-juice")
    ((name, rate),) = drafter_rates([(name, read(TRACES / f"{name}.json.gz")) for name in NAMES])
    answers({**form, "acceptance": round(rate.rate, 4)}, rate, name)
    page.get_by_role("slider", name="Drafts accepted").fill("0.4")
    page.get_by_label("GPUs").select_option("1")
    expect(page.locator(".basis")).to_contain_text("device: Llama 3.3 70B and Llama 3.2 1B with a KV cache of")
    page.get_by_label("Weights, bits").select_option("8")
    shown = {**form, "acceptance": 0.4, "gpus": 1, "weights": 8}
    spread = page.evaluate("Number(new URLSearchParams(location.hash.slice(1)).get('plan.spread') ?? 0.1)")
    answers(shown, hand_set(0.4, spread))
    address = page.url
    assert "embed=1" in address and "plan.device=H200" in address
    page.goto("about:blank")
    page.goto(address)
    answers(shown, hand_set(0.4, spread))
    page.goto(f"{address}&plan.device=abacus")
    expect(page.locator(".basis")).to_contain_text("device: abacus is not allowed; use T4, L4,")


def test_autoplay_plays_from_the_beginning_and_respects_reduced_motion(page: Page, site: Path) -> None:
    address = f"{(site / 'speculative-juice.html').as_uri()}#autoplay=1"
    page.goto(address)
    page.wait_for_function("player.playing && player.now > 0")
    page.emulate_media(reduced_motion="reduce")
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_function("player.lanes.length === 2")
    assert not page.evaluate("player.playing")


def test_hostile_text_stays_text_and_nothing_is_requested(page: Page, site: Path) -> None:
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    for name in ("index.html", "hostile.html", "calculator.html"):
        page.goto(f"{(site / name).as_uri()}#theme={EVERY}&step=1")
        page.wait_for_load_state()
        assert page.evaluate(f"typeof {RAN}") == "undefined"
        assert page.locator("[src=x], [href*='javascript:']").count() == 0
    assert [url for url in requested if not url.startswith((site.as_uri(), "data:", "blob:"))] == []


@pytest.mark.timed
def test_the_first_paint_takes_less_than_a_second(page: Page, site: Path) -> None:
    for name in ("index.html", "speculative-juice.html", "calculator.html"):
        page.goto((site / name).as_uri())
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length === 1")
        assert page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") < 1000
