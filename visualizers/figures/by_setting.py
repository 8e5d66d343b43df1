"""Many runs: forward passes against how much drafts change, and against one setting."""

from collections.abc import Iterable, Mapping
from statistics import correlation
from typing import Any, Final

import plotly.graph_objects as go

from traces.schema import Trace
from traces.stats import mean_difference, token_difference
from visualizers.figure import Figure, Traces, grouped, missing, side_by_side
from visualizers.figures.drafts import differences
from visualizers.style import NEUTRAL, series
from visualizers.summary import Mean, mean_of, spread

FEWEST_RUNS: Final = 3
STRENGTH: Final = "alpha"
WINDOW: Final = "window"


def _difference_of(trace: Trace) -> float | None:
    mean = mean_difference(token_difference(trace.steps))
    return None if mean is None else mean.share


def _comparable(trace: Trace) -> bool:
    return trace.summary.complete and _difference_of(trace) is not None


def _difference(traces: Traces, step: int | None) -> go.Figure:
    figure = go.Figure()
    for i, (name, runs) in enumerate(grouped([trace for trace in traces if _comparable(trace)]).items()):
        points = [(100 * share, run) for run in runs if (share := _difference_of(run)) is not None]
        x, y = [share for share, _ in points], [run.summary.forwards for _, run in points]
        look = series(i)
        figure.add_scatter(
            x=x,
            y=y,
            customdata=[run.seed for _, run in points],
            mode="markers",
            name=f"{name}, {len(points)} runs{_correlated(x, y)}",
            marker={**look.marker(8), "opacity": 0.85},
            hovertemplate="%{x:.1f} % changed, %{y} forward passes, seed %{customdata}",
        )
    figure.update_xaxes(title_text="Mean share of drafts that changed in an iteration (%)")
    figure.update_yaxes(title_text="Forward passes (NFE)", rangemode="tozero")
    return figure.update_layout(height=480, showlegend=True)


def _correlated(x: list[float], y: list[int]) -> str:
    """Say Pearson's correlation where there is one."""
    if len(x) < FEWEST_RUNS or len(set(x)) < 2 or len(set(y)) < 2:
        return ""
    return f", correlation {correlation(x, y):.2f}"


def by_value(traces: Traces, setting: str) -> Mapping[str, Mapping[Any, tuple[Trace, ...]]]:
    """Group complete runs by everything but `setting`, then by its value; groups of one value are left out."""
    swept = [trace for trace in traces if trace.summary.complete and setting in trace.config]
    groups: dict[str, dict[Any, tuple[Trace, ...]]] = {}
    for name, runs in grouped(swept, apart=setting).items():
        values: list[Any] = list(dict.fromkeys(run.config[setting] for run in runs))
        if all(_number(run, setting) is not None for run in runs):
            values.sort()
        if len(values) > 1:
            groups[name] = {value: tuple(run for run in runs if run.config[setting] == value) for value in values}
    return groups


def by_setting(traces: Traces, setting: str) -> Mapping[str, Mapping[float, tuple[Trace, ...]]]:
    """The same for the runs where `setting` is a number, which rises."""
    return by_value([trace for trace in traces if _number(trace, setting) is not None], setting)


def _number(trace: Trace, setting: str) -> float | None:
    value = trace.config.get(setting)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _forwards(runs: Iterable[Trace]) -> Mean:
    return mean_of([run.summary.forwards for run in runs])


def _strength(traces: Traces, step: int | None) -> go.Figure:
    figure = side_by_side(["By share of drafts that changed", "By coupling strength"], horizontal_spacing=0.1)
    for i, (name, sweep) in enumerate(by_setting(traces, STRENGTH).items()):
        look, forwards, values = series(i), [_forwards(runs) for runs in sweep.values()], list(sweep)
        drift = [differences(runs, 1) for runs in sweep.values()]
        shared = {
            "name": name,
            "legendgroup": name,
            "line": look.line,
            "marker": look.marker(9),
            "y": [mean.value for mean in forwards],
            "error_y": spread(forwards),
        }
        by_drift = {
            "x": [None if mean is None else 100 * mean.value for mean in drift],
            "mode": "lines+markers+text",
            "text": [f"α = {values[0]:g}", *[""] * (len(values) - 2), f"α = {values[-1]:g}"],
            "textposition": ["middle right", *["middle left"] * (len(values) - 1)],
            "textfont": {"size": 11},
            "cliponaxis": False,
            "customdata": values,
            "hovertemplate": "α %{customdata:g}: %{x:.1f} % changed, %{y:.1f} forward passes",
        }
        by_strength = {"x": values, "mode": "lines+markers", "hovertemplate": "α %{x:g}: %{y:.1f} forward passes"}
        figure.add_scatter(**shared, **by_drift, showlegend=False, row=1, col=1)
        figure.add_scatter(**shared, **by_strength, row=1, col=2)
    figure.update_xaxes(title_text="Mean share of drafts that changed (%)", row=1, col=1)
    figure.update_xaxes(title_text="Coupling strength α", row=1, col=2)
    figure.update_yaxes(title_text="Forward passes (NFE)", rangemode="tozero")
    return figure.update_layout(height=460, showlegend=True)


def _window(traces: Traces, step: int | None) -> go.Figure:
    figure = go.Figure()
    groups = by_setting(traces, WINDOW)
    widths = sorted({value for sweep in groups.values() for value in sweep})
    for i, (name, sweep) in enumerate(groups.items()):
        means, look = [_forwards(runs) for runs in sweep.values()], series(i)
        figure.add_scatter(
            x=list(sweep),
            y=[mean.value for mean in means],
            error_y=spread(means),
            name=name,
            **look.curve(),
            hovertemplate="window %{x}: %{y:.1f} forward passes",
        )
    plain_runs = [trace for trace in traces if trace.summary.complete and WINDOW not in trace.config]
    for name, runs in grouped(plain_runs).items():
        figure.add_scatter(
            x=[widths[0], widths[-1]],
            y=[_forwards(runs).value] * 2,
            mode="lines",
            name=f"{name}, no window",
            line={"color": NEUTRAL, "dash": "dash", "width": 2},
            hovertemplate="%{y:.1f} forward passes",
        )
    figure.update_xaxes(title_text="Window L (tokens)", type="log", tickvals=widths)
    figure.update_yaxes(title_text="Forward passes (NFE)", rangemode="tozero")
    return figure.update_layout(height=460, showlegend=True)


def _sweep_needed(setting: str, words: str) -> str:
    return f"needs complete runs that differ in the setting `{setting}` ({words})"


DIFFERENCE = Figure(
    name="difference",
    title="Forward passes against how much drafts change",
    caption=(
        "One point a run: forward passes to the last token against the share of pending drafts that changed from "
        "one iteration to the next, over positions pending in both windows, as a mean over iterations. Initial "
        "guesses are left out. Only complete runs count."
    ),
    paper="SCD, Fig. 2",
    supports=lambda traces: (
        missing(traces, _comparable, "drafts that wait from one forward pass to the next, in a complete run")
        or (f"needs at least {FEWEST_RUNS} runs" if sum(map(_comparable, traces)) < FEWEST_RUNS else None)
    ),
    drawing=_difference,
)

STRENGTH_SWEEP = Figure(
    name="strength",
    title="Forward passes by coupling strength",
    caption=(
        "Each redraft is tied to the old one with probability α and independent otherwise; α = 0 is plain "
        "speculative Jacobi decoding. Means over runs that differ in seed or prompt alone, error bars one standard "
        "deviation."
    ),
    paper="SCD, Fig. 5",
    supports=lambda traces: None if by_setting(traces, STRENGTH) else _sweep_needed(STRENGTH, "coupling strength"),
    drawing=_strength,
)

WINDOW_SWEEP = Figure(
    name="window",
    title="Forward passes by window",
    caption=(
        "Forward passes to the last token for growing windows, on a logarithmic axis; runs without a window are "
        "drawn as level lines. Means over runs that differ in seed or prompt alone, error bars one standard "
        "deviation."
    ),
    paper="SCD, Table 1 (window L)",
    supports=lambda traces: None if by_setting(traces, WINDOW) else _sweep_needed(WINDOW, "length of the window"),
    drawing=_window,
)
