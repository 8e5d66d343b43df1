"""The lessons on the page: their own page in a frame, in the theme of the page around it."""

from typing import Final

import gradio as gr

from draftscope.demo.components.widgets import component

ADDRESS: Final = "/lessons"
_JS: Final = """
const frame = build('iframe', { title: 'Lessons', src: props.value, loading: 'lazy' });
const dress = () => {
  const { dataset, style } = frame.contentDocument.documentElement;
  style.setProperty('--paper', getComputedStyle(document.body).backgroundColor);
  dataset.embedded = '';
  dataset.theme = document.body.classList.contains('dark') ? 'dark' : 'light';
};
frame.addEventListener('load', dress);
new MutationObserver(dress).observe(document.body, { attributes: true, attributeFilter: ['class'] });
const show = () => { if (!frame.isConnected) place.append(frame); };
"""
_CSS: Final = """
iframe { display: block; width: 100%; height: max(600px, calc(100dvh - 165px)); margin-top: -12px; border: 0; }
"""


def lessons() -> gr.HTML:
    """Return the frame of the lessons, which is filled once it is seen."""
    return component(ADDRESS.removeprefix("/"), _JS, _CSS, elem_id="lessons")
