"""Figures as files for a paper: PDF, SVG and PNG, printed by a browser."""

import asyncio
import subprocess
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import kaleido
import plotly.graph_objects as go
from choreographer.browsers.chromium import Chromium
from choreographer.errors import BrowserClosedError, BrowserDepsError, BrowserFailedError
from kaleido.errors import ChromeNotFoundError

from draftscope.traces.files import write_atomic
from draftscope.visualizers.figure import WIDTH
from draftscope.visualizers.fonts import offer_fonts

FORMATS: Final = ("pdf", "svg", "png")
PNG_SCALE: Final = 2
"""Pixels per unit of length, for sharp pictures on dense screens."""
_START_SECONDS: Final = 60
"""Kaleido would wait forever for a browser that does not answer."""
_REMEDY: Final = (
    "install Chrome or Chromium (for instance apt-get install chromium) or name it in the environment variable "
    "BROWSER_PATH; .html needs none"
)

_BROWSER_ERRORS: Final = (BrowserClosedError, BrowserDepsError, BrowserFailedError)
_FAILURES: Final = (*_BROWSER_ERRORS, TimeoutError, PermissionError, subprocess.SubprocessError)


class BrowserMissing(RuntimeError):
    """There is no browser that could print the figure."""


class ImageJob(NamedTuple):
    """A figure to print."""

    figure: go.Figure
    kind: str
    """One of `FORMATS`."""
    width: int = WIDTH
    """Pixels that it is laid out for."""
    scale: float = 1.0
    """Factor of all lengths, including letters and lines."""


def write_image(figure: go.Figure, path: Path, *, width: int = WIDTH) -> None:
    """Write a figure to a file.

    Args:
        figure: Figure of plotly.
        path: File, whose ending names the format: png, svg or pdf.
        width: Width in CSS pixels; a PNG has `PNG_SCALE` times as many.

    Raises:
        BrowserMissing: Neither Chrome nor Chromium was found, or it did not start.
        OSError: The file cannot be written.
    """
    kind = path.suffix.removeprefix(".").lower()
    write_job(ImageJob(figure, kind, width, PNG_SCALE if kind == "png" else 1), path)


def write_job(job: ImageJob, path: Path) -> None:
    """Print a figure to a file.

    Args:
        job: Figure, format and size.
        path: File, replaced if it exists.

    Raises:
        BrowserMissing: Neither Chrome nor Chromium was found, or it did not start.
        OSError: The file cannot be written.
    """
    (data,) = render_images([job])
    write_atomic(path, data)


def render_images(wanted: Sequence[ImageJob], report: Callable[[int], None] = lambda done: None) -> list[bytes]:
    """Print figures, all by one browser: it takes longer to start than to print.

    Args:
        wanted: Figures, formats and sizes.
        report: Called with the number of figures that are done.

    Returns:
        The content of a file for each figure.

    Raises:
        BrowserMissing: Neither Chrome nor Chromium was found, or it did not start.
    """
    kinds = " and ".join(dict.fromkeys(one.kind.upper() for one in wanted))
    offer_fonts()
    try:
        browser = Chromium.find_browser(skip_local=False)
        if browser and Path(browser).is_file():  # kaleido does not always notice that one ends at once
            subprocess.run([browser, "--version"], check=True, capture_output=True, timeout=_START_SECONDS)
        return _finished(_printed(wanted, report))
    except ChromeNotFoundError:
        raise BrowserMissing(f"{kinds} files are printed by a browser and none was found: {_REMEDY}") from None
    except _FAILURES:
        raise BrowserMissing(f"{kinds} files are printed by a browser and it did not start: {_REMEDY}") from None


def _finished(files: Coroutine[Any, Any, list[bytes]]) -> list[bytes]:
    """Return the result of a coroutine; in a notebook, whose own loop is running, from another thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(files)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, files).result()


async def _printed(wanted: Sequence[ImageJob], report: Callable[[int], None]) -> list[bytes]:
    files = []
    async with AsyncExitStack() as stack:
        async with asyncio.timeout(_START_SECONDS):
            # No MathJax: it would come from the network.
            printer = await stack.enter_async_context(kaleido.Kaleido(n=1, mathjax=False))
        for done, one in enumerate(wanted, 1):
            size = {"width": one.width, "height": one.figure.layout.height, "scale": one.scale}
            async with asyncio.timeout(_START_SECONDS):
                files.append(await printer.calc_fig(one.figure.to_dict(), opts={"format": one.kind, **size}))
            report(done)
    return files
