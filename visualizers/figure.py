"""What a figure is, and the few things every figure needs."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from types import MappingProxyType
from typing import Final, Generic, TypeAlias, TypeVar

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from traces.schema import Scalar, Trace
from traces.video import frame_count
from visualizers.picture import PictureError
from visualizers.style import themed
from visualizers.wrapping import wrapped

Traces: TypeAlias = Sequence[Trace]
MOST_PANELS: Final = 6
"""Traces drawn side by side; more would be too small to read."""
MOST_FRAMES: Final = 16
"""Latent frames of a video that have panels, names or lines of their own."""
PAPERS: Final = {"coupling": {"none": "SJD", "maximal": "MC-SJD", "gumbel": "GS-SJD"}}
"""Setting -> value -> what papers call a run with it, where runs differ in it."""
SUBTITLE: Final = 108
"""Letters of what stands below a title that fit on a line, on the page too."""
SUBTITLE_LINE: Final = 16
"""Pixels that a line of it takes."""
TOP: Final = 84
"""Pixels above the panels, of a figure that does not say."""
WIDTH: Final = 960
"""Pixels a figure is wide in a file."""


class FigureError(ValueError):
    """A figure was asked for that these traces do not support, or a step that they do not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure: its words, what it needs and how it is drawn."""

    name: str
    title: str
    caption: str
    """What to see, and how it is computed."""
    paper: str
    """The published figure or table it answers to; empty when there is none."""
    supports: Callable[[Traces], str | None]
    """None, or the reason why these traces cannot be drawn."""
    drawing: Callable[[Traces, int | None], go.Figure]
    stepped: bool = False
    """Whether the figure shows one moment of the run, so that `step` matters."""
    whole: bool = False
    """Whether it shows the whole run where no step is given, instead of a moment of its own choice."""
    panel_width: int | None = None
    """Pixels that a trace takes in a file, for figures whose panels keep their shape; the others fill the width."""

    def width(self, traces: Traces) -> int:
        """Return the pixels a file of this figure is wide."""
        return WIDTH if self.panel_width is None else min(WIDTH, 200 + self.panel_width * sum(map(_frames, traces)))

    def draw(self, traces: Traces, *, step: int | None = None) -> go.Figure:
        """Draw the traces, after `step` forward passes where the figure shows one moment.

        Raises:
            FigureError: The traces are not supported or have fewer steps.
        """
        if reason := self.supports(traces):
            raise FigureError(f"figure {self.name}: {reason}")
        if step is not None and self.stepped:
            last = max(len(trace.steps) for trace in traces)
            if not 0 <= step <= last:
                raise FigureError(f"step {step}: choose a step from 0 to {last}")
        try:
            figure = self.drawing(traces, step)
        except PictureError as error:
            raise FigureError(f"figure {self.name}: {error}") from None
        figure = wrapped(figure)
        heading = figure.layout.title.text or self.title
        return themed(titled(figure, heading, subtitle(traces)), "light")


def titled(figure: go.Figure, heading: str, below: str) -> go.Figure:
    """Return the figure with a title and what stands below it, in as many lines as it takes, changed in place."""
    lines = wrap(below, SUBTITLE, break_long_words=False) or [""]
    more = SUBTITLE_LINE * (len(lines) - 1)
    figure.update_layout(title={"text": heading, "subtitle": {"text": "<br>".join(lines)}})
    if more:
        top = figure.layout.margin.t or TOP
        figure.update_layout(margin={"t": top + more}, height=(figure.layout.height or 460) + more)
    return figure


def _frames(trace: Trace) -> int:
    return frame_count(trace.canvas)


Data = TypeVar("Data")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFigure(Generic[Data]):
    """A figure of something else than traces."""

    name: str
    title: str
    caption: str
    paper: str
    drawing: Callable[[Data], go.Figure]
    """Sets the subtitle, too."""

    def draw(self, data: Data) -> go.Figure:
        """Draw the data."""
        figure = self.drawing(data)
        figure.update_layout(title_text=self.title)
        return themed(figure, "light")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFigure(DataFigure[Data]):
    """A figure of what a benchmark wrote."""

    benchmark: str
    """Which one: `python -m benchmarks.<benchmark> --json FILE`."""
    column: str
    """Of its rows, and of no other benchmark's."""
    read: Callable[[bytes], Data]
    """Raises `SweepError` for a file that does not hold such data."""

    def draw_file(self, data: bytes) -> go.Figure:
        """Draw the content of a file.

        Raises:
            SweepError: With the field, the value and the remedy.
        """
        return self.draw(self.read(data))


def plain(text: str) -> str:
    """Return text from a trace so that plotly shows it as it is; plotly reads a few HTML tags in its labels."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def subtitle(traces: Traces) -> str:
    """Say which runs a figure shows, ready for plotly."""
    models = ", ".join(dict.fromkeys(trace.model.title or trace.model.id for trace in traces))
    if len(traces) > 1:
        return plain(f"{len(traces)} runs of {models}")
    (trace,) = traces
    seed = "" if trace.seed is None else f", seed {trace.seed}"
    return plain(f"{settings(trace.variant or trace.method, trace.config)} on {models}{seed}")


def settings(method: str, config: Mapping[str, Scalar]) -> str:
    """Say a method with some of its settings."""
    said = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in config.items()
    )
    if not said:
        return method
    return f"{method}, {said}" if method.endswith(")") else f"{method} ({said})"


def labels(traces: Traces) -> tuple[str, ...]:
    """Name every trace by what sets it apart from the others: method, settings that differ, model, seed.

    The names are ready for plotly, see `plain`.
    """
    differing = _differing(traces)
    names = [
        _named(trace, {name: trace.config[name] for name in differing if name in trace.config}) for trace in traces
    ]
    for attribute in ("model", "seed"):
        if len(set(names)) == len(names):
            break
        values = [
            trace.model.title or trace.model.id if attribute == "model" else f"seed {_said(trace.seed)}"
            for trace in traces
        ]
        if len(set(values)) > 1:
            names = [f"{name}, {value}" for name, value in zip(names, values, strict=True)]
    seen: Counter[str] = Counter()
    distinct = []
    for name in names:
        seen[name] += 1
        distinct.append(plain(name if seen[name] == 1 else f"{name} ({seen[name]})"))
    return tuple(distinct)


def _named(trace: Trace, differing: Mapping[str, Scalar]) -> str:
    """A run with the settings in which it differs from others; papers have names for some of these."""
    name = trace.variant or trace.method
    for setting, names in PAPERS.items():
        if not trace.variant and (called := names.get(str(differing.get(setting)))):
            name, differing = called, {each: value for each, value in differing.items() if each != setting}
    return settings(name, differing)


def grouped(traces: Traces, *, apart: str = "") -> Mapping[str, tuple[Trace, ...]]:
    """Group runs that differ in nothing but seed, prompt and the setting `apart`, by label in order of appearance."""
    groups: dict[tuple[object, ...], list[Trace]] = {}
    for trace in traces:
        config = tuple(sorted((name, repr(value)) for name, value in trace.config.items() if name != apart))
        groups.setdefault((trace.method, trace.model.id, config), []).append(trace)
    heads = [_without(group[0], apart) for group in groups.values()]
    return MappingProxyType(dict(zip(labels(heads), map(tuple, groups.values()), strict=True)))


def _without(trace: Trace, setting: str) -> Trace:
    return replace(trace, seed=0, config={name: value for name, value in trace.config.items() if name != setting})


def _said(seed: int | None) -> str:
    return "unknown" if seed is None else str(seed)


def _differing(traces: Traces) -> list[str]:
    """Return the settings whose value is not the same wherever they occur."""
    values: dict[str, set[str]] = {}
    for trace in traces:
        for name, value in trace.config.items():
            values.setdefault(name, set()).add(repr(value))
    return [name for name, seen in values.items() if len(seen) > 1]


def missing(traces: Traces, has: Callable[[Trace], bool], what: str) -> str | None:
    """Return the reason why `traces` cannot be drawn when none of them has `what`."""
    if not traces:
        return "no trace given"
    return None if any(map(has, traces)) else f"needs {what}, which {_these(traces)} not have"


def too_many(traces: Traces, has: Callable[[Trace], bool]) -> str | None:
    """Return the reason why `traces` cannot be drawn side by side when there are too many."""
    count = sum(map(has, traces))
    return f"draws up to {MOST_PANELS} traces side by side, {count} given" if count > MOST_PANELS else None


def too_long(traces: Traces) -> str | None:
    """Return the reason why a panel a latent frame cannot be drawn, where a video has too many."""
    longest = max((_frames(trace) for trace in traces), default=0)
    return f"draws up to {MOST_FRAMES} latent frames, a video has {longest}" if longest > MOST_FRAMES else None


def _these(traces: Traces) -> str:
    return "this trace does" if len(traces) == 1 else f"these {len(traces)} traces do"


def in_panel(panel: int, index: int) -> dict[str, object]:
    """Return what puts curve number `index` into one of several panels, with one legend entry for all of them."""
    return {"legendgroup": str(index), "showlegend": panel == 1, "row": 1, "col": panel}


def side_by_side(titles: Sequence[str], **options: object) -> go.Figure:
    """Return a figure with one panel a title; a single panel needs no title of its own."""
    if len(titles) == 1:
        return make_subplots(**options)
    figure = make_subplots(cols=len(titles), subplot_titles=titles, **options)
    figure.update_annotations(font={"size": 13}, yshift=4)
    return figure.update_layout(margin={"t": 112})


def thinned(items: Sequence[object], most: int) -> slice:
    """Return the slice that leaves at most `most` evenly spread items."""
    return slice(None, None, max(1, -(-len(items) // most)))
