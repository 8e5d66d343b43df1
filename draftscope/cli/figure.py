"""`draftscope view`, `figure`, `export` and `animate`: traces as a page, a figure, a zip or an animation."""

import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from typer import Context, Option

from draftscope.cli.errors import DONE, INVALID, NO_MODEL, CommandError
from draftscope.cli.options import (
    FigureName,
    Figures,
    HelpAll,
    TraceFiles,
    check_choice,
    rare_option,
    reject_unused,
)
from draftscope.cli.streams import output_file, read_trace
from draftscope.traces.files import STANDARD, read_bytes, write_atomic

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from draftscope.traces.schema import Trace
    from draftscope.visualizers.figure import FigureText

_IMAGES: Final = ("pdf", "svg", "png")
_ANIMATIONS: Final = ("gif", "mp4", "webp")
_OF_EXPERIMENT: Final = ("speed", "baseline", "setting")
Theme = Literal["light", "dark"]
Step = Annotated[int | None, Option(metavar="N", help="State after N passes, in figures that show one state.")]
FileTheme = Annotated[Theme, Option(help="Theme of the files; pages follow the reader's system.")]


def view(
    traces: TraceFiles,
    output: Annotated[str, Option("-o", "--output", metavar="FILE", help="Ends in .html; - is standard output.")],
    step: Step = None,
) -> int:
    """Write a page with the player and all figures of traces."""
    from draftscope.traces.labels import labels
    from draftscope.visualizers import supported
    from draftscope.visualizers.figure_page import section
    from draftscope.visualizers.player_page import standalone

    suffix = Path(output).suffix.removeprefix(".").lower()
    runs = [read_trace(path) for path in traces] if suffix in ("html", *_IMAGES) or output == STANDARD else []
    figures = supported(runs)
    if suffix in _IMAGES:
        names = ", ".join(figure.name for figure in figures) or "none"
        problem = f"-o {output}: .{suffix} holds one figure"
        raise CommandError(f"{problem}; use draftscope figure NAME, where the traces support {names}.")
    kind = _kind(output, ("html",), hint="draftscope export writes .zip, draftscope animate .gif, .mp4 and .webp")
    page = standalone(runs, f"Draftscope: {'; '.join(labels(runs))}", after=section(figures, runs, step=step))
    with _writing(output, kind) as path:
        write_atomic(path, page.encode())
    return DONE


def figure(
    context: Context,
    name: FigureName = None,
    traces: Annotated[list[str] | None, TraceFiles.__metadata__[0]] = None,
    output: Annotated[
        str | None,
        Option("-o", "--output", metavar="FILE", help="Ends in .html, .pdf, .svg or .png; or -."),
    ] = None,
    file_format: Annotated[
        Literal["html", "pdf", "svg", "png"] | None, Option("--format", help="Format for -o -; default: html.")
    ] = None,
    step: Step = None,
    theme: FileTheme = "light",
    results: Annotated[
        str | None, Option(metavar="FILE", help="Results of an experiment or a benchmark, instead of traces.")
    ] = None,
    speed: Annotated[
        str, Option(metavar="NAME", help="For an experiment: the speed to show, such as speed-up-time.")
    ] = "tokens-per-forward",
    baseline: Annotated[
        str | None, Option(metavar="LABEL", help="For an experiment: label or method that speed-ups refer to.")
    ] = None,
    setting: Annotated[str | None, Option(metavar="NAME", help="For an experiment: the setting on the x axis.")] = None,
    list_: Annotated[bool, Option("--list", help="List the figures.")] = False,
) -> int:
    """Draw one figure of traces or of results."""
    if list_:
        return list_figures()
    if name is None or output is None or not (traces or results):
        raise CommandError("NAME, TRACE or --results FILE, and -o FILE are needed; --list lists the figures.")
    if traces and results:
        raise CommandError(f"--results {results}: cannot be combined with traces; omit one of them.")
    kind = _kind(output, ("html", *_IMAGES), file_format, hint="draftscope animate writes animations")
    if results:
        from draftscope.analysis.groups import SPEEDS
        from draftscope.visualizers import TIMING_FIGURES
        from draftscope.visualizers.figures.sweep_results import SweepView

        reject_unused(context, ["step"], "needs traces; leave it out with --results")
        if name in TIMING_FIGURES:
            reject_unused(context, _OF_EXPERIMENT, f"needs a figure of an experiment; leave it out with {name}")

        check_choice("--speed", speed, SPEEDS)
        view = SweepView(speed=speed, baseline=baseline, setting=setting)
        text, drawn, size = _draw_results(name, results, view)
    else:
        reject_unused(context, _OF_EXPERIMENT, "needs --results; leave it out with traces")
        text, drawn, size = _draw_traces(name, [read_trace(path) for path in traces or ()], step)
    with _writing(output, kind) as path:
        _save(text, drawn, path, theme, **size)
    return DONE


def list_figures(*, as_json: bool = False) -> int:
    """Print names, titles and published counterparts of all figures."""
    figures = _all_figures()
    if as_json:
        fields = ("name", "title", "caption", "paper")
        print(json.dumps([{name: getattr(each, name) for name in fields} for each in figures.values()], indent=1))
        return DONE
    width = max(map(len, figures))
    for name, each in figures.items():
        print(f"{name:{width}}  {each.title}{f' [{each.paper}]' if each.paper else ''}")
    return DONE


def export(
    traces: TraceFiles,
    output: Annotated[str, Option("-o", "--output", metavar="FILE", help="Ends in .zip; - is standard output.")],
    figures: Figures = None,
    step: Step = None,
    theme: FileTheme = "light",
    preset: Annotated[
        str, Option(metavar="NAME", help="Width of the figures: screen, column, columns or slide.")
    ] = "screen",
    font_size: Annotated[
        float | None, Option("--font-size", metavar="POINTS", help="Size of letters, 5 to 16; default: of the width.")
    ] = None,
    no_traces: Annotated[bool, Option("--no-traces", help="Leave the traces out.")] = False,
) -> int:
    """Write figures and traces to a zip.

    It contains PDF, SVG, PNG and CSV files, the traces, a caption, and the commands that repeat the runs.
    """
    from draftscope.visualizers.export_zip import PRESETS, ZipOptions, write_zip

    check_choice("--preset", preset, PRESETS)
    for name in figures or ():
        check_choice("--figure", name, _all_figures())
    kind = _kind(output, ("zip",))
    runs = [read_trace(path) for path in traces]
    options = ZipOptions(width=preset, theme=theme, font_size=font_size, traces=not no_traces)
    with _writing(output, kind) as path:
        write_zip(runs, path, figures=figures, step=step, options=options)
    return DONE


def animate(
    context: Context,
    traces: TraceFiles,
    output: Annotated[str, Option("-o", "--output", metavar="FILE", help="Ends in .gif, .mp4 or .webp; or -.")],
    file_format: Annotated[
        Literal["gif", "mp4", "webp"] | None, Option("--format", help="Format for -o -; default: gif.")
    ] = None,
    theme: FileTheme = "light",
    clock: Annotated[
        Literal["passes", "milliseconds", "computed"] | None,
        Option(help="A frame is a forward pass of each run (default), or a time."),
    ] = None,
    device: Annotated[
        str | None, rare_option(metavar="NAME", help="For the computed clock: hardware, such as H100.")
    ] = None,
    target: Annotated[
        str | None,
        rare_option(metavar="SIZE", help="For the computed clock: parameters, or a name such as 'Llama 3.1 8B'."),
    ] = None,
    drafter: Annotated[
        str | None, rare_option(metavar="SIZE", help="For the computed clock, in the same form.")
    ] = None,
    engine: Annotated[
        str | None,
        rare_option(metavar="NAME", help="For the computed clock: eager or 'CUDA graphs' (default)."),
    ] = None,
    batch: Annotated[
        int | None, rare_option(metavar="N", help="For the computed clock: sequences decoded together.")
    ] = None,
    passes_per_frame: Annotated[int | None, Option(metavar="N", help="For the clock of passes; default: 1.")] = None,
    slowdown: Annotated[
        float | None, Option(metavar="N", help="For the clocks of time: times slower than measured; default: 4.")
    ] = None,
    last_frame_seconds: Annotated[float | None, Option(metavar="SECONDS", help="Default: 3.")] = None,
    fps: Annotated[float | None, Option(metavar="N", help="Frames per second; default: 10.")] = None,
    width: Annotated[int | None, Option(metavar="PIXELS", help="Width of a frame; default: 720.")] = None,
    title: Annotated[list[str] | None, Option(metavar="TEXT", help="Title of a run; once for each, in order.")] = None,
    clip: Annotated[bool, Option("--clip", help="Only the decoded clip of a video.")] = False,
    help_all: HelpAll = False,
) -> int:
    """Animate runs side by side, as GIF, MP4 or WebP."""
    kind = _kind(output, _ANIMATIONS, file_format)
    if clip:
        unused = ("clock", "passes_per_frame", "slowdown", "last_frame_seconds", "title", "theme")
        reject_unused(context, unused, "does not apply to --clip; leave one of them out")
    options = {
        "clock": clock, "passes_per_frame": passes_per_frame, "slowdown": slowdown,
        "last_frame_seconds": last_frame_seconds, "fps": fps, "width": width, "names": tuple(title or ()),
    }  # fmt: skip
    machine = {"device": device, "target": target, "draft": drafter, "engine": engine, "batch": batch}
    options = {name: value for name, value in options.items() if value not in (None, ())}
    options |= _machine(clock, {name: value for name, value in machine.items() if value is not None})
    runs = [read_trace(path) for path in traces]
    with _writing(output, kind) as path:
        _write_animation(runs, path, {"theme": theme, **options}, clip=clip)
    return DONE


def _kind(output: str, kinds: Sequence[str], file_format: str | None = None, hint: str = "") -> str:
    """Return the kind of file to write, which the suffix of the path or `--format` gives."""
    if output == STANDARD:
        return file_format or kinds[0]
    kind = Path(output).suffix.removeprefix(".").lower()
    if file_format not in (None, kind):
        raise CommandError(f"--format {file_format}: -o {output} has another suffix; omit --format or use -o -.")
    if kind not in kinds:
        remedy = f"choose a file that ends in .{', .'.join(kinds)}"
        raise CommandError(f"-o {output}: {remedy}{f'; {hint}' if hint else ''}.")
    return kind


@contextmanager
def _writing(output: str, kind: str) -> Iterator[Path]:
    """Yield the path to write to; report a file that cannot be written and a missing browser as CommandError."""
    from draftscope.visualizers.export import BrowserMissing

    # The library that controls the browser logs every message it does not understand, with a traceback.
    logging.getLogger("choreographer").setLevel(logging.CRITICAL)
    try:
        with output_file(output, f".{kind}") as path:
            yield path
    except BrowserMissing as error:
        raise CommandError(str(error), NO_MODEL) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise CommandError(f"-o {output}: {problem}; choose a file in a folder that exists.") from error


def _all_figures() -> dict[str, "FigureText"]:
    from draftscope.visualizers import FIGURES, SWEEP_FIGURES, TIMING_FIGURES

    return {**FIGURES, **SWEEP_FIGURES, **TIMING_FIGURES}


def _draw_traces(
    name: str, traces: Sequence["Trace"], step: int | None
) -> tuple["FigureText", "go.Figure", dict[str, int]]:
    from draftscope.visualizers import FIGURES

    check_choice("NAME", name, _all_figures())
    if name not in FIGURES:
        raise CommandError(f"figure {name}: draws results; give them with --results FILE instead of traces.")
    figure = FIGURES[name]
    if step is not None and not figure.takes_step:
        raise CommandError(f"--step {step}: figure {name} shows the whole run; omit --step.")
    return figure, figure.draw(traces, step=step), {"width": figure.width(traces)}


def _draw_results(name: str, path: str, view: Any) -> tuple["FigureText", "go.Figure", dict[str, int]]:
    """Draw a figure of results; errors in the file name its path."""
    from draftscope.visualizers import SWEEP_FIGURES, TIMING_FIGURES, SweepError, read_results

    check_choice("NAME", name, (*SWEEP_FIGURES, *TIMING_FIGURES))
    try:
        data = read_bytes(path)
        results = read_results(data) if name in SWEEP_FIGURES else TIMING_FIGURES[name].read(data)
    except SweepError as error:
        raise CommandError(f"{path}: {error}", INVALID) from None
    except OSError as error:
        raise CommandError(f"{path}: cannot be read ({error.strerror}); check the path.", INVALID) from None
    try:
        if name in SWEEP_FIGURES:
            return SWEEP_FIGURES[name], SWEEP_FIGURES[name].draw(results.rows, view), {}
        return TIMING_FIGURES[name], TIMING_FIGURES[name].draw(results), {}
    except SweepError as error:
        raise CommandError(f"figure {name}: {error}") from None


def _save(figure: "FigureText", drawn: "go.Figure", path: Path, theme: Theme, **size: int) -> None:
    from draftscope.visualizers import themed
    from draftscope.visualizers.export import write_image
    from draftscope.visualizers.figure_page import page_of

    if path.suffix.lower() == ".html":
        write_atomic(path, page_of([(figure, drawn)]).encode())
    else:
        write_image(themed(drawn, theme), path, **size)


def _machine(clock: str | None, machine: dict[str, Any]) -> dict[str, Any]:
    """Return the setting `machine` of an animation, from the options of the computed clock."""
    from draftscope.analysis.hardware import HardwareError, read_machine

    options = {name: "--drafter" if name == "draft" else f"--{name}" for name in (*machine, "device", "target")}
    if clock != "computed":
        if machine:
            raise CommandError(f"{options[min(machine)]}: needs --clock computed; omit it or use that clock.")
        return {}
    if missing := [options[name] for name in ("device", "target") if name not in machine]:
        raise CommandError(f"--clock computed: needs {' and '.join(missing)}.")
    try:
        return {"machine": read_machine(**{"engine": "CUDA graphs", **machine})}
    except HardwareError as error:
        raise CommandError(f"--{error}") from error


def _write_animation(traces: Sequence["Trace"], path: Path, settings: dict[str, Any], *, clip: bool) -> None:
    from draftscope.visualizers.animation import AnimationOptions, write_clip, write_moving

    clock = settings.get("clock", "passes")
    for name, clocks in (("passes_per_frame", ("passes",)), ("slowdown", ("milliseconds", "computed"))):
        if name in settings and clock not in clocks:
            option = f"--{name.replace('_', '-')} {settings[name]:g}"
            raise CommandError(f"{option}: needs --clock {clocks[0]}; omit it or use that clock.")
    if clip and len(traces) != 1:
        raise CommandError(f"--clip: {len(traces)} traces; give one.")
    options = AnimationOptions(**settings)
    if clip:
        write_clip(traces[0], path, options, report=_report)
    else:
        write_moving(traces, path, options, report=_report)


def _report(done: int, frames: int) -> None:
    """Print on one line of a terminal how many frames are drawn."""
    if sys.stderr.isatty():
        end = "\n" if done == frames else ""
        print(f"\rframe {done} of {frames}", end=end, file=sys.stderr, flush=True)
