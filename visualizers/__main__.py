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
from typing import Final, NoReturn, TypeVar, get_args

import plotly.graph_objects as go

from traces.errors import TraceError
from traces.files import whole
from traces.schema import Trace
from traces.streams import STANDARD, bytes_of, output_file, piped, read_named
from visualizers import (
    FIGURES,
    SWEEP_FIGURES,
    TIMING_FIGURES,
    FigureError,
    SweepError,
    SweepView,
    read_results,
    supported,
    themed,
)
from visualizers.bundle import PRESETS, BundleError, Options, write_zip
from visualizers.export import FORMATS, BrowserMissing, write_image
from visualizers.figure import Worded, labels
from visualizers.groups import SPEEDS
from visualizers.moving import ENDINGS, SIZES, Look, MovingError, write_clip, write_moving
from visualizers.moving.look import Clock
from visualizers.page import standalone
from visualizers.sheet import page_of, section

Read = TypeVar("Read")
ZIP: Final = "zip"
BROKEN_TRACE, WRONG_USAGE, NO_BROWSER = 1, 2, 3
MOVING: Final = ("clock", "every", "slow", "hold", "fps", "size", "width", "name", "clip")
"""Options of moving pictures alone."""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USAGE, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        0 done, 1 a trace that cannot be read, 2 wrong usage, 3 no browser to print a figure with.
    """
    # The library that talks to the browser logs every message it does not understand, with a traceback.
    logging.getLogger("choreographer").setLevel(logging.CRITICAL)
    parser = _parser()
    options = parser.parse_args(arguments)
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
    draw = {"traces": _draw_traces, "sweep": _draw_sweep, "timings": _draw_timings}[sources[0]]
    named = options.output
    try:
        with output_file(named, f".{kind}") as options.output:
            draw(parser, options, kind)
    except (TraceError, SweepError) as error:
        print(error, file=sys.stderr)
        return BROKEN_TRACE
    except (BundleError, FigureError, MovingError) as error:
        parser.error(str(error))
    except BrokenPipeError:
        raise
    except BrowserMissing as error:
        print(error, file=sys.stderr)
        return NO_BROWSER
    except OSError as error:
        parser.error(f"-o {named}: cannot be written ({error.strerror}); choose a file in a folder that exists")
    return 0


def _kind(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """Return the kind of file to write, and refuse options that do not go with it."""
    kind = Path(options.output).suffix.removeprefix(".").lower()
    if options.output == STANDARD:
        kind = options.format or "html"
    elif options.format not in (None, kind):
        parser.error(f"--format {options.format}: -o {options.output} ends otherwise; leave it out or choose -o -")
    kinds = ("html", *FORMATS, *ENDINGS, ZIP)
    if kind not in kinds:
        parser.error(f"-o {options.output}: choose a file that ends in .{', .'.join(kinds)}")
    if kind in (*ENDINGS, ZIP) and not options.traces:
        parser.error(f"-o {options.output}: .{kind} shows traces; give TRACE")
    if kind != ZIP:
        _refuse_zip_options(parser, options, kind)
    if kind in ENDINGS:
        for name in ("figure", "step"):
            if getattr(options, name) is not None:
                parser.error(f"--{name}: .{kind} shows whole runs in motion; leave --{name} out")
    elif given := _moving_options(options):
        parser.error(f"--{given[0]}: belongs to moving pictures; leave it out or choose .{', .'.join(ENDINGS)}")
    return kind


def _refuse_zip_options(parser: argparse.ArgumentParser, options: argparse.Namespace, kind: str) -> None:
    if len(options.figure or ()) > 1:
        parser.error(f"--figure {options.figure[1]}: a .{kind} file holds one figure; choose .zip for several")
    if options.preset or options.no_traces:
        name = f"--preset {options.preset}" if options.preset else "--no-traces"
        parser.error(f"{name}: belongs to .zip; leave it out or choose that")


def _moving_options(options: argparse.Namespace) -> list[str]:
    return [name for name in MOVING if getattr(options, name) is not None]


def _draw_traces(parser: argparse.ArgumentParser, options: argparse.Namespace, kind: str) -> None:
    name = options.figure[0] if options.figure else None
    for way, figures in (("--sweep", SWEEP_FIGURES), ("--timings", TIMING_FIGURES)):
        if name in figures:
            parser.error(f"--figure {name}: draws results; give them with {way} RESULTS instead of traces")
    traces, path = [read_named(each) for each in options.traces], options.output
    if kind in ENDINGS:
        _write_moving(parser, options, traces)
    elif kind == ZIP:
        pack = Options(width=options.preset or "screen", theme=options.theme, traces=not options.no_traces)
        write_zip(traces, path, figures=options.figure, step=options.step, options=pack)
    elif name is not None:
        figure = FIGURES[name]
        if options.step is not None and not figure.stepped:
            parser.error(f"--step {options.step}: figure {name} shows the whole run; leave --step out")
        drawn = figure.draw(traces, step=options.step)
        _save(figure, drawn, options, kind, width=figure.width(traces))
    elif kind == "html":
        every = section(supported(traces), traces, step=options.step)
        _write_text(path, standalone(traces, f"Draftscope: {'; '.join(labels(traces))}", after=every))
    else:
        names = ", ".join(figure.name for figure in supported(traces)) or "none; --list says what they need"
        parser.error(f".{kind} holds one figure: choose it with --figure; these traces support {names}")


def _write_moving(parser: argparse.ArgumentParser, options: argparse.Namespace, traces: Sequence[Trace]) -> None:
    given = {name: getattr(options, name) for name in _moving_options(options)}
    clock = given.get("clock", "passes")
    for name, other in (("every", "passes"), ("slow", "milliseconds")):
        if name in given and clock != other:
            parser.error(f"--{name} {given[name]:g}: belongs to --clock {other}; leave it out or choose that")
    if "size" in given and "width" in given:
        parser.error(f"--width {given['width']}: takes no --size beside it; leave one of them out")
    if "size" in given:
        given["width"] = SIZES[given.pop("size")]
    names, clip = tuple(given.pop("name", ())), given.pop("clip", False)
    if clip and (idle := given.keys() & {"clock", "every", "slow", "hold"}):
        parser.error(f"--{min(idle)}: a clip alone has none; leave it or --clip out")
    if clip and len(traces) != 1:
        parser.error(f"--clip: {len(traces)} traces; give the one whose clip it is")
    look, report = Look(theme=options.theme, names=names, **given), _report if sys.stderr.isatty() else None
    if clip:
        write_clip(traces[0], Path(options.output), look, report=report)
    else:
        write_moving(traces, Path(options.output), look, report=report)


def _report(done: int, frames: int) -> None:
    """Say on one line of a terminal how many frames are drawn."""
    print(f"\rframe {done} of {frames}", end="\n" if done == frames else "", file=sys.stderr, flush=True)


def _draw_sweep(parser: argparse.ArgumentParser, options: argparse.Namespace, kind: str) -> None:
    figure = SWEEP_FIGURES.get(options.figure[0] if options.figure else "")
    if figure is None:
        parser.error(f"--sweep {options.sweep}: needs --figure, one of {', '.join(SWEEP_FIGURES)}")
    rows = _read(options.sweep, read_results).rows
    view = SweepView(speed=options.speed, baseline=options.baseline, setting=options.setting)
    try:
        drawn = figure.draw(rows, view)
    except SweepError as error:
        parser.error(f"figure {figure.name}: {error}")
    _save(figure, drawn, options, kind)


def _draw_timings(parser: argparse.ArgumentParser, options: argparse.Namespace, kind: str) -> None:
    figure = TIMING_FIGURES.get(options.figure[0] if options.figure else "")
    if figure is None:
        parser.error(f"--timings {options.timings}: needs --figure, one of {', '.join(TIMING_FIGURES)}")
    _save(figure, _read(options.timings, figure.draw_file), options, kind)


def _read(path: str, reader: Callable[[bytes], Read]) -> Read:
    """Read results; what is wrong is said with the path."""
    try:
        return reader(bytes_of(path))
    except SweepError as error:
        raise SweepError(f"{path}: {error}") from None
    except OSError as error:
        raise SweepError(f"{path}: cannot be read ({error.strerror}); check the path") from None


def _save(figure: Worded, drawn: go.Figure, options: argparse.Namespace, kind: str, **size: int) -> None:
    if kind == "html":
        _write_text(options.output, page_of([(figure, drawn)]))
    else:
        write_image(themed(drawn, options.theme), options.output, **size)


def _write_text(path: Path, text: str) -> None:
    with whole(path) as part:
        part.write_text(text, encoding="utf-8")


def _listing() -> str:
    every: list[Worded] = [*FIGURES.values(), *SWEEP_FIGURES.values(), *TIMING_FIGURES.values()]
    width = max(len(figure.name) for figure in every)
    rows = (f"{figure.name:{width}}  {figure.title}{f' [{figure.paper}]' if figure.paper else ''}" for figure in every)
    return "\n".join(rows)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m visualizers", description=__doc__)
    add = parser.add_argument
    add("traces", nargs="*", metavar="TRACE", help="a trace, .json or .json.gz; - is standard input")
    output = "what to write: .html, .pdf, .svg, .png, .zip, .gif, .mp4 or .webp; - is standard output"
    add("-o", "--output", metavar="FILE", help=output)
    add("--format", choices=("html", *FORMATS, *ENDINGS), help="of -o -; html if left out")
    figure = "one figure instead of the page; of a .zip several, each with --figure"
    every = (*FIGURES, *SWEEP_FIGURES, *TIMING_FIGURES)
    add("--figure", action="append", choices=every, metavar="NAME", help=figure)
    add("--step", type=int, metavar="N", help="the moment to show, in figures that show one: after N passes")
    themes = "of all files but pages, which follow the reader"
    add("--theme", choices=("light", "dark"), default="light", help=themes)
    add("--sweep", metavar="RESULTS", help="results of many runs, .jsonl or .json, also .gz, instead of traces")
    speeds = tuple(SPEEDS)
    add(
        "--speed", choices=speeds, metavar="NAME", default="tokens-per-forward", help=f"of a sweep: {', '.join(speeds)}"
    )
    add("--baseline", metavar="LABEL", help="label or method that speed-ups of a sweep refer to")
    add("--setting", metavar="NAME", help="the setting along the axis of a sweep")
    timings = "what benchmarks.continuous or benchmarks.video wrote, instead of traces"
    add("--timings", metavar="RESULTS", help=timings)
    add("--preset", choices=PRESETS, metavar="NAME", help=f"how wide figures in a .zip are: {', '.join(PRESETS)}")
    add("--no-traces", action="store_true", help="leave the traces out of a .zip")
    add("--list", action="store_true", help="list the figures and leave")
    # No defaults here, so that it is known which were given; those of `Look` apply.
    usual = Look()
    add = parser.add_argument_group("moving pictures: .gif, .mp4 and .webp").add_argument
    add("--clock", choices=get_args(Clock), help="whether a frame is a forward pass of every run (default) or a time")
    add("--every", type=int, metavar="N", help=f"passes from one frame to the next, {usual.every} if left out")
    add("--slow", type=float, metavar="N", help=f"times slower than measured, {usual.slow:g} if left out")
    add("--hold", type=float, metavar="SECONDS", help=f"of the last frame, {usual.hold:g} if left out")
    add("--fps", type=float, metavar="N", help=f"frames a second, {usual.fps:g} if left out")
    add("--size", choices=tuple(SIZES), help=", ".join(f"{name} {width}" for name, width in SIZES.items()) + " pixels")
    add("--width", type=int, metavar="PIXELS", help="any other size")
    add("--name", action="append", metavar="TEXT", help="title of a run; once for each, in their order")
    add("--clip", action="store_true", default=None, help="the decoded clip of a video alone")
    return parser


if __name__ == "__main__":
    sys.exit(piped(main))
