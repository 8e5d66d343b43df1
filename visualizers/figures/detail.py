"""Whether drafts fail where a picture has much local detail."""

from dataclasses import dataclass
from math import prod, sqrt
from typing import Final

import numpy as np
import plotly.graph_objects as go
from PIL import Image
from PIL.Image import Resampling

from traces.schema import Trace
from traces.stats import acceptance_by_position
from visualizers.figure import Figure, Traces, grouped, missing
from visualizers.figures.densities import few
from visualizers.picture import cells, final_picture, grid, picture_of
from visualizers.style import series

BINS: Final = 5
"""Equal shares of the judged drafts, by the detail where they stand."""
PIXELS: Final = 8
"""Most pixels along a cell that its detail is taken from."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Verdicts at one position, and the detail of the picture there."""

    detail: float
    """Standard deviation of the luminance within the cell, in per cent of the range from black to white."""
    judged: int
    accepted: int


def local_detail(picture: Image.Image, rows: int, columns: int) -> list[list[float]]:
    """Return the detail of every cell of a picture that is divided into rows and columns."""
    size = max(1, min(PIXELS, picture.width // columns, picture.height // rows))
    grey = picture.convert("L").resize((columns * size, rows * size), Resampling.BOX)
    parts = np.asarray(grey, np.float64).reshape(rows, size, columns, size)
    found: list[list[float]] = (parts.std(axis=(1, 3)) * (100 / 255)).tolist()
    return found


def by_detail(trace: Trace) -> list[Judged]:
    """Return the positions of a whole picture whose drafts were judged."""
    picture = final_picture(trace)
    if picture is None:
        return []
    rows, columns = grid(trace.canvas)
    detail, places = local_detail(picture_of(picture), rows, columns), cells(trace.canvas)
    tallies = acceptance_by_position(trace.steps, prod(trace.canvas.shape))
    return [
        Judged(detail[row][column], tally.judged, tally.accepted)
        for (row, column), tally in zip(places, tallies, strict=True)
        if tally.judged
    ]


def correlation(found: list[Judged]) -> float | None:
    """Return the correlation of detail and acceptance over drafts; None where one of them does not vary."""
    count = np.array([one.judged for one in found], np.float64)
    x, y = np.array([one.detail for one in found]), np.array([one.accepted for one in found]) / count
    x, y = x - np.average(x, weights=count), y - np.average(y, weights=count)
    kept = np.array([one.accepted for one in found])
    share = kept.sum() / count.sum()
    spread = np.average(x**2, weights=count) * share * (1 - share)  # a verdict is 0 or 1
    return float(np.average(x * y, weights=count) / sqrt(spread)) if spread > 0 else None


def _has_detail(trace: Trace) -> bool:
    drawn = trace.legend.tiles is not None or trace.output.image is not None
    return drawn and trace.canvas.kind == "image" and trace.summary.complete and bool(trace.summary.judged)


def _bins(found: list[Judged]) -> list[list[Judged]]:
    """Positions in order of their detail, shared out so that all bins have about as many judged drafts."""
    total, before = sum(one.judged for one in found), 0
    bins: list[list[Judged]] = [[] for _ in range(BINS)]
    for one in sorted(found, key=lambda one: one.detail):
        bins[min(BINS - 1, BINS * before // total)].append(one)
        before += one.judged
    return [each for each in bins if each]


def _draw(traces: Traces, step: int | None) -> go.Figure:
    figure = go.Figure()
    for index, (name, runs) in enumerate(grouped([trace for trace in traces if _has_detail(trace)]).items()):
        found = [one for run in runs for one in by_detail(run)]
        bins = _bins(found)
        counts = [sum(one.judged for one in each) for each in bins]
        shares = [sum(one.accepted for one in each) / count for each, count in zip(bins, counts, strict=True)]
        related = correlation(found)
        said = name if len(runs) == 1 else f"{name}, {len(runs)} runs"
        figure.add_scatter(
            x=[sum(one.detail * one.judged for one in each) / count for each, count in zip(bins, counts, strict=True)],
            y=[100 * share for share in shares],
            error_y={
                "array": [100 * sqrt(share * (1 - share) / count) for share, count in zip(shares, counts, strict=True)],
                "thickness": 1.2,
            },
            customdata=counts,
            name=said if related is None else f"{said}: correlation {related:.2f}",
            **series(index).curve(),
            hovertemplate="detail %{x:.1f} %: %{y:.0f} % of %{customdata} judged drafts kept",
        )
    figure.update_xaxes(title_text="Local detail (standard deviation of the luminance, %)", rangemode="tozero")
    figure.update_yaxes(title_text="Judged drafts kept (%)", range=[0, 104])
    return figure.update_layout(height=460, showlegend=True)


DETAIL = Figure(
    name="detail",
    title="Drafts kept by local detail",
    caption=(
        "Whether drafts fail where a picture is busy. Local detail is how much the brightness of the finished picture "
        "varies within the cell of a token: 0 for a plain patch of sky, high on an edge or a texture. Judged drafts "
        f"are shared out into {BINS} equal groups by the detail where they stand, plain ones left, busy ones right; a "
        "curve that falls says that detail is hard to draft. The legend has the correlation of detail and verdict over "
        "all judged drafts. Runs that differ in seed or prompt alone are taken together; error bars are standard "
        "errors, drafts taken for independent."
    ),
    paper="CSpD, Fig. 12 (failures against local detail)",
    supports=lambda traces: missing(traces, _has_detail, "a whole picture with judged drafts") or few(traces),
    drawing=_draw,
)
