"""Command line: traces to a page with the player and all figures, one figure, or a moving picture.

A page is .html, one figure is .html, .pdf, .svg or .png, and the runs in motion are .gif, .mp4 or .webp. A .zip holds
every figure as PDF, SVG, PNG and CSV, the traces, a caption and the commands that make them again. - in place of a file
is standard input or output; --format then says what to write.

With --sweep, figures of the results of many runs instead; with --timings, those of a benchmark of drafting.
"""

import argparse
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, get_args

import plotly.graph_objects as go

from analysis.groups import SPEEDS
from cli.streams import STANDARD, bytes_of, exit_code_for_pipe, output_file, read_named
from traces.errors import TraceError
from traces.files import write_atomic
from traces.hardware import DEVICES, ENGINES, HardwareError, Machine, read_machine
from traces.hardware import SIZES as NETWORKS
from traces.labels import labels
from traces.schema import Trace
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
from visualizers.animation import ENDINGS, AnimationOptions, MovingError, write_clip, write_moving
from visualizers.animation.look import Clock
from visualizers.export import FORMATS, BrowserMissing, write_image
from visualizers.export_zip import PRESETS, BundleError, ZipOptions, write_zip
from visualizers.figure import FigureText
from visualizers.figure_page import page_of, section
from visualizers.player_page import standalone

ZIP: Final = "zip"
KINDS: Final = ("html", *FORMATS, *ENDINGS, ZIP)
BROKEN_TRACE, WRONG_USAGE, NO_BROWSER = 1, 2, 3
MACHINE: Final = ("device", "engine", "target", "draft", "batch")
MOVING: Final = (
    *MACHINE,
    "clock",
    "passes_per_frame",
    "slowdown",
    "last_frame_seconds",
    "fps",
    "width",
    "name",
    "clip",
)
"""Options of moving pictures alone."""
RESULTS: Final[Mapping[str, Mapping[str, FigureText]]] = {"sweep": SWEEP_FIGURES, "timings": TIMING_FIGURES}
"""Option that names results -> figures of them."""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USAGE, f"{self.prog}: {message}\n")


class _UsageError(ValueError):
    """Options that do not go together."""


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
        every: list[FigureText] = [*FIGURES.values(), *SWEEP_FIGURES.values(), *TIMING_FIGURES.values()]
        width = max(len(figure.name) for figure in every)
        for figure in every:
            print(f"{figure.name:{width}}  {figure.title}{f' [{figure.paper}]' if figure.paper else ''}")
        return 0
    path = options.output
    try:
        source, kind = _source(options), _kind(options)
        with output_file(path, f".{kind}") as options.output:
            (_draw_traces if source == "traces" else _draw_results)(options, kind)
    except (TraceError, SweepError, BrowserMissing) as error:
        print(error, file=sys.stderr)
        return NO_BROWSER if isinstance(error, BrowserMissing) else BROKEN_TRACE
    except (_UsageError, BundleError, FigureError, MovingError) as error:
        parser.error(str(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        parser.error(f"-o {path}: cannot be written ({error.strerror}); choose a file in a folder that exists")
    return 0


def _source(options: argparse.Namespace) -> str:
    """Return the option that names what is drawn."""
    sources = [name for name in ("traces", *RESULTS) if getattr(options, name)]
    if not sources or options.output is None:
        problem = "TRACE, --sweep RESULTS or --timings RESULTS, and -o FILE are needed"
        raise _UsageError(f"{problem}; --list lists the figures")
    if len(sources) > 1:
        wrong = "traces" if sources[0] == "traces" else f"--{sources[0]}"
        raise _UsageError(f"--{sources[-1]} {getattr(options, sources[-1])}: takes no {wrong} beside it")
    return sources[0]


def _kind(options: argparse.Namespace) -> str:
    """Return the kind of file to write, and refuse options that do not go with it."""
    kind = Path(options.output).suffix.removeprefix(".").lower()
    if options.output == STANDARD:
        kind = options.format or "html"
    elif options.format not in (None, kind):
        raise _UsageError(f"--format {options.format}: -o {options.output} ends otherwise; leave it out or use -o -")
    if kind not in KINDS:
        raise _UsageError(f"-o {options.output}: choose a file that ends in .{', .'.join(KINDS)}")
    if kind in (*ENDINGS, ZIP) and not options.traces:
        raise _UsageError(f"-o {options.output}: .{kind} shows traces; give TRACE")
    if kind != ZIP and len(options.figure or ()) > 1:
        raise _UsageError(f"--figure {options.figure[1]}: a .{kind} file holds one figure; choose .zip for several")
    for where, names, kinds in (("moving pictures", MOVING, ENDINGS), ("a .zip file", ("preset", "no_traces"), (ZIP,))):
        if kind not in kinds and (given := _given(options, names)):
            name, value = next(iter(given.items()))
            shown = _option(name) if value is True else f"{_option(name)} {value}"
            raise _UsageError(f"{shown}: belongs to {where}; leave it out or choose .{', .'.join(kinds)}")
    if kind in ENDINGS and (given := _given(options, ("figure", "step"))):
        name = min(given)
        raise _UsageError(f"--{name}: .{kind} shows whole runs in motion; leave --{name} out")
    return kind


def _given(options: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Return the options among `names` that were given, with their values."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def _option(name: str) -> str:
    """Return the option of the command line that sets an attribute."""
    return f"--{name.replace('_', '-')}"


def _draw_traces(options: argparse.Namespace, kind: str) -> None:
    name = options.figure[0] if options.figure else None
    for source, figures in RESULTS.items():
        if name in figures:
            raise _UsageError(f"--figure {name}: draws results; give them with --{source} RESULTS instead of traces")
    traces, path = [read_named(each) for each in options.traces], options.output
    if kind in ENDINGS:
        _write_moving(options, traces)
    elif kind == ZIP:
        pack = ZipOptions(width=options.preset or "screen", theme=options.theme, traces=not options.no_traces)
        write_zip(traces, path, figures=options.figure, step=options.step, options=pack)
    elif name is not None:
        figure = FIGURES[name]
        if options.step is not None and not figure.takes_step:
            raise _UsageError(f"--step {options.step}: figure {name} shows the whole run; leave --step out")
        drawn = figure.draw(traces, step=options.step)
        _save(figure, drawn, options, kind, width=figure.width(traces))
    elif kind == "html":
        every = section(supported(traces), traces, step=options.step)
        page = standalone(traces, f"Draftscope: {'; '.join(labels(traces))}", after=every)
        write_atomic(path, page.encode())
    else:
        names = ", ".join(figure.name for figure in supported(traces)) or "none; --list says what they need"
        raise _UsageError(f".{kind} holds one figure: choose it with --figure; these traces support {names}")


def _write_moving(options: argparse.Namespace, traces: Sequence[Trace]) -> None:
    given = _given(options, MOVING)
    clock = given.get("clock", "passes")
    for name, others in (("passes_per_frame", ("passes",)), ("slowdown", ("milliseconds", "computed"))):
        if name in given and clock not in others:
            raise _UsageError(
                f"{_option(name)} {given[name]:g}: belongs to --clock {others[0]}; leave it out or choose that"
            )
    given |= _machine(given)
    names, clip = tuple(given.pop("name", ())), given.pop("clip", False)
    if clip and (idle := given.keys() & {"clock", "passes_per_frame", "slowdown", "last_frame_seconds"}):
        raise _UsageError(f"{_option(min(idle))}: does not apply to a clip alone; leave it or --clip out")
    if clip and len(traces) != 1:
        raise _UsageError(f"--clip: {len(traces)} traces; give the one whose clip it is")
    look, path = AnimationOptions(theme=options.theme, names=names, **given), Path(options.output)
    if clip:
        write_clip(traces[0], path, look, report=_report)
    else:
        write_moving(traces, path, look, report=_report)


def _report(done: int, frames: int) -> None:
    """Print on one line of a terminal how many frames are drawn."""
    if sys.stderr.isatty():
        end = "\n" if done == frames else ""
        print(f"\rframe {done} of {frames}", end=end, file=sys.stderr, flush=True)


def _machine(given: dict[str, Any]) -> dict[str, Machine]:
    """Take the options of the computed clock out of those given and return what they mean."""
    machine = {name: given.pop(name) for name in MACHINE if name in given}
    if given.get("clock") != "computed":
        if machine:
            raise _UsageError(f"--{min(machine)}: belongs to --clock computed; leave it out or choose that")
        return {}
    if missing := [f"--{name}" for name in ("device", "target") if name not in machine]:
        raise _UsageError(f"--clock computed: needs {' and '.join(missing)}; give the name of one")
    try:
        return {"machine": read_machine(**{"engine": "CUDA graphs", **machine})}
    except HardwareError as error:
        raise _UsageError(f"--{error}") from error


def _draw_results(options: argparse.Namespace, kind: str) -> None:
    """Draw a figure of a sweep or of timings; what is wrong with the file is said with its path."""
    source, path = ("sweep", options.sweep) if options.sweep else ("timings", options.timings)
    name = options.figure[0] if options.figure else ""
    if name not in RESULTS[source]:
        raise _UsageError(f"--{source} {path}: needs --figure, one of {', '.join(RESULTS[source])}")
    read: Callable[[bytes], Any] = read_results if options.sweep else TIMING_FIGURES[name].read
    try:
        results = read(bytes_of(path))
    except SweepError as error:
        raise SweepError(f"{path}: {error}") from None
    except OSError as error:
        raise SweepError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    view = SweepView(speed=options.speed, baseline=options.baseline, setting=options.setting)
    try:
        drawn = SWEEP_FIGURES[name].draw(results.rows, view) if options.sweep else TIMING_FIGURES[name].draw(results)
    except SweepError as error:
        raise _UsageError(f"figure {name}: {error}") from None
    _save(RESULTS[source][name], drawn, options, kind)


def _save(figure: FigureText, drawn: go.Figure, options: argparse.Namespace, kind: str, **size: int) -> None:
    if kind == "html":
        write_atomic(options.output, page_of([(figure, drawn)]).encode())
    else:
        write_image(themed(drawn, options.theme), options.output, **size)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m visualizers", description=__doc__)
    add = parser.add_argument
    add("traces", nargs="*", metavar="TRACE", help="a trace, .json or .json.gz; - is standard input")
    add("-o", "--output", metavar="FILE", help=f"what to write: .{', .'.join(KINDS)}; - is standard output")
    add("--format", choices=("html", *FORMATS, *ENDINGS), help="of -o -; html if left out")
    every = (*FIGURES, *SWEEP_FIGURES, *TIMING_FIGURES)
    add("--figure", action="append", choices=every, metavar="NAME", help="one figure, not the page; several for a .zip")
    add("--step", type=int, metavar="N", help="the moment to show, in figures that show one: after N passes")
    add("--theme", choices=("light", "dark"), default="light", help="of files; pages follow the reader's system")
    add("--sweep", metavar="RESULTS", help="results of many runs, .jsonl or .json, also .gz, instead of traces")
    of_sweep = f"of a sweep: {', '.join(SPEEDS)}"
    add("--speed", choices=tuple(SPEEDS), metavar="NAME", default="tokens-per-forward", help=of_sweep)
    add("--baseline", metavar="LABEL", help="label or method that speed-ups of a sweep refer to")
    add("--setting", metavar="NAME", help="the setting along the axis of a sweep")
    add("--timings", metavar="RESULTS", help="results of benchmarks.continuous or benchmarks.video, instead of traces")
    add("--preset", choices=PRESETS, metavar="NAME", help=f"how wide figures in a .zip are: {', '.join(PRESETS)}")
    add("--no-traces", action="store_true", default=None, help="leave the traces out of a .zip")
    add("--list", action="store_true", help="list the figures and leave")
    # No defaults here, so that it is known which were given; those of `AnimationOptions` apply.
    usual = AnimationOptions()
    add = parser.add_argument_group("moving pictures: .gif, .mp4 and .webp").add_argument
    add("--clock", choices=get_args(Clock), help="whether a frame is a forward pass of every run (default) or a time")
    add("--device", metavar="NAME", help=f"of the computed clock, one of {', '.join(DEVICES)}")
    add("--target", metavar="SIZE", help=f"of the computed clock, parameters or one of {', '.join(NETWORKS)}")
    add("--draft", metavar="SIZE", help="of the computed clock, the drafter, likewise")
    add("--engine", metavar="NAME", help=f"of the computed clock, one of {', '.join(ENGINES)}; CUDA graphs if left out")
    add("--batch", type=int, metavar="N", help="of the computed clock, sequences decoded together")
    add(
        "--passes-per-frame",
        "--every",
        type=int,
        metavar="N",
        help=f"passes from one frame to the next, {usual.passes_per_frame} if left out",
    )
    add(
        "--slowdown",
        "--slow",
        type=float,
        metavar="N",
        help=f"times slower than measured, {usual.slowdown:g} if left out",
    )
    add(
        "--last-frame-seconds",
        "--hold",
        type=float,
        metavar="SECONDS",
        help=f"of the last frame, {usual.last_frame_seconds:g} if left out",
    )
    add("--fps", type=float, metavar="N", help=f"frames a second, {usual.fps:g} if left out")
    add("--width", type=int, metavar="PIXELS", help=f"of a frame, {usual.width} if left out")
    add("--name", action="append", metavar="TEXT", help="title of a run; once for each, in their order")
    add("--clip", action="store_true", default=None, help="the decoded clip of a video alone")
    return parser


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
