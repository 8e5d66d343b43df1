"""The grid on the page: a row a prompt, a column a setting; a cell shows what was decoded, and opens it."""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

import gradio as gr
from PIL import Image

from demo.widgets import component
from demo.workbench.grid import MOST_COLUMNS, MOST_ROWS, Column, Row
from traces.schema import Trace
from traces.stats import draft_forwards
from visualizers.picture import final_picture

_FRAME_MS: Final = 120
_MOVING_MS: Final = 4500
"""A clip moves for less than five seconds, so nobody needs a button to halt it."""
_EDGE: Final = 192
"""Pixels of a clip."""
_TEXT: Final = 400
"""Letters of a text that a cell has room for."""

Places = Mapping[tuple[int, int], Mapping[str, str]]
"""Row and column -> what `preview` says of the run there."""

_SCRIPT: Final = """
const PICTURE = /^data:image[/](png|webp);base64,[A-Za-z0-9+/]+=*$/;
const drawn = ({ image = '', still = '', text = '' }) => {
  if (!PICTURE.test(image)) return build('span', { class: 'text' }, text || '(empty)');
  const picture = build('img', { src: image, alt: '' });
  if (!PICTURE.test(still)) return picture;
  return build('picture', {}, build('source', { srcset: still, media: '(prefers-reduced-motion: reduce)' }), picture);
};
const blank = (now) => build('span', { class: now ? 'blank now' : 'blank' }, now ? 'being decoded' : '');
const cell = (made, at, row, column, now) => {
  if (!made) return build('td', {}, blank(now));
  const name = [`${made.cost}: ${column.title}`, column.note, row.prompt, row.seed].filter(Boolean).join(', ');
  const button = build('button', { type: 'button', 'data-cell': at, 'aria-label': name }, drawn(made),
    build('span', { class: 'cost' }, made.cost));
  return build('td', {}, button);
};
const show = () => {
  const { columns = [], rows = [], cells = [], now = -1 } = props.value || {};
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.cell : null;
  if (!rows.length) return place.replaceChildren();
  const heads = columns.map(({ title, note }) => build('th', { scope: 'col' }, title, build('small', {}, note)));
  const table = build('table', { style: `--columns: ${columns.length}` },
    build('thead', {}, build('tr', {}, build('td', { class: 'corner' }), ...heads)),
    build('tbody', {}, ...rows.map((row, r) => build('tr', {},
      build('th', { scope: 'row' }, row.prompt, build('small', {}, row.seed)),
      ...columns.map((column, c) => {
        const at = r * columns.length + c;
        return cell(cells[at], at, row, column, at === now);
      })))));
  place.replaceChildren(table);
  if (focused !== null) place.querySelector(`[data-cell="${focused}"]`)?.focus();
};
element.addEventListener('click', ({ target }) => {
  const at = target.closest?.('button[data-cell]')?.dataset.cell;
  if (at !== undefined) trigger('choose', { cell: Number(at) });
});
"""

_STYLE: Final = """
table { border-collapse: separate; border-spacing: 10px 8px; margin: 0 -10px; max-width: 100%; table-layout: fixed;
  width: min(100%, calc(190px + 250px * var(--columns))); color: var(--body-text-color); }
th { padding: 0; font-size: 14px; font-weight: 600; line-height: 1.35; text-align: left; vertical-align: top;
  overflow-wrap: anywhere; }
thead th { vertical-align: bottom; }
.corner, tbody th { width: 150px; }
td { padding: 0; vertical-align: top; }
small { display: block; font-size: 12px; font-weight: 400; color: var(--body-text-color-subdued); }
button { display: grid; gap: 4px; width: 100%; padding: 0; border: 0; background: none; font: inherit; text-align: left;
  color: var(--body-text-color); cursor: pointer; }
img, .blank, .text { box-sizing: border-box; display: block; width: 100%; aspect-ratio: 1; border-radius: 8px;
  background: var(--background-fill-secondary); }
img { object-fit: contain; image-rendering: pixelated; }
button:hover img, button:hover .text { outline: 2px solid var(--color-accent); }
button:focus-visible { outline: 3px solid var(--color-accent); outline-offset: 2px; border-radius: 8px; }
.text { padding: 10px; overflow: hidden; white-space: pre-wrap; overflow-wrap: anywhere; font-family: var(--font-mono);
  font-size: 12px; line-height: 1.45; border: 1px solid var(--border-color-primary); }
.blank { display: grid; place-items: center; font-size: 13px; color: var(--body-text-color-subdued); }
.now { outline: 2px dashed var(--color-accent); outline-offset: -2px; }
.cost { font-size: 13px; font-variant-numeric: tabular-nums; }
@media (max-width: 640px) {
  table { display: block; width: 100%; margin: 0; }
  thead, tbody { display: block; }
  tr { display: grid; grid-template-columns: repeat(var(--columns), minmax(0, 1fr)); gap: 8px; margin: 0 0 14px; }
  .corner { display: none; }
  tbody th { grid-column: 1 / -1; width: auto; }
  thead th { font-size: 12px; }
  .text { padding: 5px; font-size: 9px; }
}
"""


def grid_box(**options: Any) -> gr.HTML:
    """The component; the event `choose` carries the number of a cell, counted row by row."""
    return component({}, _SCRIPT, _STYLE, **options)


def told(columns: Sequence[Column], rows: Sequence[Row], there: Places, now: int) -> dict[str, Any]:
    """Its value: `there` is what is decoded already, `now` the cell under way."""
    several = len({row.seed for row in rows}) > 1
    bare = not any(row.prompt for row in rows)
    count = len(columns)
    return {
        "columns": [{"title": column.title, "note": column.note} for column in columns],
        "rows": [{"prompt": row.prompt, "seed": f"seed {row.seed}" if several or bare else ""} for row in rows],
        "cells": [there.get(divmod(index, count)) for index in range(count * len(rows))],
        "now": now,
    }


def preview(trace: Trace) -> dict[str, str]:
    """What a cell shows of a run: a picture, a clip with a frame that stands for it, or a text; and what it took."""
    drafted = draft_forwards(trace.steps)
    own = trace.summary.forwards - drafted
    cost = f"{own} pass{'' if own == 1 else 'es'}" + (f" + {drafted} of the drafter" if drafted else "")
    if trace.canvas.kind == "video" and trace.output.video:
        frames = [_opened(frame) for frame in trace.output.video]
        return {"image": _moving(frames), "still": _encoded(frames[len(frames) // 2]), "cost": cost}
    return {"image": final_picture(trace) or "", "text": (trace.output.text or "")[:_TEXT], "cost": cost}


def chosen_cell(event: gr.EventData) -> int:
    """The cell that was pressed.

    Raises:
        gr.Error: for anything else than the number of one.
    """
    cell = event.cell
    if isinstance(cell, bool) or not isinstance(cell, int) or not 0 <= cell < MOST_COLUMNS * MOST_ROWS:
        raise gr.Error("cell: there is no such cell; press one of those shown.")
    return cell


def _opened(url: str) -> Image.Image:
    picture = Image.open(io.BytesIO(base64.b64decode(url.partition("base64,")[2]))).convert("RGB")
    return picture.resize((max(1, _EDGE * picture.width // picture.height), _EDGE), Image.Resampling.BICUBIC)


def _moving(frames: Sequence[Image.Image]) -> str:
    times = max(1, _MOVING_MS // (_FRAME_MS * len(frames)))
    return _encoded(frames[0], save_all=True, append_images=frames[1:], duration=_FRAME_MS, loop=times)


def _encoded(picture: Image.Image, **options: Any) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=80, **options)
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"
