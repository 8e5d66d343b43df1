"""The card of the tour."""

from collections.abc import Sequence
from typing import Any, Final

import gradio as gr

from draftscope.demo.components.widgets import component
from draftscope.demo.jobs.tour import Scene

_JS: Final = """
const scenes = props.value ?? [];
let now = -1;
const number = build('p', { class: 'number' });
const title = build('h2', { tabindex: '-1' });
const text = build('p', { class: 'text' });
const press = (label, act) => {
  const button = build('button', { type: 'button' }, label);
  button.addEventListener('click', act);
  return button;
};
const back = press('Back', () => go(now - 1));
const on = press('Continue', () => (now + 1 < scenes.length ? go(now + 1) : leave()));
on.className = 'on';
const out = press('Leave the tour', () => leave());
const words = build('div', { 'aria-live': 'polite' }, number, title, text);
const buttons = build('div', { class: 'go' }, back, on, out);
const card = build('section', { 'aria-label': 'Tour', class: 'tour' }, words, buttons);
const player = () => globalThis.draftscopePlayers?.viewer;
const called = (tour) => draftscopeAddress.write({ tour: tour ? `tour=${tour}` : '', position: '' });
const go = (index) => {
  if (!scenes[index]) return;
  const first = now < 0;
  now = index;
  const scene = scenes[index];
  number.textContent = `Scene ${index + 1} of ${scenes.length}`;
  title.textContent = scene.title;
  text.textContent = scene.text;
  back.disabled = index === 0;
  const last = index + 1 === scenes.length;
  on.textContent = last ? 'Explore by yourself' : 'Continue';
  out.hidden = last;  // it would do the same
  if (!card.isConnected) place.append(card);
  called(index + 1);
  player().scene(scene);
  const low = matchMedia('(max-width: 900px)').matches;  // the pictures come below the card and need the room
  if (first) title.focus({ preventScroll: true });
  if (first || low) card.scrollIntoView({ block: low ? 'start' : 'nearest', behavior: 'instant' });
};
const close = () => {
  if (now < 0) return;
  now = -1;
  card.remove();
  if (/(^#|&)tour=/.test(location.hash)) called(null);
};
const leave = () => {
  close();
  player().explore();
  document.querySelector('#viewer .ds-invite')?.focus({ preventScroll: true });
};
document.addEventListener('keydown', (event) => {
  if (now < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
  const free = event.target === document.body || card.contains(event.target);
  const act = { ArrowRight: () => go(now + 1), ArrowLeft: () => go(now - 1), Escape: leave }[event.key];
  if (!act || !(free || event.key === 'Escape')) return;
  event.preventDefault();
  act();
});
document.addEventListener('draftscope-tour', ({ detail }) => (detail === 'begin' ? go(0) : close()));
const asked = () => Number(/(?:^#|&)tour=(\\d{1,2})(?:&|$)/.exec(location.hash)?.[1] ?? 0);
const open = (tries) => {
  if (!asked() || !scenes.length) return;
  if (player()) go(Math.min(asked(), scenes.length) - 1);
  else if (tries) setTimeout(open, 100, tries - 1);
};
addEventListener('hashchange', () => asked() && asked() - 1 !== now && open(1));
const show = () => open(300);
"""
_CSS: Final = """
.tour { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 8px 24px; align-items: end; padding: 12px 16px;
  border: 1px solid var(--color-accent); border-radius: 12px; background: var(--background-fill-primary);
  color: var(--body-text-color); }
.number { margin: 0; font-size: 13px; color: var(--body-text-color-subdued); }
h2 { margin: 0; font-size: 18px; font-weight: 650; line-height: 1.35; color: var(--body-text-color); outline: none; }
.text { max-width: 92ch; min-height: 3em; margin: 2px 0 0; font-size: 15px; line-height: 1.5; }
.go { display: flex; flex-wrap: wrap; gap: 8px; }
button { padding: 8px 16px; border-radius: 99px; font-size: 13px; }
button:disabled { opacity: 0.5; }
.on { border-color: #0072b2; background: #0072b2; color: #ffffff; font-weight: 600; }
button[hidden] { display: none; }
@media (max-width: 900px) {
  .tour { grid-template-columns: minmax(0, 1fr); padding: 8px 16px; }
  .text { min-height: 6em; }
  button { padding: 8px 12px; font-size: 13px; }
}
"""


def tour(value: Sequence[Scene], **options: Any) -> gr.HTML:
    """The card of the tour, hidden until the tour starts. It moves the player of the first screen."""
    return component(list(value), _JS, _CSS, visible=bool(value), **options)
