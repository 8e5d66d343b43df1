"""Bias of verification rules in the plane: densities over a grid, and their differences."""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from draftscope.visualizers.figure import DataFigure
from draftscope.visualizers.palette import CIVIDIS
from draftscope.visualizers.plot import plain
from draftscope.visualizers.style import DIVERGING

Cells: TypeAlias = Sequence[Sequence[float]]
"""Probability of every cell, by its index along x, then y."""
COLUMNS: Final = 3
_ROW_HEIGHT: Final = 200


class Density(NamedTuple):
    """Output of one verification rule."""

    name: str
    cells: Cells
    total_variation: float
    """To the target."""


class Bias(NamedTuple):
    """Distributions over one grid: the target's and the draft's, and what was drawn."""

    edges: Sequence[float]
    """Edges of the cells along either side."""
    target: Cells
    draft: Density
    drawn: Sequence[Density]
    message: str
    """How they came to be, in words."""


@DataFigure(
    name="bias",
    title="What each ratio draws",
    paper="CSpD, Eq. 8, 9 and 13, on a distribution that is known",
    caption="Densities of a token of two components, and below each its difference from the target's. Orange: too "
    "likely; blue: too rare. The target's density and the draft's difference below it are integrated; the others are "
    "counted. TV is the total variation to the target: the probability that would have to move. Tokens of the target "
    "alone, vanilla, show how much of it is chance.",
)
def bias_figure(bias: Bias) -> go.Figure:
    """Each density is above its difference from the target; below the target is the difference of the draft."""
    densities = [Density(name="target", cells=bias.target, total_variation=0.0), *bias.drawn]
    below = [bias.draft, *bias.drawn]
    target = np.asarray(bias.target)
    differences = [100 * (np.asarray(one.cells) - target) for one in below]
    bands = -(-len(densities) // COLUMNS)
    spacing = {"horizontal_spacing": 0.03, "vertical_spacing": 0.05, "shared_xaxes": "all", "shared_yaxes": "all"}
    empty = [""] * (bands * COLUMNS - len(densities))
    names = [plain(one.name) for one in densities] + empty
    apart = [f"TV {one.total_variation:.3f}" for one in below] + empty
    apart[0] = f"{plain(below[0].name)}, {apart[0]}"
    rows = [slice(COLUMNS * band, COLUMNS * (band + 1)) for band in range(bands)]
    titles = [title for row in rows for title in (*names[row], *apart[row])]
    figure = make_subplots(rows=2 * bands, cols=COLUMNS, subplot_titles=titles, **spacing)
    middle = [(low + high) / 2 for low, high in zip(bias.edges, bias.edges[1:], strict=False)]
    for index, (density, difference) in enumerate(zip(densities, differences, strict=True)):
        row, placement = 2 * (index // COLUMNS) + 1, {"x": middle, "y": middle, "col": index % COLUMNS + 1}
        hover = "at (%{x:.2f}, %{y:.2f}): %{z:.3f} %<extra></extra>"
        percent = (100 * np.asarray(density.cells)).T.tolist()  # plotly takes rows along y
        figure.add_heatmap(z=percent, coloraxis="coloraxis", hovertemplate=hover, row=row, **placement)
        hover = "at (%{x:.2f}, %{y:.2f}): %{z:+.3f} points<extra></extra>"
        figure.add_heatmap(
            z=difference.T.tolist(), coloraxis="coloraxis2", hovertemplate=hover, row=row + 1, **placement
        )
    figure.update_annotations(font={"size": 12}, yshift=-2)
    figure.update_xaxes(constrain="domain", showgrid=False, zeroline=False)
    figure.update_yaxes(constrain="domain", constraintoward="top", scaleanchor="x", showgrid=False, zeroline=False)
    figure.update_xaxes(title_text="Component 1", row=2 * bands, col=(COLUMNS + 1) // 2)
    figure.update_yaxes(title_text="Component 2", col=1)
    maximum = float(np.abs(differences).max())
    bar = {"orientation": "h", "y": 0, "yref": "container", "yanchor": "bottom", "len": 0.44, "ypad": 4}
    left = {**bar, "x": 0.23, "title": {"text": "Probability of a cell (%)", "side": "top"}}
    right = {**bar, "x": 0.77, "title": {"text": "Less the target's (points)", "side": "top"}}
    return figure.update_layout(
        height=180 + 2 * bands * _ROW_HEIGHT,
        margin={"t": 96, "b": 132},
        title_subtitle_text=plain(bias.message),
        coloraxis={"colorscale": CIVIDIS, "cmin": 0, "colorbar": left},
        coloraxis2={"colorscale": DIVERGING, "cmin": -maximum, "cmax": maximum, "colorbar": right},
    )
