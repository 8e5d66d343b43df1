"""The form of a printed figure: what it allows, and its ruler."""

import gradio as gr
import pytest

from draftscope.demo.components.print_form import PrintForm
from draftscope.engines.settings import ConfigError
from draftscope.visualizers.export_zip import PRESETS


@pytest.fixture
def form() -> PrintForm:
    with gr.Blocks():
        return PrintForm("mine")


def chosen(form: PrintForm, *values: object) -> dict[object, object]:
    return dict(zip(form.controls, values, strict=True))


def test_the_ruler_is_as_wide_as_the_print(form: PrintForm) -> None:
    shown = form.shown(chosen(form, "column", "light", 9))
    assert shown[form.ruler]["inches"] == 3.25
    layout = form.options(chosen(form, "column", "light", 9)).preset.laid_out
    assert shown[form.ruler]["scale"] * layout == pytest.approx(3.25 * 96)
    assert form.shown(chosen(form, "screen", "light", 9))[form.ruler] == {"plot": "mine-plot"}


def test_another_width_brings_its_letters(form: PrintForm) -> None:
    changed = form.changed(chosen(form, "columns", "light", 8))
    assert changed[form.font_size]["value"] == round(PRESETS["columns"].font_size, 1) == 7.9
    assert (
        changed[form.theme]["visible"] and not form.changed(chosen(form, "screen", "light", 8))[form.theme]["visible"]
    )


@pytest.mark.parametrize(
    "wrong", [("wide", "light", 8), ("column", "blue", 8), ("column", "light", 3), ("column", "light", "8")]
)
def test_what_the_page_does_not_send_is_refused(form: PrintForm, wrong: tuple[object, ...]) -> None:
    with pytest.raises(ConfigError, match="is not"):
        form.options(chosen(form, *wrong))
