"""Command line: traces to a page with the player and all figures, one figure, or a moving picture.

A page is .html, one figure is .html, .pdf, .svg or .png, and the runs in motion are .gif, .mp4 or .webp. A .zip holds
every figure as PDF, SVG, PNG and CSV, the traces, a caption and the commands that make them again. - in place of a file
is standard input or output; --format then says what to write.

With --sweep, figures of the results of many runs instead; with --timings, those of a benchmark of drafting.
"""

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

import plotly.graph_objects as go

from traces.errors import TraceError
from traces.files import whole
from traces.schema import Trace
from traces.streams import STANDARD, bytes_of, output_file, piped, read_named
from visualizers import (
    FIGURES,
    SWEEP_FIGURES,
    TIMING_FIGURES,
    Figure,
    FigureError,
    SweepError,
    SweepView,
    read_results,
    supported,
    themed,
)
from visualizers.bundle import PRESETS, BundleError, Options, write_zip
from visualizers.export import FORMATS, BrowserMissing, write_image
from visualizers.figure import labels
from visualizers.groups import SPEEDS
from visualizers.moving import ENDINGS, MovingError
from visualizers.moving.command import add_options, film, given, in_flags
from visualizers.page import standalone
from visualizers.sheet import Described, page, page_of, section

Read = TypeVar("Read")
ZIP = "zip"
BROKEN_TRACE = 1
WRONG_USAGE = 2
NO_BROWSER = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        0 done, 1 a trace that cannot be read, 2 wrong usage, 3 no browser to print a figure with.
    """
    # The library that talks to the browser logs every message it does not understand, with a traceback.
    logging.getLogger("choreographer").setLevel(logging.CRITICAL)
    parser = _parser()
    options = parser.parse_args(arguments)
    options.figures = options.figure
    options.figure = options.figures[0] if options.figures else None
    if options.list:
        print(_listing())
        return 0
    sources = [name for name in ("traces", "sweep", "timings") if getattr(options, name)]
    if not sources or options.output is None:
        parser.error("TRACE, --sweep RESULTS or --timings RESULTS, and -o FILE are needed; --list lists the figures")
    if len(sources) > 1:
        wrong = "traces" if sources[0] == "traces" else f"--{sources[0]}"
        parser.error(f"--{sources[-1]} {getattr(options, sources[-1])}: takes no {wrong} beside it")
    kind = _kind(parser, options)
    draw = {"traces": _drawn, "sweep": _swept, "timings": _timed}[sources[0]]
    named = options.output
    try:
        with output_file(named, f".{kind}") as options.output:
            return draw(parser, options, kind)
    except BrokenPipeError:
        raise
    except BrowserMissing as error:
        print(error, file=sys.stderr)
        return NO_BROWSER
    except OSError as error:
        parser.error(f"-o {named}: cannot be written ({error.strerror}); choose a file in a folder that exists")


def _drawn(parser: argparse.ArgumentParser, options: argparse.Namespace, kind: str) -> int:
    """Draw traces."""
    for way, figures in (("--sweep", SWEEP_FIGURES), ("--timings", TIMING_FIGURES)):
        if options.figure in figures:
            parser.error(f"--figure {options.figure}: draws results; give them with {way} RESULTS instead of traces")
    try:
        traces = [read_named(path) for path in options.traces]
    except TraceError as error:
        print(error, file=sys.stderr)
        return BROKEN_TRACE
    try:
        if kind in ENDINGS:
            film(traces, options, _report if sys.stderr.isatty() else None)
            return 0
        if kind == ZIP:
            pack = Options(width=options.preset or "screen", theme=options.theme, traces=not options.no_traces)
            write_zip(traces, options.output, figures=options.figures, step=options.step, options=pack)
            return 0
        figure = _chosen(parser, options, traces, kind)
        _write(figure, traces, options, kind)
    except MovingError as error:
        parser.error(in_flags(error))
    except (BundleError, FigureError) as error:
        parser.error(str(error))
    return 0


def _report(done: int, frames: int) -> None:
    """Say on one line of a terminal how many frames are drawn."""
    print(f"\rframe {done} of {frames}", end="\n" if done == frames else "", file=sys.stderr, flush=True)


def _swept(parser: argparse.ArgumentParser, options: argparse.Namespace, kind: str) -> int:
    """Draw the results of a sweep."""
    figure = SWEEP_FIGURES.get(options.figure)
    if figure is None:
        parser.error(f"--sweep {options.sweep}: needs --figure, one of {', '.join(SWEEP_FIGURES)}")
    try:
        rows = _read_results(options.sweep, read_results).rows
    except SweepError as error:
        print(error, file=sys.stderr)
        return BROKEN_TRACE
    view = SweepView(speed=options.speed, baseline=options.baseline, setting=options.setting)
    try:
        drawn = figure.draw(rows, view)
    except SweepError as error:
        parser.error(f"figure {figure.name}: {error}")
    _save(figure, drawn, options, kind)
    return 0


def _timed(parser: argparse.ArgumentParser, options: argparse.Namespace, kind: str) -> int:
    """Draw the timings of a benchmark."""
    figure = TIMING_FIGURES.get(options.figure)
    if figure is None:
        parser.error(f"--timings {options.timings}: needs --figure, one of {', '.join(TIMING_FIGURES)}")
    try:
        drawn = _read_results(options.timings, figure.draw_file)
    except SweepError as error:
        print(error, file=sys.stderr)
        return BROKEN_TRACE
    _save(figure, drawn, options, kind)
    return 0


def _save(figure: Described, drawn: go.Figure, options: argparse.Namespace, kind: str) -> None:
    path = options.output
    if kind == "html":
        with whole(path) as part:
            part.write_text(page_of([(figure, drawn)]), encoding="utf-8")
    else:
        write_image(themed(drawn, options.theme), path)


def _write(figure: Figure | None, traces: Sequence[Trace], options: argparse.Namespace, kind: str) -> None:
    path = options.output
    if figure is None:
        figures = section(supported(traces), traces, step=options.step)
        text = standalone(traces, f"Draftscope: {'; '.join(labels(traces))}", after=figures)
        with whole(path) as part:
            part.write_text(text, encoding="utf-8")
    elif kind == "html":
        text = page([figure], traces, step=options.step)
        with whole(path) as part:
            part.write_text(text, encoding="utf-8")
    else:
        drawn = themed(figure.draw(traces, step=options.step), options.theme)
        write_image(drawn, path, width=figure.width(traces))


def _read_results(path: str, reader: Callable[[bytes], Read]) -> Read:
    """Read results; whatever is wrong is said with the path."""
    try:
        return reader(bytes_of(path))
    except SweepError as error:
        raise SweepError(f"{path}: {error}") from None
    except OSError as error:
        raise SweepError(f"{path}: cannot be read ({error.strerror}); check the path") from None


def _kind(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    kind = Path(options.output).suffix.removeprefix(".").lower()
    if options.output == STANDARD:
        kind = options.format or "html"
    elif options.format not in (None, kind):
        parser.error(f"--format {options.format}: -o {options.output} ends otherwise; leave it out or choose -o -")
    if kind not in ("html", *FORMATS, *ENDINGS, ZIP):
        parser.error(f"-o {options.output}: choose a file that ends in .html, .{', .'.join((*FORMATS, *ENDINGS, ZIP))}")
    _check_zip(parser, options, kind)
    if kind not in ENDINGS:
        for name in given(options):
            parser.error(f"--{name}: belongs to moving pictures; leave it out or choose .{', .'.join(ENDINGS)}")
        return kind
    if not options.traces:
        parser.error(f"-o {options.output}: .{kind} shows traces in motion; give TRACE")
    for name in ("figure", "step"):
        if getattr(options, name) is not None:
            parser.error(f"--{name} {getattr(options, name)}: .{kind} shows whole runs in motion; leave --{name} out")
    return kind


def _check_zip(parser: argparse.ArgumentParser, options: argparse.Namespace, kind: str) -> None:
    """Refuse what belongs to a zip alone, and what a zip does not take."""
    if kind == ZIP:
        if not options.traces:
            parser.error(f"-o {options.output}: .zip holds figures of traces; give TRACE")
        return
    if len(options.figures or ()) > 1:
        parser.error(f"--figure {options.figures[1]}: a .{kind} file holds one figure; choose .zip for several")
    for given_, name in ((options.preset, f"--preset {options.preset}"), (options.no_traces, "--no-traces")):
        if given_:
            parser.error(f"{name}: belongs to .zip; leave it out or choose that")


def _chosen(
    parser: argparse.ArgumentParser, options: argparse.Namespace, traces: Sequence[Trace], kind: str
) -> Figure | None:
    """Return the figure asked for; None for the page with all of them."""
    if options.figure is not None:
        figure = FIGURES[options.figure]
        if options.step is not None and not figure.stepped:
            parser.error(f"--step {options.step}: figure {figure.name} shows the whole run; leave --step out")
        return figure
    if kind == "html":
        return None
    names = ", ".join(figure.name for figure in supported(traces)) or "none; --list says what they need"
    parser.error(f".{kind} holds one figure: choose it with --figure; these traces support {names}")


def _listing() -> str:
    every: list[Described] = [*FIGURES.values(), *SWEEP_FIGURES.values(), *TIMING_FIGURES.values()]
    width = max(len(figure.name) for figure in every)
    rows = (f"{figure.name:{width}}  {figure.title}{f' [{figure.paper}]' if figure.paper else ''}" for figure in every)
    return "\n".join(rows)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USAGE, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m visualizers", description=__doc__)
    parser.add_argument("traces", nargs="*", metavar="TRACE", help="a trace, .json or .json.gz; - is standard input")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="what to write: .html, .pdf, .svg, .png, .zip, .gif, .mp4 or .webp; - is standard output",
    )
    parser.add_argument("--format", choices=("html", *FORMATS, *ENDINGS), help="of -o -; html if left out")
    parser.add_argument(
        "--figure",
        action="append",
        choices=(*FIGURES, *SWEEP_FIGURES, *TIMING_FIGURES),
        metavar="NAME",
        help="one figure instead of the page; of a .zip several, each with --figure",
    )
    parser.add_argument(
        "--step", type=int, metavar="N", help="the moment to show, in figures that show one: after N passes"
    )
    parser.add_argument(
        "--theme", choices=("light", "dark"), default="light", help="of all files but pages, which follow the reader"
    )
    parser.add_argument(
        "--sweep", metavar="RESULTS", help="results of many runs, .jsonl or .json, also .gz, instead of traces"
    )
    parser.add_argument(
        "--speed", choices=tuple(SPEEDS), metavar="NAME", default="tokens-per-forward", help="of a sweep's runs"
    )
    parser.add_argument("--baseline", metavar="LABEL", help="label or method that speed-ups of a sweep refer to")
    parser.add_argument("--setting", metavar="NAME", help="the setting along the axis of a sweep")
    parser.add_argument(
        "--timings", metavar="RESULTS", help="what benchmarks.continuous or benchmarks.video wrote, instead of traces"
    )
    parser.add_argument(
        "--preset", choices=tuple(PRESETS), metavar="NAME", help=f"how wide figures in a .zip are: {', '.join(PRESETS)}"
    )
    parser.add_argument("--no-traces", action="store_true", help="leave the traces out of a .zip")
    add_options(parser)
    parser.add_argument("--list", action="store_true", help="list the figures and leave")
    return parser


if __name__ == "__main__":
    sys.exit(piped(main))
