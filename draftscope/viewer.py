"""Figures and pages of traces."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from draftscope.traces import Trace
from draftscope.traces.files import write_atomic

if TYPE_CHECKING:
    import plotly.graph_objects as go


THEMES: Final = ("light", "dark")
"""Themes of figures."""


def figure(
    name: str, *traces: Trace, step: int | None = None, theme: Literal["light", "dark"] = "light"
) -> "go.Figure":
    """Draw a figure of one or more traces, as a plotly figure.

    Args:
        name: One of `ds.figures()`.
        traces: What to draw; some figures compare several.
        step: After how many passes, for figures that show one moment.
        theme: Of the picture.

    Returns:
        A plotly figure: `.show()` displays it, `.write_image("churn.pdf")` writes PDF, SVG or PNG by Chromium.

    Raises:
        FigureError: For an unknown name or theme, or traces that lack what the figure needs.
    """
    from draftscope.visualizers import FIGURES, FigureError, themed

    if not isinstance(name, str):
        kind = type(name).__name__
        raise FigureError(
            f'figure: a {kind} is not the name of a figure; the name comes first: ds.figure("churn", trace).'
        )
    if name not in FIGURES:
        raise FigureError(f"figure: there is no {name!r}; choose one of {', '.join(FIGURES)}")
    if theme not in THEMES:
        raise FigureError(f"theme: {theme!r} is not allowed; use one of {', '.join(THEMES)}.")
    for trace in traces:
        if not isinstance(trace, Trace):
            raise FigureError(f"figure: {trace!r} is not a trace; give traces after the name.")
    return themed(FIGURES[name].draw(traces, step=step), theme)


def figures(*traces: Trace) -> dict[str, str]:
    """Return the figures that can be drawn.

    Args:
        traces: Traces that have what the figures need; none for all figures.

    Returns:
        The name by which `ds.figure` takes each, with its title.
    """
    from draftscope.visualizers import FIGURES, supported

    return {each.name: each.title for each in (supported(traces) if traces else FIGURES.values())}


def view(
    traces: Trace | Sequence[Trace], path: str | os.PathLike[str], *, title: str = "Draftscope", figures: bool = True
) -> Path:
    """Write a page with the player, which needs nothing but a browser.

    Args:
        traces: One trace, or several to show side by side.
        path: An .html file.
        title: Heading of the page.
        figures: Whether the figures follow the player.

    Returns:
        The path of the page.

    Raises:
        ValueError: For another ending.
        OSError: If the file cannot be written.
    """
    from draftscope.visualizers import supported
    from draftscope.visualizers.figure_page import section
    from draftscope.visualizers.player_page import standalone

    target = Path(path)
    if target.suffix != ".html":
        raise ValueError(f"path: {target.name!r} must end in .html.")
    runs = [traces] if isinstance(traces, Trace) else list(traces)
    text = standalone(runs, title, after=section(supported(runs), runs) if figures else "")
    write_atomic(target, text.encode())
    return target
