"""Small pieces of page. Values are data, perhaps a stranger's, and reach the page as text alone.

Gradio takes the template of an HTML component for Handlebars and the result for a JavaScript template string.
Handlebars escapes tags but not `${...}`, which would run, so no data go through a template: it is a bare element, and a
script puts into it what it builds from the value, node by node.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import gradio as gr

from draftscope.analysis.tables import Fact as Fact
from draftscope.analysis.tables import in_words as in_words
from draftscope.analysis.tables import table as table

_BUILD_JS = """
const build = (tag, attributes, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);  // a string becomes a text node, whatever stands in it
  return made;
};
const place = element.firstElementChild;
const PICTURE = /^data:image[/](png|webp);base64,[A-Za-z0-9+/]+=*$/;
const waits = () => props.value?.waits === true;
const chooses = (pressed = () => {}) => element.addEventListener('click', ({ target }) => {
  const button = target.closest?.('button[data-index]');
  if (!button) return;
  pressed(button);
  trigger('choose', { index: Number(button.dataset.index) });
});
"""
_BUTTON_CSS = """
button { border: 1px solid var(--border-color-primary); font: inherit; color: var(--body-text-color);
  background: var(--background-fill-primary); cursor: pointer; }
button:hover:enabled { border-color: var(--color-accent); }
button:focus-visible { outline: 3px solid var(--color-accent); outline-offset: 2px; }
button:disabled { cursor: default; }
"""
_SHOW_JS = """
watch('value', show);
show();
"""

_NOTICE_JS = """
const title = build('strong', {});
const text = build('span', {});
const bar = build('progress', { max: '1' });
const box = build('div', {}, title, ' ', text, bar);
const show = () => {
  const notice = props.value;
  if (!notice?.text) return box.remove();
  box.className = `notice ${notice.kind}`;
  box.setAttribute('role', notice.role);
  title.textContent = notice.title;
  text.textContent = notice.text;
  bar.hidden = notice.share === null;
  bar.value = notice.share ?? 0;
  if (!box.isConnected) place.append(box);
};
"""

_NOTICE_CSS = """
.notice { padding: 8px 16px; border-radius: 8px; border-left: 4px solid; font-size: 15px; line-height: 1.5;
  background: var(--block-background-fill); color: var(--body-text-color); overflow-wrap: anywhere; }
.notice strong { font-weight: 650; }
.notice.error { border-color: #D55E00; }
.notice.warning { border-color: #E69F00; }
.notice.info { border-color: #56B4E9; }
progress { display: block; width: 100%; height: 8px; margin-top: 8px; accent-color: var(--color-accent); }
progress[hidden] { display: none; }
"""

_FACTS_JS = """
const one = ({ label, figure, note }) =>
  build('div', {}, build('dt', {}, label), build('dd', {}, figure), build('dd', { class: 'note' }, note));
const show = () => {
  place.classList.toggle('waits', waits());
  if (waits()) return;
  const facts = props.value || [];
  place.replaceChildren(...(facts.length ? [build('dl', { class: 'facts' }, ...facts.map(one))] : []));
};
"""

_FACTS_CSS = """
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 0; }
.facts > div {
  padding: 12px 16px; border: 1px solid var(--border-color-primary); border-radius: 12px; min-width: 0; }
.facts dt { margin: 0; font-size: 13px; color: var(--body-text-color-subdued); }
.facts dd { margin: 2px 0 0; font-size: 24px; font-weight: 650; line-height: 1.2; color: var(--body-text-color);
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.waits dd { visibility: hidden; } /* until the run has ended */
.waits dd:not(.note)::before { content: '…'; position: absolute; visibility: visible; }
.facts dd.note { font-size: 13px; font-weight: 400; line-height: 1.4; color: var(--body-text-color-subdued); }
"""

_FOLD_JS = """
const list = build('ul', {});
const fold = build('details', {}, build('summary', {}, title), list);
const item = ([name, text]) => build('li', {}, ...(name ? [build('strong', {}, `${name}: `)] : []), text);
const show = () => {
  fold.inert = waits();
  if (fold.inert) return;
  const items = Object.entries(props.value || {});
  list.replaceChildren(...items.map(item));
  if (items.length) place.append(fold);
  else fold.remove();
};
"""

_FOLD_CSS = """
details { padding: 8px 12px; border: 1px solid var(--border-color-primary); border-radius: 12px; font-size: 15px;
  line-height: 1.4; color: var(--body-text-color); background: var(--block-background-fill); }
summary { display: flex; align-items: baseline; gap: 12px; cursor: pointer; }
summary::marker { content: none; }
summary::before { content: '▼'; font-size: 12px; transform: rotate(-90deg); }
details[open] summary::before { transform: none; }
summary:focus-visible { outline: 3px solid var(--color-accent); outline-offset: 2px; }
details[inert] > * { opacity: .5; }
ul { max-width: 82ch; margin: 8px 0 0; padding-left: 24px; }
li { margin: 8px 0; }
"""

_CARDS_CSS = """
div { display: flex; gap: 24px; overflow-x: auto; padding: 4px; } /* a strip: as high as one card */
section { display: grid; grid-template-rows: auto 1fr; }
.cards { display: flex; gap: 12px; margin: 0; padding: 0; list-style: none; }
.cards li { flex: 0 0 190px; margin: 0; }
h2 { margin: 0 0 8px; font-size: 15px; font-weight: 650; color: var(--body-text-color); }
.cards .badge { justify-self: start; margin: 0 0 4px; padding: 1px 8px; border-radius: 99px; font-size: 12px;
  font-weight: 600; color: var(--body-text-color); background: var(--background-fill-secondary); }
.cards button {
  display: grid; gap: 2px; align-content: start; width: 100%; height: 100%; padding: 12px;
  text-align: left; border-radius: 12px; }
.cards button[aria-pressed=true] { border-color: var(--color-accent); box-shadow: inset 0 0 0 1px var(--color-accent); }
.cards img, .cards .blank {
  width: 100%; aspect-ratio: 1; margin: 0 0 8px; border-radius: 8px; object-fit: contain; image-rendering: pixelated;
  background: var(--background-fill-secondary); }
.cards .excerpt {
  box-sizing: border-box; display: flex; align-items: safe center; aspect-ratio: 1; width: 100%; margin: 0 0 8px;
  padding: 12px; overflow: hidden; border-radius: 8px; white-space: pre-wrap; font-family: var(--font-mono);
  font-size: 12px; line-height: 1.45; background: var(--background-fill-secondary); }
.cards .title { font-weight: 650; font-size: 15px; line-height: 1.3; }
.cards .note { font-size: 13px; line-height: 1.4; color: var(--body-text-color-subdued); }
.cards .about { margin-top: 4px; font-size: 13px; line-height: 1.4; }
@media (max-width: 640px) {
  .cards li { flex-basis: 150px; }
  .cards button:not([aria-pressed=true]) .about { display: none; }
}
"""

_CARDS_JS = """
const head = ({ image, still, text }) => {
  const src = (matchMedia('(prefers-reduced-motion: reduce)').matches && still) || image;
  if (PICTURE.test(src)) return build('img', { src, alt: '' });
  return text ? build('span', { class: 'excerpt' }, text) : build('span', { class: 'blank', 'aria-hidden': 'true' });
};
const one = (card, index) => {
  const badge = card.badge ? [build('span', { class: 'badge' }, card.badge)] : [];
  const button = build('button', { type: 'button', 'data-index': index }, head(card), ...badge,
    build('span', { class: 'title' }, card.title), build('span', { class: 'note' }, card.note));
  if (card.about) button.append(build('span', { class: 'about' }, card.about));
  return build('li', {}, button);
};
const show = () => {
  const cards = props.value || [];
  const groups = [...new Set(cards.map(({ group }) => group))];
  place.replaceChildren(...groups.map((name) => {
    const made = cards.map((card, index) => (card.group === name ? one(card, index) : null)).filter(Boolean);
    return build('section', {}, ...(name ? [build('h2', {}, name)] : []), build('ul', { class: 'cards' }, ...made));
  }));
  stopAt(stops()[0]);
};
// One stop of the Tab key: arrow keys lead from card to card.
const stops = () => [...element.querySelectorAll('button[data-index]')];
const stopAt = (card) => stops().forEach((other) => { other.tabIndex = other === card ? 0 : -1; });
element.addEventListener('keydown', (event) => {
  const [all, at] = [stops(), stops().indexOf(event.target)];
  const [on, back] = [at + 1, at - 1];
  const to = { ArrowRight: on, ArrowDown: on, ArrowLeft: back, ArrowUp: back, Home: 0, End: all.length - 1 };
  const next = at < 0 ? undefined : all[to[event.key]];
  if (!next) return;
  event.preventDefault();
  stopAt(next);
  next.focus();
});
chooses((button) => {
  for (const other of element.querySelectorAll('button[data-index]')) {
    other.setAttribute('aria-pressed', String(other === button));
  }
  stopAt(button);
});
"""

_TABLE_JS = """
const region = (name) => build('div', { class: 'scroller', tabindex: '0', role: 'region', 'aria-label': name });
const KINDS = { csv: 'CSV', json: 'JSON', jsonl: 'results (.jsonl)', tex: 'LaTeX', md: 'Markdown' };
const copying = (kind, text, otherwise = () => {}) => {
  const copy = build('button', { type: 'button' }, `Copy ${kind}`);
  copy.addEventListener('click', async () => {
    await navigator.clipboard.writeText(text()).catch(otherwise);
    copy.textContent = `${kind} copied`;
  });
  return copy;
};
const taken = (files, link) => {
  if (!files) return [];
  const buttons = Object.entries(files).map(([name, text]) => {
    const kind = KINDS[name.split('.').pop()];
    const href = `data:text/plain;charset=utf-8,${encodeURIComponent(text)}`;
    const save = build('a', { download: name, href }, `Download ${kind}`);
    const copied = ['LaTeX', 'Markdown'].includes(kind) && navigator.clipboard;
    return copied ? copying(kind, () => text, () => save.click()) : save;
  });
  if (link && navigator.clipboard) buttons.push(copying('link', () => location.href));
  return [build('div', { class: 'taken' }, ...buttons)];
};
const row = (tag, attributes, cells) => build('tr', {}, ...cells.map((cell) =>
  build(tag, cells.length > 4 && cell.length > 40 ? { ...attributes, class: 'long' } : attributes, cell)));
const filled = (scroller, { heads, rows, more, files, link }) => {
  if (!rows?.length) return [];
  const body = rows.map((cells) => row('td', {}, cells));
  scroller.replaceChildren(
    build('table', {}, build('thead', {}, row('th', { scope: 'col' }, heads)), build('tbody', {}, ...body)));
  return [scroller, ...(more ? [build('p', {}, more)] : []), ...taken(files, link)];
};
const titled = ([title, table]) => [build('p', { class: 'title' }, `${title}.`), ...filled(region(title), table)];
const own = region(props.name);
const show = () => place.replaceChildren(...(Array.isArray(props.value)
  ? [build('h3', {}, props.name), ...props.value.flatMap(titled)]
  : filled(own, props.value || {})));
"""

_TABLE_CSS = """
/* A shadow at the right says that there are more columns, and goes where the last one is reached. */
.scroller { max-height: 420px; overflow: auto; border: 1px solid var(--border-color-primary); border-radius: 12px;
  --paper: var(--body-background-fill); background-repeat: no-repeat;
  background-image: linear-gradient(to left, var(--paper) 12px, transparent),
    linear-gradient(to left, color-mix(in srgb, var(--body-text-color) 22%, transparent), transparent);
  background-position: 100% 0, 100% 0; background-size: 28px 100%, 12px 100%; background-attachment: local, scroll; }
table { width: 100%; border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums;
  color: var(--body-text-color); }
th, td { padding: 8px 12px; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--border-color-primary); }
th { position: sticky; top: 0; font-weight: 600; white-space: nowrap; background: var(--background-fill-secondary); }
.long { min-width: 20em; }
td:nth-child(2):last-child { overflow-wrap: anywhere; } /* a value beside its name */
p { margin: 8px 2px 0; font-size: 13px; color: var(--body-text-color-subdued); overflow-wrap: anywhere; }
h3 { margin: 0; font-size: 15px; font-weight: 600; line-height: 1.3; color: var(--body-text-color); }
.title { margin: 16px 0; font-size: 13px; color: var(--body-text-color); }
.taken { display: flex; flex-wrap: wrap; gap: 8px; margin-top: 8px; font-size: 13px; }
.taken > * { padding: 4px 12px; border: 1px solid var(--border-color-primary); border-radius: 99px;
  color: var(--body-text-color); text-decoration: none; }
"""


class Card(NamedTuple):
    """Something to choose."""

    title: str
    note: str
    about: str = ""
    image: str = ""
    """data:image/png or webp; the page leaves anything else out."""
    text: str = ""
    """Shown where there is no picture."""
    group: str = ""
    """Cards of one group stand together, below its name."""
    badge: str = ""
    """A few words over the picture."""
    still: str = ""
    """Shown instead of an animated image if the user prefers reduced motion."""


def component(value: Any, script: str, style: str, **options: Any) -> gr.HTML:
    """Return a custom component. Not a subclass: Gradio would write a stub file next to every module that has one."""
    return gr.HTML(
        value,
        html_template="<div></div>",
        css_template=_BUTTON_CSS + style,
        js_on_load=_BUILD_JS + script + _SHOW_JS,
        apply_default_css=False,
        **options,
    )


def chosen_index(index: object, count: int, what: str) -> int:
    """Return an index that the page sent: one of `count` that are shown.

    Raises gr.Error for anything else, which the page does not send.
    """
    if type(index) is int and 0 <= index < count:
        return index
    shown_index = index if type(index) is int else type(index).__name__  # gradio shows the message as HTML
    raise gr.Error(f"{what}: there is no number {shown_index}; choose one of the {count} shown.")


def notice_box(value: Mapping[str, Any] | None = None, **options: Any) -> gr.HTML:
    """Return a component for one notice, which takes no space while it is empty; see `notice`."""
    return component(value or {}, _NOTICE_JS, _NOTICE_CSS, elem_classes="notice-box", **options)


def notice(
    kind: Literal["error", "warning", "info"], text: str, title: str = "", share: float | None = None
) -> dict[str, Any]:
    """The value of a notice box; `share` of the work, from 0 to 1, shows as a bar."""
    titles = {"error": "This failed.", "warning": "Mind this.", "info": ""}
    role = "alert" if kind == "error" else "status"
    return {"kind": kind, "title": title or titles[kind], "text": text, "role": role, "share": share}


WAITS: Final[dict[str, Any]] = {"waits": True}
"""Value of a row of figures or of a folded list during a run: its frame stays, its words are hidden."""


def metric_row(value: Sequence[Fact] = (), **options: Any) -> gr.HTML:
    """Figures side by side; see `values_of`."""
    return component(values_of(value), _FACTS_JS, _FACTS_CSS, **options)


def folded_list(title: str, **options: Any) -> gr.HTML:
    """Texts by name, folded below a title; without any nothing shows.

    Not an accordion of Gradio: one that is opened while its text arrives may stay empty.
    """
    return component({}, f"const title = {json.dumps(title)};" + _FOLD_JS, _FOLD_CSS, **options)


def pressed_card(name: str) -> str:
    """Script that returns the index of the card that was pressed last; `name` is the element id of the grid."""
    return f"() => Number(document.querySelector('#{name} [aria-pressed=true]').dataset.index)"


def card_grid(value: Sequence[Card] = (), style: str = "", **options: Any) -> gr.HTML:
    """Return buttons with images, in a strip by default; the event `choose` carries the index."""
    return component(values_of(value), _CARDS_JS, _CARDS_CSS + style, **options)


def values_of(values: Sequence[Fact | Card]) -> list[dict[str, str]]:
    """The value of a row of facts, or of a wall of cards."""
    return [value._asdict() for value in values]


def formulas(text: str) -> gr.Markdown:
    """A text with formulas between dollar signs."""
    signs: list[dict[str, str | bool]] = [
        {"left": "$$", "right": "$$", "display": True},
        {"left": "$", "right": "$", "display": False},
    ]
    return gr.Markdown(text, latex_delimiters=signs, elem_classes="reading")


def upload_file(name: str, label: str, *endings: str) -> gr.File:
    """Return an upload field whose value is the bytes of the file."""
    kinds = list(endings)
    return gr.File(label=label, file_types=kinds, type="binary", height=150, elem_id=name, elem_classes="upload")


def choice_row(name: str, label: str, options: Sequence[str] = (), *, visible: bool = False) -> gr.Dataset:
    """Return a row of buttons after a label; its value is the index of the last that was pressed.

    Args:
        name: Element id.
        label: The words before the buttons.
        options: What stands on the buttons.
        visible: Whether the row shows.
    """
    samples = [[one] for one in options]
    return gr.Dataset(label=label, components=["textbox"], samples=samples, type="index", visible=visible, elem_id=name)


def choices(options: Sequence[str]) -> dict[str, Any]:
    """The buttons of a row of choices; without any nothing shows."""
    return gr.update(samples=[[one] for one in options], visible=bool(options))


def data_table(name: str, value: Mapping[str, Any] | Sequence[Any] | None = None, **options: Any) -> gr.HTML:
    """A table that scrolls within itself; see `table`. Several are pairs of a title and a table, `name` above them."""
    return component(value or {}, _TABLE_JS, _TABLE_CSS, name=name, **options)
