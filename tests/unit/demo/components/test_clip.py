"""A clip to continue: one that ships, or a file of a visitor's own."""

import base64
import io
from typing import Any

import gradio as gr
import imageio.v3 as iio
import numpy as np
import pytest
from PIL import Image, ImageSequence
from playwright.sync_api import Browser, Page, expect
from support.browser import press_once, visit

from draftscope.demo.components.clip import OFFERED, ClipPanel, drawn
from draftscope.demo.components.widgets import values_of
from draftscope.engines.models.catalog import load_model

MODEL = "studio-video"


def gif(frames: int = 12, side: int = 60) -> bytes:
    shades = np.linspace(0, 255, frames).astype(np.uint8)[:, None, None, None]
    return bytes(iio.imwrite("<bytes>", np.broadcast_to(shades, (frames, side, side, 3)), extension=".gif"))


@pytest.fixture(scope="module")
def panel() -> ClipPanel:
    with gr.Blocks():
        panel = ClipPanel(gr.Textbox(), gr.HTML(), MODEL)
        panel.connect(gr.Dropdown([MODEL, "studio-image"], value=MODEL))
    return panel


def test_held_out_clips_are_offered(panel: ClipPanel) -> None:
    shown = panel.show({panel.model: MODEL})
    assert shown[panel.group]["visible"] and len(shown[panel.cards]) == OFFERED
    assert len({card["image"] for card in shown[panel.cards]}) == OFFERED
    assert shown[panel.cards][4]["note"] == "clip 5"  # the prompt
    assert panel.show({panel.model: "studio-image"}) == {panel.group: gr.update(visible=False)}


def frames(card: dict[str, str]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    with Image.open(io.BytesIO(base64.b64decode(card["image"].partition(",")[2]))) as image:
        return np.stack([np.asarray(frame.convert("RGB")) for frame in ImageSequence.all_frames(image)])


def test_the_cards_that_ship_are_what_the_model_decodes(panel: ClipPanel) -> None:
    for shipped, drawn_card in zip(panel.show({panel.model: MODEL})[panel.cards], values_of(drawn(MODEL)), strict=True):
        assert shipped | {"image": ""} == drawn_card | {"image": ""}
        assert np.abs(frames(shipped).astype(int) - frames(drawn_card)).mean() < 1


def test_a_file_of_ones_own_becomes_the_prompt(panel: ClipPanel) -> None:
    update: dict[Any, Any] = panel.open({panel.model: MODEL, panel.upload: gif()})
    assert update[panel.prompt].startswith("codes ") and update[panel.problem] == {}
    assert len(update[panel.cards]) == OFFERED + 1
    model: Any = load_model(MODEL)
    frames = model.continued(update[panel.prompt]).float().mean((1, 2, 3))
    assert (frames.diff() > 0).all()  # the shades of the file, from dark to light


@pytest.mark.parametrize(("data", "words"), [(b"", "neither a GIF nor an MP4"), (gif(1), "has 1 frames")])
def test_a_file_that_is_no_clip_is_told_and_the_prompt_stays(panel: ClipPanel, data: bytes, words: str) -> None:
    update = panel.open({panel.model: MODEL, panel.upload: data})
    assert words in update[panel.problem]["text"] and panel.prompt not in update


def bring(page: Page, name: str, data: bytes) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Or a clip of your own").click()
    chooser.value.set_files({"name": name, "mimeType": "image/gif", "buffer": data})


def test_a_clip_is_chosen_and_one_of_ones_own_continued(browser: Browser, shipped_server: str) -> None:
    with visit(browser, shipped_server) as page:
        page.get_by_role("button", name="video", exact=True).click()
        expect(page.locator("#clip-cards button").nth(2)).to_contain_text("a ferris wheel in the sky, strolling")
        page.locator("#clip-cards button").nth(2).click()
        expect(page.locator("#prompt textarea")).to_have_value("clip 3")
        bring(page, "${1}.gif", b"GIF89a nothing")
        expect(page.locator("#problem [role=alert]")).to_contain_text("clip:")
        expect(page.locator("#prompt textarea")).to_have_value("clip 3")
        bring(page, "own.gif", gif())
        expect(page.locator("#clip-cards button")).to_have_count(OFFERED + 1)
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_text("Decoding. Both decoders alternate")).to_be_visible()
        press_once(page, "#stop")
        expect(page.locator("#problem")).to_contain_text("is kept below")
