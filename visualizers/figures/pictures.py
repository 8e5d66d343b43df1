"""Pictures and clips in a grid, a row a prompt and a column a decoder, or texts side by side, each with its passes."""

import base64
from collections.abc import Sequence
from math import ceil, sqrt
from textwrap import wrap
from typing import Final

import plotly.graph_objects as go
from PIL import Image
from plotly.subplots import make_subplots

from draftscope.traces.schema import Trace
from draftscope.traces.stats import draft_forwards
from draftscope.visualizers.figure import BESIDE, WIDTH, Figure, Traces, group_runs
from draftscope.visualizers.picture import PictureError, data_url, final_picture, picture_of
from draftscope.visualizers.plot import plain
from draftscope.visualizers.wrapping import PER_ROW

MAX_ROWS, MAX_COLUMNS = 6, 6
MAX_TEXTS: Final = 12
_KINDS: Final = {"image": "pictures", "video": "clips", "text": "texts"}
_PROMPT: Final = 46
"""Letters of a prompt on one line."""
_ROOM, _WIDEST = 740, 260
"""Pixels of all cells of a row, and of the widest cell."""
_PRINTED: Final = 400
"""Pixels of all cells of a row by which the space for lines of text is planned; wider figures have more of it."""
_TEXT_LINE: Final = 19
"""Pixels of a line of text above or below a picture."""
_FRAMES: Final = 9
"""Number of frames shown of a clip, spread over what was decoded of it."""
_LETTERS_PER_LINE, _MAX_LINES = 40, 17
_LETTER, _LINE, _EDGE = 7.3, 16, 12
"""Width and height of the letters on a text's card, and its margin, in one unit."""
_CARD: Final = 2 * _EDGE + _LETTER * _LETTERS_PER_LINE
"""Width of a card."""
TEXT_WIDTH: Final = 220
"""Pixels that a panel of text must be wide to be readable."""


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


def _lines(text: str) -> list[str]:
    """Return the lines of a text on a card; what does not fit is left out."""
    lines = [part for line in text.strip().splitlines() for part in wrap(line, _LETTERS_PER_LINE) or [""]]
    return (lines if len(lines) <= _MAX_LINES else [*lines[: _MAX_LINES - 1], "..."]) or ["(empty)"]


def _height(lines: int) -> float:
    """Return the height of a card with this many lines."""
    return _LINE * lines + _EDGE


def _card(text: str, high: float = _CARD) -> str:
    """Return a text on a card, which keeps its lines however wide the figure is printed."""
    numbered = enumerate(_lines(text), start=1)
    words = "".join(f'<text x="{_EDGE}" y="{_LINE * number}">{plain(line)}</text>' for number, line in numbered)
    style = 'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12" fill="#18181b"'
    card = f'<rect x="0.5" y="0.5" width="{_CARD - 1:g}" height="{high - 1:g}" fill="#fff" stroke="#d4d4d8"/>'
    size = f'width="{_CARD:g}" height="{high:g}" viewBox="0 0 {_CARD:g} {high:g}"'
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


def _only_texts(traces: Traces) -> bool:
    return all(trace.canvas.kind == "text" for trace in traces)


def _too_many(traces: Traces) -> str | None:
    rows, columns, table = _table(traces)
    if _only_texts(traces) and len(table) > MAX_TEXTS:
        return f"draws up to {MAX_TEXTS} texts, {len(table)} given"
    if len(rows) <= MAX_ROWS and len(columns) <= MAX_COLUMNS:
        return None
    return f"draws up to {MAX_ROWS} prompts and seeds by {MAX_COLUMNS} decoders, {len(rows)} by {len(columns)} given"


@Figure(
    name="pictures",
    title="Results, prompt by prompt",
    paper="SCD, Fig. 1 and 7 to 9; CSpD, Fig. 1, 6 and 7",
    caption="A row is one prompt and seed, a column one way of decoding; below, the forward passes of the target model "
    "(NFE), and after a plus those of the draft model. Texts stand side by side, with their passes above. Exact "
    "methods draw from one distribution: results of a row differ by chance. Of a clip nine frames are shown.",
    accepts=lambda trace: _picture(trace) is not None,
    requirement="a whole picture, clip or text",
    refuses=_too_many,
)
def _draw(traces: Traces) -> go.Figure:
    figure = _texts(traces) if _only_texts(traces) else _grid(traces)
    kinds = {trace.canvas.kind for trace in traces}
    title = f"The {_KINDS[kinds.pop()]}, prompt by prompt" if len(kinds) == 1 else None
    return figure.update_layout(title_text=title)


def _cost(trace: Trace) -> tuple[int, int]:
    """Return the passes of the target, and those of the drafter."""
    drafts = draft_forwards(trace.steps)
    return trace.summary.forwards - drafts, drafts


def _costs(trace: Trace) -> str:
    passes, drafts = _cost(trace)
    return f"NFE {passes}" + (f" + {drafts} draft" if drafts else "")


_COLUMNS: Final = ("prompt", "seed", "decoding", "target passes (NFE)", "draft passes")
"""Names of the data of a result, in files."""


def _texts(traces: Traces) -> go.Figure:
    """A panel a text."""
    rows, columns, table = _table(traces)
    heads = [f"{columns[column]}: {_costs(trace)}" for (_, column), trace in table.items()]
    figure = make_subplots(cols=len(heads), subplot_titles=heads, horizontal_spacing=0.06 / len(heads) ** 0.5)
    texts = [trace.output.text or "" for trace in table.values()]
    high = _height(max(len(_lines(text)) for text in texts))
    bare = {"showgrid": False, "zeroline": False, "showline": False, "showticklabels": False, "ticks": ""}
    for panel, (((row, column), trace), text) in enumerate(zip(table.items(), texts, strict=True), start=1):
        where = {"row": 1, "col": panel}
        placement = {"x": 0, "y": 0, "sizex": _CARD, "sizey": high, "sizing": "stretch"}
        figure.add_layout_image(source=_card(text, high), **placement, **where)
        prompt, seed = rows[row]
        record = [[plain(prompt), seed, columns[column], *_cost(trace)]]
        look = {"mode": "markers", "marker": {"opacity": 0}, "hoverinfo": "skip", "showlegend": False}
        figure.add_scatter(x=[_CARD / 2], y=[high / 2], customdata=record, meta=_COLUMNS, **look, **where)
        seeds = f" (seed {seed})" if len({seed for _, seed in rows}) > 1 else ""
        figure.update_xaxes(range=[0, _CARD], constrain="domain", title_text=plain(prompt) + seeds, **bare, **where)
        anchor = figure.get_subplot(1, panel).xaxis.plotly_name.replace("axis", "")
        figure.update_yaxes(range=[high, 0], scaleanchor=anchor, constraintoward="top", **bare, **where)
    figure.update_annotations(font={"size": 13}, yshift=4)
    wide = (WIDTH - BESIDE) / min(len(heads), PER_ROW) * 0.96
    return figure.update_layout(
        height=round(112 + 72 + wide * high / _CARD), margin={"t": 112, "b": 72}, meta={"panel_width": TEXT_WIDTH}
    )


def _grid(traces: Traces) -> go.Figure:
    rows, columns, table = _table(traces)
    figure = go.Figure()
    costs = [_costs(trace).replace(" + ", "<br>+ ") for trace in table.values()]
    seeds = len({seed for _, seed in rows}) > 1
    cell = _PRINTED / max(len(columns), 2)
    letters = _PROMPT if len(columns) > 1 else _PROMPT // 2
    heads = [_broken(plain(prompt) + (f", seed {seed}" if seeds else ""), letters) for prompt, seed in rows]
    names = [_broken(name, max(12, int(cell / _LETTER))) for name in columns]
    line = _TEXT_LINE / cell
    above, top = (line * (1 + max(text.count("<br>") for text in texts)) for texts in (heads, names))
    high = above + 1 + line * (1.3 + any("<br>" in cost for cost in costs))
    for (row, column), trace in table.items():
        placement = {"x": column + 0.04, "y": -row * high - above, "sizex": 0.92, "sizey": 0.92, "xref": "x"}
        figure.add_layout_image(source=_sharp(_picture(trace) or ""), sizing="contain", yref="y", **placement)
    figure.add_scatter(
        x=[column + 0.5 for _, column in table],
        y=[-row * high - above - 0.95 for row, _ in table],
        text=costs,
        customdata=[
            [plain(rows[row][0]), rows[row][1], columns[column], *_cost(trace)]
            for (row, column), trace in table.items()
        ],
        meta=_COLUMNS,
        mode="text",
        textposition="bottom center",
        textfont={"size": 12},
        cliponaxis=False,
        hovertemplate="%{customdata[2]}<br>%{customdata[0]}, seed %{customdata[1]}<extra></extra>",
        showlegend=False,
    )
    note = {"showarrow": False, "xref": "x", "yref": "y", "yanchor": "bottom"}
    for column, name in enumerate(names):
        figure.add_annotation(text=name, x=column + 0.5, y=0, font={"size": 13}, **note)
    for row, head in enumerate(heads):
        figure.add_annotation(text=head, x=0.04, y=-row * high - above, xanchor="left", align="left", **note)
    bare = {"showgrid": False, "zeroline": False, "showline": False, "ticks": "", "showticklabels": False}
    figure.update_xaxes(range=[0.04, len(columns) - 0.04], constrain="domain", **bare)
    figure.update_yaxes(range=[-len(rows) * high, top], scaleanchor="x", constraintoward="top", **bare)
    wide = min(_ROOM / len(columns), _WIDEST)
    return figure.update_layout(height=round(120 + wide * (top + high * len(rows))))


def _broken(text: str, wide: int) -> str:
    return "<br>".join(wrap(text, wide, break_long_words=False, break_on_hyphens=False))
