"""Complete runs that differ in one setting: passes, cost and accepted drafts by its value."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from statistics import correlation, fmean
from typing import Any, Final

import plotly.graph_objects as go

from draftscope.analysis.stats import mean_difference, token_difference
from draftscope.traces.schema import Trace
from draftscope.traces.stats import evaluated_drafts
from draftscope.visualizers.figure import MAX_GROUPS, Figure, Traces, group_runs, with_count
from draftscope.visualizers.figures.verification import judged
from draftscope.visualizers.plot import (
    add_level_line,
    axes,
    curve,
    dots,
    error_bars,
    in_panel,
    means,
    plain,
    side_by_side,
)
from draftscope.visualizers.style import NEUTRAL, Look, series

MIN_RUNS: Final = 3
DISTANCES: Final = (1, 2, 3)
"""Iterations between two windows whose drafts are compared."""

Sweep = Mapping[Any, tuple[Trace, ...]]
"""Runs by the value of a setting."""
_forwards = attrgetter("summary.forwards")
_of_whole_runs = partial(Figure, accepts=lambda trace: trace.summary.complete, requirement="complete runs")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def by_value(traces: Traces, setting: str, *, numbers: bool = False) -> Mapping[str, Sweep]:
    """Group complete runs by everything but a setting, then by its value; groups of one value are left out.

    Values that are all numbers are sorted, others keep the order of the runs.

    Args:
        traces: Runs; those without the setting are left out.
        setting: Name of the setting.
        numbers: Whether to leave out runs whose value is not a number.
    """
    with_it = [trace for trace in traces if trace.summary.complete and setting in trace.config]
    comparable = [trace for trace in with_it if not numbers or _is_number(trace.config[setting])]
    groups: dict[str, Sweep] = {}
    for name, runs in group_runs(comparable, apart=setting).items():
        values: list[Any] = list(dict.fromkeys(run.config[setting] for run in runs))
        if all(map(_is_number, values)):
            values.sort()
        if len(values) > 1:
            groups[name] = {value: tuple(run for run in runs if run.config[setting] == value) for value in values}
    return groups


def swept(traces: Traces) -> tuple[str, Mapping[str, Sweep]] | None:
    """Return the setting that takes most values where nothing else changes, and the runs by it; None without any."""
    names = dict.fromkeys(name for trace in traces for name in trace.config)
    sweeps = {name: groups for name in names if (groups := by_value(traces, name))}
    if not sweeps:
        return None
    sweep = max(sweeps, key=lambda name: len({value for each in sweeps[name].values() for value in each}))
    return sweep, sweeps[sweep]


def _too_few_or_many(traces: Traces, setting: str) -> str | None:
    groups = len(by_value(traces, setting, numbers=True))
    if not groups:
        return f"needs complete runs that differ in the setting `{setting}`"
    return f"draws up to {MAX_GROUPS} groups of runs, {groups} given" if groups > MAX_GROUPS else None


def _draw_means(
    figure: go.Figure, index: int, name: str, values: Mapping[Any, Sequence[float | None]], hover: str, **more: Any
) -> None:
    """Draw x -> mean of its values with their standard error, where there are any."""
    known = {x: numbers for x, each in values.items() if (numbers := [value for value in each if value is not None])}
    mean, error = means(list(known.values()))
    x = [value if isinstance(value, int | float) else str(value) for value in known]
    curve(figure, index, name, (x, mean), hover, **error_bars(error), **more)


def _draw_sweep(
    figure: go.Figure, panel: int, groups: Mapping[str, Sweep], of: Callable[[Trace], float | None], hover: str
) -> None:
    """Draw a number of the runs by the value of a setting, a curve for each group."""
    for i, (name, sweep) in enumerate(groups.items()):
        values = {value: [of(run) for run in runs] for value, runs in sweep.items()}
        _draw_means(figure, i, name, values, hover, **in_panel(panel, i))


def drift(trace: Trace, distance: int = 1) -> float | None:
    """Return the mean share of drafts that change between iterations, in per cent; None if there are no such pairs.

    Args:
        trace: Run.
        distance: Iterations from one to the other.
    """
    mean = mean_difference(token_difference(trace.steps, distance))
    return None if mean is None else 100 * mean


@Figure(
    name="difference",
    title="Forward passes against how much drafts change",
    paper="SCD, Fig. 2",
    caption="One point for each complete run: forward passes against the share of pending drafts that changed from one "
    "iteration to the next. Initial guesses are left out.",
    accepts=lambda trace: trace.summary.complete and drift(trace) is not None,
    requirement="drafts that wait from one forward pass to the next, in a complete run",
    refuses=lambda traces: f"needs at least {MIN_RUNS} runs" if len(traces) < MIN_RUNS else None,
)
def _difference(traces: Traces) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(group_runs(traces).items()):
        points = [(share, run) for run in runs if (share := drift(run)) is not None]
        x, y = [share for share, _ in points], [run.summary.forwards for _, run in points]
        related = len(x) >= MIN_RUNS and len(set(x)) > 1 and len(set(y)) > 1
        label = with_count(name, runs) + (f", correlation {correlation(x, y):.2f}" if related else "")
        hover, seeds = "%{x:.1f} % changed, %{y} forward passes, seed %{customdata}", [run.seed for _, run in points]
        dots(figure, i, label, (x, y), hover, customdata=seeds)
    return axes(figure, "Mean share of drafts that changed in an iteration (%)", "Forward passes", height=480)


@Figure(
    name="hamming",
    title="How far drafts drift over several iterations",
    paper="SCD, Fig. 6",
    caption="The share of positions whose draft differs between two windows N iterations apart, over positions pending "
    "in both, for runs of several strengths by α; error bars are standard errors over runs. A curve that rises "
    "with N means that drafts drift. Initial guesses are left out.",
    accepts=lambda trace: drift(trace) is not None,
    requirement="drafts that wait from one forward pass to the next",
)
def _hamming(traces: Traces) -> go.Figure:
    differ = "Drafts that differ (%)"
    if groups := by_value(traces, "alpha", numbers=True):
        figure = side_by_side([f"N = {distance}" for distance in DISTANCES], shared_yaxes=True)
        for panel, distance in enumerate(DISTANCES, start=1):
            _draw_sweep(figure, panel, groups, partial(drift, distance=distance), "α %{x:g}: %{y:.1f} % differ")
        return axes(figure, "Coupling strength α", differ)
    figure = go.Figure()
    for i, (name, runs) in enumerate(group_runs(traces).items()):
        shares = {distance: [drift(run, distance) for run in runs] for distance in DISTANCES}
        _draw_means(figure, i, with_count(name, runs), shares, "%{x} apart: %{y:.1f} % differ")
    axes(figure, "Iterations between the windows, N", differ)
    return figure.update_xaxes(dtick=1)


@_of_whole_runs(
    name="strength",
    title="Forward passes by coupling strength",
    paper="SCD, Fig. 5",
    caption="Each redraft is coupled to the old draft with probability α and independent otherwise; α = 0 is plain "
    "speculative Jacobi decoding. Means over runs with standard errors.",
    refuses=partial(_too_few_or_many, setting="alpha"),
)
def _strength(traces: Traces) -> go.Figure:
    figure = side_by_side(["By share of drafts that changed", "By coupling strength"], horizontal_spacing=0.1)
    groups = by_value(traces, "alpha", numbers=True)
    _draw_sweep(figure, 2, groups, _forwards, "α %{x:g}: %{y:.1f} forward passes")
    for i, sweep in enumerate(groups.values()):
        values = list(sweep)
        shares = [[share for run in runs if (share := drift(run)) is not None] for runs in sweep.values()]
        mean, error = means([[_forwards(run) for run in runs] for runs in sweep.values()])
        points = [fmean(each) if each else None for each in shares], mean
        look: Look = in_panel(1, i) | {"showlegend": False, "mode": "lines+markers+text", "textfont": {"size": 11}}
        look |= {"text": [f"α = {values[0]:g}", *[""] * (len(values) - 2), f"α = {values[-1]:g}"], "cliponaxis": False}
        look |= {"textposition": ["middle right", *["middle left"] * (len(values) - 1)], "customdata": values}
        hover = "α %{customdata:g}: %{x:.1f} % changed, %{y:.1f} forward passes"
        curve(figure, i, "", points, hover, **error_bars(error), **look)
    for mark in figure.data:
        mark.showlegend = mark.name != ""
    axes(figure, "Coupling strength α", "Forward passes", "Forward passes", height=460)
    return figure.update_xaxes(title_text="Mean share of drafts that changed (%)", row=1, col=1)


@_of_whole_runs(
    name="window",
    title="Forward passes by window",
    paper="SCD, Table 1 (window L)",
    caption="Forward passes to the last token by the length of the window; level lines are runs without a window. "
    "Means over runs with standard errors.",
    refuses=partial(_too_few_or_many, setting="window"),
)
def _window(traces: Traces) -> go.Figure:
    figure = side_by_side([""])
    groups = by_value(traces, "window", numbers=True)
    _draw_sweep(figure, 1, groups, _forwards, "window %{x}: %{y:.1f} forward passes")
    widths = sorted({value for sweep in groups.values() for value in sweep})
    for name, runs in group_runs([trace for trace in traces if "window" not in trace.config]).items():
        points = [widths[0], widths[-1]], [fmean(map(_forwards, runs))] * 2
        level: Look = {"mode": "lines", "line": {"color": NEUTRAL, "dash": "dash", "width": 2}}
        curve(figure, 0, f"{name}, no window", points, "%{y:.1f} forward passes", **level)
    axes(figure, "Window L (tokens)", "Forward passes", height=460)
    return figure.update_xaxes(type="log", tickvals=widths)


@_of_whole_runs(
    name="depth",
    title="What deeper drafts gain and cost",
    paper="PSD, section 4.2",
    caption="Tokens per forward pass by depth of the drafts, and query tokens, those fed to the model over all rows of "
    "a pass, for each token decoded. Means over runs with standard errors.",
    refuses=partial(_too_few_or_many, setting="depth"),
)
def _depth(traces: Traces) -> go.Figure:
    figure = side_by_side(["Tokens per forward pass", "Query tokens per token"], horizontal_spacing=0.1)
    groups, hover = by_value(traces, "depth", numbers=True), "depth %{x}: %{y:.2f}"
    _draw_sweep(figure, 1, groups, lambda run: run.summary.tokens_per_forward, hover)
    _draw_sweep(figure, 2, groups, lambda run: run.summary.query_tokens / max(1, run.summary.tokens), hover)
    add_level_line(figure, 1, row=1, col=1)
    axes(figure, "Depth of the drafts", "Tokens per forward pass", "Query tokens per token (less is better)")
    return figure.update_xaxes(dtick=1)


def acceptances(trace: Trace) -> tuple[float, float] | None:
    """Return accepted over verified drafts, which end with the first rejection, and over all evaluated ones."""
    drafts = sum(evaluated_drafts(step) for step in trace.steps)
    accepted = trace.summary.accepted
    return (accepted / trace.summary.judged, accepted / drafts) if drafts else None


def _accepted(part: int) -> Callable[[Trace], float | None]:
    return lambda trace: 100 * shares[part] if (shares := acceptances(trace)) else None


def tries(trace: Trace) -> float | None:
    """Return the mean number of proposals per replacement; None if none was recorded."""
    counts = [one.value for one in judged(trace, "tries")]
    return fmean(counts) if counts else None


@Figure(
    name="by-setting",
    title="Drafts accepted by one setting",
    paper="CSpD, Fig. 8 (draft length), Fig. 10 (tries, temperature, guidance) and Table 7 (DDIM)",
    caption="Accepted drafts by the setting that takes most values among the runs: of those verified, which end with "
    "the first rejection of a pass (filled), and of all that were evaluated (open). Tries are the proposals it took "
    "to replace a rejected draft. Means over complete runs with standard errors.",
    accepts=lambda trace: acceptances(trace) is not None,
    requirement="verified drafts",
    refuses=lambda traces: None if swept(traces) else "needs complete runs that differ in one setting",
)
def _by_setting(traces: Traces) -> go.Figure:
    setting, groups = swept(traces) or ("", {})
    proposed = any(tries(run) is not None for sweep in groups.values() for runs in sweep.values() for run in runs)
    figure = side_by_side(["Drafts accepted", *(["Tries"] if proposed else [])], horizontal_spacing=0.11)
    for part, drafts in enumerate(("verified", "evaluated")):
        of_all = f"of those {drafts}"
        _draw_sweep(figure, 1, groups, _accepted(part), f"{plain(setting)} %{{x}}: %{{y:.1f}} % {of_all}")
        for i, mark in enumerate(figure.data[-len(groups) :]):
            symbol, width = (f"{series(i).symbol}-open", 1.2) if part else (series(i).symbol, 2)
            mark.update(name=f"{mark.name}, {of_all}", marker_symbol=symbol, line_width=width)
    if proposed:
        _draw_sweep(figure, 2, groups, tries, f"{plain(setting)} %{{x}}: %{{y:.2f}} tries")
    return axes(figure, plain(setting), "Drafts accepted (%)", "Tries per replacement", height=460)
