"""Panels in rows: what was drawn as one long row of them, put where it can be read."""

from itertools import pairwise
from typing import Final

import plotly.graph_objects as go

PER_ROW: Final = 3
"""Panels that stand beside one another."""
_BETWEEN: Final = 0.06
"""Of the width, between two panels."""
_HEAD: Final = 0.16
"""Of the height, between two rows: ticks, titles of axes, and the title of the panel below."""


def wrapped(figure: go.Figure) -> go.Figure:
    """Return the figure with more than `PER_ROW` panels of one row in several rows, changed in place.

    Every panel keeps its axes, so curves, pictures and marks stay where they are in it.
    """
    axes = _axes(figure)
    if len(axes) <= PER_ROW:
        return figure
    rows = -(-len(axes) // PER_ROW)
    lefts = [axis.domain[0] for axis, _ in axes]
    right = axes[-1][0].domain[1]
    high = (1 - _HEAD * (rows - 1)) / rows
    wide = (right - _BETWEEN * (PER_ROW - 1)) / PER_ROW
    titles = list(figure.layout.annotations)[: len(axes)]
    for index, ((x, y), left) in enumerate(zip(axes, lefts, strict=True)):
        row, column = divmod(index, PER_ROW)
        start, bottom = column * (wide + _BETWEEN), 1 - (row + 1) * high - row * _HEAD
        middle = (left + x.domain[1]) / 2
        x.domain, y.domain = (start, start + wide), (max(0.0, bottom), bottom + high)
        if column == 0 and index:
            y.update(showticklabels=True, title_text=axes[0][1].title.text)
        for title in titles:
            if title.yref == "paper" and title.y == 1 and abs(title.x - middle) < 1e-9:
                title.update(x=start + wide / 2, y=bottom + high)
                titles.remove(title)
                break
    margins = figure.layout.margin
    spare = (margins.t or 112) + (margins.b or 80)
    return figure.update_layout(height=spare + rows * max(160, (figure.layout.height or 460) - spare) / (1 - _HEAD))


def _axes(figure: go.Figure) -> list[tuple[go.layout.XAxis, go.layout.YAxis]]:
    """Return the axes of a single row of panels from left to right; nothing for any other layout."""
    found = [(x, figure.get_subplot(1, col).yaxis) for col, x in enumerate(_row(figure), start=1)]
    edges = [tuple(x.domain) for x, _ in found]
    return found if all(a[1] <= b[0] for a, b in pairwise(edges)) else []


def _row(figure: go.Figure) -> list[go.layout.XAxis]:
    grid = figure._grid_ref  # plotly tells the grid of a figure in print alone
    if grid is None or len(grid) != 1:
        return []
    return [figure.get_subplot(1, col).xaxis for col in range(1, len(grid[0]) + 1) if grid[0][col - 1]]
