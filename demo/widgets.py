"""Small pieces of page. Values are text and reach the page escaped, through Handlebars' double braces."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import gradio as gr

_NOTICE_HTML = """{{#if value.text}}<div class="notice {{value.kind}}" role="{{value.role}}">
<strong>{{value.title}}</strong> <span>{{value.text}}</span></div>{{/if}}"""

_NOTICE_CSS = """
.notice { padding: 10px 14px; border-radius: 8px; border-left: 4px solid; font-size: 14px; line-height: 1.5;
  background: var(--block-background-fill); color: var(--body-text-color); overflow-wrap: anywhere; }
.notice strong { font-weight: 650; }
.notice.error { border-color: #D55E00; }
.notice.warning { border-color: #E69F00; }
.notice.info { border-color: #56B4E9; }
"""

_FACTS_HTML = """{{#if value.length}}<dl class="facts">{{#each value}}<div>
<dt>{{this.label}}</dt><dd>{{this.figure}}</dd><dd class="note">{{this.note}}</dd></div>{{/each}}</dl>{{/if}}"""

_FACTS_CSS = """
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 0; }
.facts > div {
  padding: 12px 16px; border: 1px solid var(--border-color-primary); border-radius: 10px; min-width: 0; }
.facts dt { margin: 0; font-size: 13px; color: var(--body-text-color-subdued); }
.facts dd { margin: 2px 0 0; font-size: 24px; font-weight: 650; line-height: 1.2; color: var(--body-text-color);
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.facts dd.note { font-size: 13px; font-weight: 400; line-height: 1.4; color: var(--body-text-color-subdued); }
"""

_CARDS_HTML = """<ul class="cards">{{#each value}}<li><button type="button" data-index="{{@index}}">
{{#if this.image}}<img src="{{this.image}}" alt="">{{else}}
{{#if this.text}}<span class="excerpt">{{this.text}}</span>{{else}}<span class="blank" aria-hidden="true"></span>{{/if}}
{{/if}}
<span class="title">{{this.title}}</span><span class="note">{{this.note}}</span>
{{#if this.about}}<span class="about">{{this.about}}</span>{{/if}}</button></li>{{/each}}</ul>"""

_CARDS_CSS = """
.cards {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(190px, 1fr)); gap: 14px;
  margin: 0; padding: 0; list-style: none; }
.cards li { margin: 0; }
.cards button {
  display: grid; gap: 2px; align-content: start; width: 100%; height: 100%; padding: 10px;
  text-align: left; font: inherit;
  color: var(--body-text-color); background: var(--background-fill-primary);
  border: 1px solid var(--border-color-primary); border-radius: 12px; cursor: pointer; }
.cards button:hover { border-color: var(--color-accent); }
.cards button[aria-pressed=true] { border-color: var(--color-accent); box-shadow: inset 0 0 0 1px var(--color-accent); }
.cards button:focus-visible { outline: 3px solid var(--color-accent); outline-offset: 2px; }
.cards img, .cards .blank {
  width: 100%; aspect-ratio: 1; margin: 0 0 8px; border-radius: 6px; object-fit: contain; image-rendering: pixelated;
  background: var(--background-fill-secondary); }
.cards .excerpt {
  box-sizing: border-box; display: flex; align-items: center; aspect-ratio: 1; width: 100%; margin: 0 0 8px;
  padding: 12px; overflow: hidden; border-radius: 6px; white-space: pre-wrap; font-family: var(--font-mono);
  font-size: 12px; line-height: 1.45; background: var(--background-fill-secondary); }
.cards .title { font-weight: 650; font-size: 15px; line-height: 1.3; }
.cards .note { font-size: 13px; line-height: 1.4; color: var(--body-text-color-subdued); }
.cards .about { margin-top: 4px; font-size: 13px; line-height: 1.4; }
@media (max-width: 640px) {
  .cards { grid-template-columns: 1fr; gap: 8px; }
  .cards button { grid-template-columns: 72px 1fr; column-gap: 12px; grid-template-rows: auto auto 1fr; padding: 8px; }
  .cards img, .cards .blank, .cards .excerpt { grid-row: 1 / 4; width: 72px; margin: 0; }
  .cards .excerpt { padding: 4px; font-size: 6px; }
  .cards button:not([aria-pressed=true]) .about { display: none; }
}
"""

_CARDS_JS = """
element.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-index]');
  if (!button) return;
  for (const other of element.querySelectorAll('button[data-index]')) {
    other.setAttribute('aria-pressed', String(other === button));
  }
  trigger('choose', { index: Number(button.dataset.index) });
});
"""


_TABLE_HTML = """{{#if value.rows.length}}<div class="scroller" tabindex="0" role="region" aria-label="{{name}}"><table>
<thead><tr>{{#each value.heads}}<th scope="col">{{this}}</th>{{/each}}</tr></thead>
<tbody>{{#each value.rows}}<tr>{{#each this}}<td>{{this}}</td>{{/each}}</tr>{{/each}}</tbody></table></div>
{{#if value.more}}<p>{{value.more}}</p>{{/if}}{{/if}}"""

_TABLE_CSS = """
.scroller { max-height: 420px; overflow: auto; border: 1px solid var(--border-color-primary); border-radius: 8px; }
table { width: 100%; border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums;
  color: var(--body-text-color); }
th, td { padding: 6px 12px; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--border-color-primary); }
th { position: sticky; top: 0; font-weight: 600; white-space: nowrap; background: var(--background-fill-secondary); }
p { margin: 8px 2px 0; font-size: 13px; color: var(--body-text-color-subdued); }
"""
_MOST_ROWS = 2000


class Fact(NamedTuple):
    """A figure with its name and what to make of it."""

    label: str
    figure: str
    note: str = ""


class Card(NamedTuple):
    """Something to choose."""

    title: str
    note: str
    about: str = ""
    image: str = ""
    """data:image/png or webp; anything else is left out."""
    text: str = ""
    """Shown where there is no picture."""


def notice_box(**options: Any) -> gr.HTML:
    """A place for one message to the visitor; see `notice`."""
    return _html({}, _NOTICE_HTML, _NOTICE_CSS, None, **options)


def facts_row(value: Sequence[Fact] = (), **options: Any) -> gr.HTML:
    """Figures side by side; see `facts`."""
    return _html(facts(value), _FACTS_HTML, _FACTS_CSS, None, **options)


def card_wall(value: Sequence[Card] = (), **options: Any) -> gr.HTML:
    """Buttons with a picture; the event `choose` carries the index."""
    cards = [card._replace(image=card.image if _is_picture(card.image) else "")._asdict() for card in value]
    return _html(cards, _CARDS_HTML, _CARDS_CSS, _CARDS_JS, **options)


def data_table(name: str, value: Mapping[str, Any] | None = None, **options: Any) -> gr.HTML:
    """A table that scrolls within itself; see `table`."""
    return _html(value or {}, _TABLE_HTML, _TABLE_CSS, None, name=name, **options)


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """The value of a data table."""
    shown = [[_cell(value) for value in row] for row in rows[:_MOST_ROWS]]
    more = f"The first {_MOST_ROWS} of {len(rows)} rows." if len(rows) > _MOST_ROWS else ""
    return {"heads": list(heads), "rows": shown, "more": more}


def notice(kind: Literal["error", "warning", "info"], text: str, title: str = "") -> dict[str, str]:
    """The value of a notice box."""
    titles = {"error": "This did not work.", "warning": "Mind this.", "info": ""}
    role = "alert" if kind == "error" else "status"
    return {"kind": kind, "title": title or titles[kind], "text": text, "role": role}


def facts(values: Sequence[Fact]) -> list[dict[str, str]]:
    """The value of a row of facts."""
    return [value._asdict() for value in values]


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return ", ".join(map(_cell, value))
    return str(value)


def _is_picture(address: str) -> bool:
    return address.startswith(("data:image/png;base64,", "data:image/webp;base64,"))


def _html(value: Any, template: str, style: str, script: str | None, **options: Any) -> gr.HTML:
    """A component of ours. Not a subclass: gradio would write a stub file beside every module that has one."""
    return gr.HTML(
        value, html_template=template, css_template=style, js_on_load=script, apply_default_css=False, **options
    )
