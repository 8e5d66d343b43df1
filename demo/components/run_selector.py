"""The tray on the page: chips to select, yours first, recorded ones by method in a drawer."""

import re
from typing import Any, Final

import gradio as gr

from draftscope.demo.components.widgets import component
from draftscope.demo.jobs.run_selection import MAX_SELECTED

_TICK: Final = re.compile(r"[0-9a-f]{16}")
_MAX_TICKS: Final = 100

_SCRIPT: Final = """
let chosen = [];
let sent = null;
let open = false;
const chip = ({ id, title, note, prompt }, own) => {
  const box = build('input', { type: 'checkbox', value: id });
  const order = build('b', { 'aria-hidden': 'true' }, String(chosen.indexOf(id) + 1));
  box.checked = chosen.includes(id);
  const asked = own ? [build('small', { class: 'asked' }, prompt)] : [];  // others stand under theirs
  const words = build('span', {}, build('strong', {}, title), build('small', {}, note), ...asked);
  const label = build('label', { title: prompt }, box, order, words);
  if (!own) return label;
  const named = { type: 'button', 'aria-label': `Remove ${title}, ${note}`, title: 'Remove (Delete)', 'data-run': id };
  const away = build('button', named, '×');
  return build('div', { class: 'own' }, label, away);
};
const group = ({ name, chips, own }) => {
  const made = chips.map((one) => chip(one, own));
  return build('fieldset', {}, build('legend', {}, name), build('div', { class: 'chips' }, ...made));
};
const show = () => {
  const { groups = [], chosen: now = [], asked = null, address = '' } = props.value || {};
  const focused = place.contains(document.activeElement) ? document.activeElement.value : null;
  const scrolled = place.querySelector('.drawer')?.scrollTop;
  if (!sent || asked?.join() === sent.join()) [chosen, sent] = [[...now], null];  // else a tick is still on its way
  const recorded = groups.filter((one) => !one.own).flatMap(({ chips }) => chips);
  const [count, there] = [recorded.length, recorded.filter(({ id }) => chosen.includes(id)).length];
  const own = groups.filter((one) => one.own).map(group);
  const summary = build('summary', {}, `Recorded runs (${count}${there ? `, ${there} selected` : ''})`);
  const drawer = build('details', {}, summary);
  drawer.append(build('div', { class: 'drawer' }, ...groups.filter((one) => !one.own).map(group)));
  summary.addEventListener('click', () => { open = !drawer.open; });
  place.replaceChildren(...own, ...(count ? [drawer] : []));
  drawer.open = open || !(own.length || chosen.length);
  if (address) draftscopeAddress.name('compare', address);
  const [list, ticked] = [place.querySelector('.drawer'), place.querySelector('.drawer fieldset:has(input:checked)')];
  if (list) list.scrollTop = scrolled || (ticked && focused === null ? ticked.offsetTop - list.offsetTop - 12 : 0);
  if (focused !== null) place.querySelector(`input[value="${CSS.escape(focused)}"]`)?.focus();
};
const remove = (id) => {
  const others = [...element.querySelectorAll('.own input')];
  const at = others.findIndex((one) => one.value === id);
  (others[at + 1] ?? others[at - 1])?.focus();  // the keyboard stays in the tray
  chosen = chosen.filter((one) => one !== id);
  trigger('dropped', { run: id });
};
element.addEventListener('click', ({ target }) => target.dataset?.run && remove(target.dataset.run));
element.addEventListener('keydown', (event) => {
  const own = event.key === 'Delete' && event.target.closest?.('.own');
  if (own) remove(own.querySelector('input').value);
});
element.addEventListener('change', ({ target }) => {
  if (!target.matches('input[type=checkbox]')) return;
  chosen = target.checked ? [...chosen, target.value] : chosen.filter((id) => id !== target.value);
  sent = chosen;
  trigger('choose', { chosen });
});
"""

_STYLE: Final = """
fieldset { margin: 0 0 10px; padding: 0; border: 0; min-width: 0; }
legend, summary {
  padding: 0; margin: 0 0 6px; font-size: 13px; font-weight: 600; color: var(--body-text-color-subdued); }
summary { cursor: pointer; }
.chips { display: flex; flex-wrap: wrap; gap: 8px; }
label {
  display: flex; gap: 9px; align-items: start; max-width: min(100%, 290px); padding: 7px 12px 7px 10px; cursor: pointer;
  border: 1px solid var(--border-color-primary); border-radius: 10px; background: var(--background-fill-primary);
  color: var(--body-text-color); }
label:hover { border-color: var(--color-accent); }
label:has(input:checked) { border-color: var(--color-accent); box-shadow: inset 0 0 0 1px var(--color-accent); }
label:has(input:focus-visible) { outline: 3px solid var(--color-accent); outline-offset: 2px; }
label input { appearance: auto; width: 15px; height: 15px; margin: 3px 0 0; accent-color: var(--color-accent); }
label b { display: none; font-size: 13px; font-variant-numeric: tabular-nums; }
label:has(input:checked) b { display: block; }
label > span { display: grid; min-width: 0; } /* not those around the terms in it */
label strong { font-size: 14px; font-weight: 600; line-height: 1.3; }
label small { font-size: 12px; line-height: 1.4; color: var(--body-text-color-subdued); overflow-wrap: anywhere; }
label .asked { overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }
.own { position: relative; display: flex; max-width: min(100%, 290px); }
.own label { padding-right: 30px; }
.own button { position: absolute; top: 3px; right: 3px; width: 24px; height: 24px; padding: 0; border: 0;
  border-radius: 6px; background: none; color: var(--body-text-color-subdued); font-size: 17px; line-height: 1; }
.own button:hover { color: var(--body-text-color); background: var(--background-fill-secondary); }
.drawer { max-height: 330px; overflow-y: auto; padding: 4px; }
"""


def tray_box(value: dict[str, Any], **options: Any) -> gr.HTML:
    """The component; the event `choose` carries the ids that are selected, in this order."""
    return component(value, _SCRIPT, _STYLE, **options)


def dropped(event: gr.EventData) -> str:
    """Return the id of the run to remove from the selection.

    Raises:
        gr.Error: If the event carries no known id.
    """
    run = event.run
    if not isinstance(run, str) or not _TICK.fullmatch(run):
        raise gr.Error("run: is not in the selection; remove one of the runs shown.")
    return run


def selected_ids(event: gr.EventData) -> list[str]:
    """The ids of the selected runs, each once. Raises gr.Error for anything else than a list of ids."""
    chosen = event.chosen
    sound = isinstance(chosen, list) and len(chosen) <= _MAX_TICKS
    if not sound or not all(isinstance(one, str) and _TICK.fullmatch(one) for one in chosen):
        raise gr.Error(f"chosen: is not a list of runs; select up to {MAX_SELECTED} of the runs shown.")
    return list(dict.fromkeys(chosen))
