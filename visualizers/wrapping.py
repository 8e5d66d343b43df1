"""Panels in rows: what was drawn as one long row of them, put where it can be read."""

from typing import Final

import plotly.graph_objects as go

PER_ROW: Final = 3
"""Panels per row."""
_BETWEEN: Final = 0.06
"""Share of the width between two panels."""
_HEAD: Final = 0.16
"""Share of the height between two rows: ticks, titles of axes, and the title of the panel below."""
_NEAR: Final = 1e-9


def wrapped(figure: go.Figure, per_row: int = PER_ROW) -> go.Figure:
    """Return the figure with the panels of its one row in several rows of `per_row`, changed in place.

    Every panel keeps its axes, so curves, pictures and marks stay where they are in it. A figure whose rows are filled
    that way, or that was drawn in several rows, stays as it is.
    """
    axes = panels(figure)
    if len(axes) <= 1 or rows_of(axes) == -(-len(axes) // per_row):
        return figure
    rows, before = -(-len(axes) // per_row), rows_of(axes)
    left, right = axes[0][0].domain[0], max(x.domain[1] for x, _ in axes)
    high = (1 - _HEAD * (rows - 1)) / rows
    wide = (right - left - _BETWEEN * (per_row - 1)) / per_row
    titles = _titles(figure, axes)
    for index, (x, y) in enumerate(axes):
        row, column = divmod(index, per_row)
        start, bottom = left + column * (wide + _BETWEEN), 1 - (row + 1) * high - row * _HEAD
        x.domain, y.domain = (start, start + wide), (max(0.0, bottom), bottom + high)
        if column == 0 and index:
            y.update(showticklabels=True, title_text=y.title.text or axes[0][1].title.text)
        if title := titles.get(index):
            title.update(x=start + wide / 2, y=bottom + high)
    margins = figure.layout.margin
    spare = (margins.t or 84) + (margins.b or 56)
    panel = max(160, ((figure.layout.height or 460) - spare) * (1 - _HEAD * (before - 1)) / before)
    return figure.update_layout(height=spare + rows * panel / (1 - _HEAD * (rows - 1)))


def panels(figure: go.Figure) -> list[tuple[go.layout.XAxis, go.layout.YAxis]]:
    """Return the axes of the panels of a figure that was drawn as one row; nothing for any other layout."""
    grid = figure._grid_ref  # plotly tells the grid of a figure in print alone
    if grid is None or len(grid) != 1:
        return []
    subplots = [figure.get_subplot(1, column) for column, filled in enumerate(grid[0], 1) if filled]
    return [(subplot.xaxis, subplot.yaxis) for subplot in subplots]


def rows_of(axes: list[tuple[go.layout.XAxis, go.layout.YAxis]]) -> int:
    """Return the number of rows of panels."""
    return len({round((y.domain or (0.0, 1.0))[0], 6) for _, y in axes})


def _titles(figure: go.Figure, axes: list[tuple[go.layout.XAxis, go.layout.YAxis]]) -> dict[int, go.layout.Annotation]:
    """Return the titles of panels: the centred annotations above them."""
    titles = {}
    for index, (x, y) in enumerate(axes):
        for title in figure.layout.annotations:
            above = title.yref == "paper" and abs(title.y - (y.domain or (0.0, 1.0))[1]) < _NEAR
            if above and abs(title.x - sum(x.domain) / 2) < _NEAR:
                titles[index] = title
    return titles
