"""Small pieces of page. Values are text and reach the page escaped, through Handlebars' double braces."""

from collections.abc import Sequence
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
.facts > div { padding: 12px 16px; border: 1px solid var(--border-color-primary); border-radius: 10px; min-width: 0; }
.facts dt { margin: 0; font-size: 13px; color: var(--body-text-color-subdued); }
.facts dd { margin: 2px 0 0; font-size: 24px; font-weight: 650; line-height: 1.2; color: var(--body-text-color);
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.facts dd.note { font-size: 13px; font-weight: 400; line-height: 1.4; color: var(--body-text-color-subdued); }
"""

_CARDS_HTML = """<ul class="cards">{{#each value}}<li><button type="button" data-index="{{@index}}">
{{#if this.image}}<img src="{{this.image}}" alt="">{{else}}<span class="blank" aria-hidden="true"></span>{{/if}}
<span class="title">{{this.title}}</span><span class="note">{{this.note}}</span></button></li>{{/each}}</ul>"""

_CARDS_CSS = """
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(190px, 1fr)); gap: 14px; margin: 0; padding: 0; list-style: none; }
.cards li { margin: 0; }
.cards button { display: grid; gap: 2px; width: 100%; height: 100%; align-content: start; padding: 10px; text-align: left; font: inherit;
  color: var(--body-text-color); background: var(--background-fill-primary); border: 1px solid var(--border-color-primary);
  border-radius: 12px; cursor: pointer; }
.cards button:hover { border-color: var(--color-accent); }
.cards button[aria-pressed=true] { border-color: var(--color-accent); box-shadow: inset 0 0 0 1px var(--color-accent); }
.cards button:focus-visible { outline: 3px solid var(--color-accent); outline-offset: 2px; }
.cards img, .cards .blank { width: 100%; aspect-ratio: 1; margin: 0 0 8px; border-radius: 6px; object-fit: contain; image-rendering: pixelated;
  background: var(--background-fill-secondary); }
.cards .title { font-weight: 650; font-size: 15px; line-height: 1.3; }
.cards .note { font-size: 13px; line-height: 1.4; color: var(--body-text-color-subdued); }
"""

_CARDS_JS = """
element.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-index]');
  if (!button) return;
  for (const other of element.querySelectorAll('button[data-index]')) other.setAttribute('aria-pressed', String(other === button));
  trigger('choose', { index: Number(button.dataset.index) });
});
"""

class Fact(NamedTuple):
    """A figure with its name and what to make of it."""

    label: str
    figure: str
    note: str = ""

class Card(NamedTuple):
    """Something to choose."""

    title: str
    note: str
    image: str = ""
    """data:image/png or webp; anything else is left out."""


class Notice(gr.HTML):
    """One message to the visitor, or nothing."""

    def __init__(self, value: dict[str, str] | None = None, **options: Any) -> None:
        super().__init__(
            value or {},
            html_template=_NOTICE_HTML,
            css_template=_NOTICE_CSS,
            js_on_load=None,
            apply_default_css=False,
            **options,
        )
    from collections.abc import Callable, Sequence
    from typing import TYPE_CHECKING, Any, Literal

    from gradio.blocks import Block

    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component

class Facts(gr.HTML):
    """Figures side by side."""

    def __init__(self, value: Sequence[Fact] = (), **options: Any) -> None:
        super().__init__(
            facts(value),
            html_template=_FACTS_HTML,
            css_template=_FACTS_CSS,
            js_on_load=None,
            apply_default_css=False,
            **options,
        )
    from collections.abc import Callable, Sequence
    from typing import TYPE_CHECKING, Any, Literal

    from gradio.blocks import Block

    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component

class Cards(gr.HTML):
    """Buttons with a picture; the event `choose` carries the index."""

    def __init__(self, value: Sequence[Card] = (), **options: Any) -> None:
        cards = [card._replace(image=card.image if _is_picture(card.image) else "")._asdict() for card in value]
        super().__init__(
            cards,
            html_template=_CARDS_HTML,
            css_template=_CARDS_CSS,
            js_on_load=_CARDS_JS,
            apply_default_css=False,
            **options,
        )
    from collections.abc import Callable, Sequence
    from typing import TYPE_CHECKING, Any, Literal

    from gradio.blocks import Block

    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component

def notice(kind: Literal["error", "warning", "info"], text: str, title: str = "") -> dict[str, str]:
    """The value of a Notice."""
    titles = {"error": "This did not work.", "warning": "Mind this.", "info": ""}
    role = "alert" if kind == "error" else "status"
    return {"kind": kind, "title": title or titles[kind], "text": text, "role": role}

def facts(values: Sequence[Fact]) -> list[dict[str, str]]:
    """The value of Facts."""
    return [value._asdict() for value in values]

def _is_picture(address: str) -> bool:
    return address.startswith(("data:image/png;base64,", "data:image/webp;base64,"))
