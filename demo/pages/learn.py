"""Learn: lessons, then what each method does, what drafts gain, and how published variants deviate."""

from collections.abc import Sequence

import gradio as gr

from draftscope.demo.components import method_docs as methods
from draftscope.demo.components.bias import BiasPanel
from draftscope.demo.components.context import Site, serialized
from draftscope.demo.components.frame import lessons
from draftscope.demo.components.timings import TimingsPanel
from draftscope.demo.jobs.recordings import Recording


class LearnPage:
    """The page, one tab a subject."""

    def __init__(self, site: Site, recordings: Sequence[Recording]) -> None:
        with gr.Tabs(overflow_behavior="wrap"):
            with gr.Tab("Lessons", id="lessons"):
                lessons()
            with gr.Tab("Methods"):
                methods.build(recordings)
            with gr.Tab("What drafting gains") as gains:
                timings = TimingsPanel(site)
            with gr.Tab("Bias of published variants") as bias:
                BiasPanel(site).buttons.press_at(bias.select, "#bias-plot .js-plotly-plot")
        gains.select(timings.draw, timings.inputs, timings.parts, **serialized("timings"))
