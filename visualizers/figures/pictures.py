"""A grid of pictures: a row a prompt, a column a decoder, and under each what it took."""

import base64
import io
from typing import Final

import plotly.graph_objects as go
from PIL import Image, UnidentifiedImageError

from traces.replay import state_after
from traces.schema import Trace
from traces.stats import draft_forwards
from visualizers.figure import Figure, Traces, grouped, missing, plain
from visualizers.picture import compose, data_url

MOST_ROWS: Final = 6
MOST_COLUMNS: Final = 6
_PROMPT: Final = 26
"""Letters of a prompt on one line."""
_LETTERS: Final = 108
"""Of the names of all decoders beside one another."""
_UNDER: Final = 0.3
"""Of a cell's side, for what stands under its picture."""


def _picture(trace: Trace) -> str | None:
    """Return the picture that a run drew, as a data: URL."""
    if trace.canvas.kind != "image" or not trace.summary.complete:
        return None
    if trace.legend.tiles is not None:
        return data_url(compose(trace.legend.tiles, trace.canvas, state_after(trace, len(trace.steps))))
    return trace.output.image


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
    if reason := missing(traces, lambda trace: _picture(trace) is not None, "a whole picture"):
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
    wide = 960 - 220
    return figure.update_layout(height=round(160 + min(wide / len(columns), 260) * high * len(rows)), margin={"t": 132})


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


def _bounded(url: str) -> str:
    """Return a small picture enlarged without blur, as a browser would blur it in a figure."""
    try:
        picture = Image.open(io.BytesIO(base64.b64decode(url.partition("base64,")[2]))).convert("RGB")
    except (UnidentifiedImageError, ValueError, OSError):
        return url
    times = max(1, 240 // max(picture.size))
    size = (picture.width * times, picture.height * times)
    return data_url(picture.resize(size, Image.Resampling.NEAREST)) if times > 1 else url


PICTURES = Figure(
    name="pictures",
    title="The pictures, prompt by prompt",
    caption=(
        "One row a prompt and seed, one column a decoder with its settings. Under each picture stands how many forward "
        "passes of the target (NFE) it took, and those of a drafter behind a plus. Exact methods draw from one "
        "distribution, so pictures of a row differ without one being better."
    ),
    paper="SCD, Fig. 1 and 7 to 9; CSpD, Fig. 1, 6 and 7",
    supports=_supports,
    drawing=_draw,
)
