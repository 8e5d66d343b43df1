"""How wide a figure is where it will be shown: a column of a paper, both columns, a slide."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Final

import plotly.graph_objects as go

from draftscope.visualizers.figure import BESIDE, WIDTH
from draftscope.visualizers.wrapping import BETWEEN, break_titles, grid_of, panels, rows_for, wrapped

_INCH: Final = 96
"""Pixels."""
_POINTS: Final = 72
"""Points in an inch."""
_FONT_PIXELS: Final = 13
"""Size of letters in pixels of the layout, see `visualizers.style.template`."""
FONT_SIZES: Final = (5.0, 16.0)
"""Smallest and largest size of letters, in points."""
_LETTER: Final = 6.8
"""Pixels that a letter of a legend takes, about."""
_SYMBOL: Final = 48
"""Symbol with its surrounding space."""
_LINE: Final = 21
_TITLE, _LABELS, _BARE = 84, 46, 18
"""Pixels above the panels: with a title, with names of panels, with neither."""
_FOOT: Final = 52
"""Pixels below the panels, for ticks and the axis' title."""
_TALL: Final = 500
"""Pixels from which on a figure was made higher than others on purpose."""
_HEAD: Final = 64
"""Pixels between two rows of panels, in figures that were drawn in rows."""
_BAR: Final = 76
"""Pixels of a colour bar."""
_SHAPE, _LOWEST, _HIGHEST = 0.66, 150, 380
"""Height of a panel in widths of it, and its least and most pixels."""
_TITLE_LINE: Final = 18
"""Pixels of a further line of an axis' title."""
_MANY: Final = 4
"""Panels from which on two share the row of a column."""


@dataclass(frozen=True, slots=True)
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
    """Panels per row."""
    per_row_of_many: int
    """Panels per row of figures with four or more."""
    with_title: bool
    """Whether the figure has a title; in a paper the caption describes it."""

    @property
    def scale(self) -> float:
        """Pixels printed for each pixel laid out."""
        return self.inches * _INCH / self.laid_out

    @property
    def font_size(self) -> float:
        """Size of letters as printed, in points."""
        return self.inches * _POINTS * _FONT_PIXELS / self.laid_out

    def with_font_size(self, points: float) -> "Preset":
        """Return the same width with letters of another size; symbols, lines and spaces grow with them.

        Raises:
            ValueError: The size is not between the two of `FONT_SIZES`.
        """
        smallest, largest = FONT_SIZES
        if not smallest <= points <= largest:
            raise ValueError(f"font_size: {points:g} is not allowed; use {smallest:g} to {largest:g} points.")
        return replace(self, laid_out=round(self.inches * _POINTS * _FONT_PIXELS / points))

    def across(self, count: int, inside: float, panel_width: float) -> int:
        """Return how many panels share a row.

        Args:
            count: Number of panels.
            inside: Pixels of a row.
            panel_width: Pixels that a panel needs at least; 0 if any width does.
        """
        per_row = self.per_row_of_many if count >= _MANY else self.per_row
        return max(1, min(per_row, int(inside // panel_width))) if panel_width else per_row


PRESETS: Final[Mapping[str, Preset]] = {
    preset.name: preset
    for preset in (
        Preset("column", "One column (3.25 in)", 3.25, 400, dots=3.125, per_row=1, per_row_of_many=2, with_title=False),
        Preset(
            "columns", "Two columns (6.75 in)", 6.75, 800, dots=3.125, per_row=3, per_row_of_many=3, with_title=False
        ),
        Preset("slide", "Slide (13.33 in)", 40 / 3, WIDTH, dots=1.5, per_row=3, per_row_of_many=3, with_title=True),
        Preset("screen", "As on the page", WIDTH / _INCH, WIDTH, dots=2, per_row=3, per_row_of_many=3, with_title=True),
    )
}
"""Name -> width, from the narrowest."""

_PHONE_LETTERS: Final = 40
"""Letters of one line next to an axis or above a panel."""
_PHONE: Final = Preset("phone", "A phone", 3.75, 360, dots=1, per_row=1, per_row_of_many=1, with_title=False)


def narrowed(figure: go.Figure) -> go.Figure:
    """Return a copy of the figure laid out for a phone: panels below one another, the title left to the page.

    Names of marks and legends that need space are left out or shortened; they are shown when a mark is touched.
    """
    high = figure.layout.height or 0
    tall = len(panels(figure)) < 2 and high > _TALL  # drawn for its height: it is only made narrower
    slim = laid_out(figure, _PHONE)
    for trace in slim.data:
        if "text" in (getattr(trace, "mode", None) or ""):
            trace.update(mode=trace.mode.replace("+text", "").replace("text+", ""))
    for note in slim.layout.annotations:
        if (note.yref or "y") == "paper":
            note.text = _broken(note.text)
        elif note.text and not note.showarrow:
            note.update(visible=len(note.text) * _LETTER < _PHONE.laid_out / 2)
    for axis in (*slim.select_xaxes(), *slim.select_yaxes()):
        axis.update(title={"text": _broken(axis.title.text), "font": {"size": 12}})
    slim.update_xaxes(nticks=5)
    slim.update_layout(legend={"font": {"size": 11}, "maxheight": 0.9}, title=None)
    legend = slim.layout.margin.b - _FOOT
    return slim.update_layout(height=max(high - _TITLE + legend, slim.layout.height)) if tall else slim


def _broken(text: str | None) -> str | None:
    """Break words that are longer than a phone is wide; a break that is there stays."""
    lines = (wrap(line, _PHONE_LETTERS, break_long_words=False) for line in (text or "").split("<br>"))
    return "<br>".join(part for line in lines for part in line) or None


def laid_out(figure: go.Figure, preset: Preset) -> go.Figure:
    """Return a copy of a figure laid out for a width.

    Args:
        figure: Figure as the page draws it.
        preset: Width, and what changes with it; "screen" changes nothing.
    """
    figure = deepcopy(figure)  # go.Figure(figure) would share the traces
    if preset.name == "screen":
        return figure
    inside, count = preset.laid_out - BESIDE - _BAR * _has_bar(figure), len(panels(figure))
    across = preset.across(count, inside, (figure.layout.meta or {}).get("panel_width", 0))
    rows, columns = rows_for(count, across) if count else grid_of(figure)
    drawn = (figure.layout.height or 460) - (figure.layout.margin.t or 84) - _FOOT
    panel = _panel_height(figure, inside * (1 - BETWEEN * (columns - 1)) / columns)
    if count > 1:
        wrapped(figure.update_layout(margin={"t": 0, "b": 0}), across, panel)
        plotted = figure.layout.height
    else:
        plotted = min(rows * panel, max(drawn, _HIGHEST)) + _HEAD * (rows - 1)
    notes = [note for note in figure.layout.annotations if note.yref == "paper"]
    for trace in figure.data:  # of an entry that is too long the word before its meaning stays
        if trace.name and len(trace.name) * _LETTER + _SYMBOL > preset.laid_out:
            trace.name = trace.name.partition(": ")[0]
    for note in notes:
        longest = max(map(len, (note.text or "").split("<br>")), default=0)
        if longest * _LETTER > inside / columns:
            note.text = note.text.replace(": ", ":<br>")
    above = max((1 + (note.text or "").count("<br>") for note in notes), default=0)
    labels = _LABELS + _TITLE_LINE * max(0, above - 1) if notes else _BARE * (not preset.with_title)
    top = _TITLE * preset.with_title + labels
    lines = break_titles(figure, inside)
    named = any(axis.title.text or axis.showticklabels is not False for axis in figure.select_xaxes())
    foot = (_FOOT if named else _BARE) + _TITLE_LINE * (lines - 1) + _legend(figure, preset.laid_out)
    if not preset.with_title:
        figure.update_layout(title=None)
    return figure.update_layout(
        width=None,
        height=min(round(top + plotted + foot), preset.laid_out * 9 // 16 if preset.name == "slide" else 2400),
        margin={"t": top, "b": foot, "r": 12},
    )


def _has_bar(figure: go.Figure) -> bool:
    """Return whether a colour bar is shown next to the panels."""
    bar = figure.layout.coloraxis.colorbar
    return (
        any(
            getattr(trace, "coloraxis", None) or getattr(getattr(trace, "marker", None), "coloraxis", None)
            for trace in figure.data
        )
        and bar.orientation != "h"
    )


def _panel_height(figure: go.Figure, wide: float) -> float:
    """Return the pixels that a panel is high: what its text takes, or what its shape makes of its width."""
    needed: float = (figure.layout.meta or {}).get("panel_height", 0)
    shapes: list[float] = []
    for x, y in zip(figure.select_xaxes(), figure.select_yaxes(), strict=True):
        if y.scaleanchor and x.range and y.range:  # square units
            shapes.append(abs(y.range[1] - y.range[0]) / abs(x.range[1] - x.range[0]))
    if shapes:
        return max(needed, wide * max(shapes))
    return needed or min(max(_SHAPE * wide, _LOWEST), _HIGHEST)


def _legend(figure: go.Figure, wide: int) -> int:
    """Pixels that the legend below is high: plotly gives every entry the width of the longest."""
    entries = {trace.legendgroup or trace.name: trace.name for trace in figure.data if trace.showlegend is not False}
    names = [name for name in entries.values() if name]
    if not names or figure.layout.showlegend is False or (len(names) < 2 and not figure.layout.showlegend):
        return 0
    columns = max(1, int((wide - 20) // (max(map(len, names)) * _LETTER + _SYMBOL)))
    return -(-len(names) // columns) * _LINE + 8
