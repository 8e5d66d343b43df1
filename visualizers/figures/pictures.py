"""A grid of pictures, clips or texts: a row a prompt, a column a decoder, and under each what it took."""

import base64
import io
from collections.abc import Sequence
from math import ceil, sqrt
from textwrap import wrap
from typing import Final

import plotly.graph_objects as go
from PIL import Image, UnidentifiedImageError

from traces.schema import Trace
from traces.stats import draft_forwards
from visualizers.figure import Figure, Traces, grouped, missing, plain
from visualizers.picture import data_url, final_picture

MOST_ROWS: Final = 6
MOST_COLUMNS: Final = 6
_PROMPT: Final = 26
"""Letters of a prompt on one line."""
_LETTERS: Final = 108
"""Of the names of all decoders beside one another."""
_ROOM: Final = 740
"""Pixels beside the prompts, and those of the widest cell."""
_WIDEST: Final = 260
_UNDER: Final = 0.3
"""Of a cell's side, for what stands under its picture."""


_FRAMES: Final = 9
"""Of a clip, spread over what was decoded of it."""
_CARD: Final = 300
"""Side of a text's card, in units in which its letters and lines take as much as these two:"""
_LETTER: Final = 7.3
_LINE: Final = 16
_MORE: Final = "..."


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
    spread = [video[round(place * (len(video) - 1) / (_FRAMES - 1))] for place in range(_FRAMES)] if video else []
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
    letters, most = int((_CARD - 24) / _LETTER), int((_CARD - 20) / _LINE)
    lines = [part for line in text.strip().splitlines() for part in wrap(line, letters) or [""]] or ["(empty)"]
    kept = lines if len(lines) <= most else [*lines[: most - 1], _MORE]
    words = "".join(f'<text x="12" y="{24 + _LINE * number}">{plain(line)}</text>' for number, line in enumerate(kept))
    style = 'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12" fill="#18181b"'
    drawn = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_CARD}" height="{_CARD}" viewBox="0 0 {_CARD} {_CARD}">'
        f'<rect x="0.5" y="0.5" width="{_CARD - 1}" height="{_CARD - 1}" fill="#fff" stroke="#d4d4d8"/>'
        f"<g {style}>{words}</g></svg>"
    )
    return "data:image/svg+xml;base64," + base64.b64encode(drawn.encode()).decode()


def _table(traces: Traces) -> tuple[list[tuple[str, int | None]], list[str], dict[tuple[int, int], Trace]]:
    """Return rows (prompt and seed), columns (decoders) and which run stands where; the last of equal runs."""
    drawn = [trace for trace in traces if _picture(trace)]
    groups = grouped(drawn)
    rows = list(dict.fromkeys((trace.prompt, trace.seed) for trace in drawn))
    places = {
        (rows.index((trace.prompt, trace.seed)), column): trace
        for column, runs in enumerate(groups.values())
        for trace in runs
    }
    return rows, list(groups), dict(sorted(places.items()))


def _supports(traces: Traces) -> str | None:
    if reason := missing(traces, lambda trace: _picture(trace) is not None, "a whole picture, clip or text"):
        return reason
    rows, columns, _ = _table(traces)
    if len(rows) > MOST_ROWS or len(columns) > MOST_COLUMNS:
        return (
            f"draws up to {MOST_ROWS} prompts and seeds by {MOST_COLUMNS} decoders, {len(rows)} by {len(columns)} given"
        )
    return None


def _draw(traces: Traces, step: int | None) -> go.Figure:
    rows, columns, places = _table(traces)
    figure = go.Figure()
    high = 1 + _UNDER
    wide = min(_ROOM / len(columns), _WIDEST)
    for (row, column), trace in places.items():
        figure.add_layout_image(
            source=_bounded(_picture(trace) or ""),
            x=column + 0.04,
            y=-row * high,
            sizex=0.92,
            sizey=0.92,
            xref="x",
            yref="y",
            sizing="contain",
        )
    keys = list(places)
    figure.add_scatter(
        x=[column + 0.5 for _, column in keys],
        y=[-row * high - 0.95 for row, _ in keys],
        text=[_cost(places[key]) for key in keys],
        customdata=[[plain(rows[row][0]), rows[row][1], columns[column]] for row, column in keys],
        mode="text",
        textposition="bottom center",
        textfont={"size": 12},
        hovertemplate="%{customdata[2]}<br>%{customdata[0]}, seed %{customdata[1]}<extra></extra>",
        showlegend=False,
    )
    bare = {"showgrid": False, "zeroline": False, "showline": False, "ticks": ""}
    several = len({seed for _, seed in rows}) > 1
    figure.update_xaxes(
        tickvals=[column + 0.5 for column in range(len(columns))],
        ticktext=[_lines(name, max(10, _LETTERS // len(columns))) for name in columns],
        tickangle=0,
        side="top",
        constrain="domain",
        range=[0, len(columns)],
        **bare,
    )
    figure.update_yaxes(
        tickvals=[-row * high - 0.5 for row in range(len(rows))],
        ticktext=[_lines(plain(prompt), _PROMPT) + (f"<br>seed {seed}" if several else "") for prompt, seed in rows],
        range=[-len(rows) * high, 0.02],
        scaleanchor="x",
        constrain="domain",
        constraintoward="top",
        **bare,
    )
    return figure.update_layout(height=round(160 + wide * high * len(rows)), margin={"t": 132})


def _cost(trace: Trace) -> str:
    """Say how many passes a picture took; those of a drafter apart."""
    drafted = draft_forwards(trace.steps)
    own = trace.summary.forwards - drafted
    return f"NFE {own}" + (f"<br>+ {drafted} draft" if drafted else "")


def _lines(text: str, wide: int) -> str:
    """Return a text over several lines, broken at spaces."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        lines = [*lines[:-1], joined] if len(joined) <= wide or not lines[-1] else [*lines, word]
    return "<br>".join(lines)


def _opened(url: str) -> Image.Image | None:
    try:
        return Image.open(io.BytesIO(base64.b64decode(url.partition("base64,")[2]))).convert("RGB")
    except (UnidentifiedImageError, ValueError, OSError):
        return None


def _bounded(url: str) -> str:
    """Return a small picture enlarged without blur, as a browser would blur it in a figure."""
    picture = _opened(url)
    if picture is None:
        return url
    times = max(1, 240 // max(picture.size))
    size = (picture.width * times, picture.height * times)
    return data_url(picture.resize(size, Image.Resampling.NEAREST)) if times > 1 else url


PICTURES = Figure(
    name="pictures",
    title="The pictures, prompt by prompt",
    caption=(
        "Each row is one prompt and seed, each column one way of decoding. Under each result stands how many forward "
        "passes of the target model it took (NFE, number of function evaluations), and behind a plus those of the "
        "small model that drafts. Methods that are exact all draw from the model's own distribution: results of a row "
        "may differ, and none of them is better for it. Of a clip nine frames are shown, row by row."
    ),
    paper="SCD, Fig. 1 and 7 to 9; CSpD, Fig. 1, 6 and 7",
    supports=_supports,
    drawing=_draw,
)
