"""The app put together."""

import gradio as gr

from demo.pages import api
from demo.pages.run import RunPage
from demo.sessions import Shown, Visitors
from demo.site import QUIET, Site

_MASTHEAD = """# Draftscope
See speculative decoding happen: every draft, every verdict, every forward pass.
"""
_IS_DARK = "() => document.body.classList.contains('dark')"


def build(visitors: Visitors) -> gr.Blocks:
    """The whole page; `visitors` keeps their files."""
    with gr.Blocks(title="Draftscope", analytics_enabled=False, fill_width=True) as blocks:
        gr.Markdown(_MASTHEAD, elem_id="masthead")
        site = Site(visitors, gr.State(Shown()), gr.Checkbox(visible=False))
        with gr.Tabs(), gr.Tab("Run", id="run"):
            RunPage(site)
        api.build()
        blocks.load(None, None, site.dark, js=_IS_DARK, **QUIET)

        def leave(request: gr.Request) -> None:
            site.visitor(request).leave()

        blocks.unload(leave)
    return blocks
