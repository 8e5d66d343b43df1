"""How the page looks around its components, at a visitor's, and what its terms mean."""

from typing import Final

import gradio as gr
from gradio.themes.utils import colors, sizes

from draftscope.demo.components.context import DARK, NARROW
from draftscope.visualizers import player

_PHONE: Final = "matchMedia('(max-width: 640px)')"
LOOK: Final = f"""() => [
  document.body.classList.contains('dark') && '{DARK}', {_PHONE}.matches && '{NARROW}',
].filter(Boolean).join(' ')"""
"""Script that returns the layout of the page for `Site.look`."""
_WATCH: Final = f"""
const phone = {_PHONE};
phone.addEventListener('change', () => trigger('turned', {{ narrow: phone.matches }}));
// A list of gradio's that Escape closed filters by what is typed next, and finds nothing: the field is left.
document.addEventListener('keydown', ({{ key, target }}) => {{
  if (key === 'Escape' && target.matches?.('input[role=combobox]')) setTimeout(() => target.blur());
}});
"""
_MARK: Final = "globalThis.draftscopeTerms.watch(element.closest('.gradio-container'));\n"


def watcher() -> gr.HTML:
    """Return a component that marks the glossary terms of the player everywhere on the page.

    Its event `turned` reports whether the page is narrow, such as on a phone held upright.
    """
    script = player.script() + _MARK + _WATCH
    return gr.HTML(html_template="<div></div>", js_on_load=script, apply_default_css=False, elem_id="watcher")


_LIGHT: Final = ("#eaf4fb", "#d3e8f6", "#a9d2ee", "#7cbbe5", "#56b4e9", "#1f86c4")
_DEEP: Final = ("#0072b2", "#005f95", "#004c78", "#00395a", "#002740")
_BLUE: Final = colors.Color(*_LIGHT, *_DEEP, name="okabe-blue")

PAGE: Final = """
/* Paper, cards, ink and lines of the page; one scale of letters, and one button. */
:root { --paper: #faf9f6; --card: #ffffff; --ink: #16181d; --soft: #565b66; --line: #e0ddd5;
  --xs: 12px; --s: 13px; --m: 15px; --l: 18px; --xl: 24px;
  --words: "Source Serif 4", Georgia, "Noto Serif", serif; }
.dark { --paper: #0f1115; --card: #171a20; --ink: #eeeff1; --soft: #a4acb8; --line: #2a2f38; }
body { background: var(--paper) !important; }
"""
"""Rules of the page itself, which hold before the app has started."""

# Gradio adds a copy of every rule below its own container, and only that copy is kept inside a media query.
CSS: Final = """
.gradio-container { width: 100% !important; max-width: 1456px !important; margin: 0 auto !important; background: none; }
.gradio-container { overflow: clip !important; } /* hidden would keep what is sticky from sticking */
.gradio-container .fillable { padding: 0 clamp(12px, 1.7vw, 24px) 16px !important; }
/* The name and the tabs share the first row. */
#masthead { position: absolute; z-index: 1; width: auto; height: 52px; padding: 0; }
#masthead .prose { display: flex; align-items: center; height: 52px; }
#masthead h1 { margin: 0; font: 650 20px/1 var(--words); letter-spacing: -0.01em; color: var(--ink); }
#masthead p { display: none; }
#pages > .tab-wrapper { height: 52px; padding: 0 0 0 136px; }
#pages > .tab-wrapper .tab-container { gap: 4px; height: 52px; align-items: center; border: 0;
  background: none; }
#pages > .tab-wrapper .tab-container::after { display: none !important; }
#pages > .tab-wrapper button { height: 34px; padding: 0 16px; border: 0; border-radius: 99px; color: var(--soft);
  font-size: var(--m); font-weight: 500; }
#pages > .tab-wrapper button::after { display: none; }
#pages > .tab-wrapper button:hover { background: var(--line); color: var(--ink); }
#pages > .tab-wrapper button.selected { background: var(--line); color: var(--ink) !important; }
#pages > .tabitem { padding: 0; }
.gradio-container { --above: 214px; } /* what stands above the workbench */
#tray-problem:has(.notice) ~ .tabs { --above: 276px; }
/* The list of runs, opened, has the whole width; its buttons stay beside its name. */
#compare-bar { display: grid; grid-template-columns: minmax(0, 1fr) auto; align-items: start; }
#compare-bar > .block { grid-area: 1 / 1; min-width: 0 !important; }
#compare-bar:has(details[open]) > .block { grid-area: 1 / 1 / 2 / -1; }
#compare-buttons { z-index: 1; grid-area: 1 / 2; flex-wrap: nowrap; width: auto; }
#compare-buttons > button { flex: none; min-width: 130px !important; }
#workbench { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1.5fr); gap: 12px; align-items: stretch; }
#workbench > * {
  height: max(470px, calc(100dvh - var(--above))); min-width: 0 !important; overflow: hidden auto !important; }
#compare-viewer .ds-stage { height: max(270px, calc(100dvh - var(--above) - 204px)) !important; }
#compare-viewer .ds-worked { position: static; } /* over nothing */
#bench .html-container, #bench .html-container > div, #bench > div { height: 100%; }
/* Three runs and more share one screen: of every lane its name, where it stands and what it shows. */
#workbench:has(.is-many) #compare-viewer { overflow: hidden !important; }
#compare-viewer:has(.is-many) :is(.html-container, .html-container > div, .player) { height: 100%; }
#workbench #compare-viewer .is-many { gap: 8px; height: 100%; }
#workbench #compare-viewer .is-many :is(.ds-subtitle, .ds-lead, .ds-side, .ds-mask, .ds-timeline, .ds-table, .ds-clip,
  .ds-prompt, .ds-key, .ds-worked, .ds-goes, .ds-choose, .ds-lane figcaption, .ds-choices label:has(input)) {
  display: none; }
#workbench #compare-viewer .is-many .ds-controls {
  display: grid; grid-template-columns: auto minmax(0, 1fr) auto; gap: 4px 12px; padding: 8px 12px; }
#workbench #compare-viewer .is-many .ds-transport { display: contents; }
#workbench #compare-viewer .is-many .ds-slider { grid-row: 1; grid-column: 2 / -1; align-self: center; }
#workbench #compare-viewer .is-many .ds-reading { grid-row: 2; grid-column: 1 / 3; justify-content: start; }
#workbench #compare-viewer .is-many .ds-choices { grid-row: 2; grid-column: 3; }
#workbench #compare-viewer .is-many .ds-lanes {
  flex: 1; grid-template: none; grid-template-columns: minmax(0, 1fr); grid-auto-rows: minmax(0, 1fr);
  gap: 8px 12px; min-height: 0; margin: 0; }
#workbench #compare-viewer .is-many .ds-lanes:has(.ds-picture:not([hidden])) {
  grid-template-columns: repeat(2, minmax(0, 1fr)); }
#workbench #compare-viewer .is-many .ds-lanes:has(.ds-lane:nth-child(4)) {
  grid-template-columns: repeat(2, minmax(0, 1fr)); }
#workbench #compare-viewer .is-many .ds-lanes:has(.ds-lane:nth-child(5)) {
  grid-template-columns: repeat(3, minmax(0, 1fr)); }
#workbench #compare-viewer .is-many .ds-lane {
  display: flex; flex-direction: column; gap: 4px; min-height: 0; overflow: hidden; }
#workbench #compare-viewer .is-many .ds-head { flex: none; align-items: baseline; gap: 0 8px; }
#workbench #compare-viewer .is-many .ds-head > div { flex: 1 1 150px; min-width: 0; }
#workbench #compare-viewer .is-many h2 {
  overflow: hidden; font-size: var(--s); text-overflow: ellipsis; white-space: nowrap; }
#workbench #compare-viewer .is-many .ds-outcome { gap: 0 8px; align-items: baseline; }
#workbench #compare-viewer .is-many .ds-outcome div {
  flex-direction: row-reverse; align-items: baseline; gap: 4px; }
#workbench #compare-viewer .is-many .ds-outcome div:not(:nth-child(2)) dt { display: none; }
#workbench #compare-viewer .is-many .ds-outcome :is(dd, small) { font-size: var(--xs); line-height: 1.45; }
#workbench #compare-viewer .is-many .ds-outcome div:last-child dd::after { content: " ms"; font-weight: 400; }
#workbench #compare-viewer .is-many .ds-cells {
  display: flex; flex: 1; align-items: stretch; min-height: 0; max-width: none; }
#workbench #compare-viewer .is-many .ds-picture { /* square, so that two rows of them fit */
  flex: 0 1 calc((max(470px, 100dvh - var(--above)) - 228px) / 2); }
#workbench #compare-viewer .is-many .is-video .ds-picture { /* four frames wide, two high */
  flex: 0 1 calc((max(470px, 100dvh - var(--above)) - 292px) * 0.86); }
#workbench #compare-viewer .is-many .ds-text:not([hidden]) {
  display: flex; flex: 1; flex-direction: column; min-height: 0; }
#workbench #compare-viewer .is-many .ds-tokens {
  flex: 1; padding: 8px; overflow: auto; font-size: var(--s); line-height: 1.65; }
@media (max-width: 900px) {
  #compare-bar { grid-template-columns: minmax(0, 1fr); }
  #compare-bar > .block { grid-area: 1 / 1 !important; }
  #compare-buttons { grid-area: 2 / 1; }
  #workbench { grid-template-columns: minmax(0, 1fr); }
  #workbench > * { height: auto; }
  #workbench #compare-viewer .is-many .ds-lanes.ds-lanes:nth-child(n):has(.ds-lane) {
    grid-template-columns: repeat(2, minmax(0, 1fr)); grid-auto-rows: auto; }
  #workbench #compare-viewer .is-many .ds-controls { grid-template-columns: auto minmax(0, 1fr); }
  #workbench #compare-viewer .is-many .ds-reading { grid-column: 1 / -1; }
  #workbench #compare-viewer .is-many .ds-choices { grid-row: 3; grid-column: 1 / -1; }
  #workbench #compare-viewer .is-many .ds-tokens { max-height: 40vh; } /* a long text scrolls, the others stay near */
  #workbench #compare-viewer .is-many :is(.ds-picture, .is-video .ds-picture) { flex: 1; }
}
.label-wrap { gap: 12px; } /* of an accordion */
.label-wrap > span { text-align: left; }
.label-wrap { flex-direction: row-reverse; justify-content: flex-end; }
.label-wrap > .icon { flex: none; align-self: center; font-size: var(--xs); }
.label-wrap:not(.open) > .icon { transform: rotate(-90deg) !important; } /* to the right, where it opens */
.block textarea { background: var(--input-background-fill); } /* gradio resets it to white, after the theme or before */
/* Fields are lines on the card as buttons are; an upload is a line that a file can be dropped on. */
.block .container > .wrap:has([role=combobox]) { border: 1px solid var(--line); background: var(--card); }
.block .container > .wrap:has([role=combobox]):hover { border-color: var(--ink); }
.block .tab-like-container, .block .tab-like-container > * { background: none; }
.block.upload { align-self: start; border: 0 !important; background: none; }
.block.upload > label { position: static; padding: 0 0 8px; border: 0; background: none;
  color: var(--ink); font-size: var(--s); white-space: normal; }
.block.upload > label span { display: none; }
.upload-container {
  height: 46px !important; border: 1px dashed var(--soft); border-radius: 24px; background: var(--card); }
.upload-container:hover { border-color: var(--ink); }
.upload-container .icon-wrap { display: none; }
.upload-container > .wrap { min-height: 0; padding: 0; font-size: 0; }
.upload-container > .wrap::after { content: "Click to upload or drop files"; color: var(--ink); font-size: var(--s);
  font-weight: 550; }
.place p { color: var(--body-text-color-subdued); font-size: 12px; overflow-wrap: anywhere; }
.html-container { padding: 0 !important; }
#skip { position: absolute; overflow: visible !important; }
.notice-box:not(:has(.notice)), #outcome:not(:has(.facts)), #why:not(:has(details)), #tour:not(:has(section)),
#grid:not(:has(section)), #watcher { display: none; }
.tab-container button { padding: 0 16px !important; }
.tab-container button.selected { color: var(--link-text-color) !important; }
button.primary, button.secondary, .taken > * {
  border-radius: 99px !important; box-shadow: none !important; font-weight: 550; }
button.primary { border: 1px solid var(--ink); }
button.secondary { border: 1px solid var(--line); background: var(--card); color: var(--ink); }
button.secondary:hover { border-color: var(--ink); background: var(--card); }
.lead p { max-width: 78ch; margin: 0; color: var(--body-text-color-subdued); font-size: 15px; line-height: 1.5; }
#calculator-answer h1 {
  margin: 0; font: 650 clamp(24px, 2.5vw, 36px)/1.2 var(--words); letter-spacing: -0.01em; text-wrap: balance; }
#calculator-answer h1 em { display: block; margin-top: 8px; font: 400 15px/1.4 Inter, system-ui, sans-serif;
  letter-spacing: 0; color: var(--soft); }
#calculator-details { border-radius: 0; }
#calculator-details p { max-width: 100ch; }
/* What the verdict rests on, and beside it the form; the curves are as high as the screen lets them be. */
#plan { display: grid; grid-template-columns: minmax(0, 1fr) minmax(480px, 34%); gap: 12px; align-items: stretch; }
#plan > * { min-width: 0 !important; }
#calculator-reasons .reasons { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 12px;
  height: clamp(380px, calc(100dvh - 200px), 622px); }
#plan-form { gap: 12px; justify-content: space-between; }
#plan-form .gr-group .block { padding: 8px 12px !important; }
#plan-form .gr-group .block .block { padding: 0 !important; }
#plan-form fieldset .wrap { gap: 4px; }
#plan-form fieldset .wrap label { padding: 4px 8px; }
#plan-form .head input { width: 56px; padding: 0 4px; text-align: center; }
@media (max-width: 1000px) {
  #plan { grid-template-columns: minmax(0, 1fr); }
  #calculator-reasons .reasons { height: 330px; }
}
#choose-answer p { max-width: 82ch; margin: 0 0 8px; padding-left: 16px; border-left: 4px solid var(--color-accent);
  font-size: 18px; font-weight: 600; line-height: 1.4; }
#choose-answer p:not(:only-child) { max-width: 120ch; font-size: 15px; }
.titled h2 { margin: 8px 0 0; font-size: var(--l); font-weight: 620; }
.empty { visibility: hidden; } /* stands where a plot is being loaded */
.js-plotly-plot { zoom: var(--print, 1); } /* in true size where it is printed */
#bias-plot { max-width: 800px; } /* its panels are square */
#ask { align-items: center; gap: 12px; }
#ask > button { flex: 0 0 128px !important; }
#prompt textarea, #prompt input { min-height: 46px; padding: 8px 16px; border: 1px solid var(--line);
  border-radius: 24px; background: var(--card); font: 400 18px/1.4 var(--words); }
#prompt, #prompt .input-container { border: 0; background: none; overflow: visible; }
#prompt :is(textarea, input):focus-visible { outline: 2px solid var(--color-accent) !important; outline-offset: 1px; }
#prompt textarea:placeholder-shown, #prompt textarea::placeholder {
  overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
#ask:has(#run:disabled) ~ #again { visibility: hidden; } /* its place stays */
#run, #stop, #stop-what-if { min-height: 46px; }
.aligned { align-items: end; }
.aligned > button { flex: 0 0 auto; min-height: 40px; margin-bottom: 12px; }
.settings .row > .form {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 270px), 1fr));
  background: var(--block-background-fill); }
.settings .aligned > .form { grid-template-columns: repeat(auto-fit, minmax(min(100%, 270px), 1fr)); }
.secondary-wrap > input { padding-right: 24px !important; text-overflow: ellipsis; } /* room for the arrow */
input[type=range]::-webkit-slider-thumb { border: 2px solid var(--color-accent); box-shadow: none; }
input[type=range]::-moz-range-thumb { border: 2px solid var(--color-accent); box-shadow: none; }
/* A slider's help runs below its label and its number, as wide as both. */
.head:has(> label > .info-text) { flex-flow: row wrap; gap: 0 8px; }
.head > label:has(> .info-text) { display: contents; }
.head > label > .has-info { flex: 1; }
.head > label > .info-text { order: 2; flex: 1 0 100%; margin: 2px 0 8px; }
.head > .tab-like-container { order: 1; }
fieldset:not(.vertical) .wrap { gap: 8px; }
fieldset:not(.vertical) .wrap label { padding: 4px 16px; border: 1px solid var(--line); border-radius: 99px;
  background: var(--card); box-shadow: none; font-size: var(--s); }
fieldset:not(.vertical) .wrap label.selected { border-color: var(--ink); background: var(--ink); color: var(--paper); }
fieldset:not(.vertical) .wrap label:has(:focus-visible) { outline: 2px solid var(--color-accent); outline-offset: 1px; }
fieldset:not(.vertical) .wrap input[type=radio] { position: absolute; opacity: 0; }
fieldset:not(.vertical) .wrap label > span { margin: 0; color: inherit; }
.numbers > .gr-group, .numbers > .column > .gr-group { background: none; }
.vertical .wrap { flex-direction: column; align-items: stretch; gap: 2px; }
.vertical label { border-color: transparent; background: transparent; line-height: 1.35; }
.vertical label.selected { background: var(--background-fill-secondary); }
.reading { max-width: 860px; }
.reading .prose > * { min-width: 0; }
.reading table { font-variant-numeric: tabular-nums; font-size: 13px; }
.reading th, .reading td { border-color: var(--border-color-primary) !important; padding: 8px 12px; }
.reading th, .reading td { overflow-wrap: normal !important; word-break: normal !important; }
.reading th { white-space: nowrap; }
footer img { display: none !important; } /* says what the words beside it say */
.gradio-container :focus-visible { outline: 2px solid var(--color-accent); outline-offset: 1px; }
@media (max-width: 640px) {
  #masthead h1 { font-size: 15px; }
  #ask > button { flex-basis: 92px !important; min-width: 0; }
  #pages > .tab-wrapper { padding-left: 92px; }
  .tab-container button { padding: 0 8px !important; }
  #pages > .tab-wrapper button { font-size: var(--s); }
  .reading table { font-size: 12px; }
  .reading th, .reading td { padding: 4px !important; white-space: normal !important; }
  .reading td .katex { font-size: 1em; }
  .vertical .wrap { display: grid; grid-template-columns: 1fr 1fr; } /* every name in sight, the figure near */
  .vertical label { padding: 4px; font-size: 13px; }
  #calculator-reasons .reasons { grid-template-columns: minmax(0, 1fr); grid-auto-rows: 236px; height: auto; }
  .packing > .form { display: grid; grid-template-columns: 1fr; }
}
@media (prefers-reduced-motion: reduce) {
  * { transition: none !important; animation: none !important; }
}
"""


def theme() -> gr.themes.Base:
    """System fonts, one accent with enough contrast in light and dark."""
    base = gr.themes.Base(
        primary_hue=_BLUE,
        secondary_hue=_BLUE,
        neutral_hue=colors.zinc,
        radius_size=sizes.radius_md,
        font=["Inter", "system-ui", "-apple-system", "Segoe UI", "sans-serif"],
        font_mono=["ui-monospace", "SFMono-Regular", "Menlo", "monospace"],
    )
    return base.set(
        button_primary_background_fill="#16181d",
        button_primary_background_fill_dark="#eeeff1",
        button_primary_background_fill_hover="#075a99",
        button_primary_background_fill_hover_dark="#7cc2f5",
        button_primary_text_color="#ffffff",
        button_primary_text_color_dark="#0f1115",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
        block_radius="14px",
        container_radius="14px",
        input_radius="14px",
        input_border_width="1px",
        input_border_color="#e0ddd5",
        input_border_color_dark="#2a2f38",
        input_background_fill="#ffffff",
        input_background_fill_dark="#171a20",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
        block_title_text_color="*neutral_700",
        block_label_text_color="*neutral_700",
        body_background_fill="#faf9f6",
        body_background_fill_dark="#0f1115",
        background_fill_primary_dark="#171a20",
        background_fill_secondary="#f3f1ec",
        background_fill_secondary_dark="#1d2128",
        border_color_primary="#e0ddd5",
        border_color_primary_dark="#2a2f38",
        block_background_fill="#ffffff",
        block_background_fill_dark="#171a20",
        body_text_color="#16181d",
        body_text_color_dark="#eeeff1",
        checkbox_border_color="*neutral_500",
        checkbox_border_color_dark="*neutral_400",
        link_text_color="#005f95",
        link_text_color_dark="#7cbbe5",
    )
