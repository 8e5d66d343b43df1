"""How a figure is printed: width, theme and size of letters, with a ruler that has the true width."""

from typing import Any, Final

import gradio as gr

from draftscope.demo.components.context import Update
from draftscope.demo.components.widgets import component
from draftscope.engines.settings import ConfigError, format_value
from draftscope.visualizers.export_zip import FONT_SIZES, PRESETS, ZipOptions

_PAGE: Final = "screen"
"""Width of the page, whose letters cannot be chosen."""
_RULER_JS: Final = """
const line = build('div', { class: 'ruler' });
const show = () => {
  const { inches = 0, scale = 1, plot = '' } = props.value ?? {};
  document.getElementById(plot)?.style.setProperty('--print', scale);
  line.style.width = `${inches}in`;
  line.textContent = `${inches.toFixed(2)} in`;
  if (inches) place.replaceChildren(line);
  else place.replaceChildren();
};
"""
_RULER_CSS: Final = """
.ruler { box-sizing: border-box; max-width: 100%; height: 22px; text-align: center; font-size: 12px; line-height: 14px;
  color: var(--body-text-color-subdued); border: solid var(--body-text-color-subdued); border-width: 0 1px 1px; }
"""


class PrintForm:
    """The controls, and the ruler above the preview."""

    def __init__(self, name: str) -> None:
        """Lay them out; `name` sets their ids on the page apart from others."""
        self.name = name
        with gr.Row(visible=False, elem_classes=["aligned", "packing"]) as self.row:
            widths = [(preset.title, width) for width, preset in reversed([*PRESETS.items()])]
            self.width = gr.Radio(widths, value=_PAGE, label="Width", scale=3, min_width=320, elem_id=f"{name}-width")
            themes = [("Light", "light"), ("Dark", "dark")]
            self.theme = gr.Radio(themes, value="light", label="Theme", scale=1, visible=False, min_width=140)
            smallest, largest = FONT_SIZES
            self.font_size = gr.Slider(
                smallest, largest, 8, step=0.1, label="Letters (pt)", scale=1, visible=False, min_width=200
            )
        self.ruler = component({}, _RULER_JS, _RULER_CSS, elem_id=f"{name}-ruler")
        self.controls: tuple[Any, ...] = (self.width, self.theme, self.font_size)
        self.parts: list[Any] = [self.row, self.theme, self.font_size, self.ruler]
        """Components that `shown` and `changed` update."""

    def options(self, values: Update) -> ZipOptions:
        """Return the options that are chosen.

        Raises:
            ConfigError: A value is not allowed.
        """
        width, theme, points = (values[control] for control in self.controls)
        if width not in PRESETS or theme not in ("light", "dark"):
            raise ConfigError(f"width: {format_value(width)} with {format_value(theme)} is not here; choose again.")
        if width == _PAGE:
            return ZipOptions()
        smallest, largest = FONT_SIZES
        if isinstance(points, bool) or not isinstance(points, int | float) or not smallest <= points <= largest:
            raise ConfigError(
                f"letters: {format_value(points)} is not allowed; use {smallest:g} to {largest:g} points."
            )
        return ZipOptions(width=width, theme=theme, font_size=float(points))

    def letters_of(self, values: Update) -> Update:
        """Return the size of letters that belongs to the width, as a value of the form."""
        preset = PRESETS.get(values[self.width], PRESETS[_PAGE])
        return {self.font_size: round(preset.font_size, 1)}

    def changed(self, values: Update) -> Update:
        """Show the letters that belong to another width."""
        printed = values[self.width] != _PAGE
        letters = self.letters_of(values)[self.font_size]
        return {
            self.theme: gr.update(visible=printed),
            self.font_size: gr.update(visible=printed, value=letters),
        }

    def shown(self, values: Update) -> Update:
        """Show the form above a figure, with a ruler as wide as it is printed."""
        options = self.options(values)
        ruler: dict[str, Any] = {"plot": f"{self.name}-plot"}
        if options.width != _PAGE:
            ruler |= {"inches": options.preset.inches, "scale": options.preset.scale}
        return {self.row: gr.update(visible=True), self.ruler: ruler}
