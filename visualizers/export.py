"""Figures as files for a paper: PDF, SVG and PNG, printed by a browser."""

from pathlib import Path
from typing import Final

import kaleido
import plotly.graph_objects as go
from choreographer.errors import BrowserClosedError, BrowserDepsError, BrowserFailedError
from kaleido.errors import ChromeNotFoundError

from visualizers.figure import WIDTH

FORMATS: Final = ("pdf", "svg", "png")
PNG_SCALE: Final = 2
"""Pixels per unit of length, for sharp pictures on dense screens."""
_REMEDY: Final = (
    "install Chrome or Chromium (for instance apt-get install chromium) or name it in the environment variable "
    "BROWSER_PATH; .html needs none"
)


class BrowserMissing(RuntimeError):
    """There is no browser that could print the figure."""


def write_image(figure: go.Figure, path: Path, *, width: int = WIDTH) -> None:
    """Write a figure to a file, in the format that its ending names.

    Raises:
        BrowserMissing: Neither Chrome nor Chromium was found, or it did not start.
        OSError: The file cannot be written.
    """
    kind = path.suffix.removeprefix(".").lower()
    scale = PNG_SCALE if kind == "png" else 1
    options = {"format": kind, "width": width, "height": figure.layout.height, "scale": scale}
    try:
        # No MathJax: kaleido would load it from the network.
        data = kaleido.calc_fig_sync(figure.to_dict(), opts=options, kopts={"mathjax": False})
    except ChromeNotFoundError:
        raise BrowserMissing(f"{kind.upper()} files are printed by a browser and none was found: {_REMEDY}") from None
    except (BrowserClosedError, BrowserDepsError, BrowserFailedError):
        raise BrowserMissing(f"{kind.upper()} files are printed by a browser and it did not start: {_REMEDY}") from None
    path.write_bytes(data)
