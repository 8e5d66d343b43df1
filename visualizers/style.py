"""The look of the figures: a light and a dark plotly template, and the colours that read on both.

Figures are drawn once and take their theme from the template alone, so a page can switch it without drawing again.
Marks therefore use colours with enough contrast on either background.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import plotly.graph_objects as go
from plotly.colors import hex_to_rgb

from draftscope.traces.schema import Fate
from draftscope.visualizers.palette import BLUE, DARK, GREEN, LIGHT, MARKS, ORANGE, PALE, PURPLE, VERMILLION, WHITE

Theme = Literal["light", "dark"]
Look: TypeAlias = dict[str, Any]
"""Properties of a plotly mark."""

FONT: Final = "Inter, 'Helvetica Neue', Helvetica, Arial, sans-serif"
NEUTRAL: Final = "#808691"
"""Bounds, fits and other guide lines."""


class Series(NamedTuple):
    """Style of one curve among several: colour, dash and marker together."""

    color: str
    dash: str
    symbol: str

    @property
    def line(self) -> Look:
        """Plotly line properties."""
        return {"color": self.color, "dash": self.dash, "width": 2}

    def marker(self, size: float) -> Look:
        """Plotly marker properties."""
        return {"color": self.color, "symbol": self.symbol, "size": size}


_COLORS: Final = (BLUE, VERMILLION, GREEN, PURPLE, NEUTRAL)
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross", "x")


def series(index: int) -> Series:
    """Return the look of the curve number `index`; thirty curves look different."""
    return Series(*(choices[index % len(choices)] for choices in (_COLORS, _DASHES, _SYMBOLS)))


PATTERNS: Final = ("", "/", "x", ".", "-", "+")
"""Patterns of adjacent bars."""


def hatched(shape: str | Sequence[str]) -> Look:
    """Return a plotly bar pattern, white over the bar's own colour."""
    return {"shape": shape, "fillmode": "overlay", "fgcolor": WHITE, "fgopacity": 0.75, "solidity": 0.2, "size": 7}


def translucent(color: str, opacity: float) -> str:
    """Return a colour that lets the background through.

    Args:
        color: Colour as `#rrggbb`.
        opacity: 0 for an invisible one, 1 for an opaque one.

    Example:
        >>> translucent("#ff0080", 0.5)
        'rgba(255,0,128,0.5)'
    """
    red, green, blue = hex_to_rgb(color)
    return f"rgba({red},{green},{blue},{opacity:g})"


_ON_BOTH: Final = {Fate.KEPT: translucent(NEUTRAL, 0.4), Fate.SAMPLED: "#767c86", Fate.PREFILLED: "#5f6570"}


def fate_color(fate: Fate) -> str:
    """Return the colour of a fate that reads on a light and on a dark background."""
    return _ON_BOTH.get(fate, MARKS[fate].light)


def fate_marker(fate: Fate, size: float) -> Look:
    """Return the plotly marker of a fate, to draw over pictures and heat maps; open shapes are filled with white.

    Args:
        fate: Outcome at a position.
        size: Pixels of the marker.
    """
    mark = MARKS[fate]
    color = NEUTRAL if fate is Fate.KEPT else fate_color(fate)
    if mark.filled:
        return {"symbol": mark.symbol, "size": size, "color": color, "line": {"color": WHITE, "width": 1.2}}
    stroke = mark.symbol if "-thin-" in mark.symbol or mark.symbol.startswith("line-") else ""
    shape = stroke or mark.symbol.removesuffix("-open")
    return {"symbol": shape, "size": size, "color": color if stroke else WHITE, "line": {"color": color, "width": 2.5}}


DIVERGING: Final = [(0.0, BLUE), (0.5, PALE), (1.0, ORANGE)]
"""The colour scale of differences: too rare is dark blue, too likely light orange, and nothing is white."""


def discrete_colorscale(colors: Sequence[str]) -> list[tuple[float, str]]:
    """Return a scale of flat steps, the i-th colour for values between i - 1/2 and i + 1/2."""
    count = len(colors)
    return [(edge / count, color) for i, color in enumerate(colors) for edge in (i, i + 1)]


def template(theme: Theme) -> go.layout.Template:
    """Return the plotly template of a theme."""
    surface = LIGHT if theme == "light" else DARK
    ticks = {"color": surface.muted, "size": 11}
    axis = {"gridcolor": surface.line, "linecolor": surface.muted, "showline": True, "automargin": True}
    axis |= {"zerolinecolor": surface.line, "zerolinewidth": 1, "title": {"standoff": 8, "font": {"size": 13}}}
    axis |= {"ticks": "outside", "ticklen": 4, "tickcolor": surface.muted, "tickfont": ticks}
    bar = {"outlinewidth": 0, "thickness": 12, "tickfont": ticks, "title": {"font": {"size": 12}}}
    above = {"x": 0, "xref": "container", "xanchor": "left", "y": 1, "yref": "container", "yanchor": "top"}
    below = {"x": 0.014, "xref": "container", "xanchor": "left", "y": 0, "yref": "container", "yanchor": "bottom"}
    layout = go.Layout(
        font={"family": FONT, "size": 13, "color": surface.text},
        title={
            **above,
            "pad": {"l": 20, "t": 20},
            "font": {"size": 17, "weight": 600},
            "subtitle": {"font": {"size": 12, "color": surface.muted}},
        },
        paper_bgcolor=surface.background,
        plot_bgcolor=surface.background,
        xaxis=axis,
        yaxis=axis,
        legend={"orientation": "h", **below, "bgcolor": "rgba(0,0,0,0)", "font": {"size": 12}},
        hoverlabel={"bgcolor": surface.panel, "bordercolor": surface.line, "font": {"color": surface.text}},
        margin={"l": 64, "r": 24, "t": 84, "b": 56},
        colorway=list(_COLORS),
        bargap=0.3,
        coloraxis={"colorbar": bar},
    )
    return go.layout.Template(layout=layout)


def themed(figure: go.Figure, theme: Theme) -> go.Figure:
    """Put a figure into a theme, in place, and return it."""
    return figure.update_layout(template=template(theme))
