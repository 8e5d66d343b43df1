"""How wide a figure is where it will be shown: a column of a paper, both columns, a slide."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import plotly.graph_objects as go

from visualizers.figure import WIDTH
from visualizers.wrapping import panels, wrapped

_INCH: Final = 96
"""Pixels."""
_LETTER: Final = 6.8
"""Pixels that a letter of a legend takes, about."""
_SYMBOL: Final = 48
"""And its symbol, with the space around."""
_LINE: Final = 21
_TITLE, _LABELS, _BARE = 84, 46, 18
"""Pixels above the panels: with a title, with names of panels, with neither."""
_FOOT: Final = 52
"""Pixels below the panels, for ticks and the axis' title."""
_HEAD: Final = 64
"""Pixels between two rows of panels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A width, and how a figure is laid out for it."""

    name: str
    title: str
    inches: float
    laid_out: int
    """Pixels it is laid out for; printed smaller, letters get smaller, too."""
    dots: float
    """Pixels of a PNG for each pixel printed."""
    per_row: int
    """Panels beside one another."""
    titled: bool
    """Whether the figure says what it is; in a paper the caption does."""

    @property
    def scale(self) -> float:
        """Pixels printed for each pixel laid out."""
        return self.inches * _INCH / self.laid_out


PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            Preset(
                name="column",
                title="One column (3.25 in)",
                inches=3.25,
                laid_out=400,
                dots=3.125,
                per_row=1,
                titled=False,
            ),
            Preset(
                name="columns",
                title="Two columns (6.75 in)",
                inches=6.75,
                laid_out=800,
                dots=3.125,
                per_row=3,
                titled=False,
            ),
            Preset(
                name="slide",
                title="Slide (13.33 in)",
                inches=40 / 3,
                laid_out=WIDTH,
                dots=1.5,
                per_row=3,
                titled=True,
            ),
            Preset(
                name="screen",
                title="As on the page",
                inches=WIDTH / _INCH,
                laid_out=WIDTH,
                dots=2,
                per_row=3,
                titled=True,
            ),
        )
    }
)
"""Name -> width, from the narrowest."""


def laid_out(figure: go.Figure, preset: Preset) -> go.Figure:
    """Return a copy of the figure laid out for a width; on the page's own width nothing changes."""
    figure = deepcopy(figure)  # go.Figure(figure) would share the traces
    if preset.name == "screen":
        return figure
    figure = wrapped(figure, preset.per_row)
    rows = len({round((y.domain or (0.0, 1.0))[0], 6) for _, y in panels(figure)}) or 1
    columns = min(preset.per_row, len(panels(figure)) or 1)
    labels = any(note.yref == "paper" for note in figure.layout.annotations)
    top = _TITLE * preset.titled + (_LABELS if labels else _BARE * (not preset.titled))
    _shorten(figure, preset.laid_out, columns)
    legend = _legend(figure, preset.laid_out)
    square = any(y.scaleanchor for _, y in panels(figure)) or figure.layout.yaxis.scaleanchor
    wide = (preset.laid_out - 88) / columns
    high = rows * wide * (0.92 if square else 0.66) + _HEAD * (rows - 1)
    if not preset.titled:
        figure.update_layout(title=None)
    return figure.update_layout(
        width=None,
        height=min(round(top + high + _FOOT + legend), preset.laid_out * 9 // 16 if preset.name == "slide" else 2400),
        margin={"t": top, "b": _FOOT + legend, "r": 12},
    )


def _shorten(figure: go.Figure, wide: int, columns: int) -> None:
    """Keep of a legend's entry the word before its meaning, and break titles of panels, where they would not fit."""
    for trace in figure.data:
        if trace.name and len(trace.name) * _LETTER + _SYMBOL > wide:
            trace.name = trace.name.partition(": ")[0]
    for note in figure.layout.annotations:
        longest = max(map(len, (note.text or "").split("<br>")), default=0)
        if note.yref == "paper" and longest * _LETTER > (wide - 88) / columns:
            note.text = note.text.replace(": ", ":<br>")


def _legend(figure: go.Figure, wide: int) -> int:
    """Pixels that the legend below is high: plotly gives every entry the width of the longest."""
    shown = {trace.legendgroup or trace.name: trace.name for trace in figure.data if trace.showlegend is not False}
    names = [name for name in shown.values() if name]
    if not names or figure.layout.showlegend is False or (len(names) < 2 and not figure.layout.showlegend):
        return 0
    columns = max(1, int((wide - 20) // (max(map(len, names)) * _LETTER + _SYMBOL)))
    return -(-len(names) // columns) * _LINE + 8
