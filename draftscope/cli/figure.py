"""`draftscope view`, `figure`, `export` and `animate`: traces as a page, a figure, a zip or an animation."""

import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from typer import Option

from draftscope.cli.errors import DONE, INVALID, NO_MODEL, CommandError
from draftscope.cli.options import FigureName, Figures, Json, TraceFiles, check_choice
from draftscope.cli.streams import STANDARD, output_file, read_trace
from traces.files import read_bytes, write_whole

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from traces.schema import Trace
    from visualizers.figure import FigureText

_IMAGES: Final = ("pdf", "svg", "png")
_ANIMATIONS: Final = ("gif", "mp4", "webp")
Theme = Literal["light", "dark"]
Step = Annotated[int | None, Option(metavar="N", help="State after N passes, in figures that show one state.")]
FileTheme = Annotated[Theme, Option(help="Theme of the files; pages follow the reader's system.")]


def view(
    traces: TraceFiles,
    output: Annotated[str, Option("-o", "--output", metavar="FILE", help="Ends in .html; - is standard output.")],
    step: Step = None,
) -> int:
    """Write a page with the player and all figures of one or several traces."""
    from traces.labels import labels
    from visualizers import supported
    from visualizers.figure_page import section
    from visualizers.player_page import standalone

    kind = _kind(output, ("html", *_IMAGES), hint="draftscope export writes .zip, draftscope animate .gif, .mp4, .webp")
    runs = [read_trace(path) for path in traces]
    figures = supported(runs)
    if kind != "html":
        names = ", ".join(figure.name for figure in figures) or "none; draftscope list figures shows what they need"
        raise CommandError(f"-o {output}: .{kind} holds one figure; use draftscope figure NAME, with NAME one of {names}.")
    page = standalone(runs, f"Draftscope: {'; '.join(labels(runs))}", after=section(figures, runs, step=step))
    with _writing(output, kind) as path:
        write_whole(path, page.encode())
    return DONE


def figure(
    name: FigureName = None,
    traces: Annotated[list[str] | None, TraceFiles.__metadata__[0]] = None,
    output: Annotated[
        str | None, Option("-o", "--output", metavar="FILE", help="Ends in .html, .pdf, .svg or .png; - is standard output.")
    ] = None,
    file_format: Annotated[
        Literal["html", "pdf", "svg", "png"] | None, Option("--format", help="Of -o -; default: html.")
    ] = None,
    step: Step = None,
    theme: FileTheme = "light",
    results: Annotated[
        str | None, Option(metavar="FILE", help="Results of an experiment or a benchmark, instead of traces.")
    ] = None,
    speed: Annotated[
        str, Option(metavar="NAME", help="Of an experiment: the speed to show, such as speed-up-time.")
    ] = "tokens-per-forward",
    baseline: Annotated[
        str | None, Option(metavar="LABEL", help="Of an experiment: label or method that speed-ups refer to.")
    ] = None,
    setting: Annotated[str | None, Option(metavar="NAME", help="Of an experiment: the setting on the x axis.")] = None,
    list_: Annotated[bool, Option("--list", help="List the figures.")] = False,
) -> int:
    """Draw one figure of traces, or of the results of an experiment."""
    if list_:
        return list_figures()
    if name is None or output is None or not (traces or results):
        raise CommandError("NAME, TRACE or --results FILE, and -o FILE are needed; --list lists the figures.")
    if traces and results:
        raise CommandError(f"--results {results}: cannot be combined with traces; omit one of them.")
    kind = _kind(output, ("html", *_IMAGES), file_format, hint="draftscope animate writes animations")
    if results:
        from analysis.groups import SPEEDS
        from visualizers.figures.sweep_results import SweepView

        check_choice("--speed", speed, SPEEDS)
        text, drawn = _draw_results(name, results, SweepView(speed=speed, baseline=baseline, setting=setting))
        size = {}
    else:
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
        str, Option(metavar="NAME", help="Width of the figures: screen, column, page or slide.")
    ] = "screen",
    no_traces: Annotated[bool, Option("--no-traces", help="Leave the traces out.")] = False,
) -> int:
    """Write a zip: figures as PDF, SVG, PNG and CSV, the traces, a caption and the commands that repeat them."""
    from visualizers.export_zip import PRESETS, Options, write_zip

    check_choice("--preset", preset, PRESETS)
    for name in figures or ():
        check_choice("--figure", name, _all_figures())
    kind = _kind(output, ("zip",))
    runs = [read_trace(path) for path in traces]
    options = Options(width=preset, theme=theme, traces=not no_traces)
    with _writing(output, kind) as path:
        write_zip(runs, path, figures=figures, step=step, options=options)
    return DONE


def animate(
    traces: TraceFiles,
    output: Annotated[
        str, Option("-o", "--output", metavar="FILE", help="Ends in .gif, .mp4 or .webp; - is standard output.")
    ],
    file_format: Annotated[Literal["gif", "mp4", "webp"] | None, Option("--format", help="Of -o -; default: gif.")] = None,
    theme: FileTheme = "light",
    clock: Annotated[
        Literal["passes", "milliseconds", "computed"] | None,
        Option(help="A frame is a forward pass of each run (default), or a time."),
    ] = None,
    device: Annotated[str | None, Option(metavar="NAME", help="Of the computed clock, such as H100.")] = None,
    target: Annotated[
        str | None, Option(metavar="SIZE", help="Of the computed clock: parameters, or a name such as 'Llama 3.1 8B'.")
    ] = None,
    drafter: Annotated[str | None, Option(metavar="SIZE", help="Of the computed clock, in the same form.")] = None,
    engine: Annotated[
        str | None, Option(metavar="NAME", help="Of the computed clock: eager or 'CUDA graphs' (default).")
    ] = None,
    batch: Annotated[
        int | None, Option(metavar="N", help="Of the computed clock: sequences decoded together.")
    ] = None,
    passes_per_frame: Annotated[int | None, Option(metavar="N", help="Of the clock of passes; default: 1.")] = None,
    slowdown: Annotated[
        float | None, Option(metavar="N", help="Of the clocks of time: times slower than measured; default: 4.")
    ] = None,
    last_frame_seconds: Annotated[float | None, Option(metavar="SECONDS", help="Default: 3.")] = None,
    fps: Annotated[float | None, Option(metavar="N", help="Frames per second; default: 10.")] = None,
    width: Annotated[int | None, Option(metavar="PIXELS", help="Of a frame; default: 720.")] = None,
    title: Annotated[list[str] | None, Option(metavar="TEXT", help="Title of a run; once for each, in order.")] = None,
    clip: Annotated[bool, Option("--clip", help="Only the decoded clip of a video.")] = False,
) -> int:
    """Animate traces: the runs side by side as GIF, MP4 or WebP."""
    kind = _kind(output, _ANIMATIONS, file_format)
    given = {
        "clock": clock, "passes_per_frame": passes_per_frame, "slowdown": slowdown,
        "last_frame_seconds": last_frame_seconds, "fps": fps, "width": width, "names": tuple(title or ()),
    }  # fmt: skip
    machine = {"device": device, "target": target, "draft": drafter, "engine": engine, "batch": batch}
    given = {name: value for name, value in given.items() if value not in (None, ())}
    given |= _machine(clock, {name: value for name, value in machine.items() if value is not None})
    runs = [read_trace(path) for path in traces]
    with _writing(output, kind) as path:
        _write_animation(runs, path, {"theme": theme, **given}, clip=clip)
    return DONE
