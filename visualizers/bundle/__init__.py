"""Figures to take away: one zip with PDF, SVG, PNG and CSV of each, the traces, a caption and the commands.

    from visualizers.bundle import Options, write_zip
    write_zip([first, second], "window.zip", figures=["churn", "race"], options=Options(width="column"))

`python -m visualizers RUN ... -o window.zip --figure churn --figure race --preset column` does the same.
"""

import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from gzip import compress
from pathlib import Path
from shlex import quote
from typing import Final

from traces.files import whole
from traces.io import dumps
from traces.schema import Trace
from visualizers import FIGURES, Figure, FigureError, supported, themed
from visualizers.bundle.drawn import Drawing, as_csv
from visualizers.bundle.widths import PRESETS, Preset, laid_out
from visualizers.bundle.words import caption, commands, numbered, stem
from visualizers.export import FORMATS, Print, printed
from visualizers.style import Theme

__all__ = ["MOST_BYTES", "PRESETS", "BundleError", "Drawing", "Options", "pack", "stem", "write_zip"]

MOST_BYTES: Final = 64 * 2**20
"""Of all files in a zip together, packed."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""Of every file: the same runs give the same zip, but for what the printing browser writes."""

Report = Callable[[int, int], None]
"""Hears how many files are printed, of how many."""


class BundleError(ValueError):
    """A zip that cannot be made; the message names what is wrong and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How figures are printed, and what goes beside them."""

    width: str = "screen"
    """A name of `PRESETS`."""
    theme: Theme = "light"
    traces: bool = True
    """Whether the traces go into the zip."""
    most_bytes: int = MOST_BYTES
    again: str = ""
    """The command that makes the zip again."""
    extra: Mapping[str, bytes] = field(default_factory=dict)
    """Further files, by name."""

    @property
    def preset(self) -> Preset:
        """The width.

        Raises:
            BundleError: There is none of that name.
        """
        if self.width not in PRESETS:
            raise BundleError(f"width: {self.width!r} is not valid; choose one of {', '.join(PRESETS)}")
        return PRESETS[self.width]


def write_zip(
    traces: Sequence[Trace],
    path: str | os.PathLike[str],
    *,
    figures: Sequence[str] | None = None,
    step: int | None = None,
    options: Options | None = None,
    report: Report = lambda done, count: None,
) -> None:
    """Write figures of traces as a zip.

    Args:
        traces: What is drawn.
        path: A .zip file; one that is there stays until the new one is whole.
        figures: Names of `visualizers.FIGURES`; by default all that the traces support.
        step: After how many passes, for figures that show one moment.
        options: How they are printed.
        report: Hears how far it is.

    Raises:
        BundleError: For a name, a width or a size that cannot be; nothing is written.
        FigureError: For a figure that the traces do not support.
        BrowserMissing: Without a browser to print with.
        OSError: The file cannot be written.
    """
    options = options or Options()
    chosen = [_figure(name) for name in figures] if figures is not None else list(supported(traces))
    drawings = [drawing(figure, traces, step) for figure in chosen]
    again = options.again or _again(traces, figures or (), step, options, Path(path).name)
    pack(drawings, traces, path, replace(options, again=again), report)


def drawing(figure: Figure, traces: Sequence[Trace], step: int | None = None) -> Drawing:
    """Return a figure of traces, drawn.

    Raises:
        FigureError: The traces do not support it, or have fewer steps.
    """
    drawn = figure.draw(traces, step=step if figure.stepped else None)
    words = {"title": figure.title, "caption": figure.caption, "paper": figure.paper}
    return Drawing(name=stem(traces, figure.name), figure=drawn, **words)


def pack(
    drawings: Sequence[Drawing],
    traces: Sequence[Trace],
    path: str | os.PathLike[str],
    options: Options,
    report: Report = lambda done, count: None,
) -> None:
    """Write drawings and traces as a zip; see `write_zip`."""
    preset, path = options.preset, Path(path)
    names = numbered([stem([trace]) for trace in traces])
    kept = [f"traces/{name}.json.gz" if options.traces else "" for name in names]
    files = dict(options.extra)
    files |= {file: compress(dumps(trace), mtime=0) for file, trace in zip(kept, traces, strict=True) if file}
    _check(files, options, "leave the traces out, or tick fewer runs")  # before anything is printed
    stems = numbered([each.name for each in drawings])
    files |= _printed(drawings, stems, preset, options.theme, report)
    files |= {f"{name}.csv": as_csv(each.figure).encode() for name, each in zip(stems, drawings, strict=True)}
    files["caption.txt"] = caption(list(zip(stems, drawings, strict=True)), traces, kept).encode()
    files["commands.sh"] = commands(traces, names, options.again).encode()
    _check(files, options, "choose fewer figures or leave the traces out")
    _write(path, files)


def _printed(
    drawings: Sequence[Drawing], stems: Sequence[str], preset: Preset, theme: Theme, report: Report
) -> dict[str, bytes]:
    """Return the pictures of all drawings by their file's name."""
    wanted: dict[str, Print] = {}
    for name, each in zip(stems, drawings, strict=True):
        figure = themed(laid_out(each.figure, preset), theme)
        for kind in FORMATS:
            scale = preset.scale * (preset.dots if kind == "png" else 1)
            wanted[f"{name}.{kind}"] = Print(figure, kind, preset.laid_out, scale)
    if not wanted:
        return {}
    report(0, len(wanted))
    return dict(zip(wanted, printed(list(wanted.values()), lambda done: report(done, len(wanted))), strict=True))


def _check(files: Mapping[str, bytes], options: Options, remedy: str) -> None:
    size = sum(map(len, files.values()))
    if size > options.most_bytes:
        most = options.most_bytes / 2**20
        raise BundleError(
            f"zip: its files come to {size / 2**20:.1f} MB, more than the {most:.0f} MB that a zip may have; {remedy}"
        )


def _write(path: Path, files: Mapping[str, bytes]) -> None:
    """Write the zip whole or not at all."""
    with whole(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as target:
        for name in sorted(files):
            info = zipfile.ZipInfo(f"{path.stem}/{name}", _EPOCH)
            info.external_attr = (0o755 if name.endswith(".sh") else 0o644) << 16
            target.writestr(info, files[name], zipfile.ZIP_DEFLATED)


def _again(traces: Sequence[Trace], figures: Sequence[str], step: int | None, options: Options, name: str) -> str:
    parts = [f"traces/{one}.json.gz" for one in numbered([stem([trace]) for trace in traces])]
    parts += [part for figure in figures for part in ("--figure", figure)]
    parts += [] if step is None else ["--step", str(step)]
    parts += [] if options.width == "screen" else ["--preset", options.width]
    parts += [] if options.traces else ["--no-traces"]
    parts += [] if options.theme == "light" else ["--theme", options.theme]
    return " ".join(["python -m visualizers", *map(quote, parts), "-o", quote(name)])


def _figure(name: str) -> Figure:
    if name not in FIGURES:
        raise FigureError(f"figure: there is no {name!r}; choose one of {', '.join(FIGURES)}")
    return FIGURES[name]
