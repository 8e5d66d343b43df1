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

_EDGE: Final = 192
"""Most pixels of a clip's frame."""
_FRAMES: Final = 64
"""Most frames of a clip; of a longer one as many are shown, evenly spread."""
_TEXT: Final = 400
"""Letters of a text that a cell has room for."""

Preview = Mapping[str, str | int]
Places = Mapping[tuple[int, int], Preview]
"""Row and column -> what `preview` says of the run there."""

_SCRIPT: Final = """
const PICTURE = /^data:image[/](png|webp);base64,[A-Za-z0-9+/]+=*$/;
const FRAME_MS = 120;
const strips = new Map();  // address -> picture: the table is built anew with every message
const hold = build('button', { type: 'button', class: 'hold' });
const grid = build('div', {});
place.append(hold, grid);
let tick = -1;  // the clock of all clips; before it runs, each shows its middle
let timer = null;
const paint = (canvas) => {
  const { picture, frames } = canvas.clip;
  const [wide, high] = [picture.naturalWidth / frames, picture.naturalHeight];
  if (!wide) return;
  const frame = tick < 0 ? Math.floor(frames / 2) : tick % frames;
  Object.assign(canvas, { width: wide, height: high });
  canvas.dataset.frame = frame;
  canvas.getContext('2d').drawImage(picture, frame * wide, 0, wide, high, 0, 0, wide, high);
};
const paintAll = () => grid.querySelectorAll('canvas').forEach(paint);
const play = (wanted) => {
  clearInterval(timer);
  timer = wanted ? setInterval(() => {
    if (!place.isConnected) return play(false);
    tick += 1;
    if (place.checkVisibility()) paintAll();
  }, FRAME_MS) : null;
  hold.textContent = wanted ? 'Pause the clips' : 'Play the clips';
};
const clip = (address, frames) => {
  if (!strips.has(address)) {
    const picture = new Image();
    picture.onload = paintAll;
    picture.src = address;
    strips.set(address, picture);
  }
  const canvas = build('canvas', {});
  canvas.clip = { picture: strips.get(address), frames };
  paint(canvas);
  return canvas;
};
const drawn = ({ image = '', frames = 1, text = '' }) => {
  if (!PICTURE.test(image)) return build('span', { class: 'text' }, text || '(empty)');
  return frames > 1 ? clip(image, frames) : build('img', { src: image, alt: '' });
};
const blank = (now) => build('span', { class: now ? 'blank now' : 'blank' }, now ? 'being decoded' : '');
const cell = (made, at, row, column, now) => {
  if (!made) return build('td', {}, blank(now));
  const clip = made.frames > 1 ? `clip of ${made.length} frames` : '';
  const name = [`${made.cost}: ${column.title}`, column.note, row.prompt, row.seed, clip].filter(Boolean).join(', ');
  const button = build('button', { type: 'button', 'data-cell': at, 'aria-label': name }, drawn(made),
    build('span', { class: 'cost' }, made.cost));
  return build('td', {}, button);
};
const show = () => {
  const { columns = [], rows = [], cells = [], now = -1 } = props.value || {};
  hold.hidden = !cells.some((made) => made?.frames > 1);
  const focused = grid.contains(document.activeElement) ? document.activeElement.dataset.cell : null;
  if (!rows.length) return grid.replaceChildren();
  const heads = columns.map(({ title, note }) => build('th', { scope: 'col' }, title, build('small', {}, note)));
  const table = build('table', { style: `--columns: ${columns.length}` },
    build('thead', {}, build('tr', {}, build('td', { class: 'corner' }), ...heads)),
    build('tbody', {}, ...rows.map((row, r) => build('tr', {},
      build('th', { scope: 'row' }, row.prompt, build('small', {}, row.seed)),
      ...columns.map((column, c) => {
        const at = r * columns.length + c;
        return cell(cells[at], at, row, column, at === now);
      })))));
  grid.replaceChildren(table);
  if (focused !== null) grid.querySelector(`[data-cell="${focused}"]`)?.focus();
};
hold.addEventListener('click', () => play(timer === null));
const calm = matchMedia('(prefers-reduced-motion: reduce)');
const follow = () => {
  if (calm.matches) tick = -1;
  play(!calm.matches);
  paintAll();
};
calm.addEventListener('change', follow);
follow();
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
button { font: inherit; color: var(--body-text-color); cursor: pointer; }
td button { display: grid; gap: 4px; width: 100%; padding: 0; border: 0; background: none; text-align: left; }
.hold { margin: 0 0 6px; padding: 5px 13px; border: 1px solid var(--border-color-primary); border-radius: 15px;
  font-size: 13px; background: var(--background-fill-primary); }
.hold:hover { border-color: var(--color-accent); }
img, canvas, .blank, .text { box-sizing: border-box; display: block; width: 100%; aspect-ratio: 1; border-radius: 8px;
  background: var(--background-fill-secondary); }
img, canvas { object-fit: contain; }
img { image-rendering: pixelated; }
td button:hover :is(img, canvas, .text) { outline: 2px solid var(--color-accent); }
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


def preview(trace: Trace) -> dict[str, str | int]:
    """What a cell shows of a run: a picture, the frames of a clip side by side, or a text; and what it took."""
    drafted = draft_forwards(trace.steps)
    own = trace.summary.forwards - drafted
    cost = f"{own} pass{'' if own == 1 else 'es'}" + (f" + {drafted} of the drafter" if drafted else "")
    if trace.canvas.kind == "video" and trace.output.video:
        video = trace.output.video
        shown = min(_FRAMES, len(video))
        frames = [_opened(video[number * len(video) // shown]) for number in range(shown)]
        return {"image": _strip(frames), "frames": shown, "length": len(video), "cost": cost}
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
    picture.thumbnail((_EDGE, _EDGE), Image.Resampling.LANCZOS)
    return picture


def _strip(frames: Sequence[Image.Image]) -> str:
    wide, high = frames[0].size
    strip = Image.new("RGB", (wide * len(frames), high))
    for number, frame in enumerate(frames):
        strip.paste(frame.resize((wide, high)), (number * wide, 0))
    buffer = io.BytesIO()
    strip.save(buffer, "WEBP", quality=85)
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"
