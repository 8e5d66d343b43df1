"""A grid of pictures, clips or texts: a row a prompt, a column a decoder, and under each what it took."""

import base64
from collections.abc import Sequence
from math import ceil, sqrt
from textwrap import wrap
from typing import Final

import plotly.graph_objects as go
from PIL import Image

from draftscope.traces.schema import Trace
from draftscope.traces.stats import draft_forwards
from draftscope.visualizers.figure import Figure, Traces, group_runs
from draftscope.visualizers.picture import PictureError, data_url, final_picture, picture_of
from draftscope.visualizers.plot import plain

MAX_ROWS, MAX_COLUMNS = 6, 6
_KINDS: Final = {"image": "pictures", "video": "clips", "text": "texts"}
_PROMPT: Final = 26
"""Letters of a prompt on one line."""
_LETTERS: Final = 108
"""Letters of the names of all decoders in a row."""
_ROOM, _WIDEST = 740, 260
"""Pixels of all cells of a row, and of the widest cell."""
_HEIGHT: Final = 1.3
"""Height of a cell with the text below its picture, in widths of a cell."""
_FRAMES: Final = 9
"""Number of frames shown of a clip, spread over what was decoded of it."""
_CARD, _LETTER, _LINE = 300, 7.3, 16
"""Side of a text's card, and width and height of its letters, in one unit."""


def _picture(trace: Trace) -> str | None:
    """Return what a whole run made as a picture: what it drew, frames of its clip, or its text on a card."""
    if not trace.summary.complete:
        return None
    if trace.canvas.kind == "text":
        return None if trace.output.text is None else _card(trace.output.text)
    if trace.canvas.kind == "video":
        return _sheet(trace.output.video[trace.output.given or 0 :])
    return final_picture(trace)


def _sheet(video: Sequence[str]) -> str | None:
    """Return frames of a clip, row by row."""
    spread = [video[round(index * (len(video) - 1) / (_FRAMES - 1))] for index in range(_FRAMES)] if video else []
    frames = [picture for frame in dict.fromkeys(spread) if (picture := _opened(frame))]
    if not frames:
        return None
    columns = ceil(sqrt(len(frames)))
    wide, high = frames[0].size
    sheet = Image.new("RGB", (wide * columns, high * ceil(len(frames) / columns)), "white")
    for number, frame in enumerate(frames):
        row, column = divmod(number, columns)
        sheet.paste(frame.resize((wide, high)), (column * wide, row * high))
    return data_url(sheet)


def _card(text: str) -> str:
    """Return a text on a card, which keeps its lines however wide the figure is printed."""
    letters, max_lines = int((_CARD - 24) / _LETTER), int((_CARD - 20) / _LINE)
    lines = [part for line in text.strip().splitlines() for part in wrap(line, letters) or [""]] or ["(empty)"]
    shown = lines if len(lines) <= max_lines else [*lines[: max_lines - 1], "..."]
    words = "".join(f'<text x="12" y="{24 + _LINE * number}">{plain(line)}</text>' for number, line in enumerate(shown))
    style = 'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12" fill="#18181b"'
    card = f'<rect x="0.5" y="0.5" width="{_CARD - 1}" height="{_CARD - 1}" fill="#fff" stroke="#d4d4d8"/>'
    size = f'width="{_CARD}" height="{_CARD}" viewBox="0 0 {_CARD} {_CARD}"'
    drawn = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{card}<g {style}>{words}</g></svg>'
    return "data:image/svg+xml;base64," + base64.b64encode(drawn.encode()).decode()


def _opened(url: str) -> Image.Image | None:
    try:
        return picture_of(url)
    except PictureError:
        return None


def _sharp(url: str) -> str:
    """Return a small picture enlarged without blur, as a browser would blur it in a figure."""
    picture = _opened(url)
    if picture is None or (times := 240 // max(picture.size)) <= 1:
        return url
    return data_url(picture.resize((picture.width * times, picture.height * times), Image.Resampling.NEAREST))


def _table(traces: Traces) -> tuple[list[tuple[str, int | None]], list[str], dict[tuple[int, int], Trace]]:
    """Return rows (prompt and seed), columns (decoders) and the run of each cell; the last of equal runs."""
    groups = group_runs(traces)
    rows = list(dict.fromkeys((trace.prompt, trace.seed) for trace in traces))
    numbered = [(column, trace) for column, runs in enumerate(groups.values()) for trace in runs]
    table = {(rows.index((trace.prompt, trace.seed)), column): trace for column, trace in numbered}
    return rows, list(groups), dict(sorted(table.items()))


def _too_many(traces: Traces) -> str | None:
    rows, columns, _ = _table(traces)
    if len(rows) <= MAX_ROWS and len(columns) <= MAX_COLUMNS:
        return None
    return f"draws up to {MAX_ROWS} prompts and seeds by {MAX_COLUMNS} decoders, {len(rows)} by {len(columns)} given"


@Figure(
    name="pictures",
    title="Results, prompt by prompt",
    paper="SCD, Fig. 1 and 7 to 9; CSpD, Fig. 1, 6 and 7",
    caption="A row is one prompt and seed, a column one way of decoding; below, the forward passes of the target model "
    "(NFE), and after a plus those of the draft model. Exact methods draw from one distribution: results of a row "
    "differ by chance. Of a clip nine frames are shown.",
    accepts=lambda trace: _picture(trace) is not None,
    requirement="a whole picture, clip or text",
    refuses=_too_many,
)
def _draw(traces: Traces) -> go.Figure:
    rows, columns, table = _table(traces)
    figure = go.Figure()
    for (row, column), trace in table.items():
        placement = {"x": column + 0.04, "y": -row * _HEIGHT, "sizex": 0.92, "sizey": 0.92, "xref": "x", "yref": "y"}
        figure.add_layout_image(source=_sharp(_picture(trace) or ""), sizing="contain", **placement)
    drafted = [(trace.summary.forwards, draft_forwards(trace.steps)) for trace in table.values()]
    costs = [f"NFE {passes - drafts}" + (f"<br>+ {drafts} draft" if drafts else "") for passes, drafts in drafted]
    figure.add_scatter(
        x=[column + 0.5 for _, column in table],
        y=[-row * _HEIGHT - 0.95 for row, _ in table],
        text=costs,
        customdata=[
            [plain(rows[row][0]), rows[row][1], columns[column], passes - drafts, drafts]
            for (row, column), (passes, drafts) in zip(table, drafted, strict=True)
        ],
        meta=["prompt", "seed", "decoding", "target passes (NFE)", "draft passes"],
        mode="text",
        textposition="bottom center",
        textfont={"size": 12},
        cliponaxis=False,
        hovertemplate="%{customdata[2]}<br>%{customdata[0]}, seed %{customdata[1]}<extra></extra>",
        showlegend=False,
    )
    bare = {"showgrid": False, "zeroline": False, "showline": False, "ticks": "", "constrain": "domain"}
    names = [_broken(name, max(10, _LETTERS // len(columns))) for name in columns]
    places_x = [column + 0.5 for column in range(len(columns))]
    figure.update_xaxes(tickvals=places_x, ticktext=names, tickangle=0, side="top", range=[0, len(columns)], **bare)
    seeds = len({seed for _, seed in rows}) > 1
    heads = [_broken(plain(prompt), _PROMPT) + (f"<br>seed {seed}" if seeds else "") for prompt, seed in rows]
    figure.update_yaxes(tickvals=[-row * _HEIGHT - 0.5 for row in range(len(rows))], ticktext=heads, **bare)
    figure.update_yaxes(range=[-len(rows) * _HEIGHT, 0.02], scaleanchor="x", constraintoward="top")
    wide = min(_ROOM / len(columns), _WIDEST)
    kinds = {trace.canvas.kind for trace in traces}
    title = f"The {_KINDS[kinds.pop()]}, prompt by prompt" if len(kinds) == 1 else None
    return figure.update_layout(height=round(160 + wide * _HEIGHT * len(rows)), margin={"t": 132}, title_text=title)


def _broken(text: str, wide: int) -> str:
    return "<br>".join(wrap(text, wide, break_long_words=False, break_on_hyphens=False))
