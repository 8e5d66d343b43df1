"""Interface of figures, and how the runs in them are named and grouped."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any, Final, Literal, Self, TypeAlias

import plotly.graph_objects as go

from draftscope.analysis.tables import counted
from draftscope.traces import labels as naming
from draftscope.traces.schema import Trace
from draftscope.traces.video import frame_count
from draftscope.visualizers.picture import PictureError
from draftscope.visualizers.plot import plain, side_by_side
from draftscope.visualizers.style import themed
from draftscope.visualizers.wrapping import break_titles, wrapped

Traces: TypeAlias = Sequence[Trace]
MAX_GROUPS: Final = 6
"""Groups of runs in one panel."""
MOST: Final = {
    "panels": (6, "traces side by side"),
    "groups": (MAX_GROUPS, "groups of runs"),
    "one group": (1, "group of runs"),
    "runs": (12, "runs"),
}
"""Limits of a figure: what is counted, the maximum, and its name."""
MAX_FRAMES: Final = 16
"""Latent frames of a video that have panels, names or lines of their own."""
SUBTITLE: Final = 108
"""Letters on a line of the subtitle."""
SUBTITLE_LINE: Final = 16
"""Pixels that a line of it takes."""
TOP: Final = 84
"""Pixels above the panels, of a figure that does not say."""
WIDTH: Final = 960
"""Pixels a figure is wide in a file."""
BESIDE: Final = 88
"""Pixels to the left and right of the panels, together."""


class FigureError(ValueError):
    """A figure was requested that these traces do not support, or a step that they do not have."""


def _undrawn(*_: Any) -> go.Figure:
    raise NotImplementedError("a figure is drawn by the function that it decorates")


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureText:
    """The words of a figure, and what draws it: the function that it decorates."""

    name: str
    """Name on the command line."""
    title: str
    caption: str
    """Content of the figure, and how it is computed."""
    paper: str = ""
    """The published figure or table it answers to."""
    drawing: Callable[..., go.Figure] = _undrawn

    def __call__(self, drawing: Callable[..., go.Figure]) -> Self:
        """Return the figure that a function draws."""
        return replace(self, drawing=drawing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure(FigureText):
    """A figure of traces: what it needs. It is drawn from those that can be, after a step if it shows one moment."""

    accepts: Callable[[Trace], bool]
    """Whether a trace can be drawn; the others are left out."""
    requirement: str
    """The figure's requirements, in words."""
    limit: Literal["panels", "groups", "one group", "runs"] | None = None
    """Kind of limit, see `MOST`."""
    refuses: Callable[[Traces], str | None] = lambda _: None
    """A further reason why the traces cannot be drawn."""
    takes_step: bool = False
    """Whether the figure shows one moment of the run, so that `step` matters."""
    whole_run: bool = False
    """Whether it shows the whole run if no step is given, instead of a step that it chooses."""
    panel_width: int | None = None
    """Pixels that a trace takes in a file, for figures whose panels keep their shape; the others fill the width."""

    def width(self, traces: Traces) -> int:
        """Return the pixels a file of this figure is wide."""
        frames = sum(frame_count(trace.canvas) for trace in traces)
        return WIDTH if self.panel_width is None else min(WIDTH, 200 + self.panel_width * frames)

    def supports(self, traces: Traces) -> str | None:
        """Return None, or the reason why these traces cannot be drawn."""
        if not traces:
            return "no trace given"
        drawn = [trace for trace in traces if self.accepts(trace)]
        if not drawn:
            subject = "this trace does" if len(traces) == 1 else f"these {len(traces)} traces do"
            return f"needs {self.requirement}, which {subject} not have"
        if self.limit:
            maximum, things = MOST[self.limit]
            count = len(group_runs(drawn) if "group" in self.limit else drawn)
            if count > maximum:
                return f"draws up to {maximum} {things}, {count} given"
        return self.refuses(drawn)

    def _subtitle(self, drawn: Traces, num_left_out: int) -> str:
        """Return which runs are drawn, and how many are not."""
        if not num_left_out:
            return subtitle(drawn)
        return f"{subtitle(drawn)}; without {self.requirement}: {counted(num_left_out, 'run')}, left out"

    def draw(self, traces: Traces, *, step: int | None = None) -> go.Figure:
        """Draw the traces, after `step` forward passes where the figure shows one moment.

        Raises:
            FigureError: The traces are not supported or have fewer steps.
        """
        if reason := self.supports(traces):
            raise FigureError(f"figure {self.name}: {reason}")
        last = max(len(trace.steps) for trace in traces)
        if step is not None and self.takes_step and not 0 <= step <= last:
            raise FigureError(f"step {step}: choose a step from 0 to {last}")
        try:
            drawn = [trace for trace in traces if self.accepts(trace)]
            figure = self.drawing(drawn, step) if self.takes_step else self.drawing(drawn)
        except PictureError as error:
            raise FigureError(f"figure {self.name}: {error}") from None
        heading = figure.layout.title.text or self.title
        figure = with_title(wrapped(figure), heading, self._subtitle(drawn, len(traces) - len(drawn)))
        break_titles(figure, self.width(traces) - BESIDE)
        return themed(figure.update_layout(meta={**(figure.layout.meta or {}), "figure": self.name}), "light")


def with_title(figure: go.Figure, heading: str, below: str) -> go.Figure:
    """Return the figure with a title and a subtitle in as many lines as it takes, changed in place.

    Args:
        figure: Figure of plotly, which becomes higher by the lines after the first.
        heading: Title.
        below: Subtitle.
    """
    lines = wrap(below, SUBTITLE, break_long_words=False) or [""]
    more = SUBTITLE_LINE * (len(lines) - 1)
    figure.update_layout(title={"text": heading, "subtitle": {"text": "<br>".join(lines)}})
    if more:
        top = figure.layout.margin.t or TOP
        figure.update_layout(margin={"t": top + more}, height=(figure.layout.height or 460) + more)
    return figure


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFigure(FigureText):
    """A figure of something else than traces; what draws it sets the subtitle, too."""

    def draw(self, data: Any) -> go.Figure:
        """Draw data of the type that the decorated function takes."""
        return themed(self.drawing(data).update_layout(title_text=self.title), "light")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFigure(DataFigure):
    """A figure of what a benchmark wrote."""

    benchmark: str
    """Which one: `python -m benchmarks.<benchmark> --json FILE`."""
    column: str
    """A column that its rows have, and those of no other benchmark."""
    read: Callable[[bytes], Any]
    """Raises `SweepError` for a file that does not hold such data."""


def subtitle(traces: Traces) -> str:
    """Return which runs a figure shows, formatted for plotly."""
    if len(traces) == 1:
        return plain(naming.run_title(traces[0]))
    models = ", ".join(dict.fromkeys(trace.model.title or trace.model.id for trace in traces))
    return plain(f"{len(traces)} runs of {models}")


def labels(traces: Traces) -> tuple[str, ...]:
    """Return the names of runs, ready for plotly; see `draftscope.traces.labels.labels`."""
    return tuple(map(plain, naming.labels(traces)))


def group_runs(traces: Traces, *, apart: str = "") -> Mapping[str, tuple[Trace, ...]]:
    """Group runs that differ in nothing but seed, prompt and one setting, by label in order of appearance.

    Args:
        traces: Runs.
        apart: Name of the setting; empty for none.
    """
    groups: dict[tuple[object, ...], list[Trace]] = {}
    for trace in traces:
        config = tuple(sorted((name, repr(value)) for name, value in trace.config.items() if name != apart))
        groups.setdefault((trace.method, trace.model.id, config), []).append(trace)
    heads = [
        replace(runs[0], seed=0, config={name: value for name, value in runs[0].config.items() if name != apart})
        if len(names := dict.fromkeys(map(naming.method_name, runs))) == 1
        else replace(runs[0], seed=0, variant=", ".join(names), config={})
        for runs in groups.values()
    ]
    return dict(zip(labels(heads), map(tuple, groups.values()), strict=True))


def with_count(name: str, runs: Traces) -> str:
    """Return the name of a group, with the number of its runs where there are several."""
    return name if len(runs) == 1 else f"{name}, {len(runs)} runs"


def select_pass(sizes: Mapping[int, int], step: int | None) -> int | None:
    """Return the pass to show of those that have a size; None if none has.

    Args:
        sizes: Number of the pass, from 1 -> size.
        step: Forward passes that were run: the last pass up to it is shown, or the first one if all come later; None
            for the first of the largest.
    """
    if step is None:
        return max(sizes, key=lambda number: sizes[number], default=None)
    return max((number for number in sizes if number <= step), default=min(sizes, default=None))


def panels_at(traces: Traces, moments: Sequence[int], **options: Any) -> tuple[go.Figure, str]:
    """Return a figure with a panel a trace, headed by the moment that it shows, and the moment of the first in words.

    Args:
        traces: Runs.
        moments: Number of forward passes of each run.
        options: Options of `side_by_side`.
    """
    words = [f"forward pass {moment} of {len(trace.steps)}" for moment, trace in zip(moments, traces, strict=True)]
    heads = [f"{name}<br>{moment}" for name, moment in zip(labels(traces), words, strict=True)]
    return side_by_side(heads, **options), words[0]
