"""How the page looks around its components."""

from typing import Final

import gradio as gr
from gradio.themes.utils import colors, sizes

_BLUE: Final = colors.Color(
    name="okabe-blue",
    c50="#eaf4fb",
    c100="#d3e8f6",
    c200="#a9d2ee",
    c300="#7cbbe5",
    c400="#56b4e9",
    c500="#1f86c4",
    c600="#0072b2",
    c700="#005f95",
    c800="#004c78",
    c900="#00395a",
    c950="#002740",
)

CSS: Final = """
.gradio-container { max-width: 1280px !important; margin: 0 auto !important; }
#masthead { margin: 4px 0 0; }
#masthead h1 { margin: 0; font-size: 24px; font-weight: 700; letter-spacing: -0.01em; }
#masthead p { margin: 2px 0 0; color: var(--body-text-color-subdued); font-size: 15px; }
.lead p { max-width: 72ch; color: var(--body-text-color-subdued); font-size: 15px; }
.prose.reading { max-width: 76ch; }
.reading table { display: block; overflow-x: auto; }
.primary-action { min-width: 120px !important; }
.prompt textarea { font-size: 18px; }
.vocabulary p { font-size: 14px; }
footer { opacity: 1; }
.gradio-container :focus-visible { outline: 2px solid var(--color-accent); outline-offset: 1px; }
@media (prefers-reduced-motion: reduce) { .gradio-container * { transition: none !important; animation: none !important; } }
"""


def theme() -> gr.themes.Base:
    """System fonts, one accent with enough contrast in light and dark."""
    base = gr.themes.Base(
        primary_hue=_BLUE,
        secondary_hue=_BLUE,
        neutral_hue=colors.zinc,
        radius_size=sizes.radius_md,
        font=["system-ui", "-apple-system", "Segoe UI", "sans-serif"],
        font_mono=["ui-monospace", "SFMono-Regular", "Menlo", "monospace"],
    )
    return base.set(
        button_primary_background_fill="#0072b2",
        button_primary_background_fill_hover="#005f95",
        button_primary_background_fill_dark="#0072b2",
        button_primary_background_fill_hover_dark="#005f95",
        button_primary_text_color="#ffffff",
        button_primary_text_color_dark="#ffffff",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
        block_title_text_color="*neutral_700",
        block_title_text_color_dark="*neutral_200",
        block_label_text_color="*neutral_700",
        block_label_text_color_dark="*neutral_200",
        body_background_fill_dark="#16171a",
        background_fill_primary_dark="#16171a",
        link_text_color="#005f95",
        link_text_color_dark="#7cbbe5",
    )
