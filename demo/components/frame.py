"""Pages within the page, in its theme: the lessons, and recorded runs with the player."""

from typing import Final

import gradio as gr

from draftscope.demo.components.widgets import component
from draftscope.demo.jobs.recordings import Recording

LESSONS: Final = "/lessons"
RECORDED: Final = "/recorded/{names}"
"""Recorded runs that are shown together, by their names with a comma between them."""
_DRESS_JS: Final = """
const frame = build('iframe', { title: props.value.title, loading: 'lazy' });
const theme = () => (document.body.classList.contains('dark') ? 'dark' : 'light');
"""
_LESSONS_JS: Final = """
const dress = () => {
  const { dataset, style } = frame.contentDocument.documentElement;
  style.setProperty('--paper', getComputedStyle(document.body).backgroundColor);
  dataset.embedded = '';
  dataset.theme = theme();
};
const follow = () => {  // the address of the page names the lesson, and alone has a history
  const { contentWindow: { location }, isConnected } = frame;
  if (isConnected) location.replace(new URL(`#lesson=${draftscopeAddress.lesson()}`, location.href));
};
frame.addEventListener('load', () => {
  dress();
  frame.contentDocument.addEventListener('click', (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    if (!link) return;
    event.preventDefault();
    draftscopeAddress.openLesson(link.hash.slice(1));
  });
});
document.addEventListener('draftscope-lesson', () => {
  document.querySelector('[data-tab-id=lessons]')?.click();
  follow();
});
new MutationObserver(dress).observe(document.body, { attributes: true, attributeFilter: ['class'] });
const show = () => {
  if (frame.isConnected) return;
  frame.src = `${props.value.address}#lesson=${draftscopeAddress.lesson()}`;  // an id there would scroll this page
  place.append(frame);
};
"""
_RECORDED_JS: Final = """
const show = () => {
  if (frame.isConnected) return;
  frame.src = `${props.value.address}#embed=1&autoplay=1&theme=${theme()}`;
  place.append(frame);
};
"""
_CSS: Final = """
iframe {{ display: block; width: 100%; height: {height}; border: 0; {more} }}
"""


def lessons() -> gr.HTML:
    """Return the frame of the lessons, which is filled once it is seen."""
    style = _CSS.format(height="max(600px, calc(100dvh - 165px))", more="margin-top: -12px;")
    value = {"address": LESSONS.removeprefix("/"), "title": "Lessons"}
    return component(value, _DRESS_JS + _LESSONS_JS, style, elem_id="lessons")


def recorded_run(recording: Recording) -> gr.HTML:
    """Return a frame in which a recording plays once it is seen."""
    names = ",".join(path.name.removesuffix(".json.gz") for path in recording.paths)
    value = {"address": RECORDED.format(names=names).removeprefix("/"), "title": f"Recorded run: {recording.title}"}
    style = _CSS.format(height="560px", more="border-radius: 12px;")
    return component(value, _DRESS_JS + _RECORDED_JS, style, elem_classes="recorded")
