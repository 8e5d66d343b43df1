"""Says what a term means wherever it stands on the page: the glossary of the player, for the whole app."""

from typing import Final

import gradio as gr

from visualizers.player import glossary

_WATCH: Final = "globalThis.draftscopeTerms.watch(element.closest('.gradio-container'));\n"


def terms() -> gr.HTML:
    """A component that shows nothing and marks the terms in whatever stands on the page now and later."""
    return gr.HTML(
        html_template="<div></div>",
        js_on_load=f"{glossary.script()}{_WATCH}",
        apply_default_css=False,
        elem_id="terms",
    )
