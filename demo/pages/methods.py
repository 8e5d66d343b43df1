"""Methods: what each method does, in words, formulas and numbers."""

import gradio as gr

from demo.measured import measured
from demo.pages.run import DEFAULT, titles
from demo.words import copy


def build() -> None:
    """Lay the page out: one tab a method."""
    with gr.Tabs(selected=DEFAULT.name):
        for name, title in titles().items():
            with gr.Tab(title, id=name):
                gr.Markdown(copy(name), latex_delimiters=_DELIMITERS, elem_classes="reading")
                gr.Markdown(measured(name), elem_classes="reading")


_DELIMITERS = [
    {"left": "$$", "right": "$$", "display": True},
    {"left": "$", "right": "$", "display": False},
]
