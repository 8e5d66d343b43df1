"""Figures to take away: one zip with PDF, SVG, PNG and CSV of each, the traces, a caption and the commands."""

import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from gzip import compress
from pathlib import Path
from shlex import quote
from typing import Final

import plotly.graph_objects as go

from draftscope.traces.files import atomic_path
from draftscope.traces.io import dumps
from draftscope.traces.labels import numbered
from draftscope.traces.schema import Trace
from draftscope.visualizers import FIGURES, FigureError, supported, themed
from draftscope.visualizers.export import FORMATS, ImageJob, render_images
from draftscope.visualizers.export_zip.table import as_csv
from draftscope.visualizers.export_zip.widths import FONT_SIZES, PRESETS, Preset, laid_out
from draftscope.visualizers.export_zip.words import caption, commands, file_stem
from draftscope.visualizers.style import Theme

__all__ = ["FONT_SIZES", "MAX_BYTES", "PRESETS", "BundleError", "ZipOptions", "file_stem", "image_job", "write_zip"]

MAX_BYTES: Final = 64 * 2**20
"""Maximum size of all files in a zip together, compressed."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""Timestamp of every file: the same runs give the same zip, except for what the printing browser writes."""

Report = Callable[[int, int], None]
"""Is called with how many files are printed, and of how many."""


class BundleError(ValueError):
    """A zip that cannot be made; the message names what is wrong and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZipOptions:
    """How figures are exported, and what accompanies them."""

    width: str = "screen"
    """A name of `PRESETS`."""
    theme: Theme = "light"
    font_size: float | None = None
    """Size of letters in points; None for that of the width."""
    traces: bool = True
    """Whether the traces go into the zip."""
    max_bytes: int = MAX_BYTES
    extra: Mapping[str, bytes] = field(default_factory=dict)
    """Further files, by name."""

    @property
    def preset(self) -> Preset:
        """The width with its letters. Raises ValueError for a size that is not allowed."""
        preset = PRESETS[self.width]
        return preset if self.font_size is None or self.width == "screen" else preset.with_font_size(self.font_size)


def image_job(figure: go.Figure, kind: str, preset: Preset, theme: Theme) -> ImageJob:
    """Return what prints a figure for a width.

    Args:
        figure: A figure as it was drawn.
        kind: One of `FORMATS`.
        preset: The width.
        theme: Light or dark.
    """
    scale = preset.scale * (preset.dots if kind == "png" else 1)
    return ImageJob(themed(laid_out(figure, preset), theme), kind, preset.laid_out, scale)


def write_zip(
    traces: Sequence[Trace],
    path: str | os.PathLike[str],
    *,
    figures: Sequence[str] | None = None,
    step: int | None = None,
    options: ZipOptions | None = None,
    report: Report = lambda done, count: None,
) -> None:
    """Write figures of traces as a zip.

    Args:
        traces: What is drawn.
        path: A .zip file; one that is there stays until the new one is whole.
        figures: Names of `draftscope.visualizers.FIGURES`; by default all that the traces support.
        step: After how many passes, for figures that show one moment.
        options: How they are printed.
        report: Is called for every printed file.

    Raises:
        BundleError: For a name, a width or a size that cannot be; nothing is written.
        FigureError: For a figure that the traces do not support.
        BrowserMissing: Without a browser to print with.
        OSError: The file cannot be written.
    """
    options, path = options or ZipOptions(), Path(path)
    if options.width not in PRESETS:
        raise BundleError(f"width: {options.width!r} is not valid; choose one of {', '.join(PRESETS)}")
    try:
        preset = options.preset
    except ValueError as error:
        raise BundleError(str(error)) from None
    if unknown := set(figures or ()) - FIGURES.keys():
        raise FigureError(f"figure: there is no {min(unknown)!r}; choose one of {', '.join(FIGURES)}")
    chosen = [FIGURES[name] for name in figures] if figures is not None else list(supported(traces))
    drawn = [figure.draw(traces, step=step if figure.takes_step else None) for figure in chosen]
    stems = numbered([file_stem(traces, figure.name) for figure in chosen], "{}-{}")
    runs = numbered([file_stem([trace]) for trace in traces], "{}-{}")
    names = [f"traces/{name}.json.gz" if options.traces else "" for name in runs]
    files = dict(options.extra)
    files |= {file: compress(dumps(trace), mtime=0) for file, trace in zip(names, traces, strict=True) if file}
    _check(files, options, "leave the traces out, or select fewer runs")  # before anything is printed
    files |= _printed(dict(zip(stems, drawn, strict=True)), preset, options.theme, report)
    files |= {f"{name}.csv": as_csv(figure).encode() for name, figure in zip(stems, drawn, strict=True)}
    files["caption.txt"] = caption(list(zip(stems, chosen, drawn, strict=True)), traces, names).encode()
    again = _again(runs, figures or (), step, options, path.name)
    files["commands.sh"] = commands(traces, runs, again).encode()
    _check(files, options, "choose fewer figures or leave the traces out")
    with atomic_path(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as target:
        for name in sorted(files):
            info = zipfile.ZipInfo(f"{path.stem}/{name}", _EPOCH)
            info.external_attr = (0o755 if name.endswith(".sh") else 0o644) << 16
            target.writestr(info, files[name], zipfile.ZIP_DEFLATED)


def _printed(figures: Mapping[str, go.Figure], preset: Preset, theme: Theme, report: Report) -> dict[str, bytes]:
    """Return the pictures of all figures by their file's name."""
    wanted = {
        f"{name}.{kind}": image_job(figure, kind, preset, theme) for name, figure in figures.items() for kind in FORMATS
    }
    if not wanted:
        return {}
    report(0, len(wanted))
    return dict(zip(wanted, render_images(list(wanted.values()), lambda done: report(done, len(wanted))), strict=True))


def _check(files: Mapping[str, bytes], options: ZipOptions, remedy: str) -> None:
    size, max_megabytes = sum(map(len, files.values())) / 2**20, options.max_bytes / 2**20
    if size > max_megabytes:
        problem = f"its files come to {size:.1f} MB, more than the {max_megabytes:.0f} MB that a zip may have"
        raise BundleError(f"zip: {problem}; {remedy}")


def _again(runs: Sequence[str], figures: Sequence[str], step: int | None, options: ZipOptions, name: str) -> str:
    """Return the command that makes the zip again from the traces in it."""
    parts = [f"traces/{run}.json.gz" for run in runs]
    parts += [part for figure in figures for part in ("--figure", figure)]
    parts += [] if step is None else ["--step", str(step)]
    parts += [] if options.width == "screen" else ["--preset", options.width]
    parts += [] if options.font_size is None else ["--font-size", f"{options.font_size:g}"]
    parts += [] if options.traces else ["--no-traces"]
    parts += [] if options.theme == "light" else ["--theme", options.theme]
    return " ".join(["draftscope export", *map(quote, parts), "-o", quote(name)])
