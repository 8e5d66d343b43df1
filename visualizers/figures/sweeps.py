"""Complete runs that differ in one setting: passes, cost and accepted drafts by its value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import correlation, fmean
from typing import Any, Final

import plotly.graph_objects as go

from traces.schema import Trace
from traces.stats import evaluated_drafts, mean_difference, token_difference
from visualizers.figure import (
    MOST_GROUPS,
    Figure,
    Traces,
    axes,
    counted,
    curve,
    dots,
    error_bars,
    grouped,
    guide,
    in_panel,
    means,
    plain,
    side_by_side,
)
from visualizers.figures.judging import judged
from visualizers.style import NEUTRAL, Look, series

FEWEST_RUNS: Final = 3
DISTANCES: Final = (1, 2, 3)
"""Iterations between two windows whose drafts are compared."""

Sweep = Mapping[Any, tuple[Trace, ...]]


def _complete(trace: Trace) -> bool:
    return trace.summary.complete


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def by_value(traces: Traces, setting: str, *, numbers: bool = False) -> Mapping[str, Sweep]:
    """Group complete runs by everything but `setting`, then by its value; groups of one value are left out.

    Args:
        traces: Any runs.
        setting: Values that are all numbers are sorted, others keep the order of the runs.
        numbers: Whether runs where it is no number are left out.
    """
    with_it = [trace for trace in traces if trace.summary.complete and setting in trace.config]
    if numbers:
        with_it = [trace for trace in with_it if _number(trace.config[setting]) is not None]
    groups: dict[str, Sweep] = {}
    for name, runs in grouped(with_it, apart=setting).items():
        values: list[Any] = list(dict.fromkeys(run.config[setting] for run in runs))
        if all(_number(value) is not None for value in values):
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
    most = max(sweeps, key=lambda name: len({value for each in sweeps[name].values() for value in each}))
    return most, sweeps[most]


def _needs(setting: str) -> Callable[[Traces], str | None]:
    def refuses(traces: Traces) -> str | None:
        groups = len(by_value(traces, setting, numbers=True))
        if not groups:
            return f"needs complete runs that differ in the setting `{setting}`"
        return f"draws up to {MOST_GROUPS} groups of runs, {groups} given" if groups > MOST_GROUPS else None

    return refuses


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a run, drawn by the value of a setting."""

    of: Callable[[Trace], float | None]
    hover: str
    name: str = ""
    """Appended to the group's name in the legend."""
    minor: bool = False
    """Whether its curve is thin with open marks."""


def _draw_sweep(figure: go.Figure, groups: Mapping[str, Sweep], measure: Measure, panel: int) -> None:
    """Draw means over runs with their standard deviations, a curve for each group."""
    for i, (name, sweep) in enumerate(groups.items()):
        values = [[value for run in runs if (value := measure.of(run)) is not None] for runs in sweep.values()]
        x = [value if isinstance(value, int | float) else str(value) for value in sweep]
        drawn = [(at, each) for at, each in zip(x, values, strict=True) if each]
        mean, deviation = means([each for _, each in drawn])
        look = series(i)
        minor: Look = {}
        if measure.minor:
            minor = {"line": {**look.line, "width": 1.2}, "marker": {**look.marker(9), "symbol": f"{look.symbol}-open"}}
        points, more = ([at for at, _ in drawn], mean), {**error_bars(deviation), **in_panel(panel, i), **minor}
        curve(figure, i, name + measure.name, points, measure.hover, **more)


def _forwards(trace: Trace) -> float:
    return trace.summary.forwards


def drift(trace: Trace, distance: int = 1) -> float | None:
    """Return the mean share of drafts that differ `distance` iterations apart, in per cent."""
    mean = mean_difference(token_difference(trace.steps, distance))
    return None if mean is None else 100 * mean.share


def _difference(traces: Traces, step: int | None) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(grouped(traces).items()):
        points = [(share, run) for run in runs if (share := drift(run)) is not None]
        x, y = [share for share, _ in points], [run.summary.forwards for _, run in points]
        related = len(x) >= FEWEST_RUNS and len(set(x)) > 1 and len(set(y)) > 1
        said = f", correlation {correlation(x, y):.2f}" if related else ""
        hover, seeds = "%{x:.1f} % changed, %{y} forward passes, seed %{customdata}", [run.seed for _, run in points]
        dots(figure, i, f"{name}, {len(points)} runs{said}", (x, y), hover, customdata=seeds)
    x_title = "Mean share of drafts that changed in an iteration (%)"
    return axes(figure, x_title, "Forward passes (NFE)", height=480)


def _hamming(traces: Traces, step: int | None) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(grouped(traces).items()):
        shares = [[share for run in runs if (share := drift(run, distance)) is not None] for distance in DISTANCES]
        drawn = [(distance, each) for distance, each in zip(DISTANCES, shares, strict=True) if each]
        mean, deviation = means([each for _, each in drawn])
        points = [distance for distance, _ in drawn], mean
        curve(figure, i, counted(name, runs), points, "%{x} apart: %{y:.1f} % differ", **error_bars(deviation))
    axes(figure, "Iterations between the windows, N", "Drafts that differ (%)")
    return figure.update_xaxes(dtick=1)


def _strength(traces: Traces, step: int | None) -> go.Figure:
    figure = side_by_side(["By share of drafts that changed", "By coupling strength"], horizontal_spacing=0.1)
    groups = by_value(traces, "alpha", numbers=True)
    _draw_sweep(figure, groups, Measure(_forwards, "α %{x:g}: %{y:.1f} forward passes"), 2)
    for i, sweep in enumerate(groups.values()):
        values = list(sweep)
        shares = [[share for run in runs if (share := drift(run)) is not None] for runs in sweep.values()]
        x = [fmean(each) if each else None for each in shares]
        mean, deviation = means([[_forwards(run) for run in runs] for runs in sweep.values()])
        place = in_panel(1, i) | {"showlegend": False, "mode": "lines+markers+text", "textfont": {"size": 11}}
        ends = [f"α = {values[0]:g}", *[""] * (len(values) - 2), f"α = {values[-1]:g}"]
        sides = ["middle right", *["middle left"] * (len(values) - 1)]
        text = {"text": ends, "textposition": sides, "cliponaxis": False, "customdata": values}
        hover = "α %{customdata:g}: %{x:.1f} % changed, %{y:.1f} forward passes"
        curve(figure, i, "", (x, mean), hover, **error_bars(deviation), **place, **text)
    for mark in figure.data:
        mark.showlegend = mark.name != ""
    axes(figure, "Coupling strength α", "Forward passes (NFE)", "Forward passes (NFE)", height=460)
    return figure.update_xaxes(title_text="Mean share of drafts that changed (%)", row=1, col=1)


def _window(traces: Traces, step: int | None) -> go.Figure:
    figure = side_by_side([""])
    groups = by_value(traces, "window", numbers=True)
    _draw_sweep(figure, groups, Measure(_forwards, "window %{x}: %{y:.1f} forward passes"), 1)
    widths = sorted({value for sweep in groups.values() for value in sweep})
    for name, runs in grouped([trace for trace in traces if "window" not in trace.config]).items():
        points = [widths[0], widths[-1]], [fmean(map(_forwards, runs))] * 2
        level: Look = {"mode": "lines", "line": {"color": NEUTRAL, "dash": "dash", "width": 2}}
        curve(figure, 0, f"{name}, no window", points, "%{y:.1f} forward passes", **level)
    axes(figure, "Window L (tokens)", "Forward passes (NFE)", height=460)
    return figure.update_xaxes(type="log", tickvals=widths)


def _depth(traces: Traces, step: int | None) -> go.Figure:
    figure = side_by_side(["Tokens per forward pass", "Query tokens per token"], horizontal_spacing=0.1)
    groups = by_value(traces, "depth", numbers=True)
    _draw_sweep(figure, groups, Measure(lambda run: run.summary.tokens_per_forward, "depth %{x}: %{y:.2f}"), 1)
    price = Measure(lambda run: run.summary.query_tokens / max(1, run.summary.tokens), "depth %{x}: %{y:.2f}")
    _draw_sweep(figure, groups, price, 2)
    guide(figure, 1, row=1, col=1)
    axes(figure, "Depth of the drafts", "Tokens per forward pass", "Query tokens per token (less is better)")
    return figure.update_xaxes(dtick=1)


def acceptances(trace: Trace) -> tuple[float, float] | None:
    """Return accepted over judged drafts, which end with the first rejection, and over all that were evaluated."""
    drafts = sum(evaluated_drafts(step) for step in trace.steps)
    accepted = trace.summary.accepted
    return (accepted / trace.summary.judged, accepted / drafts) if drafts else None


def _accepted(part: int) -> Callable[[Trace], float | None]:
    return lambda trace: 100 * rates[part] if (rates := acceptances(trace)) else None


def tries(trace: Trace) -> float | None:
    """Return the mean number of proposals behind a replacement; None where none was recorded."""
    counts = [one.value for one in judged(trace, "tries")]
    return fmean(counts) if counts else None


def _by_setting(traces: Traces, step: int | None) -> go.Figure:
    setting, groups = swept(traces) or ("", {})
    proposed = any(tries(run) is not None for sweep in groups.values() for runs in sweep.values() for run in runs)
    figure = side_by_side(["Drafts accepted", *(["Tries"] if proposed else [])], horizontal_spacing=0.11)
    for part, of in enumerate(("judged", "evaluated")):
        hover = f"{plain(setting)} %{{x}}: %{{y:.1f}} % of those {of}"
        measure = Measure(_accepted(part), hover, f", of those {of}", minor=part == 1)
        _draw_sweep(figure, groups, measure, 1)
    if proposed:
        _draw_sweep(figure, groups, Measure(tries, f"{plain(setting)} %{{x}}: %{{y:.2f}} tries"), 2)
    return axes(figure, plain(setting), "Drafts accepted (%)", "Tries per replacement", height=460)


FIGURES: Final = (
    Figure(
        name="difference",
        title="Forward passes against how much drafts change",
        paper="SCD, Fig. 2",
        caption="One point for each complete run: forward passes against the share of pending drafts that changed from "
        "one iteration to the next. Initial guesses are left out.",
        needs=lambda trace: _complete(trace) and drift(trace) is not None,
        needed="drafts that wait from one forward pass to the next, in a complete run",
        refuses=lambda traces: f"needs at least {FEWEST_RUNS} runs" if len(traces) < FEWEST_RUNS else None,
        drawing=_difference,
    ),
    Figure(
        name="hamming",
        title="How far drafts drift over several iterations",
        paper="SCD, Fig. 6",
        caption="The share of positions whose draft differs between two windows N iterations apart, over positions "
        "pending in both; error bars are standard deviations between runs. A rising curve means that drafts drift. "
        "Initial guesses are left out.",
        needs=lambda trace: drift(trace) is not None,
        needed="drafts that wait from one forward pass to the next",
        drawing=_hamming,
    ),
    Figure(
        name="strength",
        title="Forward passes by coupling strength",
        paper="SCD, Fig. 5",
        caption="Each redraft is coupled to the old draft with probability α and independent otherwise; α = 0 is plain "
        "speculative Jacobi decoding. Means over runs, error bars one standard deviation.",
        needs=_complete,
        needed="complete runs",
        refuses=_needs("alpha"),
        drawing=_strength,
    ),
    Figure(
        name="window",
        title="Forward passes by window",
        paper="SCD, Table 1 (window L)",
        caption="Forward passes to the last token by the length of the window; level lines are runs without a window. "
        "Means over runs, error bars one standard deviation.",
        needs=_complete,
        needed="complete runs",
        refuses=_needs("window"),
        drawing=_window,
    ),
    Figure(
        name="depth",
        title="What deeper drafts gain and cost",
        paper="PSD, section 4.2",
        caption="Left: tokens per forward pass by depth of the drafts. Right: tokens fed to the model for each token "
        "decoded, over all rows of a pass. Means over runs, error bars one standard deviation.",
        needs=_complete,
        needed="complete runs",
        refuses=_needs("depth"),
        drawing=_depth,
    ),
    Figure(
        name="by-setting",
        title="Drafts accepted by one setting",
        paper="CSpD, Fig. 8 (draft length), Fig. 10 (tries, temperature, guidance) and Table 7 (DDIM)",
        caption="Accepted drafts by the setting that takes most values among the runs: of those judged, which end with "
        "the first rejection of a pass (filled), and of all that were evaluated (open). Tries are the proposals it "
        "took to replace a rejected draft. Means over complete runs, error bars one standard deviation.",
        needs=lambda trace: acceptances(trace) is not None,
        needed="judged drafts",
        refuses=lambda traces: None if swept(traces) else "needs complete runs that differ in one setting",
        drawing=_by_setting,
    ),
)
