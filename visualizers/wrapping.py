"""Panels in rows: what was drawn as one long row of them, put where it can be read."""

from math import ceil
from textwrap import wrap
from typing import Final

import plotly.graph_objects as go

PER_ROW: Final = 3
"""Panels per row."""
BETWEEN: Final = 0.06
"""Share of the width between two panels."""
_TICKS, _TITLE_LINE, _HEADING_LINE = 32, 18, 18
"""Pixels between two rows for ticks, and for each line of an axis' title and of the title of the panel below."""
_TICK_LETTER, _TITLE_LETTER = 6.2, 7.2
"""Pixels that a letter of a tick and of an axis' title takes."""
_NEAR: Final = 1e-9

Axes = tuple[go.layout.XAxis, go.layout.YAxis]


def rows_for(count: int, per_row: int) -> tuple[int, int]:
    """Return how many rows some panels take, and how many of them share a row: as evenly as possible.

    Args:
        count: Number of panels.
        per_row: Maximum number of panels in a row.

    Example:
        >>> rows_for(5, 4)
        (2, 3)
    """
    rows = ceil(count / per_row)
    return rows, ceil(count / rows)


def wrapped(figure: go.Figure, per_row: int = PER_ROW, panel_height: float | None = None) -> go.Figure:
    """Return the figure with the panels of its one row in several rows of up to `per_row`, changed in place.

    Every panel keeps its axes, so curves, pictures and marks stay where they are in it. A last row of fewer panels
    fills the width, unless the panels keep their shape. A title that all x axes share is written below the last row.
    Without a `panel_height`, in pixels, panels stay as high as they are, and a figure in such rows stays as it is.
    """
    axes = panels(figure)
    rows, across = rows_for(len(axes), per_row) if axes else (1, 1)
    if len(axes) <= 1 or (panel_height is None and rows_of(axes) == rows):
        return figure
    margins = figure.layout.margin
    spare = (84 if margins.t is None else margins.t) + (56 if margins.b is None else margins.b)
    before, titles = rows_of(axes), _titles(figure, axes)
    if panel_height is None:
        panel_height = max(160.0, ((figure.layout.height or 460) - spare) / before)
    shared = {x.title.text for x, _ in axes}
    common = shared.pop() if len(shared) == 1 else None
    gap = _gap(axes, titles, beneath=common is None)
    total = rows * panel_height + gap * (rows - 1)
    left, right = axes[0][0].domain[0], max(x.domain[1] for x, _ in axes)
    shaped = any(y.scaleanchor for _, y in axes)
    for index, (x, y) in enumerate(axes):
        row, column = divmod(index, across)
        here = across if shaped or row < rows - 1 else len(axes) - across * (rows - 1)
        between = _between(axes)
        wide = (right - left - between * (here - 1)) / here
        start, top = left + column * (wide + between), 1 - row * (panel_height + gap) / total
        bottom = max(0.0, top - panel_height / total)
        x.domain, y.domain = (start, start + wide), (0.0 if row == rows - 1 else bottom, top)
        if column == 0 and index and y.matches:
            y.update(showticklabels=True, title_text=y.title.text or axes[0][1].title.text)
        if common is not None and index + across < len(axes):
            x.update(title_text="")
        if title := titles.get(index):
            title.update(x=start + wide / 2, y=top)
    return figure.update_layout(height=spare + total)


def break_titles(figure: go.Figure, pixels: float) -> int:
    """Break titles and ticks of x axes into lines that fit.

    Args:
        figure: Figure, changed in place.
        pixels: Width of the plot.

    Returns:
        The most lines that a title below a panel takes.
    """
    lines = 1
    for axis in figure.select_xaxes():
        low, high = axis.domain or (0.0, 1.0)
        wide = (high - low) * pixels
        title = " ".join((axis.title.text or "").split("<br>"))
        if title and "<" not in title:
            broken = wrap(title, max(12, int(wide / _TITLE_LETTER)), break_long_words=False)
            axis.title.text, lines = "<br>".join(broken), max(lines, len(broken))
        if axis.ticktext and not axis.tickangle:
            letters = max(8, int(wide / len(axis.ticktext) / _TICK_LETTER))
            words = (" ".join(text.split("<br>")) for text in axis.ticktext)
            axis.ticktext = ["<br>".join(wrap(text, letters, break_long_words=False)) for text in words]
    return lines


def grid_of(figure: go.Figure) -> tuple[int, int]:
    """Return the rows and columns of panels of a figure, as it was drawn."""
    grid = figure._grid_ref
    return (1, 1) if grid is None else (len(grid), len(grid[0]))


def _between(axes: list[Axes]) -> float:
    """Return the share of the width between two panels; more where each has ticks and a title of its own."""
    separate = any(y.title.text for _, y in axes[1:]) and not any(y.matches for _, y in axes[1:])
    return 2 * BETWEEN if separate else BETWEEN


def _gap(axes: list[Axes], titles: dict[int, go.layout.Annotation], *, beneath: bool) -> float:
    """Return the pixels between two rows; `beneath` says that every row has the titles of its x axes."""
    upright = max((len(text) for x, _ in axes if x.tickangle for text in x.ticktext or ()), default=0)
    heading = max((1 + title.text.count("<br>") for title in titles.values()), default=0)
    lines = max((1 + (x.title.text or "").count("<br>") for x, _ in axes), default=1)
    return _TICKS + _TICK_LETTER * upright + _TITLE_LINE * lines * beneath + _HEADING_LINE * heading


def panels(figure: go.Figure) -> list[Axes]:
    """Return the axes of the panels of a figure that was drawn as one row; nothing for any other layout."""
    grid = figure._grid_ref  # plotly tells the grid of a figure in print alone
    if grid is None or len(grid) != 1:
        return []
    subplots = [figure.get_subplot(1, column) for column, filled in enumerate(grid[0], 1) if filled]
    return [(subplot.xaxis, subplot.yaxis) for subplot in subplots]


def rows_of(axes: list[Axes]) -> int:
    """Return the number of rows of panels."""
    return len({round((y.domain or (0.0, 1.0))[0], 6) for _, y in axes})


def _titles(figure: go.Figure, axes: list[Axes]) -> dict[int, go.layout.Annotation]:
    """Return the titles of panels: the centred annotations above them."""
    titles = {}
    for index, (x, y) in enumerate(axes):
        for title in figure.layout.annotations:
            above = title.yref == "paper" and abs(title.y - (y.domain or (0.0, 1.0))[1]) < _NEAR
            if above and abs(title.x - sum(x.domain) / 2) < _NEAR:
                titles[index] = title
    return titles
